"""torch's own context parallel with its kernel for CPUs: torch hands it those for cards alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.experimental._context_parallel import _attention as context

FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
ORDINARY = torch.nn.functional.scaled_dot_product_attention


class Ring(torch.autograd.Function):  # type: ignore[misc]  # torch is no part of the checks
    """Causal attention over the parts of a sequence, by torch's templates for any kernel."""

    @staticmethod
    def forward(ctx: Any, group: Any, query: Any, key: Any, value: Any) -> Any:
        """The output of this rank's queries."""
        out, sums = context._templated_ring_attention(
            group, 2, FORWARD, query=query, key=key, value=value, is_causal=True
        )
        ctx.group = group
        ctx.save_for_backward(query, key, value, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Gradients of this rank's queries, keys and values."""
        query, key, value, out, sums = ctx.saved_tensors
        back = partial(_backward, dropout_p=0.0)
        found = context._templated_ring_attention_backward(
            ctx.group, 2, back, grad, "grad_out", query, key, value, out, sums, True
        )
        return None, *found[:3]


def _backward(**given: Any) -> Any:
    return BACKWARD(**given)


def install() -> None:
    """Let torch's context manager put the ring in the place of attention on a CPU."""

    def enable(seq_dim: int, mesh: DeviceMesh) -> None:
        def attend(query: Any, key: Any, value: Any, **given: Any) -> Any:
            assert seq_dim == 2 and given.get("attn_mask") is None and given["is_causal"]
            groups = query.shape[1] // key.shape[1]
            key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
            return Ring.apply(mesh.get_group(), query, key, value)

        torch.nn.functional.scaled_dot_product_attention = attend

    def disable() -> None:
        torch.nn.functional.scaled_dot_product_attention = ORDINARY

    context._enable_context_parallel_dispatcher_impl = enable
    context._disable_context_parallel_dispatcher_impl = disable
