"""Modules that selective recompute runs again: bytes freed, work repeated, arguments written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from megatron_by_hand import argv, parsed, stages
from plans_by_hand import megatron, plan

from shardwise import plan as planned
from shardwise.costs import Ledger, price
from shardwise.costs.law import law
from shardwise.costs.saved_sets import Routed, saved_bytes
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.read import read_config
from shardwise.models import Strategy, Training, Transformer
from shardwise.models.backend import backend
from shardwise.models.modules import held_modules
from shardwise.models.stack import stacks
from shardwise.models.training import Module
from shardwise.plans import Plan, Request
from shardwise.plans.report import price as price_of
from shardwise.runs.record import Record
from shardwise.runs.software import software_of
from shardwise.runs.ways import way_of_row

DEEPSEEK = Transformer.preset("deepseek-v3")
DENSE, ROUTED = DEEPSEEK.kinds
HIDDEN, WIDTH, INNER = 7168, 128 * 192, 2048


def freed(block: Any, *modules: Module, bits: Any = 16) -> float:
    """Bytes a token that a layer of DeepSeek-V3 saves no longer."""
    whole = saved_bytes(block, HIDDEN, "fused", inputs_bits=bits)
    return sum(whole) - sum(saved_bytes(block, HIDDEN, "fused", inputs_bits=bits, modules=modules))


def test_what_each_module_frees() -> None:
    """By hand, bytes a token of DeepSeek-V3: what is dropped is what its docstring names."""
    copies = 8

    assert freed(ROUTED, "core_attn") == 4 * 128
    assert freed(ROUTED, "mla_up_proj") == 2 * (2 * WIDTH + 128 * 128)
    assert freed(ROUTED, "layernorm") == 2 * 2 * HIDDEN
    assert freed(ROUTED, "moe_act") == pytest.approx(2 * INNER * copies)
    assert freed(ROUTED, "shared_experts") == pytest.approx(6 * INNER)
    assert freed(DENSE, "mlp") == 6 * 18432
    assert freed(DENSE, "layernorm") == 2 * HIDDEN, (
        "the norm before a dense feed-forward is part of its product"
    )


@pytest.mark.parametrize(
    ("block", "modules"), [(DENSE, ("moe", "moe_act", "shared_experts")), (ROUTED, ("mlp",))]
)
def test_modules_of_other_layers_free_nothing(block: Any, modules: tuple[Module, ...]) -> None:
    """A dense layer has no experts, a layer of experts no dense feed-forward."""
    assert freed(block, *modules) == 0


def test_a_whole_layer_of_experts_holds_its_parts() -> None:
    """`moe` frees what its activation and its shared experts would, and the copies sent to experts."""
    assert freed(ROUTED, "moe", "moe_act", "shared_experts") == freed(ROUTED, "moe")
    assert freed(ROUTED, "moe") > freed(ROUTED, "moe_act") + freed(ROUTED, "shared_experts")


def test_copies_of_tokens_by_balance_and_by_where_they_are_weighed() -> None:
    """By hand, bytes a token: 8 copies of what an expert reads, gives and works on, 1.2 times unbalanced."""
    work, hidden = 6 * INNER, 2 * HIDDEN
    plain, inside, even = (
        saved_bytes(ROUTED, HIDDEN, "fused", routed=routed)
        for routed in (Routed(1.2), Routed(1.2, copies=1), Routed(1.0, copies=1))
    )

    assert saved_bytes(ROUTED, HIDDEN, "fused") == saved_bytes(
        ROUTED, HIDDEN, "fused", routed=Routed(1.0, copies=2)
    )
    assert plain[2] - inside[2] == pytest.approx(8 * 1.2 * hidden)
    assert sum(inside) - sum(even) == pytest.approx(8 * 0.2 * (work + hidden))


def test_megatron_core_weighs_tokens_inside_their_experts_since_2025() -> None:
    """Recipes that force the balance keep one copy, even; Megatron-LM before keeps both, and so do others."""
    laid = {
        name: Routed.of(stacks()[name])
        for name in ("bridge-moe-alltoall", "megatron-bridge-2025", "nemo-2024")
    }

    assert laid == {
        "bridge-moe-alltoall": Routed(1.0, copies=1),
        "megatron-bridge-2025": Routed(law("expert_imbalance"), copies=1),
        "nemo-2024": Routed(law("expert_imbalance"), copies=2),
    }
    assert {Routed.of(stacks()[name]).copies for name in ("nanotron-2024", "fsdp-hf-2024")} == {2}


def test_scores_of_unfused_attention() -> None:
    """Named by a job, `core_attn` of unfused attention is the saved set of 2022."""
    block = Transformer.preset("gpt3-175b").kinds[0]

    modules: tuple[Module, ...] = ("core_attn",)
    named = saved_bytes(block, 12288, "unfused", 2048, modules=modules)
    assert named == saved_bytes(block, 12288, "core", 2048)


def ledger(*modules: Module, recompute: str = "selective", **knobs: Any) -> Ledger:
    """DeepSeek-V3 in eight stages on 128 cards."""
    counts = {} if recompute == "none" else {f"recompute_{recompute}_layers": 7}
    held = (*stages(5, 8, **{k: 8 for k in counts}), *stages(3, 7, **counts))
    values: dict[str, Any] = {
        "backend": "megatron", "software_stack": "megatron-bridge-2025", "data_parallel": 16,
        "pipeline_parallel": 8, "expert_parallel": 16, "zero_stage": 1, "shard_group_size": 16,
        "gradient_accumulation_steps": 16, "gradient_dtype": "fp32", "loss_kernel": "megatron",
        "stages": held,
    }  # fmt: skip
    strategy = Strategy(**{**values, **knobs})
    job = Training(global_batch_size=256, sequence_length=4096, recompute_modules=modules)
    return price(DEEPSEEK, job, Cluster.of_gpus("dgx-h100", 128), [strategy])[0]


def seconds(found: Ledger, *terms: str) -> float:
    """Seconds of terms of the step."""
    return sum(found.terms_ns.get(name, 0) for name in terms) / 1e9


def test_what_is_run_again_costs_its_time() -> None:
    """Nothing is free, parts cost less than the whole, and all of a layer costs most."""
    again = {
        names: seconds(ledger(*names), "recompute")
        for names in (("layernorm",), ("moe_act",), ("mla_up_proj",), ("shared_experts",), ("moe",))
    }
    whole = seconds(ledger(recompute="full"), "recompute")

    assert all(0 < cost < whole for cost in again.values())
    assert again["layernorm",] < again["shared_experts",] < again["moe",]
    assert seconds(ledger("layernorm", "moe_act"), "recompute") == pytest.approx(
        again["layernorm",] + again["moe_act",], abs=1e-9 * 16 * 64
    )


@pytest.mark.parametrize(
    ("modules", "layers", "products"),
    [
        (("shared_experts",), 58, 3 * HIDDEN * INNER),
        (("mlp",), 3, 3 * HIDDEN * 18432),
        (("mla_up_proj",), 61, 1536 * WIDTH + 512 * 128 * 256),
        (("layernorm", "moe_act"), 61, 0),
    ],
)
def test_flops_run_again_are_those_of_the_named_modules(
    modules: tuple[Module, ...], layers: int, products: int
) -> None:
    """By hand: 2 FLOPs a parameter of the module and token, in the layers that have it; norms have none."""
    tokens = 256 * 4096

    assert ledger(*modules).recomputed_flops == pytest.approx(2 * products * layers * tokens, rel=0.01)


def test_flops_run_again_are_those_of_the_layers_that_each_stage_names() -> None:
    """All layers: a third of the model's FLOPs without its head; one layer of a stage: as much as it has."""
    whole, head = ledger(recompute="full"), 6 * 129280 * HIDDEN * 256 * 4096
    one = ledger(stages=(*stages(5, 8), *stages(2, 7), *stages(1, 7, recompute_full_layers=1)))

    assert whole.recomputed_flops == pytest.approx((whole.step_flops - head) / 3, rel=1e-3)
    assert 55 < whole.recomputed_flops / one.recomputed_flops < 61
    assert ledger(recompute="none").recomputed_flops == 0
    assert 0 < ledger("core_attn").recomputed_flops < ledger("core_attn", "moe").recomputed_flops


