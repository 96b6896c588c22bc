"""Writing `fsdp_plan.py`: constants of the plan and the parts it needs."""

from __future__ import annotations

from importlib.resources import files

from ...plans.plan import Plan
from ..label import label
from ..releases import tested_with
from .decisions import decisions
from .faces import faces
from .imports import merged, split
from .schema import FsdpPlan

FILE = "fsdp_plan.py"


def write(plan: Plan) -> dict[str, str]:
    """`fsdp_plan.py` by name."""
    return {FILE: module(decisions(plan), plan.request.model.name)}


def module(chosen: FsdpPlan, model: str) -> str:
    """The text of the module: docstring, imports of its parts, constants, parts, `apply`."""
    tensor, context = "tp" in chosen.axes, chosen.context_parallel is not None
    recompute = chosen.recompute_full_layers + chosen.recompute_selective_layers > 0
    check = "model" if chosen.trained_parameters is None else "portion"
    names = ["ranks", "layers", check, "tensor_parallel" if tensor else "whole_loss"]
    names += ["context"] * context
    scaled = chosen.compute_dtype == "float16"
    names += [
        *["recompute"] * recompute,
        *["host_inputs"] * bool(chosen.offload_activations),
        "shard",
        *["load"] * chosen.loads,
        "step",
        *["scaled"] * scaled,
    ]
    imports, bodies = [], []
    for name in names:
        text = (files(__package__) / "parts" / f"{name}.py").read_text(encoding="utf-8")
        head, body = split(text)
        imports.append(head)
        bodies.append(body)
    tested = tested_with("torch", "transformers")
    kind = "in float32" if chosen.trained_dtype is None else f"its trained weights in {chosen.trained_dtype}"
    start = _LOADED if chosen.loads else _GIVEN.format(kind=kind)
    doc = _DOC.format(model=label(model), world=chosen.world_size, tested=tested, start=start)
    kept = chosen.model_dump(exclude_none=True)
    constants = "\n".join(_constant(name, value) for name, value in kept.items())
    pieces = [doc, merged(imports), constants, *bodies, faces(tensor, recompute, chosen)]
    return "\n\n\n".join(piece.strip("\n") for piece in pieces) + "\n"


def _constant(name: str, value: object) -> str:
    if name.endswith("_dtype"):
        return f"{name.upper()} = torch.{value}"
    if isinstance(value, str):
        return f'{name.upper()} = "{value}"'
    if isinstance(value, dict):
        entries = ", ".join(f'"{key}": {size}' for key, size in value.items())
        return f"{name.upper()} = {{{entries}}}"
    return f"{name.upper()} = {value}"


_GIVEN = "model = fsdp_plan.apply(model, mesh)       # the model {kind}, the same on every rank"
_LOADED = """model = fsdp_plan.load(build, mesh)        # build() makes it in float32, here without memory
    # ... or load(build, mesh, weights): the state dict on rank 0, {} on the others
    # ... or apply(model, mesh): a model in float32 that every rank already holds whole"""

_DOC = '''"""How to lay {model} out on {world} cards with FSDP2.

Written by shardwise; the plan is in plan.json. Tested with {tested}.
A training script does

    mesh = fsdp_plan.make_mesh()
    {start}
    rank, count = fsdp_plan.data_rank(mesh)    # for the sampler of the data
    optimizer = torch.optim.AdamW(model.parameters(), lr=..., fused=True)
    for batches in ...:                        # GRADIENT_ACCUMULATION_STEPS of (tokens, next tokens)
        loss = fsdp_plan.step(model, optimizer, batches, max_norm=1.0)
"""'''
