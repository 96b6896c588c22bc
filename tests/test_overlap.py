"""Overlap as a choice: where it is legal, what it shows and holds, where it pays, written and read back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from megatron_by_hand import stages
from oracle.brute import brute
from oracle.themes import beside
from plans_by_hand import deepspeed, fsdp, megatron
from plans_by_hand import plan as plan_of
from test_brute_force import differences

from shardwise import Cluster, Ledger, NoPlan, Plan, Request, Training, plan, price
from shardwise.inputs import InputError
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.lint import lint
from shardwise.launch.read import read_config
from shardwise.models import Stage, Strategy, Transformer
from shardwise.models.stack import stack
from shardwise.plans import read_strategy
from shardwise.plans.saved import as_json, plan_from
from shardwise.solver.ladder import ladder
from shardwise.solver.legal import breaches
from shardwise.solver.search import Search
from shardwise.solver.space import rows

MODEL = Transformer.preset("llama-3.1-8b")
BUCKET = 500_000_000
"""DeepSpeed's default reduce_bucket_size, elements."""
GRADIENT, GATHER = "overlap_gradient_reduce", "overlap_parameter_gather"


def request(network: float | None = None, margin: float = 0.08, **choose: Any) -> Request:
    """Llama-3.1 8B on two machines of eight H100, whose network may be slowed."""
    cluster = Cluster.preset("dgx-h100", nodes=2)
    if network is not None:
        node = cluster.node.model_copy(update={"nic_bytes_per_s": network, "nics": 1})
        cluster = cluster.model_copy(update={"node": node})
    training = Training(global_batch_size=64, sequence_length=4096)
    limits = {"memory_margin": margin}
    return Request(model=MODEL, cluster=cluster, training=training, choose=choose, limits=limits)


def of_deepspeed(zero: int, **changes: Any) -> Strategy:
    """Sixteen ranks, four micro-batches a step, every layer recomputed."""
    values = {"gradient_accumulation_steps": 4, "stages": (Stage(layers=32, recompute_full_layers=32),)}
    return deepspeed(zero, 16, **{**values, **changes})


def of_megatron(zero: int, **changes: Any) -> Strategy:
    """Eight data ranks of two tensor ranks."""
    values = {"tensor_parallel": 2, "sequence_parallel": True, "gradient_accumulation_steps": 8}
    return megatron(zero, 8, stages=stages(1, 32), **{**values, **changes})


def priced(strategy: Strategy, network: float | None = None) -> Ledger:
    """The ledger of a strategy of that job."""
    return price(request(network), strategy)


def shown(ledger: Ledger) -> int:
    """Nanoseconds of the data ranks' communication that show."""
    return ledger.terms_ns.get("data_comm_exposed", 0)


USUAL = {
    "no ZeRO of DeepSpeed": (of_deepspeed(0), (False, False)),
    "ZeRO-1 of DeepSpeed": (of_deepspeed(1), (True, False)),
    "ZeRO-3 of DeepSpeed": (of_deepspeed(3), (True, False)),
    "FSDP": (fsdp(3, 16), (True, True)),
    "Megatron without its optimizer": (of_megatron(0), (True, False)),
    "Megatron's optimizer": (of_megatron(1), (True, True)),
    "gathers go with reductions": (of_megatron(1, overlap_gradient_reduce=False), (False, False)),
}


@pytest.mark.parametrize(("strategy", "on"), USUAL.values(), ids=USUAL.keys())
def test_what_is_left_out_is_as_the_backend_has_it(strategy: Strategy, on: tuple[bool, bool]) -> None:
    """All that it can hide at the ZeRO stage."""
    assert (strategy.overlap_gradient_reduce, strategy.overlap_parameter_gather) == on


