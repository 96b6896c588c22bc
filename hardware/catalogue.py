"""All that comes with the package, by name: cards, node types, measured curves, laws of host and network."""

from __future__ import annotations

from .collective import KINDS
from .collective_tables import collective_curve
from .host import host
from .measured import attention_curve, attention_kernel, gemm_curve, p2p_bytes_per_s
from .named import gpu, gpu_names
from .named_nodes import node, node_names
from .network import network

__all__ = [
    "KINDS",
    "attention_curve",
    "attention_kernel",
    "collective_curve",
    "gemm_curve",
    "gpu",
    "gpu_names",
    "host",
    "network",
    "node",
    "node_names",
    "p2p_bytes_per_s",
]
