"""Tensor parallel for decoder layers named as in Llama, with or without sequence parallel."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


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
