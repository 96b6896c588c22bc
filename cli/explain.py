"""`explain`: what a field of the request or a term of the ledger means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import complete
from .errors import OK
from .voice import Voice

if TYPE_CHECKING:
    from ..costs.glossary import TermText
    from ..plans.fields import FieldText


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FIELD|TERM",
            help="micro_batch_size, zero2.weights; nothing lists all.",
            autocompletion=complete.named,
        ),
    ] = None,
    *,
    voice: Voice,
) -> int:
    """Say what a field or a term means.

    Unit, default, source and other tools' names of a field; formula, numbers and source of a term.
    """
    from ..plans import as_json as json_text

    if name is None:
        return _names(voice)
    found = _found(name)
    if voice.as_json:
        voice.data(json_text(found))
    else:
        voice.data(_text(found))
    return OK


def _found(name: str) -> FieldText | TermText:
    """The field of that name, else the term."""
    from ..inputs import InputError
    from ..plans.fields import field_text, near_fields

    try:
        return field_text(name)
    except InputError as no_field:
        from ..costs.glossary import term_names, term_text

        try:
            return term_text(name)
        except InputError:
            from ..inputs import nearest

            legal = nearest(name, [*near_fields(name), *term_names()], 5)
            reason = "is neither a field of a request nor a term of the ledger"
            raise InputError("name", name, "argument", reason, legal=legal) from no_field


def _text(found: FieldText | TermText) -> str:
    from ..plans.fields import FieldText
    from .tables import paragraph

    if not isinstance(found, FieldText):
        return _term(found)
    lines = [
        paragraph(f"{found.field}: {found.meaning}", "", "  "),
        paragraph(f"unit: {found.unit}", "  ", "    "),
        paragraph(f"default: {found.default}", "  ", "    "),
    ]
    if found.values:
        lines.append(paragraph(f"values: {', '.join(found.values)}", "  ", "    "))
    if found.names:
        called = ", ".join(f"{tool} {word}" for tool, word in found.names.items())
        lines.append(paragraph(f"elsewhere: {called}", "  ", "    "))
    return "\n".join([*lines, paragraph(f"source: {found.source}", "  ", "    ")])


def _term(found: TermText) -> str:
    """Formula, numbers and source, on one line where 80 columns hold it."""
    from .tables import paragraph
    from .words import gib, seconds

    values: dict[str, list[str]] = {}
    for amount in found.amounts:
        word = gib(amount.value) if amount.unit == "bytes" else seconds(amount.value)
        values.setdefault(word, []).append(amount.at)
    told = ", ".join(f"{word} ({', '.join(places)})" for word, places in values.items()) or "nothing"
    text = f"{found.term} = {found.formula}: {told}; {found.source} [{found.grade}]"
    return paragraph(text, "", "  ") + "\n" + paragraph(f"example: {found.example}", "  ", "    ")


def _names(voice: Voice) -> int:
    """Every field and every term."""
    from ..costs.glossary import term_names
    from ..plans import as_json
    from ..plans.fields import field_names
    from .tables import items

    if voice.as_json:
        voice.data(as_json({"schema_version": 1, "fields": field_names(), "terms": term_names()}))
    else:
        voice.data("fields of a request\n" + items(field_names()) + "\n\nterms of the ledger")
        voice.data(items(term_names()))
        voice.hint("shardwise explain NAME tells one; zero0. to zero3. before a term takes another stage")
    return OK
