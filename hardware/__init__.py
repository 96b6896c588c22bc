"""Cards, machines, clusters and their measured curves: facts as data, and formulas on arrays."""

from .cluster import Cluster
from .collective import CollectiveCurve
from .collective_tables import collective_curve
from .curves import AttentionCurve, GemmCurve
from .gpu import PEAK_FIELDS, Gpu
from .host import HostLaw, host
from .measured import attention_curve, attention_kernel, gemm_curve, p2p_bytes_per_s
from .named import gpu, gpu_names
from .named_nodes import node, node_names
from .network import NetworkLaw, network
from .node import Node
from .pool import Pool
from .site import Site, SiteConstant
from .tiers import Tier, TierTable

__all__ = [
    "PEAK_FIELDS",
    "AttentionCurve",
    "Cluster",
    "CollectiveCurve",
    "GemmCurve",
    "Gpu",
    "HostLaw",
    "NetworkLaw",
    "Node",
    "Pool",
    "Site",
    "SiteConstant",
    "Tier",
    "TierTable",
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
