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
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

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
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts


WORLD_SIZE = 16
AXES = {"dp_replicate": 2, "dp_shard": 4, "tp": 2}
LAYERS = 4
PARAMETERS = 180800
MICRO_BATCH_SIZE = 1
GRADIENT_ACCUMULATION_STEPS = 1
GLOBAL_BATCH_SIZE = 8
SEQUENCE_LENGTH = 32
COMPUTE_DTYPE = torch.bfloat16
REDUCE_DTYPE = torch.float32
RESHARD_AFTER_FORWARD = True
RECOMPUTE_FULL_LAYERS = 1
RECOMPUTE_SELECTIVE_LAYERS = 2
OFFLOAD_ROOT = False
OFFLOADED_LAYERS = 0
SEQUENCE_PARALLEL = True
COMPILED_LAYERS = False
COMPILED_LOSS = False


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


def layer_cuts(sequence_parallel: bool) -> dict[str, ParallelStyle]:
    """How one layer is cut: heads and inner width, and the sequence between the matrices if asked."""
    outside = Shard(1) if sequence_parallel else Replicate()
    cuts = {
        "self_attn.q_proj": ColwiseParallel(),
        "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(),
        "self_attn.o_proj": RowwiseParallel(output_layouts=outside),
        "mlp.gate_proj": ColwiseParallel(),
        "mlp.up_proj": ColwiseParallel(),
        "mlp.down_proj": RowwiseParallel(output_layouts=outside),
    }
    if sequence_parallel:
        cuts["input_layernorm"] = cuts["post_attention_layernorm"] = SequenceParallel()
        cuts["self_attn"] = PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
        )
        cuts["mlp"] = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    return cuts


def cut_tensors(model: nn.Module, layers: nn.ModuleList, mesh: DeviceMesh, sequence_parallel: bool) -> None:
    """Cut embedding, layers and head over `mesh`; logits leave the head cut over the vocabulary."""
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = embedding.weight is head.weight
    outside = Shard(1) if sequence_parallel else Replicate()
    for layer in layers:
        for name, style in layer_cuts(sequence_parallel).items():
            parallelize_module(layer.get_submodule(name), mesh, style)
    if sequence_parallel:
        entry = PrepareModuleInput(
            input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=True
        )
        parallelize_module(layers[0], mesh, entry)
        parallelize_module(model.get_submodule("model.norm"), mesh, SequenceParallel(use_local_output=True))
    parallelize_module(embedding, mesh, RowwiseParallel(input_layouts=Replicate()))
    logits = ColwiseParallel(input_layouts=outside, output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(head, mesh, logits)
    if tied:
        head.weight = embedding.weight


def loss_context() -> AbstractContextManager[None]:
    """Around forward AND backward: cross entropy on logits that stay cut over the vocabulary."""
    context: AbstractContextManager[None] = loss_parallel()
    return context


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
    return data_coordinate(mesh, AXES)


def apply(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Lay `model` out as planned, in place; make the optimizer afterwards."""
    layers = decoder_layers(model, LAYERS)
    check_model(model, PARAMETERS)
    cut_tensors(model, layers, mesh["tp"], SEQUENCE_PARALLEL)
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
        with loss_context():
            loss = token_loss(model(input_ids=tokens).logits, following) / GRADIENT_ACCUMULATION_STEPS
            loss.backward()
        total += local_value(loss)
    clip_gradients(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return total
