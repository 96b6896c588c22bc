"""All rules over files that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from ..bundle import Bundle
from ..documents import Document
from . import launcher, precision
from .finding import Finding

Rule = Callable[[Bundle, Document], Iterator[Finding]]
MODULES = {"transformers": "trainer"}
"""Where the rules of a client stand, if not under its name."""


def lint(documents: Sequence[Document]) -> list[Finding]:
    """Findings in order of files and lines; the files are taken to start one run."""
    bundle = Bundle(documents)
    found = list(precision.findings(bundle))
    for document in bundle.documents:
        found += _of(bundle, document)
    order = {document.name: index for index, document in enumerate(bundle.documents)}
    return sorted(dict.fromkeys(found), key=lambda each: (order[each.file], each.line, each.rule, each))


def _of(bundle: Bundle, document: Document) -> Iterator[Finding]:
    client = bundle.clients[document.name]
    if document.kind == "script":
        yield from launcher.findings(bundle, document)
    if client in ("deepspeed", "transformers", "accelerate", "megatron", "torchtitan"):
        rules: Rule = import_module(f".{MODULES.get(client, client)}", __package__).findings
        yield from rules(bundle, document)
    if client == "deepspeed":
        from .trainer import contradictions

        yield from contradictions(bundle, document)
