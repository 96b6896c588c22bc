"""Slurm's files and prints as records of keys and values, one a switch, a block or a node."""

from __future__ import annotations

import re
from collections.abc import Iterator


class Record(dict[str, str]):
    """Values by key in small letters; `line_of` tells on which line of the text each stands."""

    def __init__(self) -> None:
        super().__init__()
        self.line_of: dict[str, int] = {}

    def told(self, key: str, value: str, line: int) -> None:
        """Notes a value; what was said of a key first counts."""
        if key not in self:
            self[key], self.line_of[key] = value, line

    def over(self, defaults: Record) -> Record:
        """This record, with those of `defaults` that it says nothing of."""
        found = Record()
        for record in (self, defaults):
            for key, value in record.items():
                found.told(key, value, record.line_of[key])
        return found

    def where(self, key: str, origin: str) -> str:
        """The place of a key in the text called `origin`."""
        return f"{origin}:{self.line_of[key]}" if key in self.line_of else origin


_PAIR = re.compile(r"([A-Za-z][\w/]{0,40})=(\S*)")
_COMMENT = re.compile(r"#(?!\d).*")
"""A comment, but not the number of a kernel's build in ``OS=Linux 5.15.0 #1 SMP ...``."""
_BEGINS = ("switchname", "blockname", "nodename")
_WORDS = re.compile(r"^[ \t]*(?:SwitchName|BlockName|NodeName)=\S", re.M | re.I)
_LISTED = re.compile(r"^[ \t]*-[ \t]+(?:switch|block):[ \t]+\S", re.M)
_ITEM = re.compile(r"\s*(?:-\s+)?(\w{1,40}):\s*(.*)")
_KEYS = {"switch": "switchname", "block": "blockname", "children": "switches"}
"""What ``topology.yaml`` calls the keys of ``topology.conf`` (its manual page)."""


def looks_like_slurm(text: str) -> bool:
    """Whether `text` holds lines of Slurm's topology or of its nodes."""
    return bool(_WORDS.search(text)) or looks_like_yaml(text)


def looks_like_yaml(text: str) -> bool:
    """Whether `text` is a ``topology.yaml``."""
    return bool(_LISTED.search(text)) and not _WORDS.search(text)


def records(text: str) -> list[Record]:
    """Records of key=value: a new one begins at a name key; continued lines belong to it.

    ``NodeName=DEFAULT`` of a ``slurm.conf`` is what later nodes have where they say nothing else.
    """
    found: list[Record] = []
    defaults = Record()
    for number, line in _joined(text):
        for key, value in _PAIR.findall(_COMMENT.sub("", line)):
            low = key.lower()
            if low in _BEGINS:
                found.append(Record())
            if found:
                found[-1].told(low, value, number)
    kept = []
    for record in found:
        if record.get("nodename", "").upper() == "DEFAULT":
            defaults = record.over(defaults)
        else:
            kept.append(record.over(defaults) if "nodename" in record else record)
    return kept


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1; one that ends with a backslash goes on in the next."""
    begun = ""
    for number, line in enumerate(text.replace("\r", "").split("\n"), 1):
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        yield number, begun + line
        begun = ""
    yield number, begun


def yaml_records(text: str) -> list[Record]:
    """Switches and blocks of a ``topology.yaml``: of its topologies the cluster's default, else the first."""
    found: list[list[Record]] = [[]]
    default = 0
    for number, line in enumerate(text.replace("\r", "").split("\n"), 1):
        met = _ITEM.match(line.split("#", 1)[0])
        if not met:
            continue
        key, value = met[1], met[2].strip().strip("\"'")
        if key == "topology":
            found.append([])
        elif key == "cluster_default" and value.lower() == "true" and not default:
            default = len(found) - 1
        elif key in ("switch", "block") and value:
            found[-1].append(Record())
            found[-1][-1].told(_KEYS[key], value, number)
        elif found[-1] and key in ("nodes", "children"):
            found[-1][-1].told(_KEYS.get(key, key), value, number)
    told = [index for index, some in enumerate(found) if some]
    return found[default] if default in told else found[told[0]] if told else []
