"""These modules need torch, which the package does not: no test run imports them in place."""

from __future__ import annotations

collect_ignore_glob = ["*.py"]
