"""Slurm's own words: ``topology.conf``, ``topology.yaml``, ``scontrol show node``, alone or together."""

from __future__ import annotations

import re

from ...inputs import InputError
from ...inputs.quantity import bytes_of
from .hostlist import MOST_HOSTS, hosts
from .sighting import Machine, Sighting
from .slurm_records import Record, looks_like_yaml, records, yaml_records

_GRES = re.compile(r"\bgpu(?::([A-Za-z][\w.-]{0,60}?))?(?::no_consume)?:(\d{1,4})(?![\w.])")
_TRES = re.compile(r"gres/gpu(:[\w.-]+)?=(\d{1,4})")
_LOST = (
    "DOWN",
    "DRAIN",
    "FAIL",
    "NOT_RESPONDING",
    "INVALID",
    "MAINT",
    "FUTURE",
    "UNKNOWN",
    "*",
)
"""Words of a state in which no job starts; a star is a node that does not answer."""
_UNSAID = ("", "N/A", "(NULL)")
_SPELLED = {"realmemory": "RealMemory", "cputot": "CPUTot", "cpus": "CPUs"}

UNSET = 1
"""MiB of ``RealMemory`` where nobody configured it: its default (manual page of ``slurm.conf``)."""


def read_slurm(text: str, origin: str = "slurm") -> Sighting:
    """Machines with their leaves (or NVLink blocks) and free cards. Raises `InputError`."""
    lines = yaml_records(text) if looks_like_yaml(text) else records(text)
    switches = [fields for fields in lines if "switchname" in fields]
    blocks = [fields for fields in lines if "blockname" in fields]
    leaves = _leaves(switches, "switchname", origin) | _leaves(blocks, "blockname", origin)
    machines = _machines([fields for fields in lines if "nodename" in fields], origin)
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
    notes += _uncounted(lines)
    domain = max(
        (len(hosts(block.get("nodes", ""), block.where("nodes", origin), "Nodes")) for block in blocks),
        default=None,
    )
    return Sighting(
        format="slurm", machines=tuple(machines), domain_nodes=None, notes=tuple(notes + _block_note(domain))
    )


def _block_note(domain: int | None) -> list[str]:
    if domain is None:
        return []
    return [
        f"blocks of up to {domain} nodes: an NVLink domain only if the cards have one (give nvlink_domain)"
    ]


def _leaves(lines: list[Record], key: str, origin: str) -> dict[str, str]:
    """The leaf switch (or block) of each node: those above others name the nodes under them too."""
    found: dict[str, str] = {}
    spelled = 0
    for fields in lines:
        if not fields.get("switches"):
            names = hosts(fields.get("nodes", ""), fields.where("nodes", origin), "Nodes")
            spelled += len(names)
            _bounded(spelled, fields.where("nodes", origin))
            found |= dict.fromkeys(names, fields[key])
    return found


def _machines(lines: list[Record], origin: str) -> list[Machine]:
    """One machine a name: configuration lines name many at once; what was said last of a name counts."""
    found: dict[str, Machine] = {}
    spelled = 0
    for fields in lines:
        machine, names = (
            _machine(fields, origin),
            hosts(fields["nodename"], fields.where("nodename", origin), "NodeName"),
        )
        spelled += len(names)
        _bounded(spelled, fields.where("nodename", origin))
        found |= {name: machine.model_copy(update={"name": name}) for name in names}
    return list(found.values())


def _bounded(names: int, origin: str) -> None:
    if names > MOST_HOSTS:
        raise InputError(
            "cluster.file", names, origin, f"names more than {MOST_HOSTS} hosts", code="too-large"
        )


def _unplaced(machines: list[Machine], leaves: dict[str, str]) -> list[str]:
    lost = [machine.name for machine in machines if machine.name not in leaves]
    return [f"{len(lost)} nodes hang on no switch of the topology, as {lost[0]}"] if lost else []


def _machine(fields: Record, origin: str) -> Machine:
    gres = _cards(fields, origin)
    cards = min(sum(int(count) for _, count in gres) or _tres(fields.get("cfgtres", "")), 1024)
    lost = any(word in fields.get("state", "").upper() for word in _LOST)
    kinds = sorted({kind for kind, _ in gres if kind})
    memory = _whole(fields, "realmemory", origin)
    return Machine(
        name=fields["nodename"] or "?",
        cards=cards or None,
        free=0 if lost else max(cards - _used(fields, cards), 0) if cards else None,
        card=kinds[0] if len(kinds) == 1 else "",
        kind=fields.get("instancetype", "")[:80],
        host_memory_bytes=memory * 2**20 if memory > UNSET else None,
        cpu_cores=_whole(fields, "cputot" if fields.get("cputot") else "cpus", origin) or None,
    )


def _cards(fields: Record, origin: str) -> list[tuple[str, str]]:
    """Kind and count of each entry of cards. Raises `InputError` for an entry without a count."""
    text = fields.get("gres", "")
    for entry in re.findall(r"(?:[^,(]|\([^)]*\)?)+", text):
        name = entry.partition(":")[0].partition("(")[0].strip().lower()
        if name == "gpu" and not _GRES.search(entry):
            where, legal = fields.where("gres", origin), ["gpu:8", "gpu:h100:8"]
            raise InputError("Gres", entry, where, "does not tell how many cards", legal=legal)
    return _GRES.findall(text)


def _used(fields: Record, cards: int) -> int:
    """Cards that jobs hold; all of a node that is allocated where Slurm does not count cards."""
    used = _tres(fields.get("alloctres", "")) or sum(
        int(count) for _, count in _GRES.findall(fields.get("gresused", ""))
    )
    return cards if not used and _not_counted(fields) and "ALLOC" in fields.get("state", "").upper() else used


def _not_counted(fields: Record) -> bool:
    """Whether a node prints what of it is allocated, but Slurm was not told to count its cards."""
    return bool(fields.get("cfgtres")) and not _tres(fields["cfgtres"]) and "gresused" not in fields


def _uncounted(lines: list[Record]) -> list[str]:
    """Nodes in part allocated of which nobody knows how many cards are taken."""
    some = [
        fields["nodename"]
        for fields in lines
        if "nodename" in fields
        and _GRES.search(fields.get("gres", ""))
        and _not_counted(fields)
        and "MIX" in fields.get("state", "").upper()
    ]
    if not some:
        return []
    return [
        f"cards taken on {len(some)} nodes unknown, as {some[0]}: Slurm counts no gres/gpu there, so all "
        "count as free; scontrol -d show node tells (GresUsed)"
    ]


def _tres(text: str) -> int:
    """Cards of a TRES list: the plain count, else the sum over kinds."""
    found = _TRES.findall(text)
    plain = [int(count) for kind, count in found if not kind]
    return plain[0] if plain else sum(int(count) for _, count in found)


def _whole(fields: Record, key: str, origin: str) -> int:
    """The whole number of a key, 0 where nobody said it. Raises `InputError` for anything else."""
    text = fields.get(key, "")
    if text.upper() in _UNSAID:
        return 0
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    memory = key == "realmemory"
    reason = "must be a whole number of MiB" if memory else "must be a whole number"
    name, where = _SPELLED[key], fields.where(key, origin)
    raise InputError(name, text, where, reason, legal=_mib(text) if memory else ["64"])


def _mib(text: str) -> list[str]:
    """The MiB in an amount with a unit, else an example."""
    try:
        return [str(bytes_of(text, "RealMemory", "") // 2**20)]
    except InputError:
        return ["2063937"]
