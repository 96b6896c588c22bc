"""`fsdp_plan.py`: a module made of the parts a plan needs, with the plan's numbers and no others."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from plans_by_hand import fsdp, plan, stage, tiny
from pydantic import ValidationError

from shardwise.launch import emit, refusal
from shardwise.launch.fsdp.decisions import decisions
from shardwise.launch.fsdp.schema import FsdpPlan
from shardwise.launch.fsdp.write import module
from shardwise.models import Attention, Block, FeedForward, Run, Strategy, Transformer

PLAIN = fsdp(3, 8)
SEVERAL = {
    "plain": PLAIN,
    "kept": fsdp(2, 8, gradient_dtype="bf16"),
    "hybrid": fsdp(3, 8, shard_group_size=4, stages=stage(recompute_full_layers=1)),
    "tensor": fsdp(3, 4, tensor_parallel=2, sequence_parallel=True),
    "selective": fsdp(3, 8, stages=stage(recompute_selective_layers=2), software_stack="fsdp-compile-2024"),
    "offloaded": fsdp(3, 8, offload_optimizer="cpu", offload_params="cpu", stages=stage(offloaded_layers=3)),
    "compiled loss": fsdp(3, 8, loss_kernel="compiled", software_stack="fsdp-compile-2024"),
}


OWN = {"PRODUCTS", "KEPT_PRODUCTS", "KEPT_ATTENTION"}
"""Constants of the parts themselves, the same in every plan."""


def text_of(strategy: Strategy) -> str:
    """The module written for `strategy`."""
    return emit(plan(strategy), "fsdp")["fsdp_plan.py"]


def constants(tree: ast.Module) -> dict[str, Any]:
    """Top-level constants, types by their name."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper() and name not in OWN:
                value = node.value
                found[name] = value.attr if isinstance(value, ast.Attribute) else ast.literal_eval(value)
    return found


@pytest.mark.parametrize("name", SEVERAL)
def test_the_constants_are_the_decisions(name: str) -> None:
    """Each decision stands in the module under its name, and no function has a number of a plan."""
    tree = ast.parse(text_of(SEVERAL[name]))
    chosen = decisions(plan(SEVERAL[name])).model_dump(exclude_none=True)
    code = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    numbers = {
        node.value
        for function in code
        for node in ast.walk(function)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }

    assert constants(tree) == {key.upper(): value for key, value in chosen.items()}
    assert numbers <= {0, 1, 100, 1e-6}


@pytest.mark.parametrize("name", SEVERAL)
def test_the_module_compiles_and_uses_all_it_imports(name: str) -> None:
    """No part is pasted, and no name imported, that this plan does not need."""
    text = text_of(SEVERAL[name])
    compile(text, "fsdp_plan.py", "exec")
    tree = ast.parse(text)
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}

    assert imported - used == {"annotations"}
    assert ("cut_tensors" in text) == (SEVERAL[name].tensor_parallel > 1)
    assert ("recompute_layers" in text) == (SEVERAL[name].recompute != "none")
    assert max(len(line) for line in text.splitlines()) <= 110


def test_axes_are_replicas_then_shards_then_tensor() -> None:
    """The last axis lies over neighbouring ranks; axes of one rank are left out, but the shards."""
    whole = fsdp(3, 4, shard_group_size=2, tensor_parallel=2)
    alone = fsdp(3, 1, tensor_parallel=2, shard_group_size=1)

    assert list(decisions(plan(whole)).axes.items()) == [("dp_replicate", 2), ("dp_shard", 2), ("tp", 2)]
    assert decisions(plan(PLAIN)).axes == {"dp_shard": 8}
    assert decisions(plan(alone)).axes == {"dp_shard": 1, "tp": 2}


def test_stage_2_keeps_gathered_weights_and_stage_3_frees_them() -> None:
    """FSDP's word for the two stages."""
    assert decisions(plan(fsdp(2, 8))).reshard_after_forward is False
    assert decisions(plan(fsdp(3, 8))).reshard_after_forward is True


def test_layers_are_compiled_where_the_priced_stack_compiles() -> None:
    """The software stack is part of the price, so the module does what it says."""
    assert "layer.compile()" in text_of(SEVERAL["selective"])
    assert "layer.compile()" not in text_of(PLAIN)
    assert "token_loss = torch.compile(cross_entropy)" in text_of(SEVERAL["compiled loss"])
    assert "token_loss = cross_entropy" in text_of(PLAIN)


def test_a_model_name_cannot_break_out_of_the_docstring() -> None:
    """Quotes, backslashes and line feeds of a name are replaced."""
    hostile = tiny().model_copy(update={"name": 'x"""\nimport os\\'})
    files = emit(plan(PLAIN, model=hostile), "fsdp")

    ast.parse(files["fsdp_plan.py"])
    assert "import os\\" not in files["fsdp_plan.py"]
    assert files["launch.sh"].splitlines()[1].startswith("# x____import os_ on 1 x 8")


