"""Tests are collected where what they test is there: real clients, the benchmarks of the tree."""

from __future__ import annotations

from importlib.util import find_spec

NEEDS = {"clients": "torch", "test_benchmarks.py": "benchmarks"}

collect_ignore = [name for name, package in NEEDS.items() if find_spec(package) is None]
