"""The catalogues as lists of names and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from ..hardware.catalogue import gpu, gpu_names, node, node_names
from ..inputs.quantity import gibs
from ..models import Transformer, count, model_names
from ..models.backend import backend
from ..models.optimizer import moment_bytes
from ..models.stack import stack, stack_names
from ..models.strategy import BACKENDS
from ..models.training import Optimizer
from .cards import Listed, Listing

Facts = dict[str, str | int | float | None]
Source = tuple[Callable[[], Iterable[str]], Callable[[str], Facts]]


def listing(kind: str) -> Listing:
    """All entries of a kind: models, clusters, gpus, stacks or optimizers."""
    names, facts = KINDS[kind]
    entries = tuple(Listed(name=name, facts=facts(name)) for name in names())
    return Listing.model_validate({"kind": kind, "entries": entries})


def _model(name: str) -> Facts:
    model = Transformer.preset(name)
    counted = count(model)
    return {
        "parameters": counted.total,
        "active": counted.active,
        "layers": model.layers,
        "hidden_size": model.hidden_size,
        "family": model.family,
    }


def _node(name: str) -> Facts:
    machine = node(name)
    return {
        "gpus": machine.gpus,
        "gpu": machine.gpu.name,
        "link": machine.link,
        "network_gb_per_s": round(machine.network_bytes_per_s / 1e9, 3),
        "host_gib": round(machine.host_memory_bytes / 2**30),
        "usd_per_hour": machine.usd_per_hour,
    }


def _gpu(name: str) -> Facts:
    card = gpu(name)
    return {
        "usable_gib": float(gibs(card.memory_usable_bytes)),
        "hbm_gb_per_s": round(card.hbm_bytes_per_s / 1e9),
        "bf16_tflops": _tera(card.peak_flops_per_s("bf16")),
        "fp8_tflops": _tera(card.peak_flops_per_s("fp8")),
        "link_gb_per_s": round(card.nvlink_bytes_per_s / 1e9),
    }


def _tera(flops: float | None) -> float | None:
    return None if flops is None else round(flops / 1e12, 1)


def _stack(name: str) -> Facts:
    found = stack(name)
    return {"backend": found.backend, "gemm_factor": found.gemm_factor, "grade": found.grade}


def _optimizer(name: str) -> Facts:
    from ..launch.optimizers import writers_of

    optimizer = next(known for known in get_args(Optimizer) if known == name)
    clients = {known: writers_of(optimizer, known) for known in BACKENDS}
    taken = [known for known in BACKENDS if optimizer in backend(known).optimizers]
    files = dict.fromkeys(client for known in taken for client in clients[known])
    return {
        "bytes": moment_bytes(optimizer),
        "backends": ", ".join(taken) or "none",
        "files": ", ".join(files) or "none",
    }


KINDS: dict[str, Source] = {
    "models": (model_names, _model),
    "clusters": (node_names, _node),
    "gpus": (gpu_names, _gpu),
    "stacks": (stack_names, _stack),
    "optimizers": (lambda: get_args(Optimizer), _optimizer),
}
"""Names of a kind, and the facts of one of them."""