def test_experts_run_again_send_their_tokens_again() -> None:
    """A checkpointed layer of experts exchanges tokens once more in the backward; its activation does not."""
    none, act, moe = (seconds(ledger(*names), "expert_comm") for names in ((), ("moe_act",), ("moe",)))
    kept = seconds(ledger(recompute="none"), "expert_comm")

    assert act == kept
    assert moe == pytest.approx(1.5 * kept, rel=1e-6) == none


@pytest.mark.parametrize("name", ["deepspeed", "fsdp"])
def test_others_name_no_modules(name: str) -> None:
    """The field is refused with the reason of the backend."""
    job = Training(global_batch_size=8, sequence_length=512, recompute_modules="moe_act")

    assert set(backend(name).unable(job)) == {"recompute_modules"} <= set(backend(name).because)
    assert not backend("megatron").unable(job)


def test_they_are_written_and_read_back(tmp_path: Path) -> None:
    """One argument, the same words; a request of other modules is refused, one of none takes them."""
    part = stages(1, 32, recompute_selective_layers=32)
    made = plan(
        megatron(1, 8, stages=part), model=Transformer.preset("mixtral-8x7b"),
        recompute_modules=("layernorm", "moe_act"),
    )  # fmt: skip
    assert parsed(argv(made, tmp_path))["--recompute-modules"] == ["layernorm", "moe_act"]

    files = documents([str(tmp_path / "megatron_args.sh"), str(tmp_path / "launch.sh")])
    assert read_config(files, made.request).strategy.stages == made.strategy.stages
    free = made.request.changed({"training.recompute_modules": ()})
    assert read_config(files, free).request.training == made.request.training
    with pytest.raises(InputError, match=r"recompute-modules.*training.recompute_modules=layernorm,moe_act"):
        read_config(files, made.request.changed({"training.recompute_modules": "moe"}))