ILLEGAL = {
    "DeepSpeed overlaps nothing without ZeRO": (of_deepspeed(0, overlap_gradient_reduce=True), GRADIENT),
    "DeepSpeed gathers after the step": (of_deepspeed(1, overlap_parameter_gather=True), GATHER),
    "FSDP reduces on a stream of its own": (fsdp(3, 16, overlap_gradient_reduce=False), GRADIENT),
    "FSDP gathers ahead": (fsdp(3, 16, overlap_parameter_gather=False), GATHER),
    "gathers without the optimizer": (of_megatron(0, overlap_parameter_gather=True), GATHER),
    "gathers without reductions": (
        of_megatron(1, overlap_gradient_reduce=False, overlap_parameter_gather=True),
        GATHER,
    ),
}
LEGAL = {
    "DeepSpeed without": of_deepspeed(2, overlap_gradient_reduce=False),
    "Megatron without gathers": of_megatron(1, overlap_parameter_gather=False),
    "Megatron without any": of_megatron(0, overlap_gradient_reduce=False),
}


@pytest.mark.parametrize(("strategy", "field"), ILLEGAL.values(), ids=ILLEGAL.keys())
def test_a_switch_that_the_backend_lacks_is_refused(strategy: Strategy, field: str) -> None:
    """With the field and a reason."""
    asked = request()
    found = {breach.rule: breach.reason for breach in breaches(asked, strategy)}
    assert found.get(field)


@pytest.mark.parametrize("strategy", LEGAL.values(), ids=LEGAL.keys())
def test_a_switch_that_the_backend_has_is_legal(strategy: Strategy) -> None:
    """On and off."""
    assert not {GRADIENT, GATHER} & {breach.rule for breach in breaches(request(), strategy)}


@pytest.mark.parametrize("zero", [1, 2])
def test_one_reduce_bucket_in_place_of_two(zero: int) -> None:
    """DeepSpeed's ZeRO stages 1 and 2 hold two bytes times a bucket less at every moment; others as much."""
    on, off = (priced(of_deepspeed(zero, overlap_gradient_reduce=on)).stages[0] for on in (True, False))
    for moment, terms in on.moments_kib.items():
        assert terms["buckets"] - off.moments_kib[moment]["buckets"] == pytest.approx(
            2 * BUCKET / 1024, abs=1
        )


@pytest.mark.parametrize("strategy", [of_deepspeed(3), of_megatron(0), of_megatron(1)], ids=["3", "m0", "m1"])
def test_elsewhere_overlap_costs_no_memory(strategy: Strategy) -> None:
    """ZeRO-3 has one reduce bucket, Megatron's buckets are views of one buffer."""
    off = strategy.model_copy(update={GRADIENT: False, GATHER: False})
    held, usual = (priced(one).stages[0].moments_kib for one in (off, strategy))
    assert held == usual


def test_every_micro_batch_shows_whole_without_overlap() -> None:
    """DeepSpeed's ZeRO-3 without it: two gathers and a reduction of each layer and micro-batch, whole."""
    on, off = (priced(of_deepspeed(3, overlap_gradient_reduce=on), 25e9) for on in (True, False))
    hidden = sum(on.hidden_ns.values())

    assert off.hidden_ns == {}
    assert shown(off) - shown(on) >= hidden > 0
    assert on.terms_ns["compute"] == off.terms_ns["compute"]


def test_a_step_s_reductions_show_by_the_share_of_stacks_without_overlap() -> None:
    """Megatron's all-reduce of whole gradients: the share of Megatron-LM of 2022, which had no overlap."""
    on, off = (priced(of_megatron(0, overlap_gradient_reduce=on)) for on in (True, False))
    bridge, old = (stack(name).data_exposed for name in ("megatron-bridge-2025", "megatron-2022"))

    assert shown(off) / shown(on) == pytest.approx(old / bridge, rel=1e-3)


def test_gathers_alone_without_overlap() -> None:
    """Reductions still hidden: less shows than with neither, more than with both."""
    both, neither = of_megatron(1), of_megatron(1, overlap_gradient_reduce=False)
    gathers = of_megatron(1, overlap_parameter_gather=False)
    assert shown(priced(both)) < shown(priced(gathers)) < shown(priced(neither))


