"""Collectives of groups that leave the island, by bus rate: ``python -m benchmarks.groups CSV``

CSV has the columns of efficiency.csv. Taken are the points whose shape tells cards that no NVLink island holds: over
PCI Express, or over the network of several nodes. The machines are built from what the shape says (cards, nodes,
network cards); large messages are taken where it names no size. A point is within when its bus rate is off by at most
15 %; every point is listed, and those the model has no term for (switches that add up, untuned runs) are marked. So is
what of a point the catalogue knows: it stands in a `table` (``benchmarks.efficiency`` predicts it without itself), gives
the `rate` of its card, or is one of the 28 that four constants between nodes were fitted to (`fit`).
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shardwise.costs.collectives import among
from shardwise.hardware import Cluster, gpu
from shardwise.hardware.collective import Kind
from shardwise.hardware.topology import read_own_table
from shardwise.inputs import InputError
from shardwise.runs.record import Record, read_records, words

from .face import Result, run, table
from .scores import percent

COLUMNS = words("what gpu shape_or_bytes precision measured unit source")
WITHIN_PERCENT = 15.0
LARGE_BYTES = 16 * 2**30
"""Message where the shape names none: peaks are read off at 16 GiB."""

KINDS: tuple[tuple[str, Kind], ...] = (
    ("nccl_all_reduce", "all_reduce"),
    ("nccl_all_gather", "all_gather"),
    ("nccl_reduce_scatter", "reduce_scatter"),
    ("nccl_alltoall", "all_to_all"),
)
_SIZE = re.compile(r"(\d+) (B|MiB|GiB)\b")
_UNITS = {"B": 1, "MiB": 2**20, "GiB": 2**30}
_CARDS = re.compile(r"(\d+)(?: GPUs| PCIe cards| bridged PCIe cards)")
_NICS = re.compile(r"(\d+)x(\d+)G\b")
_NODES = re.compile(r"(\d+)(?: p4d)? nodes")
_GENERATION = re.compile(r"PCIe ?(?:gen)?(\d)")
_WORDS = {"two": 2, "four": 4, "eight": 8}

NOT_MODELLED = (
    ("SHARP", "the network adds up: no term"),
    ("untuned", "settings not told"),
    ("gen6", "no card of the catalogue"),
    ("PCIe gen", "a rule for a link, not a machine: compared with the catalogue's rule"),
    ("2x4", "topology not told"),
)

KNOWN = (
    ("table", "aiconfigurator"),
    ("rate", "nccl-tests issue 178"),
    ("rate", "nccl issue 1161"),
    ("rate", "nccl issue 1639"),
    ("fit", "GTC24 S62129"),
    ("fit", "NIC rate"),
)
"""What of a point stands in the catalogue, by words of its source."""


def kind_of(what: str) -> Kind | None:
    """The collective of a row's first column."""
    return next((kind for word, kind in KINDS if what.startswith(word)), None)


