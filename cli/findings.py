"""What `lint` finds, told; a submit hook runs it on every job, so plain words are read without typer."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .voice import Voice

OK, NO = 0, 1
SWITCHES = {"--json": "as_json", "-q": "quiet", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose",
            "--no-color": "no_color"}  # fmt: skip


def tell_findings(files: Sequence[str], voice: Voice) -> int:
    """Prints the findings on `files`; 1 where there are some."""
    from ..launch.documents import documents
    from ..launch.lint import lint

    found = lint(documents(files))
    if voice.as_json:
        rows = [each._asdict() for each in found]
        voice.data(json.dumps({"findings": rows}, sort_keys=True, indent=2))
        return NO if found else OK
    for each in found:
        voice.data(f"{each.file}:{each.line}: {each.rule}: {each.message}")
        voice.data(f"    {each.mend}")
    if not found:
        voice.note("no findings")
    return NO if found else OK


def plain(words: Sequence[str]) -> tuple[list[str], Voice] | None:
    """(files, voice) of a command line of `lint` with files and switches alone; None for any other.

    >>> plain(["lint", "ds_config.json", "--json"])[0]
    ['ds_config.json']
    """
    files = [word for word in words[1:] if not word.startswith("-")]
    switches = [word for word in words[1:] if word.startswith("-")]
    if words[:1] != ["lint"] or not files or any(word not in SWITCHES for word in switches):
        return None
    return files, Voice(**{SWITCHES[word]: True for word in switches})
