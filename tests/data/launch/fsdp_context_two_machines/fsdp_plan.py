"""How to lay tiny-llama out on 16 cards with FSDP2.

Written by shardwise; the plan is in plan.json. Tested with torch 2.13.0, transformers 5.24.0.
A training script does

    mesh = fsdp_plan.make_mesh()
    model = fsdp_plan.load(build, mesh)        # build() makes it in float32, here without memory
    # ... or load(build, mesh, weights): the state dict on rank 0, {} on the others
    # ... or apply(model, mesh): a model in float32 that every rank already holds whole
    rank, count = fsdp_plan.data_rank(mesh)    # for the sampler of the data
    optimizer = torch.optim.AdamW(model.parameters(), lr=..., fused=True)
    for batches in ...:                        # GRADIENT_ACCUMULATION_STEPS of (tokens, next tokens)
        loss = fsdp_plan.step(model, optimizer, batches, max_norm=1.0)
"""


from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
)
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts


WORLD_SIZE = 16
AXES = {"dp_replicate": 2, "dp_shard": 8}
LAYERS = 4
PARAMETERS = 180800
MICRO_BATCH_SIZE = 1
GRADIENT_ACCUMULATION_STEPS = 1
GLOBAL_BATCH_SIZE = 4
SEQUENCE_LENGTH = 32
COMPUTE_DTYPE = torch.bfloat16
REDUCE_DTYPE = torch.float32
RESHARD_AFTER_FORWARD = True
RECOMPUTE_FULL_LAYERS = 4
RECOMPUTE_SELECTIVE_LAYERS = 0
OFFLOAD_ROOT = False
OFFLOADED_LAYERS = 0
SEQUENCE_PARALLEL = False
COMPILED_LAYERS = False
COMPILED_LOSS = False
CONTEXT_PARALLEL = 4
CONTEXT_ROTATION = "alltoall"


def device_type() -> str:
    """Where this rank computes: cuda where there is one, else cpu (for a dry run with gloo)."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def start_ranks(world_size: int) -> None:
    """Join the process group if nobody has, and refuse a world the plan was not made for."""
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    if dist.get_world_size() != world_size:
        raise RuntimeError(f"this plan is for {world_size} ranks, {dist.get_world_size()} were started")


def mesh_of(axes: Mapping[str, int]) -> DeviceMesh:
    """A mesh with the axes of the plan, the last one over neighbouring ranks."""
    return init_device_mesh(device_type(), tuple(axes.values()), mesh_dim_names=tuple(axes))


def data_coordinate(mesh: DeviceMesh, axes: Mapping[str, int], context: int = 1) -> tuple[int, int]:
    """(rank, count) for a data sampler: ranks of one tensor get the same rank, and `context` neighbours."""
    rank, count = 0, 1
    for name in (name for name in axes if name != "tp"):
        rank, count = rank * axes[name] + mesh.get_local_rank(name), count * axes[name]
    return rank // context, count // context


def decoder_layers(model: nn.Module, count: int) -> nn.ModuleList:
    """The model's stack of layers: the outermost list of exactly `count` modules."""
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    right = sorted((name for name, part in found.items() if len(part) == count), key=lambda n: n.count("."))
    if not right:
        met = ", ".join(f"{name} ({len(part)})" for name, part in found.items()) or "none"
        raise ValueError(f"this plan is for {count} layers; lists of modules in this model: {met}")
    return found[right[0]]


def check_model(model: nn.Module, parameters: int) -> None:
    """Refuse a model more than 1 % off in size, or one whose weights are not float32."""
    weights = list(model.parameters())
    counted = sum(weight.numel() for weight in weights)
    if abs(counted - parameters) * 100 > parameters:
        raise ValueError(f"this plan is for {parameters} parameters, the model has {counted}")
    if any(weight.dtype != torch.float32 for weight in weights):
        raise ValueError(
            "load the model in float32: the plan shards float32 weights and casts them per layer"
        )
    model.train()  # a loaded model is in evaluation
    config = getattr(model, "config", None)
    if config is not None:
        config.use_cache = False  # a key-value cache would be filled twice by recomputation


