"""Tests of real clients are collected only where their packages are installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["clients"]
