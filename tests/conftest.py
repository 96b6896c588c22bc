"""Tests are collected where what they test is there: real clients, the benchmarks of the tree."""

from __future__ import annotations

from importlib.util import find_spec

OF_THE_TREE = (
    "benchmarks",
    "calculon",
    "cases",
    "fit",
    "fitting",
    "groups",
    "intervals",
    "term_pages",
    "topologies",
    "more_runs",
    "other_software",
)
NEEDS = {"clients": "torch", "test_answers_by_schema.py": "jsonschema"}
NEEDS |= {f"test_{name}.py": "benchmarks" for name in OF_THE_TREE}

collect_ignore = [name for name, package in NEEDS.items() if find_spec(package) is None]
