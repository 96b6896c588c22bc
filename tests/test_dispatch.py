"""Experts cut over ranks: what travels to them, what their ranks gather of each other, what both cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shardwise.costs import Ledger, price
from shardwise.costs.collectives import among
from shardwise.costs.law import law
from shardwise.hardware import Cluster
from shardwise.models import Stage, Strategy, Training, Transformer

MIXTRAL = Transformer.preset("mixtral-8x7b")
LAYERS, HIDDEN, EXPERTS, CHOSEN = 32, 4096, 8, 2
TOKENS, BATCH = 4096, 16
TRAINING = Training(global_batch_size=BATCH, sequence_length=TOKENS)
IMBALANCE = 1.2


def priced(tensor: int, expert: int, cut: int, nodes: int = 1, **changes: Any) -> Ledger:
    """Mixtral 8x7B on DGX H100, one sequence a pass."""
    cards = 8 * nodes
    data = cards // tensor
    known: dict[str, Any] = {
        "backend": "megatron",
        "software_stack": "megatron-core-2025",
        "loss_kernel": "megatron",
        "gradient_dtype": "fp32",
        "zero_stage": 1,
        "tensor_parallel": tensor,
        "sequence_parallel": tensor > 1,
        "data_parallel": data,
        "expert_parallel": expert,
        "expert_tensor_parallel": cut,
        "shard_group_size": data,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": BATCH // data,
        "stages": (Stage(layers=LAYERS),),
    }
    strategy = Strategy.model_validate(known | changes)
    return price(MIXTRAL, TRAINING, Cluster.preset("dgx-h100", nodes=nodes), [strategy])[0]


def sent(ledger: Ledger, axis: str) -> int:
    return sum(ledger.traffic_bytes.get(axis, {}).values())


def copies_bytes(tensor: int) -> float:
    """Bytes of all copies of the tokens of one tensor rank, of 16 bits each element."""
    return 2 * TOKENS * CHOSEN * HIDDEN * IMBALANCE / tensor


@pytest.mark.parametrize(("tensor", "expert", "cut"), [(2, 4, 2), (1, 2, 4), (4, 2, 1), (8, 1, 8), (1, 8, 1)])
def test_copies_go_once_to_experts_and_once_to_each_rank_of_their_cut(
    tensor: int, expert: int, cut: int
) -> None:
    """Of 32 layers: 4 exchanges, (e-1)/e of the copies each; 2 gathers and 2 scatters, (e_t-1) times them."""
    found = priced(tensor, expert, cut)
    passes = LAYERS * BATCH * tensor / 8
    assert sent(found, "expert") == pytest.approx(
        passes * 4 * copies_bytes(tensor) * (expert - 1) / expert, rel=1e-4
    )
    assert sent(found, "expert_tensor") == pytest.approx(
        passes * 4 * copies_bytes(tensor) * (cut - 1), rel=1e-4
    )


def test_a_cut_of_experts_gathers_copies_instead_of_the_sequence() -> None:
    """Tensor ranks route the tokens they have: the pair of a dense feed-forward goes, whatever the cut."""
    assert sent(priced(2, 4, 2), "tensor") == sent(priced(2, 4, 1), "tensor")


@pytest.mark.parametrize(("expert", "cut"), [(4, 2), (2, 4), (2, 2), (8, 1)])
def test_bytes_are_those_of_a_drawn_routing(expert: int, cut: int) -> None:
    """Ranks in a grid, experts of each drawn by lot: copies counted one by one as they leave a card."""
    dice, tokens = random.Random(expert), 6000
    grid = [(e, c) for e in range(expert) for c in range(cut)]
    exchanged = gathered = fused = 0
    for home, place in grid:
        for _ in range(tokens):
            for chosen in (target := dice.sample(range(EXPERTS), CHOSEN)):
                owner = chosen * expert // EXPERTS
                exchanged += owner != home
                gathered += cut - 1
            owners = {chosen * expert // EXPERTS for chosen in target}
            fused += sum((e, c) != (home, place) for e in owners for c in range(cut))
    each = LAYERS * BATCH / 8 * 4 * 2 * TOKENS * HIDDEN * IMBALANCE / (len(grid) * tokens)
    plain = priced(1, expert, cut)
    at_once = priced(1, expert, cut, software_stack="bridge-moe-deepep")
    assert sent(plain, "expert") == pytest.approx(each * exchanged, rel=0.02)
    assert sent(plain, "expert_tensor") == pytest.approx(each * gathered, rel=1e-4)
    assert IMBALANCE * sent(at_once, "expert") == pytest.approx(each * fused, rel=0.08)
    assert sent(at_once, "expert_tensor") == 0


def test_seconds_are_those_of_the_collectives_one_by_one() -> None:
    """E x 4 all-to-all among 4 ranks, then two gathers and two scatters of twice the copies among 2."""
    cluster = Cluster.preset("dgx-h100")
    copies = copies_bytes(2)
    exchange = 4 * law("expert_exposed") * among(cluster, "all_to_all", copies, 4)
    gather = 2 * (
        among(cluster, "all_gather", 2 * copies, 2) + among(cluster, "reduce_scatter", 2 * copies, 2)
    )
    # Ranks of one expert index stand two apart, inside the island all the same.
    passes = LAYERS * BATCH / 4
    assert priced(2, 4, 2).terms_ns["expert_comm"] == pytest.approx(
        1e9 * passes * (exchange + gather), rel=1e-4
    )
    assert priced(2, 4, 1).terms_ns["expert_comm"] == pytest.approx(1e9 * passes * exchange, rel=1e-4)


def test_full_recompute_moves_and_gathers_half_again() -> None:
    whole = (Stage(layers=LAYERS, recompute_full_layers=LAYERS),)
    kept, again = priced(2, 4, 2), priced(2, 4, 2, stages=whole)
    for axis in ("expert", "expert_tensor"):
        assert sent(again, axis) == pytest.approx(1.5 * sent(kept, axis), rel=1e-6)


@pytest.mark.parametrize(("stack", "states"), [("megatron-core-2025", 1), ("megatron-2023", 2)])
def test_gathered_copies_are_kept_on_every_rank_of_the_cut(stack: str, states: int) -> None:
    """Hidden states of each copy, that a rank of a cut of 2 holds of two ranks' tokens; widths stay f / t."""
    plain, cut = (
        priced(2, 4, width, software_stack=stack).stages[0].moments_kib["forward"]["activations"]
        for width in (1, 2)
    )
    more = LAYERS * 2 * states * HIDDEN * CHOSEN * IMBALANCE * TOKENS / 2
    assert 1024 * (cut - plain) == pytest.approx(more, rel=1e-4)


def test_a_cut_inside_an_island_sends_half_of_the_copies_to_the_other() -> None:
    """8 experts cut over pairs of ranks lie on two islands, each with half of the experts."""
    found = priced(1, 8, 2, nodes=2)
    assert sent(found, "expert") == pytest.approx(LAYERS * 4 * copies_bytes(1) / 2, rel=1e-4)
    assert sent(found, "expert_tensor") == pytest.approx(LAYERS * 4 * copies_bytes(1), rel=1e-4)


def test_the_work_of_products_is_the_same_and_of_copies_more() -> None:
    """A cut halves an expert's width and doubles its tokens; sorting copies takes longer."""
    whole, cut = priced(1, 8, 1), priced(1, 4, 2)
    assert whole.terms_ns["compute"] < cut.terms_ns["compute"] < 1.2 * whole.terms_ns["compute"]
