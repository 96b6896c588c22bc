"""The JSON schemas of every command's answer: those of the contract, and of what is only shown."""

from __future__ import annotations

import json

from pydantic import BaseModel

from ..costs.glossary import TermText
from ..costs.scheme import SideBySide
from ..plans.schema import TYPES, schema_of
from .cards import ClusterCard, Emitted, Listing, ModelCard, SeenCard

SHOWN: dict[str, type[BaseModel]] = {
    "emitted": Emitted,
    "ledger": SideBySide,
    "list": Listing,
    "model": ModelCard,
    "cluster": ClusterCard,
    "seen_cluster": SeenCard,
    "term": TermText,
}
"""Type behind the schema of what `emit`, `ledger`, `list`, `show` and `explain TERM` print."""

ALL = {**TYPES, **SHOWN}


def schema_files() -> dict[str, str]:
    """File name to text of every published schema."""
    schemas = {name: schema_of(kind) for name, kind in ALL.items()}
    return {f"{name}.json": json.dumps(it, sort_keys=True, indent=2) + "\n" for name, it in schemas.items()}
