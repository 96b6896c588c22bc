"""Modules that predict further tokens (MTP): counted, priced, placed, written and read back, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from megatron_by_hand import argv, named, parsed
from pipelines import Link, order_of, run

from shardwise import NoPlan, Plan, Request, plan
from shardwise.costs import Ledger, StageEntry, price
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.lint import lint
from shardwise.launch.read import read_config
from shardwise.models import (
    Attention,
    Block,
    FeedForward,
    Predictor,
    Run,
    Stage,
    Strategy,
    Training,
    Transformer,
    count,
    training_flops_per_token,
)
from shardwise.models.counts import layer_count
from shardwise.runs.predictors import trained_modules
from shardwise.runs.record import COLUMNS, Record

HIDDEN, VOCABULARY, LENGTH = 1024, 32_000, 2048
BLOCK = Block(
    attention=Attention(heads=8, kv_heads=4, head_dim=128), feed_forward=FeedForward(width=4 * HIDDEN)
)
JOIN = 2 * HIDDEN * HIDDEN + 3 * HIDDEN
"""Parameters of a module beside its block: the projection 2 h -> h, and three norms."""


def model(depth: int = 2, layers: int = 6, **more: Any) -> Transformer:
    """Equal layers and modules that a file announces."""
    return Transformer(
        name="small", family="llama", hidden_size=HIDDEN, vocab_size=VOCABULARY,
        runs=(Run(block=BLOCK, layers=layers),),
        predictor=Predictor(block=BLOCK, depth=depth, other=JOIN), **more,
    )  # fmt: skip


def ask(modules: int, nodes: int = 1, job: dict[str, Any] | None = None, **choose: Any) -> Request:
    """The small model on machines of eight H100."""
    training = {"global_batch_size": 32, "sequence_length": LENGTH, "mtp_layers": modules, **(job or {})}
    return Request(
        model=model(), cluster=Cluster.preset("dgx-h100", nodes=nodes), training=training, choose=choose
    )


def strategy(held: tuple[int, ...], full: int = 0, **more: Any) -> Strategy:
    """Stages of so many layers, of which at most `full` each are recomputed whole; one rank a stage."""
    return Strategy(
        **{
            "backend": "megatron", "software_stack": "megatron-core-2025", "loss_kernel": "megatron",
            "pipeline_parallel": len(held), "gradient_accumulation_steps": 4, "gradient_dtype": "fp32",
            "stages": tuple(Stage(layers=n, recompute_full_layers=min(n, full)) for n in held), **more,
        }
    )  # fmt: skip


def ledger(
    modules: int, held: tuple[int, ...], full: int = 0, small: Transformer | None = None, **more: Any
) -> Ledger:
    """The price of such stages."""
    chosen = strategy(held, full, **more)
    batch = chosen.data_parallel * chosen.gradient_accumulation_steps
    job = Training(global_batch_size=batch, sequence_length=LENGTH, mtp_layers=modules)
    cluster = Cluster.of_gpus("dgx-h100", chosen.world)
    return price((small or model()).predicting(modules), job, cluster, [chosen])[0]


def bytes_at(stage: StageEntry, term: str, moment: str) -> int:
    """Bytes of a term of a stage at a moment."""
    return 1024 * stage.moments_kib[moment].get(term, 0)


@pytest.mark.parametrize(("modules", "legal"), [(3, ("2", "1", "0")), (-1, ("2", "1", "0"))])
def test_as_many_as_the_file_announces(modules: int, legal: tuple[str, ...]) -> None:
    """Zero to the depth of the file; the error names the field, its origin and what is legal."""
    with pytest.raises(InputError, match=r"training\.mtp_layers.*small has 2") as caught:
        ask(modules)
    assert tuple(caught.value.legal) == legal
    with pytest.raises(InputError, match="has none"):
        Transformer.preset("llama-3.1-8b").predicting(1)


def test_a_request_trains_what_its_job_says() -> None:
    """The stack ends with the modules, through JSON and changes, and without them it is the file's."""
    asked = ask(2)
    again = Request.model_validate_json(asked.model_dump_json())

    assert [asked.model.layers, again.model.layers] == [8, 8]
    assert asked.changed({"training.mtp_layers": 0}).model == model()
    assert asked.model.kind_of_layer == (0, 0, 0, 0, 0, 0, 1, 1)


