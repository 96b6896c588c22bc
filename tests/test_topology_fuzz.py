"""Broken, cut and foreign texts raise the one input error and nothing else; renaming changes nothing."""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwise.hardware.topology import Islands, cluster_of_text, read_matrices, sighting_of
from shardwise.hardware.topology.matrix import Matrix
from shardwise.inputs import InputError

pytestmark = pytest.mark.tree
DUMPS = Path(__file__).parent.parent / "benchmarks" / "data" / "topo"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(DUMPS.glob("*.txt"))]
SEEDS = [
    *TEXTS,
    "SwitchName=leaf1 Nodes=gpu[01-04]\nSwitchName=spine Switches=leaf1\n",
    "NodeName=n1 CPUTot=8 Gres=gpu:h100:8(S:0) RealMemory=10 State=IDLE CfgTRES=cpu=8,gres/gpu=8\n",
    '{"kind": "Node", "metadata": {"labels": {}}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}',
    '{"gpus": [{"numa_node": 0, "name": "NVIDIA A100-SXM4-80GB", "network_devices": ["mlx5_0"]}]}',
    'machine = "dgx-h100"\nnodes = 4\nfree = [[8, 6], [3]]\n[measured_bus_gb_per_s]\npcie = 12.0\n',
    '[[pool]]\ngpu = "L4"\ngpus_per_node = 8\nnic_gbit_per_s = 10\nmig = "1g.10gb"\n',
]
PIECES = [
    "\t",
    "\n",
    "\x1b[4m",
    "GPU9999",
    "GPU0",
    "NIC0",
    "X",
    "NV999",
    "SOC",
    "[",
    "]",
    "{",
    "}",
    "=",
    "-1",
    "0",
    "9" * 400,
]
FUZZED = int(os.environ.get("TOPOLOGY_FUZZ", "600"))
"""Texts of one run of the tests; ``TOPOLOGY_FUZZ=100000 pytest tests/test_topology_fuzz.py`` is the whole."""


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A dump with a part cut out, doubled, or replaced by a piece that means something."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        first, last = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        part = draw(st.sampled_from([*PIECES, "", text[first:last] * 2]) | st.text(max_size=6))
        text = text[:first] + part + text[last:]
    return text


@settings(max_examples=FUZZED, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=broken() | st.text(max_size=300))
def test_fuzzed_texts_raise_the_one_error(text: str) -> None:
    """Reading as a sighting and as a cluster either succeeds or raises InputError."""
    for read in (lambda: sighting_of(text), lambda: cluster_of_text(text, "fuzz", {"gpu": "H100-SXM-80GB"})):
        try:
            read()
        except InputError as error:
            assert error.message


def renumbered(matrix: Matrix, order: tuple[int, ...]) -> Matrix:
    """The same machine with its cards counted in `order` (a permutation)."""
    place = {card: index for index, card in enumerate(order)}
    changed = {
        "paths": tuple(tuple(matrix.paths[i][j] for j in order) for i in order),
        "nic_paths": tuple(matrix.nic_paths[i] for i in order),
        "numa": tuple(matrix.numa[i] for i in order),
        "rows": tuple(sorted(place[card] for card in matrix.rows)),
    }
    return matrix.model_copy(update=changed)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), text=st.sampled_from(TEXTS))
def test_renumbering_cards_changes_nothing(data: st.DataObject, text: str) -> None:
    """Shape, sizes and weakest link of a machine do not depend on how its cards are counted."""
    matrix = read_matrices(text)[0]
    order = tuple(data.draw(st.permutations(range(matrix.cards))))
    one, other = Islands(matrix=matrix), Islands(matrix=renumbered(matrix, order))

    assert (one.shape, one.size, one.counts) == (other.shape, other.size, other.counts)
    assert sorted(map(len, one.cliques)) == sorted(map(len, other.cliques))
    assert sorted(map(len, one.rails)) == sorted(map(len, other.rails))
    assert one.rail_nics == other.rail_nics


HOSTILE = {
    "a header of many cards": " ".join(f"GPU{i}" for i in range(256)) + "\nGPU0 X SYS\n",
    "many small rows that name a high card": "GPU255 X NV4\n" * 2000,
    "many headers": (" ".join(f"GPU{i}" for i in range(200)) + "\nGPU0 X SYS\n") * 200,
    "many network cards": "GPU0 " + " ".join(f"NIC{i}" for i in range(9000)) + "\nGPU0 X " + "PIX " * 9000,
    "many names": "SwitchName=s Nodes=" + "a," * 50000 + "\n",
    "many times many names": "NodeName=a[1-65000] Gres=gpu:8\n" * 30,
    "many switches": "".join(f"SwitchName=s{i} Nodes=a[1-60000]\n" for i in range(30)),
    "ranges in ranges": "SwitchName=s Nodes=" + "a[1-2]" * 40 + "\n",
    "empty lines": "\n" * 200000 + "SwitchName",
    "spaces": " " * 500000 + "SwitchName",
    "colours without an end": "\x1b]" * 100000 + "GPU0",
    "one long word": "A" * 500000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_seconds(name: str) -> None:
    """A few lines that stand for millions of names or pairs are refused or read in a moment of CPU time."""
    start = time.process_time()
    with contextlib.suppress(InputError):
        cluster_of_text(HOSTILE[name], "hostile", {"gpu": "H100-SXM-80GB"})

    assert time.process_time() - start < 5 * reading_seconds()


@cache
def reading_seconds() -> float:
    """CPU seconds in which this machine reads the plainest 2 MB there are: the measure of the above."""
    text = "NodeName=n1 Gres=gpu:8 State=IDLE CPUTot=4\n" * 50000
    start = time.process_time()
    sighting_of(text)
    return time.process_time() - start
