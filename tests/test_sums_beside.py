"""Sums of the gradients of inputs that tensor ranks make beside the gradients of weights."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, Training, Transformer
from shardwise.costs import price
from shardwise.costs.law import law
from shardwise.costs.ledger import Ledger
from shardwise.models import Strategy
from shardwise.models.stack import stacks
from shardwise.models.strategy import Stage
from shardwise.runs.record import Record
from shardwise.runs.software import software_of

BEFORE, SINCE = "megatron-2021", "megatron-2022"
LAYERS = 4


def priced(
    stack: str, nodes: int = 3, layers: int = LAYERS, frozen: tuple[str, ...] = (), **knobs: Any
) -> Ledger:
    """Three stages of one DGX A100 each, eight tensor ranks; the middle one holds layers alone."""
    model = Transformer.preset("llama-3.1-70b").model_copy(update={"layers": 3 * layers})
    strategy = Strategy(
        backend="megatron", software_stack=stack, gradient_dtype="fp32", loss_kernel="megatron",
        tensor_parallel=8, pipeline_parallel=3, gradient_accumulation_steps=8, rank_order="tp-cp-dp-pp",
        **{"stages": (Stage(layers=layers),) * 3, "data_parallel": nodes // 3, **knobs},
    )  # fmt: skip
    training = Training(global_batch_size=8, sequence_length=4096, frozen=frozen)
    return price(model, training, Cluster.preset("dgx-a100-80gb", nodes=nodes), [strategy])[0]


def sent(stack: str, **knobs: Any) -> int:
    """Nanoseconds of tensor ranks' collectives in a chunk of the middle stage."""
    return priced(stack, **knobs).stages[1].chunk_ns["tensor_comm"]


def test_half_of_the_sums_show_by_the_law_of_overlap() -> None:
    """Two of a layer's four all-reduces slow the products beside them, whose time they do not outlast."""
    slowed = law("overlap_slowdown")
    assert sent(SINCE) / sent(BEFORE) == pytest.approx((2 + 2 * slowed) / 4, rel=1e-6)


def test_a_forward_that_runs_again_shows_whole() -> None:
    """Four of six show under full recompute."""
    stages = (Stage(layers=LAYERS, recompute_full_layers=LAYERS),) * 3
    slowed = law("overlap_slowdown")
    assert sent(SINCE, stages=stages) / sent(BEFORE, stages=stages) == pytest.approx(
        (4 + 2 * slowed) / 6, rel=1e-6
    )


def test_gathers_of_the_backward_show_whole() -> None:
    """Under sequence parallel it gathers before it sums: half as much is hidden."""
    saved, split = (
        1.0 - sent(SINCE, sequence_parallel=on) / sent(BEFORE, sequence_parallel=on) for on in (False, True)
    )
    assert split == pytest.approx(saved / 2.0, rel=0.1)


def test_frozen_weights_have_no_gradient_to_sum_beside() -> None:
    """Nothing is hidden where neither attention nor feed-forward is trained."""
    frozen = ("attention", "feed_forward")
    assert sent(SINCE, frozen=frozen) == sent(BEFORE, frozen=frozen)


def test_nothing_else_differs_between_the_two() -> None:
    """A stack of 2021 is that of 2022 but for its sums."""
    before, since = priced(BEFORE).stages[1].chunk_ns, priced(SINCE).stages[1].chunk_ns
    assert {name for name in since if since[name] != before[name]} == {"tensor_comm"}


@pytest.mark.parametrize(("year", "stack"), [("2021", BEFORE), ("2022", SINCE)])
def test_a_run_is_priced_by_the_code_of_its_year(year: str, stack: str) -> None:
    """The sums came to run beside gradients of weights in September 2021."""
    assert software_of(Record({"framework": "Megatron-LM", "year": year})).stack == stack


def test_stacks_that_take_its_share_take_its_sums() -> None:
    """What shows without all of their overlap is fitted to runs that sum beside the weights, as they do."""
    known = stacks()
    for one in known.values():
        if one.tensor_overlapped and one.tensor_otherwise:
            other = known[one.tensor_otherwise]
            assert one.sums_beside_weights == other.sums_beside_weights, one.name