def test_megatron_recomputes_the_core_where_no_module_is_named(tmp_path: Path) -> None:
    """Its default is `core_attn`, which a plan of ours without a name is not."""
    part = stages(1, 4, recompute_selective_layers=4)
    made = plan(megatron(1, 8, stages=part), recompute_modules=("core_attn",))
    for name, text in emit(made, "megatron").items():
        text = text.replace("--recompute-modules core_attn", "")
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = documents([str(tmp_path / "megatron_args.sh"), str(tmp_path / "launch.sh")])

    found = read_config(files, made.request.changed({"training.recompute_modules": ()}))
    assert found.strategy.recompute == "selective"
    assert found.request.training.recompute_modules == ("core_attn",)
    assert read_config(files, made.request).request == made.request


def test_norms_under_delayed_scaling_are_not_written() -> None:
    """Megatron Core refuses them; every release of a stack of those years scales by earlier steps."""
    part = stages(2, 16, recompute_selective_layers=16)
    for stack in ("nemo-2024", "nemo-2024-step"):
        knobs = {"software_stack": stack, "precision": "fp8", "expert_parallel": 8}
        strategy = megatron(1, 16, stages=part, gradient_accumulation_steps=4, **knobs)
        made = plan(strategy, model=Transformer.preset("mixtral-8x7b"), recompute_modules=("layernorm",))

        with pytest.raises(InputError, match="delayed"):
            emit(made, "megatron")


@pytest.mark.parametrize(
    ("model", "module", "words", "legal"),
    [
        ("llama-3.1-8b", "moe_act", "has routed experts", ["core_attn", "mlp"]),
        ("llama-3.1-8b", "mla_up_proj", "has latent attention", ["core_attn", "mlp"]),
        ("llama-3.1-8b", "layernorm", "kernel of its own", ["core_attn", "mlp"]),
        ("mixtral-8x7b", "mlp", "has a dense feed-forward", ["core_attn", "layernorm", "moe_act", "moe"]),
        ("mixtral-8x7b", "shared_experts", "has shared", ["core_attn", "layernorm", "moe_act", "moe"]),
    ],
)
def test_a_module_that_the_model_lacks_is_refused(
    model: str, module: Module, words: str, legal: list[str]
) -> None:
    """It would run nothing again: the message says what the model lacks and which modules it has."""
    with pytest.raises(InputError, match=words) as told:
        Request(
            model=model,
            cluster=Cluster.preset("dgx-h100", nodes=1),
            training=Training(global_batch_size=32, sequence_length=8192, recompute_modules=(module,)),
        )
    assert (told.value.field, list(told.value.legal)) == ("training.recompute_modules", legal)


def test_every_module_that_a_model_holds_frees_bytes() -> None:
    """What a request may name is what the ledger frees something for, on every model of the catalogue."""
    for name in ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"):
        model = Transformer.preset(name)
        for module in get_args(Module):
            each = [
                sum(saved_bytes(block, model.hidden_size, "eager", 1))
                - sum(saved_bytes(block, model.hidden_size, "eager", 1, modules=(module,)))
                for block in model.kinds
            ]
            assert (max(each) > 0) == (module in held_modules(model)), (name, module)


def test_a_request_may_name_them() -> None:
    """A word on the command line or a list; the plan is priced with what they free."""
    request = Request(
        model="llama-3.1-8b",
        cluster=Cluster.preset("dgx-h100", nodes=1),
        training=Training(global_batch_size=32, sequence_length=8192, recompute_modules="mlp"),
        choose={"backend": "megatron", "recompute": "selective"},
    )

    found = planned(request)
    assert isinstance(found, Plan) and found.strategy.recompute == "selective"
    (told,) = price_of(request, [found.strategy])
    assert told.recomputed_flops == pytest.approx(2 * 3 * 4096 * 14336 * 32 * 32 * 8192)
    assert found.time.hfu / found.time.mfu == pytest.approx(
        1 + told.recomputed_flops / told.step_flops, abs=1e-5
    )


def row(**cells: str) -> Record:
    """A row of Megatron-LM."""
    return Record({"year": "2025", "framework": "Megatron-LM", **cells})


@pytest.mark.parametrize(
    ("cells", "modules"),
    [
        (
            {"recompute": "selective", "notes": "recompute modules: moe_act layernorm; more"},
            ("layernorm", "moe_act"),
        ),
        ({"recompute": "selective", "notes": "selective (mla_up_proj, mlp)"}, ("mla_up_proj", "mlp")),
        ({"recompute": "selective", "notes": "experts balanced by force"}, ()),
        ({"recompute": "none", "notes": "recompute modules: moe_act"}, ()),
        ({"recompute": "selective", "framework": "torchtitan", "notes": "selective: mlp"}, ()),
    ],
)
def test_rows_name_them_in_their_notes(cells: dict[str, str], modules: tuple[str, ...]) -> None:
    """Behind "recompute modules" or "selective", as Megatron Core spells them, of its own runs."""
    record = row(**cells)

    assert way_of_row(record, software_of(record)).fields.get("recompute_modules", ()) == modules
