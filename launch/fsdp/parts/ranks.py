"""The device mesh of the plan and the checks before it."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


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