@pytest.mark.parametrize("strategy", [of_deepspeed(1), of_deepspeed(2), of_deepspeed(3), of_megatron(1)])
@pytest.mark.parametrize("network", [1e9, 25e9, 400e9])
def test_overlap_is_never_slower(strategy: Strategy, network: float) -> None:
    """On any network: why a switch is searched only where turning it off frees memory."""
    off = strategy.model_copy(update={GRADIENT: False, GATHER: False})
    assert priced(strategy, network).step_ns <= priced(off, network).step_ns


def test_rows_are_free_where_a_bucket_is_freed() -> None:
    """DeepSpeed's stages 1 and 2 both ways; elsewhere one row, unless a switch is asked for or in a rule."""
    found = rows(request())
    told = Counter(
        (row["backend"], row["zero_stage"], row[GRADIENT], row[GATHER])
        for row in map(found.row, range(len(found)))
    )
    kinds = {kind for kind in told if kind[0] != "fsdp"}

    assert kinds == {
        ("deepspeed", 0, False, False), ("deepspeed", 1, True, False), ("deepspeed", 1, False, False),
        ("deepspeed", 2, True, False), ("deepspeed", 2, False, False), ("deepspeed", 3, True, False),
        ("megatron", 0, True, False), ("megatron", 1, True, True),
    }  # fmt: skip
    for narrowed in ({GRADIENT: [True, False]}, {"rules": [f"{GRADIENT} + zero_stage >= 0"]}):
        asked = rows(request(backend="megatron", **narrowed))
        assert set(asked.overlap_gradient_reduce.tolist()) == {0, 1}


def test_the_search_turns_overlap_off_where_memory_asks_for_it() -> None:
    """DeepSpeed's ZeRO-2: with room for two buckets they are held, with 0.6 GiB less one is."""
    fixed: dict[str, Any] = {
        "backend": "deepspeed", "zero_stage": 2, "micro_batch_size": 1, "recompute": "full",
        "offload_optimizer": "none", "context_parallel": 1,
    }  # fmt: skip
    roomy = plan(request(**fixed))
    assert isinstance(roomy, Plan) and roomy.strategy.overlap_gradient_reduce
    usable = roomy.memory.usable_bytes
    tight = request(margin=1 - (roomy.memory.total_bytes - 0.6 * 2**30) / usable, **fixed)
    lean = plan(tight)
    none = plan(tight.changed({f"choose.{GRADIENT}": True}))

    assert isinstance(lean, Plan) and not lean.strategy.overlap_gradient_reduce
    assert lean.time.step_seconds > roomy.time.step_seconds
    assert isinstance(none, NoPlan)
    assert any(cure.set == f"choose.{GRADIENT}=false" for cure in none.cures)


def test_the_search_equals_an_exhaustive_one_over_the_switches() -> None:
    """Thirty requests: feasibility, step, number of rows; each value is optimal somewhere."""
    optimal: Counter[Any] = Counter()
    for seed in range(30):
        asked = Request(**beside(Random(seed)))
        outcome, answer = Search(asked).run(), brute(asked)
        best = outcome.best.strategy if outcome.best else None
        optimal[best and (best.overlap_gradient_reduce, best.overlap_parameter_gather)] += 1
        assert differences(asked, outcome, answer) == [], seed

    assert min(optimal[kind] for kind in ((True, True), (True, False), (False, False))) >= 1, optimal


def test_what_nobody_speaks_of_is_no_faster_off() -> None:
    """With both values asked for, rows that the search leaves aside otherwise, no plan is faster."""
    for seed in range(12):
        asked = Request(**beside(Random(seed))).changed(
            {f"choose.{GRADIENT}": None, f"choose.{GATHER}": None}
        )
        every = asked.changed({f"choose.{GRADIENT}": [True, False], f"choose.{GATHER}": [True, False]})
        assert brute(every).step_ns == Search(asked).run().bound_ns, seed


