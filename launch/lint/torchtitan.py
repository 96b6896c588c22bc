"""Rules on torchtitan's options."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from ...inputs import InputError, nearest
from ..bundle import Bundle
from ..documents import Document
from ..documents.script import spoken
from .finding import Finding, at
from .keys import facts

SIMILAR = 0.8
"""How alike the name of a section and a known one are where it is a slip (difflib's ratio)."""

DEGREES = (
    "data_parallel_replicate_degree", "tensor_parallel_degree", "pipeline_parallel_degree",
    "context_parallel_degree", "expert_parallel_degree",
)  # fmt: skip
SHARDS = "data_parallel_shard_degree"
"""The degree that may be -1: all ranks that are left."""
BATCHES = ("training.global_batch_size", "training.local_batch_size")


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules of this client."""
    sections = facts("torchtitan")["sections"]
    yield from _sections(document)
    for section, name, path in _options(document):
        known = sections.get(section)
        if known is not None and name not in known and name.removeprefix("no_") not in known:
            message = f"{section}.{name} is no option of torchtitan"
            mend = f"did you mean {section}.{nearest(name, known)[0]}?"
            yield at(document, path, "unknown-key", message, mend)
        if document.kind == "script" and section == "activation_checkpoint" and name == "mode":
            message = "activation_checkpoint.mode is gone from the arguments of 0.3"
            mend = "activation-checkpoint:full as the last word"
            yield at(document, path, "removed-key", message, mend)
        if document.kind == "script" and name == "context_parallel_rotate_method":
            message = "context_parallel_rotate_method is gone from 0.3, which gathers keys and values"
            yield at(document, path, "removed-key", message, "take it away")
    yield from _values(bundle, document)


def _sections(document: Document) -> Iterator[Finding]:
    """Options of a section that is spelt amiss, and arguments that miss their section: the parser stops."""
    sections = facts("torchtitan")["sections"]
    known = [*sections, *facts("torchtitan")["others"]]
    for section, path in dict.fromkeys((s, p) for s, _, p in _options(document) if s not in known):
        close = get_close_matches(section, known, n=1, cutoff=SIMILAR)
        if close:
            message = f"{section} is no section of torchtitan"
            yield at(document, path, "unknown-key", message, f"did you mean {close[0]}?")
    for name in document.values["arguments"] if document.kind == "script" else ():
        homes = [section for section, names in sections.items() if name in names]
        if homes:
            message = f"--{name} stands at {homes[0]}.{name}"
            yield at(document, f"arguments.{name}", "misplaced-key", message, f"--{homes[0]}.{name}")


def _options(document: Document) -> Iterator[tuple[str, str, str]]:
    """(section, option, path)."""
    if document.kind == "script":
        for key in document.values["arguments"]:
            section, dot, name = key.partition(".")
            if dot:
                yield section, name, f"arguments.{key}"
        return
    for section, table in document.values.items():
        for name in table if isinstance(table, dict) else ():
            yield section, name, f"{section}.{name}"


def _said(document: Document, option: str) -> object:
    """What the document has for an option; None where it has nothing, or a variable from outside."""
    if document.kind == "script":
        values = document.values["arguments"].get(option)
        return None if values is None else next(iter(spoken(values)), None if values else "nothing")
    return document.get(option)


def _number(document: Document, option: str) -> int | None:
    """A whole number of this document, None where there is none."""
    said = _said(document, option)
    if isinstance(said, str) and document.kind == "script":
        return int(said) if said.lstrip("-").isdecimal() and len(said) < 12 else None
    return said if isinstance(said, int) and not isinstance(said, bool) else None


def _values(bundle: Bundle, document: Document) -> Iterator[Finding]:
    prefix = "arguments." if document.kind == "script" else ""
    for option in (*(f"parallelism.{name}" for name in (*DEGREES, SHARDS)), *BATCHES):
        if _said(document, option) is not None and _number(document, option) is None:
            message = f"{option} is {str(_said(document, option))[:40]}: must be a whole number"
            yield at(document, prefix + option, "wrong-type", message, f"{option} with a whole number")
    for name in DEGREES:
        degree = _number(document, f"parallelism.{name}")
        if degree is not None and degree < 1:
            message = f"{name} is {degree}: the parser takes it, the run does not"
            yield at(document, f"{prefix}parallelism.{name}", "wrong-type", message, f"{name} 1 or more")
    total, micro = (_number(document, f"training.{n}") for n in ("global_batch_size", "local_batch_size"))
    try:
        world = bundle.world()
    except InputError:
        world = None
    degrees = [_number(document, f"parallelism.{name}") or 1 for name in DEGREES[1:4]]
    if world is None or not total or not micro or total < 0 or micro < 1 or min(degrees) < 1:
        return
    step = micro * max(1, world // (degrees[0] * degrees[1] * degrees[2]))
    if total % step:
        message = f"global_batch_size {total} is no multiple of {step}, one pass of all ranks"
        mend = f"global_batch_size {max(1, round(total / step)) * step}"
        path = f"{prefix}training.global_batch_size"
        yield at(document, path, "batch-triad", message, mend)
