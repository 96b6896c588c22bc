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
    """Say what a field, a term or any other word that is printed means.

    Unit, default, source and other tools' names of a field; formula, numbers and source of a term; the words
    of an answer, such as mfu, and the heads of tables, such as "loss %".
    """
    from ..plans import as_json as json_text

    if name is None:
        return _names(voice)
    found = _found(name)
    if voice.as_json:
        first, *others = found
        also = tuple(each.model_dump(mode="json", exclude={"also"}) for each in others)
        voice.data(json_text(first.model_copy(update={"also": also})))
    else:
        voice.data("\n".join(_text(each) for each in found))
    return OK


def _found(name: str) -> list[FieldText | TermText]:
    """The field, the term and the word of an answer of that name; else what another tool calls so; else the
    fields that may have it as their value."""
    from ..costs.glossary import term_names, term_text
    from ..inputs import InputError, nearest
    from ..plans.answer_words import answer_key, answer_keys, answer_word, answer_words
    from ..plans.fields import field_elsewhere, field_text, fields_taking, near_fields

    if not name.strip():
        reason = "is empty: give a field, a term or a word that is printed, or nothing for all of them"
        raise InputError("name", repr(name), "argument", reason, legal=["micro_batch_size", "zero2.weights"])
    found: list[FieldText | TermText] = []
    plain = name.strip().lower().removeprefix("no ").replace(" ", "_").replace("-", "_")
    for known in (field_text, term_text):
        for spelled in dict.fromkeys((name, plain)):
            try:
                found.append(known(spelled))
                break
            except InputError:
                continue
    word = answer_word(name)
    if word is not None:
        found.append(word)
    elsewhere = field_elsewhere(name)
    if not found and elsewhere is not None:
        found.append(field_text(elsewhere))
    found = found or [field_text(field) for field in fields_taking(name)]
    key = answer_key(name)
    if not found and key is not None:
        found = [key]
    if found:
        return found
    knob, _, value = name.strip().rpartition(" ")
    if knob and value.replace(",", "").isdigit():  # as a layout shows it: tp 8
        return _found(knob)
    legal = nearest(name, [*near_fields(name), *term_names(), *answer_words(), *answer_keys()], 5)
    reason = "is no field of a request, no term of the ledger and no word of an answer"
    raise InputError("name", name, "argument", reason, legal=legal)


def _text(found: FieldText | TermText) -> str:
    from ..plans.answer_words import COMPUTED
    from ..plans.fields import FieldText
    from .tables import paragraph

    if not isinstance(found, FieldText):
        return _term(found)
    lines = [
        paragraph(f"{found.field}: {found.meaning}", "", "  "),
        paragraph(f"unit: {found.unit}", "  ", "    "),
    ]
    if found.default != COMPUTED:
        lines.append(paragraph(f"default: {found.default}", "  ", "    "))
    if any(": " in value for value in found.values):
        lines += [paragraph(value, "  ", "    ") for value in found.values]
    elif found.values:
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
    from ..plans.answer_words import answer_words
    from ..plans.fields import field_names
    from .tables import items

    if voice.as_json:
        voice.data(
            as_json(
                {"schema_version": 1, "fields": field_names(), "terms": term_names(), "words": answer_words()}
            )
        )
    else:
        voice.data("fields of a request\n" + items(field_names()) + "\n\nterms of the ledger")
        voice.data(items(term_names()) + "\n\nwords of an answer\n" + items(answer_words()))
        voice.hint("shardwise explain NAME tells one; zero0. to zero3. before a term takes another stage")
    return OK