def test_the_ladder_has_its_line() -> None:
    """Memory and step of the plan without overlap, before the plan."""
    asked = request(
        backend="megatron", tensor_parallel=2, pipeline_parallel=1, zero_stage=1, sequence_parallel=True
    )
    found = plan(asked)
    assert isinstance(found, Plan)
    without, with_tensor, last = ladder(asked, found)[-3:]
    forced = plan(asked.changed({f"choose.{GRADIENT}": False}))

    assert without.set == f"{GRADIENT}=false" and without.lever == "the plan without overlap"
    assert without.memory_bytes == last.memory_bytes
    assert without.step_seconds > last.step_seconds
    assert with_tensor.set == "overlap_tensor_parallel=true"
    assert with_tensor.step_seconds < last.step_seconds and with_tensor.memory_bytes > last.memory_bytes
    assert isinstance(forced, Plan) and forced.time.step_seconds <= without.step_seconds


WRITTEN = {
    "DeepSpeed on": (of_deepspeed(2), "deepspeed", "ds_config.json"),
    "DeepSpeed off": (of_deepspeed(2, overlap_gradient_reduce=False), "deepspeed", "ds_config.json"),
    "the trainer's off": (
        of_deepspeed(1, overlap_gradient_reduce=False),
        "transformers",
        "ds_config.hf.json",
    ),
    "Megatron on": (of_megatron(1), "megatron", "megatron_args.sh"),
    "Megatron without gathers": (
        of_megatron(1, overlap_parameter_gather=False),
        "megatron",
        "megatron_args.sh",
    ),
    "Megatron off": (of_megatron(1, overlap_gradient_reduce=False), "megatron", "megatron_args.sh"),
}


@pytest.mark.parametrize(("strategy", "target", "name"), WRITTEN.values(), ids=WRITTEN.keys())
def test_switches_are_written_and_read_back(
    strategy: Strategy, target: str, name: str, tmp_path: Path
) -> None:
    """In the words of each client, told where they are off."""
    made = plan_of(strategy, model=MODEL, sequence=4096)
    files = emit(made, target)
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    found = read_config(documents([str(tmp_path)]), made.request).strategy

    if strategy.backend == "deepspeed":
        assert (
            json.loads(files[name])["zero_optimization"]["overlap_comm"] is strategy.overlap_gradient_reduce
        )
    else:
        assert ("--overlap-grad-reduce" in files[name]) is strategy.overlap_gradient_reduce
        assert ("--overlap-param-gather" in files[name]) is strategy.overlap_parameter_gather
    assert (found.overlap_gradient_reduce, found.overlap_parameter_gather) == (
        strategy.overlap_gradient_reduce, strategy.overlap_parameter_gather,
    )  # fmt: skip
    off = GRADIENT if not strategy.overlap_gradient_reduce else GATHER
    assert (off in files["README.md"]) is (strategy in (*LEGAL.values(), *_off()))


def _off() -> list[Strategy]:
    """Strategies of `WRITTEN` that hide less than they could."""
    return [strategy for name, (strategy, _, _) in WRITTEN.items() if not name.endswith("on")]


@pytest.mark.parametrize(("stage", "on"), [(1, False), (2, False), (3, True)])
def test_deepspeed_s_own_default_is_read(stage: int, on: bool, tmp_path: Path) -> None:
    """overlap_comm left out, or auto, is on at stage 3 alone."""
    for said in ({}, {"overlap_comm": "auto"}):
        text = json.dumps(
            {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
             "zero_optimization": {"stage": stage, **said}}
        )  # fmt: skip
        (tmp_path / "ds_config.json").write_text(text, encoding="utf-8")
        found = read_config(documents([str(tmp_path)]), request()).strategy
        assert found.overlap_gradient_reduce is on


def test_gathers_without_what_they_need_are_refused_and_linted(tmp_path: Path) -> None:
    """Megatron-LM asserts both; each is told with its mend."""
    text = emit(plan_of(of_megatron(1), model=MODEL, sequence=4096), "megatron")["megatron_args.sh"]
    for needed in ("--overlap-grad-reduce", "--use-distributed-optimizer"):
        path = tmp_path / "megatron_args.sh"
        path.write_text(text.replace(f"  {needed}\n", ""), encoding="utf-8")
        told = [f.message for f in lint(documents([str(path)])) if "overlap-param-gather" in f.message]
        assert told == [f"--overlap-param-gather needs {needed}"]
        with pytest.raises(InputError, match=needed):
            read_config(documents([str(path)]), request())