def test_a_reference_model_goes_without() -> None:
    """The pass of a reference is priced for the next token alone."""
    with pytest.raises(InputError, match=r"training\.mtp_layers.*reference_model"):
        ask(1, job={"reference_model": "self"})


def test_trained_modules_are_part_of_every_count() -> None:
    """Block, projection and three norms a module in parameters; with a pass through the head in FLOPs.

    Megatron-LM's `num_floating_point_operations` counts them so.
    """
    plain, trained = model(), model().predicting(2)
    each = layer_count(BLOCK, HIDDEN).total + JOIN
    core = 2 * (8 * 128 + 8 * 128) * (LENGTH + 1) / 2
    flops = 6 * (each + VOCABULARY * HIDDEN) + 3 * core
    counted = count(trained)

    assert count(plain).predictor == 2 * each and counted.predictor == 0
    assert counted.total - count(plain).total == 2 * each
    assert training_flops_per_token(trained, LENGTH) - training_flops_per_token(plain, LENGTH) == 2 * flops


def test_the_last_stage_holds_a_module_with_a_copy_of_the_embedding() -> None:
    """18 bytes a parameter of module and copy; the copy only where the first stage is another one.

    A tied head is the embedding already.
    """
    copy, each = VOCABULARY * HIDDEN, layer_count(BLOCK, HIDDEN).total + JOIN

    def states(modules: int, held: tuple[int, ...], **more: Any) -> int:
        stage = ledger(modules, held, small=model(**more)).stages[-1]
        return sum(bytes_at(stage, name, "step") for name in ("weights", "gradients", "optimizer"))

    def added(*held: int, **more: Any) -> float:
        return (states(1, (*held[:-1], held[-1] + 1), **more) - states(0, held, **more)) / 18

    assert added(3, 3) == pytest.approx(each + copy, rel=1e-3)
    assert added(6) == pytest.approx(each, rel=1e-3)
    assert added(3, 3, tied_embeddings=True) == pytest.approx(each, rel=1e-3)
    first = [ledger(m, (3, 3 + m)).stages[0].moments_kib["step"] for m in (0, 1)]
    assert first[0]["weights"] == first[1]["weights"]