WRONG: dict[str, dict[str, Any]] = {
    "a world the axes do not make": {"world_size": 16},
    "no shard axis": {"axes": {"tp": 8}},
    "an unknown axis": {"axes": {"dp_shard": 4, "pp": 2}},
    "more layers recomputed than there are": {"recompute_full_layers": 5},
    "more layers offloaded than there are": {"offloaded_layers": 5, "offload_root": True},
    "layers offloaded without the root": {"offloaded_layers": 4},
    "a batch the ranks do not make": {"global_batch_size": 9},
    "sequence parallel alone": {"sequence_parallel": True},
    "a word for a number": {"layers": "4"},
    "a number for a switch": {"reshard_after_forward": 1},
    "an unknown key": {"prefetch": 2},
    "an unknown type": {"compute_dtype": "float8"},
}


@pytest.mark.parametrize("name", WRONG)
def test_the_schema_refuses_contradictions(name: str) -> None:
    """One change to good decisions, and they are refused."""
    good = decisions(plan(PLAIN)).model_dump()
    FsdpPlan.model_validate(good)

    with pytest.raises(ValidationError):
        FsdpPlan.model_validate({**good, **WRONG[name]})


def test_equal_decisions_give_equal_text() -> None:
    """The text depends on the decisions and the model's name alone."""
    chosen = decisions(plan(PLAIN))

    assert module(chosen, "m") == module(FsdpPlan.model_validate(chosen.model_dump()), "m")
    assert module(chosen, "m") != module(chosen.model_copy(update={"sequence_length": 64}), "m")


def llama(**changes: Any) -> Transformer:
    """The tiny model with other attention or feed-forward."""
    attention = Attention(**{"heads": 4, "kv_heads": 2, "head_dim": 16, **changes})
    block = Block(attention=attention, feed_forward=FeedForward(width=128))
    return tiny().model_copy(update={"runs": (Run(block=block, layers=4),)})


TENSOR = fsdp(3, 4, tensor_parallel=2)
CANNOT: dict[str, tuple[Strategy, Transformer, str, str]] = {
    "a pipeline": (
        fsdp(3, 4, pipeline_parallel=2, stages=stage() + stage()),
        tiny(),
        "pipeline_parallel",
        "pipeline schedule",
    ),
    "no sharding": (fsdp(0, 8, shard_group_size=1), tiny(), "zero_stage", "2, 3"),
    "8-bit arithmetic": (fsdp(3, 8, precision="fp8"), tiny(), "precision", "fp8"),
    "float16 gradients": (
        fsdp(3, 8, precision="fp16", gradient_dtype="fp16"),
        tiny(),
        "gradient_dtype",
        "fp32",
    ),
    "groups that do not fill the ranks": (
        fsdp(3, 8, shard_group_size=3),
        tiny(),
        "shard_group_size",
        "divisor",
    ),
    "weights kept at stage 3": (
        fsdp(3, 8, reshard_after_forward=False),
        tiny(),
        "reshard_after_forward",
        "zero_stage 3",
    ),
    "the optimizer offloaded alone": (
        fsdp(3, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=4)),
        tiny(),
        "offload_optimizer",
        "together",
    ),
    "layers offloaded without the word": (
        fsdp(3, 8, stages=stage(offloaded_layers=1)),
        tiny(),
        "offloaded_layers",
        "contradicts",
    ),
    "another family cut": (TENSOR, tiny("gpt2"), "tensor_parallel", "llama, mistral, qwen2"),
    "norms of queries and keys cut": (
        TENSOR,
        llama(qk_norm="per_head"),
        "tensor_parallel",
        "norms of queries",
    ),
    "one key-value head cut": (TENSOR, llama(kv_heads=1), "tensor_parallel", "kv_heads, 1"),
    "an odd vocabulary cut": (
        TENSOR,
        tiny().model_copy(update={"vocab_size": 255}),
        "tensor_parallel",
        "vocab_size, 255",
    ),
    "compiled layers cut": (
        fsdp(3, 4, tensor_parallel=2, software_stack="fsdp-compile-2024"),
        tiny(),
        "software_stack",
        "lost gradients",
    ),
    "sequence parallel alone": (
        fsdp(3, 8, sequence_parallel=True),
        tiny(),
        "sequence_parallel",
        "tensor_parallel",
    ),
    "a loss of another backend": (
        fsdp(3, 8, loss_kernel="chunked"),
        tiny(),
        "loss_kernel",
        "compiled, eager",
    ),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_the_module_cannot_do_is_refused(name: str) -> None:
    """The objection names the choice and the reason; plans without it are written."""
    strategy, model, field, words = CANNOT[name]
    objection = refusal(strategy, model, "fsdp")

    assert objection is not None
    assert objection.field == field
    assert words in objection.reason
    assert refusal(PLAIN, tiny(), "fsdp") is None
    assert refusal(TENSOR, tiny(), "fsdp") is None


def test_float16_scales_its_loss_and_others_do_not() -> None:
    """Gradients that overflow leave a step out; the other precisions are written without a word of it."""
    half = emit(plan(fsdp(3, 8, precision="fp16")), "fsdp")["fsdp_plan.py"]
    wide = emit(plan(fsdp(3, 8)), "fsdp")["fsdp_plan.py"]

    assert "COMPUTE_DTYPE = torch.float16" in half and "REDUCE_DTYPE = torch.float32" in half
    assert "(loss * loss_scale.value).backward()" in half and "if loss_scale.held(" in half
    assert "loss_scale" not in wide and "LossScale" not in wide
