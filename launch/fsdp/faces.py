"""The public functions of `fsdp_plan.py`, which hand its constants to the parts."""

from __future__ import annotations

from .schema import FsdpPlan


def faces(tensor: bool, recompute: bool, chosen: FsdpPlan) -> str:
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