def test_answers_tell_overlap_and_strategies_take_it() -> None:
    """As a table, or as knobs; contradictions and other words are refused."""
    data = {"backend": "megatron", "zero_stage": 1, "data_parallel": 16}
    training = request().training
    told = read_strategy({**data, "overlap": {"gradient_reduce": False}}, MODEL, "s.json", training)
    knobs = read_strategy({**data, GRADIENT: False}, MODEL, "s.json", training)

    assert told == knobs and not told.overlap_parameter_gather
    for wrong in ({"overlap": {"gradient": False}}, {"overlap": True}):
        with pytest.raises(InputError):
            read_strategy({**data, **wrong}, MODEL, "s.json", training)
    with pytest.raises(InputError, match="contradicts"):
        read_strategy({**data, "overlap": {"gradient_reduce": True}, GRADIENT: False}, MODEL, "s", training)


def test_a_plan_without_the_knobs_is_read_as_before() -> None:
    """Plans of earlier versions tell a table alone, and mean what their backend hides."""
    made = plan_of(of_megatron(1), model=MODEL, sequence=4096)
    told = json.loads(as_json(made))
    assert told["strategy"]["overlap"] == {
        "gradient_reduce": True, "parameter_gather": True, "tensor_parallel": True, "zero3_gather": False,
    }  # fmt: skip
    for knob in (GRADIENT, GATHER):
        del told["strategy"][knob]
    assert plan_from(told, "plan.json").strategy == made.strategy


TENSOR = "overlap_tensor_parallel"


def of_tensor(stack_name: str = "megatron-core-2025", **changes: Any) -> Strategy:
    """Eight tensor ranks with sequence parallel under two data ranks."""
    values = {
        "tensor_parallel": 8, "sequence_parallel": True, "gradient_accumulation_steps": 32,
        "software_stack": stack_name,
    }  # fmt: skip
    return megatron(1, 2, stages=stages(1, 32), **{**values, **changes})


def test_tensor_ranks_overlap_by_themselves_where_the_stacks_runs_did() -> None:
    """Megatron Bridge and NeMo with sequence parallel, not Megatron-LM's own arguments."""
    assert of_tensor("megatron-bridge-2025").overlap_tensor_parallel
    assert of_tensor("nemo-2024").overlap_tensor_parallel
    assert not of_tensor("megatron-bridge-2025", sequence_parallel=False).overlap_tensor_parallel
    assert not of_tensor(
        "megatron-bridge-2025", tensor_parallel=1, sequence_parallel=False
    ).overlap_tensor_parallel
    assert not of_tensor().overlap_tensor_parallel


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_overlapped_tensor_ranks_show_the_share_of_runs_with_it_and_hold_twelve_buffers(
    precision: str,
) -> None:
    """Eight buffers of T h in the type of the products and four in 16 bits, at every moment.

    Without it the sums of the backward, a quarter of all, run beside gradients of weights.
    """
    on, off = (priced(of_tensor(precision=precision, overlap_tensor_parallel=on)) for on in (True, False))
    bridge, old = (stack(name).tensor_exposed for name in ("megatron-bridge-2025", "megatron-2022"))
    tokens, hidden, w = 4096, 4096, 2 if precision == "bf16" else 1

    ratio = on.terms_ns["tensor_comm"] / off.terms_ns["tensor_comm"]
    assert bridge / old < ratio < bridge / (0.75 * old)
    for moment, terms in on.stages[0].moments_kib.items():
        assert terms.pop("user_buffers") * 1024 == (8 * w + 4 * 2) * tokens * hidden
        assert terms == {k: v for k, v in off.stages[0].moments_kib[moment].items() if k != "user_buffers"}


def test_a_model_of_which_nothing_is_known_keeps_its_stacks_share() -> None:
    """Experts and latent attention have no user buffers: the switch moves neither time nor memory."""
    asked = request().changed({"model": "mixtral-8x7b"})
    on, off = (price(asked, of_tensor(overlap_tensor_parallel=on)) for on in (True, False))
    assert on.step_ns == off.step_ns and on.peak_kib == off.peak_kib


