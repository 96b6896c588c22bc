"""`lint`: what is wrong in the files that start a run."""

from __future__ import annotations

from typing import Annotated

import typer

from .findings import tell_findings
from .voice import Voice


def lint(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of one run, or a folder.")],
    *,
    voice: Voice,
) -> int:
    """Find mistakes in launch files.

    DeepSpeed JSON, Accelerate YAML, trainer arguments, Megatron-LM and torchtitan arguments, scripts.
    """
    return tell_findings(files, voice)