def machines_of(record: Record) -> tuple[Cluster, int] | None:
    """The cluster a point was measured on and the cards that took part; None for one inside an island."""
    shape, name = record.text("shape_or_bytes"), record.text("gpu")
    cards = _CARDS.search(shape)
    nics, nodes = _NICS.search(shape), _nodes(shape)
    if name == "any":
        name = "A100-SXM-80GB" if nics else ""
    if not name or not (cards or nodes):
        return None
    card = gpu(name)
    each = 4 if card.name.startswith("GB") else 8
    count = int(cards[1]) if cards else nodes * each
    if nics is None and nodes == 1:
        return _one_node(card.name, count, shape)
    nodes = max(nodes, -(-count // each))
    said: dict[str, Any] = {"gpu": name, "gpus_per_node": each, "nodes": nodes, **_network(shape, nics)}
    if each == 4:
        said["nvlink_domain"] = 72
        said["nodes"] = 18
    cluster = read_own_table({key: value for key, value in said.items() if value is not None})
    return (cluster, count) if count > cluster.island_gpus or each == 4 else None


def _nodes(shape: str) -> int:
    met = _NODES.search(shape)
    spelled = next((n for word, n in _WORDS.items() if f"{word} nodes" in shape), 1)
    return int(met[1]) if met else spelled


def _network(shape: str, nics: re.Match[str] | None) -> dict[str, Any]:
    """Network cards by what the shape names: p4d has 4 x 100 Gb/s of EFA, 100GbE is one card of TCP."""
    if "p4d" in shape:
        return {"nics_per_node": 4, "nic_gbit_per_s": 100.0, "fabric": "efa"}
    if "TCP" in shape:
        return {"nics_per_node": 1, "nic_gbit_per_s": 100.0, "fabric": "tcp"}
    count, rate = (int(nics[1]), float(nics[2])) if nics else (8, 400.0)
    fabric = "efa" if "EFA" in shape else "infiniband-ndr" if rate >= 400 else "infiniband-hdr"
    return {"nics_per_node": count, "nic_gbit_per_s": rate, "fabric": fabric}


def _one_node(name: str, count: int, shape: str) -> tuple[Cluster, int] | None:
    """Cards of one machine over PCI Express, or a bridged pair."""
    card = gpu(name)
    if card.interconnect == "nvlink" and card.bridge_gpus is None:
        return None
    bridged = "bridge" in shape and card.bridge_gpus is not None
    island = min(2, count) if bridged else 1
    said = {"gpu": name, "gpus_per_node": count, "island_gpus": island}
    return read_own_table(said), count


def measure(files: Sequence[str]) -> Result:
    """Every point of a group with its error, worst first, and how many are within."""
    lines = [line for record in read_records(files[0], COLUMNS) if (line := _line(record))]
    lines.sort(key=lambda line: (line["note"] != "", -abs(line["error"])))
    judged = [line for line in lines if not line["note"]]
    unseen = [line for line in judged if not line["known"]]
    return {
        "points": len(lines),
        "judged": len(judged),
        "within": _within(judged),
        "unseen": len(unseen),
        "unseen_within": _within(unseen),
        "lines": lines,
    }


def _within(lines: Sequence[dict[str, Any]]) -> int:
    return sum(abs(line["error"]) <= WITHIN_PERCENT for line in lines)


def _line(record: Record) -> dict[str, Any] | None:
    kind, shape = kind_of(record.text("what")), record.text("shape_or_bytes")
    measured = record.number("measured")
    if kind is None or not measured:
        return None
    try:
        found = machines_of(record)
    except InputError:
        return None
    if found is None:
        return None
    cluster, cards = found
    size = _SIZE.search(shape)
    payload = int(size[1]) * _UNITS[size[2]] if size else LARGE_BYTES
    bus = payload * (cards - 1) / cards * (2.0 if kind == "all_reduce" else 1.0)
    rate = bus / among(cluster, kind, float(payload), cards) / 1e9
    note = next((why for word, why in NOT_MODELLED if word in shape), "")
    return {
        "card": cluster.node.gpu.name,
        "kind": kind,
        "shape": shape,
        "cards": cards,
        "predicted": rate,
        "measured": measured,
        "error": percent(rate, measured),
        "note": note,
        "known": next((word for word, part in KNOWN if part in record.text("source")), ""),
        "source": record.text("source"),
    }


def text(found: Result) -> str:
    """All points as a table."""
    keys = ("card", "kind", "shape", "predicted", "measured", "error", "known", "note")
    head = ("card", "collective", "shape", "GB/s", "measured", "error %", "known by", "not judged")
    counts = (
        f"{found['within']} of {found['judged']} points within {WITHIN_PERCENT:.0f} %; "
        f"of those known by nothing {found['unseen_within']} of {found['unseen']}"
    )
    return table(head, [[line[key] for key in keys] for line in found["lines"]]) + f"\n\n{counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CSV"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