WRONG_TENSOR = {
    "no part of a sequence": of_tensor(sequence_parallel=False, overlap_tensor_parallel=True),
    "alone": megatron(1, 16, stages=stages(1, 32), overlap_tensor_parallel=True),
    "two islands": megatron(
        1, 1, stages=stages(1, 32), tensor_parallel=16, sequence_parallel=True, overlap_tensor_parallel=True
    ),
    "FSDP": fsdp(3, 8, tensor_parallel=2, sequence_parallel=True, overlap_tensor_parallel=True),
}


@pytest.mark.parametrize("strategy", WRONG_TENSOR.values(), ids=WRONG_TENSOR.keys())
def test_tensor_ranks_that_cannot_overlap_are_refused(strategy: Strategy) -> None:
    """Without sequence parallel, over two islands, under another backend."""
    found = {breach.rule: breach.reason for breach in breaches(request(), strategy)}
    assert found.get(TENSOR)


def test_tensor_ranks_on_one_island_may_overlap() -> None:
    """Eight of eight cards of an island."""
    assert TENSOR not in {
        breach.rule for breach in breaches(request(), of_tensor(overlap_tensor_parallel=True))
    }


def test_cards_without_nvlink_have_no_user_buffers() -> None:
    """Two cards on PCI Express: refused, in no row though asked for, and not offered."""
    cluster, training = Cluster.of_gpus("ws-8x-rtx-4090", 2), request().training
    asked = Request(model="qwen2.5-1.5b", cluster=cluster, training=training, choose={TENSOR: [True, False]})
    made = megatron(
        1, 1, stages=stages(1, 28), tensor_parallel=2, sequence_parallel=True, overlap_tensor_parallel=True
    )
    assert TENSOR in {breach.rule for breach in breaches(asked, made)}
    assert set(rows(asked).overlap_tensor_parallel.tolist()) == {0}
    free = plan(asked.changed({f"choose.{TENSOR}": None, "choose.backend": "megatron"}))
    assert isinstance(free, Plan) and all(TENSOR not in offer.set for offer in free.offers)


def test_tensor_overlap_is_searched_where_it_is_asked_for_and_offered_elsewhere() -> None:
    """Unasked no row has it; asked for both the faster is taken; the offer is what asking gives."""
    forced: dict[str, Any] = {"backend": "megatron", "tensor_parallel": 8, "pipeline_parallel": 1}
    plain, free = plan(request(**forced)), plan(request(**forced, overlap_tensor_parallel=[True, False]))

    assert set(rows(request(**forced)).overlap_tensor_parallel.tolist()) == {0}
    assert isinstance(plain, Plan) and isinstance(free, Plan)
    assert free.strategy.overlap_tensor_parallel
    offer = next(offer for offer in plain.offers if offer.set == f"{TENSOR}=true")
    assert offer.resulting_step_seconds == free.time.step_seconds < plain.time.step_seconds


@pytest.mark.parametrize("on", [True, False])
def test_tensor_overlap_is_written_and_read_back(on: bool, tmp_path: Path) -> None:
    """--tp-comm-overlap; without sequence parallel it is refused and linted."""
    made = plan_of(of_tensor(overlap_tensor_parallel=on), model=MODEL, sequence=4096)
    files = emit(made, "megatron")
    (tmp_path / "megatron_args.sh").write_text(files["megatron_args.sh"], encoding="utf-8")
    (tmp_path / "launch.sh").write_text(files["launch.sh"], encoding="utf-8")
    found = read_config(documents([str(tmp_path)]), made.request).strategy

    assert ("--tp-comm-overlap" in files["megatron_args.sh"]) is on
    assert (TENSOR in files["README.md"]) is on
    assert found.overlap_tensor_parallel is on
    if on:
        path = tmp_path / "megatron_args.sh"
        path.write_text(files["megatron_args.sh"].replace("  --sequence-parallel\n", ""), encoding="utf-8")
        assert [f.message for f in lint(documents([str(path)])) if "tp-comm" in f.message]
        with pytest.raises(InputError, match="sequence-parallel"):
            read_config(documents([str(tmp_path)]), made.request)
