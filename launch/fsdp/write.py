"""Writing `fsdp_plan.py`: constants of the plan and the parts it needs."""

from __future__ import annotations

import re
from importlib.resources import files

from ...models.strategy import Strategy
from ...models.work import parameters
from ...plans.plan import Plan
from ..label import label
from ..releases import tested_with
from .limits import compiled, replicas_of
from .schema import Axis, FsdpPlan, Rotation

FILE = "fsdp_plan.py"
ROTATIONS: dict[str, Rotation] = {"all_gather": "allgather", "ring": "alltoall"}
"""torch's words for how context ranks move keys and values (`set_rotate_method`)."""
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def decisions(plan: Plan) -> FsdpPlan:
    """The constants of `plan`."""
    strategy, training = plan.strategy, plan.request.training
    stage = strategy.stages[0]
    return FsdpPlan.model_validate(
        {
            "world_size": strategy.world,
            "axes": _axes(plan),
            "layers": strategy.layers,
            "parameters": parameters(training, plan.request.model).total,
            "micro_batch_size": strategy.micro_batch_size,
            "gradient_accumulation_steps": strategy.gradient_accumulation_steps,
            "global_batch_size": training.global_batch_size,
            "sequence_length": training.sequence_length,
            "compute_dtype": DTYPES[strategy.precision],
            "reduce_dtype": DTYPES[strategy.gradient_dtype],
            "reshard_after_forward": strategy.reshard_after_forward,
            "recompute_full_layers": stage.recompute_full_layers,
            "recompute_selective_layers": stage.recompute_selective_layers,
            "offload_root": strategy.offload_params == "cpu",
            "offloaded_layers": stage.offloaded_layers,
            "sequence_parallel": strategy.sequence_parallel,
            "compiled_layers": compiled(strategy),
            "compiled_loss": strategy.loss_kernel == "compiled",
            "sync_each_batch": training.sync_each_batch,
            "offload_activations": training.offload_activations or None,
            **_portion(plan),
            **_context(plan.strategy),
        }
    )


def _context(strategy: Strategy) -> dict[str, object]:
    """Ranks that share a sequence and how, where more than one does."""
    if strategy.context_parallel == 1:
        return {}
    rotation = ROTATIONS[strategy.context_parallel_kind]
    return {"context_parallel": strategy.context_parallel, "context_rotation": rotation}


def _portion(plan: Plan) -> dict[str, object]:
    """What is trained and in which type, where that is not every weight in float32."""
    training = plan.request.training
    held = parameters(training, plan.request.model)
    if held.trained == held.total and training.master_weights:
        return {}
    kind = "float32" if training.master_weights else DTYPES[plan.strategy.precision]
    return {"trained_parameters": held.trained, "trained_dtype": kind}


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
        head, body = _split(text)
        imports.append(head)
        bodies.append(body)
    tested = tested_with("torch", "transformers")
    kind = "in float32" if chosen.trained_dtype is None else f"its trained weights in {chosen.trained_dtype}"
    start = _LOADED if chosen.loads else _GIVEN.format(kind=kind)
    doc = _DOC.format(model=label(model), world=chosen.world_size, tested=tested, start=start)
    kept = chosen.model_dump(exclude_none=True)
    constants = "\n".join(_constant(name, value) for name, value in kept.items())
    pieces = [doc, _merged(imports), constants, *bodies, _faces(tensor, recompute, chosen)]
    return "\n\n\n".join(piece.strip("\n") for piece in pieces) + "\n"


def _axes(plan: Plan) -> dict[Axis, int]:
    strategy = plan.strategy
    sizes: dict[Axis, int] = {
        "dp_replicate": replicas_of(strategy),
        "dp_shard": strategy.shard_group_size,
        "tp": strategy.tensor_parallel,
    }
    return {name: size for name, size in sizes.items() if size > 1 or name == "dp_shard"}


def _split(text: str) -> tuple[str, str]:
    """(imports, rest) of a part, without its docstring."""
    start = text.index('"""', 3) + 3
    body = re.search(r"^(?:def|class|[A-Z_]+ =)", text, flags=re.MULTILINE)
    assert body is not None
    return text[start : body.start()], text[body.start() :]


