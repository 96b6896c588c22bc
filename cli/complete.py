"""Names a shell completes: models, node types, cards, targets, fields. Catalogues are read when asked for."""

from __future__ import annotations

from collections.abc import Iterable


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.lower().startswith(incomplete.lower()))


def models(incomplete: str) -> list[str]:
    """Models of the catalogue; paths are left to the shell."""
    from .listing import listing

    return _starting([entry.name for entry in listing("models").entries], incomplete)


def clusters(incomplete: str) -> list[str]:
    """Node types of the catalogue."""
    from ..hardware.catalogue import node_names

    return _starting(node_names(), incomplete)


def cards(incomplete: str) -> list[str]:
    """Cards of the catalogue."""
    from .listing import listing

    return _starting([entry.name for entry in listing("gpus").entries], incomplete)


def targets(incomplete: str) -> list[str]:
    """Targets launch files can be written for."""
    from ..launch import targets as known

    return _starting(known(), incomplete)


def settings(incomplete: str) -> list[str]:
    """Fields of a request, ready for their value."""
    from ..plans.settings import FIELDS

    short = [field.rpartition(".")[2] for field in FIELDS]
    unique = [name for name in short if short.count(name) == 1]
    return _starting([f"{name}=" for name in {*unique, *FIELDS}], incomplete)


def named(incomplete: str) -> list[str]:
    """What `explain` knows: fields by their last word, and terms."""
    from ..costs.glossary import term_names
    from ..plans.answer_words import answer_words
    from ..plans.settings import FIELDS

    return _starting(
        {*answer_words(), *(field.rpartition(".")[2] for field in FIELDS), *term_names()}, incomplete
    )