def test_its_logits_wait_for_the_main_loss() -> None:
    """4 bytes an entry a module at the end of the forward; gone when the backward reaches the layers."""
    entries = LENGTH * (-(-VOCABULARY // 128) * 128)
    found = [ledger(modules, (3, 3 + modules)).stages[-1] for modules in (0, 1, 2)]
    logits = [bytes_at(stage, "logits", "forward") for stage in found]

    assert [logits[1] - logits[0], logits[2] - logits[1]] == pytest.approx([4 * entries] * 2, rel=1e-6)
    assert all(bytes_at(stage, "logits", "backward") == 0 for stage in found)


def test_it_takes_a_layer_a_projection_and_a_head() -> None:
    """The last stage works longer by more than a layer and its head; all others as long as before.

    The gradient of the copied embedding is summed over first and last stage once a step.
    """
    plain, trained = ledger(0, (3, 3)), ledger(1, (3, 4))
    chunk = [[sum(stage.chunk_ns.values()) for stage in one.stages] for one in (plain, trained)]
    layer = chunk[0][0] / 3
    head = plain.stages[1].chunk_ns["compute"] - plain.stages[0].chunk_ns["compute"]
    tails = [[stage.tail_ns.get("pipeline_comm", 0) for stage in one.stages] for one in (plain, trained)]

    assert chunk[0][0] == chunk[1][0]
    assert layer + head < chunk[1][1] - chunk[0][1] < 1.5 * (layer + head)
    assert tails[0] == [0, 0] and tails[1][0] == tails[1][1] > 0
    sent = [one.traffic_bytes["pipeline"]["island"] for one in (plain, trained)]
    assert sent[1] - sent[0] == pytest.approx(4 * VOCABULARY * HIDDEN, rel=1e-6)


@pytest.mark.parametrize("chunks", [2, 4])
def test_a_pipeline_waits_for_a_module_in_its_own_round_alone(chunks: int) -> None:
    """An event simulation whose last link has the module and the head, and whose first the embedding.

    What these take is told by stages of one chunk, which hold as many layers.
    """
    stages, batches, small = 4, 16, model(layers=8 * chunks)
    rest: dict[str, Any] = {"small": small, "gradient_accumulation_steps": batches}
    held = [2 * chunks] * (stages - 1) + [2 * chunks + 1]
    sizes = [(2,) * chunks] * (stages - 1) + [(*(2,) * (chunks - 1), 3)]
    whole = [sum(stage.chunk_ns.values()) for stage in ledger(1, tuple(held), **rest).stages]
    told = tuple(Stage(layers=sum(size), chunk_layers=size) for size in sizes)
    found = ledger(1, tuple(held), virtual_pipeline=chunks, stages=told, **rest)
    link = sum(found.stages[1].chunk_ns.values())
    more = {0: whole[0] - whole[1], stages * chunks - 1: whole[-1] - whole[1]}

    def seconds(_: int, place: Link, kind: str) -> float:
        return (link + more.get(place[1], 0)) * (1 / 3 if kind == "F" else 2 / 3)

    orders = [order_of("interleaved", stage, stages, batches, chunks) for stage in range(stages)]
    tail = max(sum(stage.tail_ns.values()) for stage in found.stages)
    assert more[stages * chunks - 1] > link / 2
    assert found.step_ns - tail == pytest.approx(run(orders, seconds).seconds, rel=0.01)


def test_full_recompute_leaves_a_module_kept() -> None:
    """Megatron-LM recomputes by blocks, which skips modules: counted among the recomputed or not."""
    kept, counted = ledger(1, (3, 4), full=3), ledger(1, (3, 4), full=4)
    names = ("activations", "fragmentation", "live_layer")

    assert [kept.step_ns, kept.stages[1].chunk_ns] == [counted.step_ns, counted.stages[1].chunk_ns]
    for moment in ("forward", "backward"):
        for name in names:
            assert bytes_at(kept.stages[1], name, moment) == bytes_at(counted.stages[1], name, moment)
    assert kept.step_ns > ledger(1, (3, 4)).step_ns


@pytest.mark.parametrize("backend", ["deepspeed", "fsdp"])
def test_other_backends_refuse_with_the_reason(backend: str) -> None:
    """Hugging Face classes build no such modules: no plan, and the reason says so."""
    found = plan(ask(1, backend=[backend]))

    assert isinstance(found, NoPlan)
    assert any("mtp_layers 1" in told and "Hugging Face classes" in told for told in found.reasons)


def test_a_search_puts_them_on_the_last_stage_together() -> None:
    """Two modules are never parted, though cutting between them would be faster."""
    found = plan(ask(2, backend=["megatron"], pipeline_parallel=[4]))

    assert isinstance(found, Plan)
    assert found.strategy.layers == 8 and found.strategy.stages[-1].layers >= 2
    assert not [warning for warning in found.warnings if warning.code == "predictor"]


def test_a_warning_says_how_to_train_them() -> None:
    """Left out, their share of FLOPs is told, with the field that trains them."""
    found = plan(ask(0, backend=["megatron"]))

    assert isinstance(found, Plan)
    (told,) = [warning for warning in found.warnings if warning.code == "predictor"]
    assert "training.mtp_layers=2" in told.hint and "% of the FLOPs" in told.message


def test_parted_modules_are_refused() -> None:
    """A strategy of somebody's own that cuts between two modules."""
    from shardwise.plans import read_strategy

    fields = strategy((7, 1)).model_dump() | {"data_parallel": 4}
    with pytest.raises(InputError, match="must hold the 2 modules"):
        read_strategy(fields, ask(2).model, "mine")


NAMED = "megatron_deepseek_predicting"


def test_the_arguments_of_megatron(tmp_path: Path) -> None:
    """Layers without modules, modules apart, a layout that ends with m and L, recompute by blocks."""
    found = parsed(argv(named(NAMED), tmp_path))

    assert found["--num-layers"] == ["61"] and found["--mtp-num-layers"] == ["1"]
    assert found["--pipeline-model-parallel-layout"] == ["Et*8|(t*8|)*6t*5mL"]
    assert found["--moe-layer-freq"] == ["[0]*3+[1]*58"]
    assert found["--recompute-method"] == ["block"]
    assert found["--mtp-loss-scaling-factor"] == ["0.1"]


def test_they_are_read_back(tmp_path: Path) -> None:
    """The same strategy; a request that trains another number is refused with the field to set."""
    made = named(NAMED)
    for name, text in emit(made, "megatron").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = documents([str(tmp_path / "megatron_args.sh"), str(tmp_path / "launch.sh")])

    assert read_config(files, made.request).strategy.stages == made.strategy.stages
    with pytest.raises(InputError, match="mtp-num-layers = 1.*training.mtp_layers = 1"):
        read_config(files, made.request.changed({"training.mtp_layers": 0}))


def test_a_layout_without_the_modules_is_found(tmp_path: Path) -> None:
    """Megatron-LM stops where the layout places none of the modules it is told of."""
    text = emit(named(NAMED), "megatron")["megatron_args.sh"].replace("t*5mL", "t*5L")
    (tmp_path / "megatron_args.sh").write_text(text, encoding="utf-8")

    found = lint(documents([str(tmp_path / "megatron_args.sh")]))
    assert "modules-without-place" in {one.rule for one in found}


ROW = {"gpus": "1024", "global_batch_seqs": "8192", "seq_len": "4096", "tflops_kind": "model"}


@pytest.mark.parametrize(
    ("cells", "modules"),
    [
        ({"framework": "Megatron-Bridge/Megatron-Core"}, 1),
        ({"framework": "NeMo 25.04"}, 1),
        ({"framework": "torchtitan"}, 0),
        ({"framework": "NeMo 25.04", "experts": "8"}, 0),
        ({"framework": "NeMo 25.04", "tflops_per_gpu": "163.7", "step_time_s": "52.04", **ROW}, 1),
        ({"framework": "NeMo 25.04", "tflops_per_gpu": "157.5", "step_time_s": "52.04", **ROW}, 0),
        ({"framework": "Megatron-Bridge", "tflops_per_gpu": "782", "tokens_per_s_per_gpu": "3139", **ROW}, 0),
    ],
)
def test_rows_tell_whether_they_trained_them(cells: dict[str, str], modules: int) -> None:
    """NVIDIA's recipes of DeepSeek-V3 train one; FLOP/s a row publishes are counted with it or without."""
    row = Record({**dict.fromkeys(COLUMNS, ""), "layers": "61", "hidden": "7168", "experts": "256", **cells})

    assert trained_modules(row, Transformer.preset("deepseek-v3")) == modules


def test_hfu_counts_what_is_run_again() -> None:
    """Six layers of eight run their forwards again, of the FLOPs of all and three heads; modules are kept."""
    found = plan(ask(2, backend=["megatron"], pipeline_parallel=[1], recompute=["full"]))

    assert isinstance(found, Plan)
    layer = 2 * layer_count(BLOCK, HIDDEN).active + 2 * 2 * (8 * 128) * (LENGTH + 1) / 2
    modules = 2 * (layer + 2 * JOIN)
    whole = 3 * (6 * layer + modules + 3 * 2 * VOCABULARY * HIDDEN)
    assert found.time.hfu / found.time.mfu == pytest.approx(1 + 6 * layer / whole, rel=1e-4)
