"""Which of the known formats a text is, told by its content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...inputs import InputError, read_text
from ...inputs.kinds import path_of
from ...inputs.origin import placed
from ...inputs.tables import json_tables, toml_tables
from .assemble import cluster_of_sighting
from .checked import checked
from .describe import Description
from .devices import looks_like_devices, read_devices
from .kubernetes import looks_like_kubernetes, read_kubernetes
from .matrix import Matrix, links_of
from .own import is_own, read_own
from .sighting import Machine, Sighting
from .slurm import read_slurm
from .slurm_records import looks_like_slurm
from .smi import has_matrix, read_matrices

if TYPE_CHECKING:
    from ..cluster import Cluster

_ROOT = "cluster"
FIELD = f"{_ROOT}.file"
KNOWN = [
    "nvidia-smi topo -m",
    "topology.conf",
    "scontrol show node",
    "kubectl get nodes -o json",
    "cluster.toml",
]


def read_cluster(path: str | os.PathLike[str], said: Mapping[str, Any]) -> Cluster:
    """The cluster in the file `path` with the keys of `said` laid over it. Raises `InputError`."""
    name = path_of(path, FIELD)
    return cluster_of_text(read_text(path, FIELD), name, said, Path(name).parent)


def cluster_of_text(text: str, origin: str, said: Mapping[str, Any], folder: Path | None = None) -> Cluster:
    """The cluster in `text`; a cluster file's own names of files start from `folder`."""
    tree, lines = _tree(text, origin)
    if tree is not None and is_own(tree):
        over = {key: value for key, value in said.items() if value is not None and "node" not in tree}
        places = {f"{_ROOT}.{path}": f"{origin}:{line}" for path, line in lines.items()}
        try:
            return read_own({**tree, **over}, origin, partial(_beside, folder, origin))
        except InputError as error:
            if error.origin != origin or error.field.removeprefix(f"{_ROOT}.") in over:
                raise
            raise placed(error, places) from None
    network = {key: said[key] for key in ("oversubscription", "leaf_nodes") if said.get(key) is not None}
    keys = {key: value for key, value in said.items() if key not in network}
    return cluster_of_sighting(
        sighting_of(text, origin), checked(Description, keys, "request"), origin, **network
    )


def read_own_table(table: Mapping[str, Any], folder: Path | None = None) -> Cluster:
    """The cluster of a table of our own keys, as it stands in a request."""
    return read_own(table, _ROOT, partial(_beside, folder, _ROOT))


def _beside(folder: Path | None, origin: str, name: str) -> str:
    """The text of the file `name` in `folder`; where there is none, the key that names it is at fault."""
    try:
        return read_text((folder or Path()) / name, f"{_ROOT}.topology")
    except InputError as error:
        raise InputError(error.field, name, origin, error.reason, code=error.code) from None


def sighting_of(text: str, origin: str = "topology") -> Sighting:
    """What `text` shows of machines. Raises `InputError` where it is none of the known formats."""
    tree, lines = _tree(text, origin)
    if tree is not None and looks_like_kubernetes(tree):
        return read_kubernetes(tree, origin, lines)
    if tree is not None and looks_like_devices(tree):
        return read_devices(tree, origin)
    if looks_like_slurm(text):
        return read_slurm(text, origin)
    if has_matrix(text):
        return _of_matrices(text, origin)
    raise InputError(FIELD, origin, origin, "is none of the known formats", legal=KNOWN, code="bad-file")


def _tree(text: str, origin: str) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """The tables of a JSON or TOML text and the lines of their keys, None where it is neither."""
    plain = text.replace("\ufeff", "", 1)
    if plain.lstrip().startswith("{"):
        return json_tables(plain, origin, FIELD)
    if looks_like_slurm(text) or has_matrix(text) or "=" not in text:
        return None, {}
    return toml_tables(text, origin, FIELD)


def _once_a_host(matrices: list[Matrix]) -> list[Matrix]:
    """One matrix a named host: of several views of its cards the one that shows most NVLinks."""
    best: dict[tuple[str, int], Matrix] = {}
    for index, matrix in enumerate(matrices):
        key = (matrix.host, matrix.cards) if matrix.host else ("", index)
        if key not in best or _nvlinks(matrix) > _nvlinks(best[key]):
            best[key] = matrix
    return list(best.values())


def _nvlinks(matrix: Matrix) -> int:
    return sum(links_of(path) for row in matrix.paths for path in row)


def _of_matrices(text: str, origin: str) -> Sighting:
    """Machines of one paste: one a matrix, named by its host where a prompt told it."""
    matrices = _once_a_host(read_matrices(text, origin))
    names = [m.host or f"node{i}" for i, m in enumerate(matrices)]
    machines = [
        Machine(name=name, cards=matrix.cards, card=matrix.card, matrix=matrix)
        for name, matrix in zip(names, matrices, strict=True)
    ]
    return Sighting(format="matrix", machines=tuple(machines))
