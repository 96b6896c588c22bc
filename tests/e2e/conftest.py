"""Fixtures of the tests with real tools around the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.slurm import Slurm, why_not

TOPOLOGY = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n3\nSwitchName=spine Switches=leaf[1-2]\n"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Three machines of eight fake cards under two leaves, for the whole session."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("slurm")
    with Slurm(folder, nodes=3, cards=8, topology=TOPOLOGY) as running:
        yield running
