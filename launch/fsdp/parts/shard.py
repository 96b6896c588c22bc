"""Sharding with FSDP2: one unit a layer, the rest in the root."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard


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
