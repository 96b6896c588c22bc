"""Topologies: what machines and schedulers print of a cluster, read into a `Cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...inputs.rooms import rooms

if TYPE_CHECKING:
    from .describe import Bus, Description
    from .islands import Islands
    from .matrix import Matrix
    from .own import described, written
    from .recognise import cluster_of_text, read_cluster, read_own_table, sighting_of
    from .sighting import Machine, Sighting
    from .smi import read_matrices

__all__ = [
    "Bus",
    "Description",
    "Islands",
    "Machine",
    "Matrix",
    "Sighting",
    "cluster_of_text",
    "described",
    "read_cluster",
    "read_matrices",
    "read_own_table",
    "sighting_of",
    "written",
]

_ROOMS = {
    "describe": ("Bus", "Description"),
    "islands": ("Islands",),
    "matrix": ("Matrix",),
    "own": ("described", "written"),
    "recognise": ("cluster_of_text", "read_cluster", "read_own_table", "sighting_of"),
    "sighting": ("Machine", "Sighting"),
    "smi": ("read_matrices",),
}

__getattr__ = rooms(__name__, _ROOMS)
