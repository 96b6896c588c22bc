"""The whole folder of a target: its files, the launch script, the plan, a README with checksums."""

from __future__ import annotations

from collections.abc import Mapping

from ..plans.plan import Plan
from .readme import readme
from .target import Target
from .written import PLAN, digest, plan_hash, with_sums

README = "README.md"


def folder(plan: Plan, target: Target, beside: Mapping[str, str]) -> dict[str, str]:
    """File name to text; the README comes last and lists the SHA-256 of the others."""
    files = {**target.write(plan), **target.launch(plan), **beside}
    files[PLAN] = with_sums(plan, target.name, files)
    sums = {name: digest(text) for name, text in files.items()}
    return {**files, README: readme(plan, target, sums, plan_hash(plan))}
