"""Slurm's own words: ``topology.conf`` (tree and block) and ``scontrol show node``, alone or together."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...inputs import InputError
from .hostlist import MOST_HOSTS, hosts
from .sighting import Machine, Sighting

_PAIR = re.compile(r"([A-Za-z][\w/]{0,40})=(\S*)")
_GRES = re.compile(r"gpu(?::([A-Za-z][\w.-]{0,60}))?:(\d{1,4})")
_TRES = re.compile(r"gres/gpu(:[\w.-]+)?=(\d{1,4})")
_LOST = (
    "DOWN",
    "DRAIN",
    "FAIL",
    "NOT_RESPONDING",
    "MAINT",
    "PLANNED_DOWN",
    "POWERED_DOWN",
    "FUTURE",
    "UNKNOWN",
)

Fields = dict[str, str]


def looks_like_slurm(text: str) -> bool:
    """Whether `text` holds lines of Slurm's topology or of its nodes."""
    return bool(re.search(r"^\s*(SwitchName|BlockName|NodeName)=\S", text, re.M | re.I))


def read_slurm(text: str, origin: str = "slurm") -> Sighting:
    """Machines with their leaves (or NVLink blocks) and free cards. Raises `InputError`."""
    lines = _records(text)
    machines = [_machine(fields) for fields in lines if "nodename" in fields]
    machines = [machine for name in machines for machine in _each(name, origin)]
    switches = [fields for fields in lines if "switchname" in fields]
    blocks = [fields for fields in lines if "blockname" in fields]
    leaves = _leaves(switches, "switchname", origin) | _leaves(blocks, "blockname", origin)
    notes: list[str] = []
    if not machines:
        machines = [Machine(name=name, leaf=leaf) for name, leaf in leaves.items()]
        notes.append("only node names are known: give cluster.machine or cluster.gpu for what they are")
    elif leaves:
        machines = [machine.model_copy(update={"leaf": leaves.get(machine.name, "")}) for machine in machines]
        notes += _unplaced(machines, leaves)
    if not machines:
        raise InputError("cluster.file", origin, origin, "names no node of Slurm", code="bad-file")
    if any(machine.cards for machine in machines):
        plain = [machine.name for machine in machines if machine.cards is None]
        notes += [f"{len(plain)} nodes without GPUs left out, as {plain[0]}"] if plain else []
        machines = [machine for machine in machines if machine.cards]
    domain = max((len(_held([block], "blockname", origin)) for block in blocks), default=None)
    return Sighting(
        format="slurm", machines=tuple(machines), domain_nodes=None, notes=tuple(notes + _block_note(domain))
    )


def _block_note(domain: int | None) -> list[str]:
    if domain is None:
        return []
    return [
        f"blocks of up to {domain} nodes: an NVLink domain only if the cards have one (give nvlink_domain)"
    ]


def _records(text: str) -> list[Fields]:
    """Records of key=value: a new one begins at a name key; continued lines belong to it."""
    found: list[Fields] = []
    joined = text.replace("\r", "").replace("\\\n", " ")
    for line in joined.split("\n"):
        line = line.split("#", 1)[0]
        for key, value in _PAIR.findall(line):
            low = key.lower()
            if low in ("switchname", "blockname", "nodename"):
                found.append({})
            if found:
                found[-1].setdefault(low, value)
    return found


def _held(records: Iterable[Fields], key: str, origin: str) -> list[str]:
    return [name for fields in records for name in hosts(fields.get("nodes", ""), origin)]


def _leaves(records: list[Fields], key: str, origin: str) -> dict[str, str]:
    """The leaf switch (or block) of each node: those above others name the nodes under them too."""
    lowest = [fields for fields in records if not fields.get("switches")]
    return {name: fields[key] for fields in lowest for name in hosts(fields.get("nodes", ""), origin)}


def _unplaced(machines: list[Machine], leaves: dict[str, str]) -> list[str]:
    lost = [machine.name for machine in machines if machine.name not in leaves]
    return [f"{len(lost)} nodes hang on no switch of the topology, as {lost[0]}"] if lost else []


def _each(machine: Machine, origin: str) -> list[Machine]:
    """One machine a name: configuration lines name many at once."""
    return [machine.model_copy(update={"name": name}) for name in hosts(machine.name, origin)[:MOST_HOSTS]]


def _machine(fields: Fields) -> Machine:
    gres = _GRES.findall(fields.get("gres", ""))
    cards = sum(int(count) for _, count in gres) or _tres(fields.get("cfgtres", ""))
    used = _tres(fields.get("alloctres", "")) or _used(fields.get("gresused", ""))
    lost = any(word in fields.get("state", "").upper() for word in _LOST)
    kinds = sorted({kind for kind, _ in gres if kind})
    return Machine(
        name=fields["nodename"] or "?",
        cards=min(cards, 1024) or None,
        free=0 if lost else max(min(cards, 1024) - used, 0) if cards else None,
        card=kinds[0] if len(kinds) == 1 else "",
        host_memory_bytes=_whole(fields.get("realmemory", ""), 2**20),
        cpu_cores=_whole(fields.get("cputot", "") or fields.get("cpus", ""), 1) or None,
    )


def _used(gres: str) -> int:
    return sum(int(count) for _, count in _GRES.findall(gres))


def _tres(text: str) -> int:
    """Cards of a TRES list: the plain count, else the sum over kinds."""
    found = _TRES.findall(text)
    plain = [int(count) for kind, count in found if not kind]
    return plain[0] if plain else sum(int(count) for _, count in found)


def _whole(text: str, unit: int) -> int | None:
    return int(text) * unit if re.fullmatch(r"\d{1,9}", text) else None
