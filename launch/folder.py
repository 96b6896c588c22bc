"""The whole folder of a target: its files, the launch script, the plan, a README with checksums."""

from __future__ import annotations

import hashlib

from ..plans.plan import Plan
from ..plans.saved import as_json
from .readme import readme
from .target import Target

PLAN = "plan.json"
README = "README.md"


def folder(plan: Plan, target: Target) -> dict[str, str]:
    """File name to text; the README comes last and lists the SHA-256 of the others."""
    files = {**target.write(plan), **target.launch(plan), PLAN: as_json(plan)}
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return {**files, README: readme(plan, target, sums)}