def loss_context() -> AbstractContextManager[None]:
    """Around forward and backward: nothing, as each rank holds whole logits."""
    return nullcontext()


NO_MASK = torch.ones(1, 1, 1, 1)
"""A mask that a model hands on as it is: without one it would take the jump in positions for a new text."""


def context_mesh(device: str, ranks: int, inner: int) -> DeviceMesh:
    """Groups of `ranks` that share a sequence, each `inner` ranks apart."""
    sizes = (dist.get_world_size() // (ranks * inner), ranks, inner)
    return init_device_mesh(device, sizes, mesh_dim_names=("data", "cp", "tp"))["cp"]


def attend_over_ranks(model: nn.Module, layers: nn.ModuleList, mesh: DeviceMesh, rotation: str) -> None:
    """Let attention go over all parts of a sequence, keys and values moved by `rotation`; causal alone."""
    set_rotate_method(rotation)
    model.context_mesh = mesh
    if model.config._attn_implementation != "sdpa":
        raise ValueError('context parallel is in torch\'s own attention: load the model with "sdpa"')
    for layer in layers:
        layer.get_submodule("self_attn").register_forward_pre_hook(_unmasked, with_kwargs=True)


def _unmasked(_: nn.Module, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return given, {**named, "attention_mask": None, "is_causal": True}


class Part(NamedTuple):
    """What a rank has of a micro-batch: an early and a late slice, equal work under a causal mask."""

    tokens: torch.Tensor
    following: torch.Tensor
    positions: torch.Tensor


@contextmanager
def cut_sequence(mesh: DeviceMesh, tokens: torch.Tensor, following: torch.Tensor) -> Iterator[Part]:
    """This rank's part, around forward AND backward."""
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    whole = (tokens, following, positions)
    part = Part(*(each.clone(memory_format=torch.contiguous_format) for each in whole))
    with context_parallel(mesh, buffers=[*part], buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(part)):
        yield part


def logits_of(model: nn.Module, part: Part) -> torch.Tensor:
    """The logits of a part, attention going over all parts."""
    logits: torch.Tensor = model(
        input_ids=part.tokens, position_ids=part.positions, attention_mask=NO_MASK
    ).logits
    return logits


PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
KEPT_PRODUCTS = (1, 3, 5)  # in order of execution; in a Llama layer query, value and gate
KEPT_ATTENTION = tuple(
    getattr(torch.ops.aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
    if hasattr(torch.ops.aten, name)
)


def selective_contexts() -> Any:
    """Partial recomputation: attention and every second matrix product are kept, the rest done again."""
    counts = {False: 0, True: 0}

    def policy(context: Any, operation: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        kept = operation in KEPT_ATTENTION
        if operation in PRODUCTS:
            counts[context.is_recompute] += 1
            kept = counts[context.is_recompute] in KEPT_PRODUCTS
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recompute_layers(layers: nn.ModuleList, full: int, selective: int) -> None:
    """Wrap the first `full` layers to be recomputed whole, the next `selective` in part."""
    for index in range(full + selective):
        options = {} if index < full else {"context_fn": selective_contexts}
        layers[index] = checkpoint_wrapper(
            layers[index], checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=True, **options
        )


def shard_layers(
    model: nn.Module,
    layers: nn.ModuleList,
    mesh: DeviceMesh,
    precision: MixedPrecisionPolicy,
    reshard_after_forward: bool,
    offload_root: bool,
    offloaded_layers: int,
) -> None:
    """Shard each layer, then the root (embedding, final norm, head), which stays gathered in a step.

    With `offload_root` the root and the last `offloaded_layers` layers live in host memory.
    """
    axes = tuple(name for name in mesh.mesh_dim_names if name != "tp")
    host = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
    for index, layer in enumerate(layers):
        fully_shard(
            layer,
            mesh=mesh[axes],
            mp_policy=precision,
            offload_policy=host if index >= len(layers) - offloaded_layers else OffloadPolicy(),
            reshard_after_forward=reshard_after_forward,
        )
    root = host if offload_root else OffloadPolicy()
    fully_shard(model, mesh=mesh[axes], mp_policy=precision, offload_policy=root)


def without_memory(build: Callable[[], nn.Module]) -> nn.Module:
    """The model of `build` on the meta device: shapes alone."""
    with torch.device("meta"):
        return build()


def give_memory(
    model: nn.Module, layers: nn.ModuleList, device: str, offload_root: bool, offloaded_layers: int
) -> None:
    """Memory for the shards of this rank, uninitialised: on `device`, or on the host what lives there."""
    model.to_empty(device="cpu" if offload_root else device)
    for layer in layers[: len(layers) - offloaded_layers] if offload_root else ():
        layer.to_empty(device=device)
    for part in model.modules():
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, buffer.to(device))


def fill(model: nn.Module, weights: Mapping[str, torch.Tensor] | None) -> None:
    """First weights by the model's own `init_weights`, then `weights`, which rank 0 hands to the others."""
    model.init_weights()
    if weights is not None:
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, dict(weights), options=options)


def cross_entropy(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next tokens, in float32; -100 marks tokens left out."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), following.flatten())


def local_value(loss: torch.Tensor) -> torch.Tensor:
    """The number in `loss`, off the graph."""
    return (loss.full_tensor() if isinstance(loss, DTensor) else loss).detach()


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> torch.Tensor:
    """Scale gradients so that their norm over all ranks is at most `max_norm`; returns the norm before.

    Weights may live on different meshes and devices, which torch's own function does not allow.
    """
    groups: dict[object, list[torch.Tensor]] = {}
    for weight in parameters:
        if weight.grad is not None:
            key = weight.grad.device_mesh if isinstance(weight.grad, DTensor) else None
            groups.setdefault((key, weight.grad.device), []).append(weight.grad)
    norms = [local_value(nn.utils.get_total_norm(grads)) for grads in groups.values()]
    norm = torch.linalg.vector_norm(torch.stack([value.to(norms[0].device) for value in norms]))
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for grads in groups.values():
        for grad in grads:
            local = grad.to_local() if isinstance(grad, DTensor) else grad
            local.mul_(scale.to(local.device))
    return norm


def check_world() -> None:
    """Join the process group; refuse a number of ranks other than the plan's."""
    start_ranks(WORLD_SIZE)


def make_mesh() -> DeviceMesh:
    """The plan's mesh over all ranks."""
    check_world()
    return mesh_of(AXES)


def data_rank(mesh: DeviceMesh) -> tuple[int, int]:
    """(rank, count) among those who read different data."""
    return data_coordinate(mesh, AXES, CONTEXT_PARALLEL)


def apply(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Lay `model` out as planned, in place; make the optimizer afterwards."""
    layers = decoder_layers(model, LAYERS)
    check_model(model, PARAMETERS)
    ranks = context_mesh(device_type(), CONTEXT_PARALLEL, 1)
    attend_over_ranks(model, layers, ranks, CONTEXT_ROTATION)
    recompute_layers(layers, RECOMPUTE_FULL_LAYERS, RECOMPUTE_SELECTIVE_LAYERS)
    precision = MixedPrecisionPolicy(param_dtype=COMPUTE_DTYPE, reduce_dtype=REDUCE_DTYPE)
    offload = OFFLOAD_ROOT, OFFLOADED_LAYERS
    shard_layers(model, layers, mesh, precision, RESHARD_AFTER_FORWARD, *offload)
    return model


def load(
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


token_loss = cross_entropy


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    max_norm: float,
) -> torch.Tensor:
    """One optimizer step over the micro-batches of this rank; returns its mean loss.

    A micro-batch is (tokens, next tokens), each MICRO_BATCH_SIZE x SEQUENCE_LENGTH integers.
    """
    total = torch.zeros((), device=device_type())
    for tokens, following in batches:
        with cut_sequence(model.context_mesh, tokens, following) as part, loss_context():
            loss = token_loss(logits_of(model, part), part.following) / GRADIENT_ACCUMULATION_STEPS
            loss.backward()
        total += local_value(loss)
    clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total
