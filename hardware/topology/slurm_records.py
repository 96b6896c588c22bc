"""Slurm's files and prints as records of keys and values, one a switch, a block or a node."""

from __future__ import annotations

import re

Fields = dict[str, str]

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


def records(text: str) -> list[Fields]:
    """Records of key=value: a new one begins at a name key; continued lines belong to it.

    ``NodeName=DEFAULT`` of a ``slurm.conf`` is what later nodes have where they say nothing else.
    """
    found: list[Fields] = []
    defaults: Fields = {}
    joined = text.replace("\r", "").replace("\\\n", " ")
    for line in joined.split("\n"):
        for key, value in _PAIR.findall(_COMMENT.sub("", line)):
            low = key.lower()
            if low in _BEGINS:
                found.append({})
            if found:
                found[-1].setdefault(low, value)
    kept = []
    for fields in found:
        if fields.get("nodename", "").upper() == "DEFAULT":
            defaults |= fields
        else:
            kept.append({**defaults, **fields} if "nodename" in fields else fields)
    return kept


def yaml_records(text: str) -> list[Fields]:
    """Switches and blocks of a ``topology.yaml``: of its topologies the cluster's default, else the first."""
    found: list[list[Fields]] = [[]]
    default = 0
    for line in text.replace("\r", "").split("\n"):
        met = _ITEM.match(line.split("#", 1)[0])
        if not met:
            continue
        key, value = met[1], met[2].strip().strip("\"'")
        if key == "topology":
            found.append([])
        elif key == "cluster_default" and value.lower() == "true" and not default:
            default = len(found) - 1
        elif key in ("switch", "block") and value:
            found[-1].append({_KEYS[key]: value})
        elif found[-1] and key in ("nodes", "children"):
            found[-1][-1][_KEYS.get(key, key)] = value
    told = [index for index, some in enumerate(found) if some]
    return found[default] if default in told else found[told[0]] if told else []
