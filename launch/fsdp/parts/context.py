"""Context parallel: ranks hold parts of a sequence, and exchange keys and values in attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method

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