def _merged(heads: list[str]) -> str:
    """Import statements of all parts, each once, `from __future__` first, sorted by module."""
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    for head in heads:
        joined = re.sub(r"\(\s*([^)]*?),?\s*\)", lambda m: " ".join(m[1].split()), head)
        for line in filter(None, (line.strip() for line in joined.splitlines())):
            if line.startswith("import "):
                plain.add(line)
            else:
                source, _, what = line.removeprefix("from ").partition(" import ")
                named.setdefault(source, set()).update(name.strip() for name in what.split(","))
    named.pop("__future__")
    ours = {source for source in named if source.startswith("torch")}
    blocks = [
        ["from __future__ import annotations"],
        [*sorted(line for line in plain if "torch" not in line), *_froms(named, set(named) - ours)],
        [*sorted(line for line in plain if "torch" in line), *_froms(named, ours)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def _froms(named: dict[str, set[str]], sources: set[str]) -> list[str]:
    return [_import(source, named[source]) for source in sorted(sources)]


def _import(source: str, names: set[str]) -> str:
    line = f"from {source} import {', '.join(sorted(names))}"
    if len(line) <= 100:
        return line
    return f"from {source} import (\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")"


def _constant(name: str, value: object) -> str:
    if name.endswith("_dtype"):
        return f"{name.upper()} = torch.{value}"
    if isinstance(value, str):
        return f'{name.upper()} = "{value}"'
    if isinstance(value, dict):
        entries = ", ".join(f'"{key}": {size}' for key, size in value.items())
        return f"{name.upper()} = {{{entries}}}"
    return f"{name.upper()} = {value}"


def _faces(tensor: bool, recompute: bool, chosen: FsdpPlan) -> str:
    """The public functions, which hand the constants to the parts."""
    steps = ["    layers = decoder_layers(model, LAYERS)"]
    if chosen.trained_parameters is None:
        steps.append("    check_model(model, PARAMETERS)")
    else:
        steps.append("    check_portion(model, PARAMETERS, TRAINED_PARAMETERS, TRAINED_DTYPE)")
    if tensor:
        steps.append('    cut_tensors(model, layers, mesh["tp"], SEQUENCE_PARALLEL)')
    if chosen.context_parallel is not None:
        inner = chosen.axes.get("tp", 1)
        steps.append(f"    ranks = context_mesh(device_type(), CONTEXT_PARALLEL, {inner})")
        steps.append("    attend_over_ranks(model, layers, ranks, CONTEXT_ROTATION)")
    if recompute:
        steps.append("    recompute_layers(layers, RECOMPUTE_FULL_LAYERS, RECOMPUTE_SELECTIVE_LAYERS)")
    if chosen.compiled_layers:
        steps += ["    for layer in layers:", "        layer.compile()"]
    if chosen.offload_activations:
        steps.append("    inputs_on_host(layers, RECOMPUTE_FULL_LAYERS if OFFLOAD_ACTIVATIONS else 0)")
    steps += ["    precision = MixedPrecisionPolicy(param_dtype=COMPUTE_DTYPE, reduce_dtype=REDUCE_DTYPE)"]
    steps += ["    offload = OFFLOAD_ROOT, OFFLOADED_LAYERS"]
    steps += ["    shard_layers(model, layers, mesh, precision, RESHARD_AFTER_FORWARD, *offload)"]
    entropy = "torch.compile(cross_entropy)" if chosen.compiled_loss else "cross_entropy"
    loop = _LOOP if chosen.sync_each_batch else _LATE
    words = _SCALED if chosen.compute_dtype == "float16" else _PLAIN
    load = _LOAD if chosen.loads else ""
    cut = _WHOLE if chosen.context_parallel is None else _PARTS
    parts = {"steps": "\n".join(steps), "entropy": entropy, "loop": loop, "load": load}
    return _FACES.format(**parts, **words, **cut)


_PLAIN = {
    "scale": "",
    "backward": "loss.backward()",
    "stepping": "    clip_gradients(model.parameters(), max_norm)\n    optimizer.step()",
}
_SCALED = {
    "scale": "loss_scale = LossScale()\n\n\n",
    "backward": "(loss * loss_scale.value).backward()",
    "stepping": """    unscale_gradients(model.parameters(), loss_scale.value)
    if loss_scale.held(clip_gradients(model.parameters(), max_norm)):
        optimizer.step()""",
}
"""What differs in a step where gradients are float16: the loss is scaled, overflowing steps are left out."""


_WHOLE = {"axes": "AXES", "around": "loss_context()", "given": "model(input_ids=tokens).logits, following"}
_PARTS = {
    "axes": "AXES, CONTEXT_PARALLEL",
    "around": "cut_sequence(model.context_mesh, tokens, following) as part, loss_context()",
    "given": "logits_of(model, part), part.following",
}
"""What differs in a step where ranks share a sequence."""

_LOAD = '''def load(
    build: Callable[[], nn.Module], mesh: DeviceMesh, weights: Mapping[str, torch.Tensor] | None = None
) -> nn.Module:
    """The model of `build`, made on the meta device and laid out as planned, then given memory and weights.

    A rank holds its shards alone. `weights` is the whole state dict on rank 0 and empty on the others.
    """
    model = apply(without_memory(build), mesh)
    layers = decoder_layers(model, LAYERS)
    give_memory(model, layers, device_type(), OFFLOAD_ROOT, OFFLOADED_LAYERS)
    fill(model, weights)
    return model


'''

_LOOP = "for tokens, following in batches:"
_LATE = """for index, (tokens, following) in enumerate(batches):
        model.set_requires_gradient_sync(index == GRADIENT_ACCUMULATION_STEPS - 1)"""


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

_FACES = '''def check_world() -> None:
    """Join the process group; refuse a number of ranks other than the plan's."""
    start_ranks(WORLD_SIZE)


def make_mesh() -> DeviceMesh:
    """The plan's mesh over all ranks."""
    check_world()
    return mesh_of(AXES)


def data_rank(mesh: DeviceMesh) -> tuple[int, int]:
    """(rank, count) among those who read different data."""
    return data_coordinate(mesh, {axes})


def apply(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Lay `model` out as planned, in place; make the optimizer afterwards."""
{steps}
    return model


{load}token_loss = {entropy}


{scale}def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    max_norm: float,
) -> torch.Tensor:
    """One optimizer step over the micro-batches of this rank; returns its mean loss.

    A micro-batch is (tokens, next tokens), each MICRO_BATCH_SIZE x SEQUENCE_LENGTH integers.
    """
    total = torch.zeros((), device=device_type())
    {loop}
        with {around}:
            loss = token_loss({given}) / GRADIENT_ACCUMULATION_STEPS
            {backward}
        total += local_value(loss)
{stepping}
    optimizer.zero_grad()
    return total'''
