"""A model as text: its parameters by component, the keys they came from, what its shape divides."""

from __future__ import annotations

from collections.abc import Iterator

from ..models import Block
from .cards import KeyCard, ModelCard
from .tables import clean, items, paragraph, table
from .words import number, plural

LONGEST = 44
"""Characters of a value or formula in a table."""


def model_text(card: ModelCard, verbose: bool) -> str:
    """Everything `show model` tells; with `verbose` facts of the family, formulas and ranges too."""
    parts = [_head(card), _layers(card), _keys(card, verbose), _left_out(card), _divisors(card, verbose)]
    if verbose:
        settings = [items(_settings(block)) for block in card.transformer.kinds]
        parts.append("\n".join([*settings, clean(f"  source: {card.transformer.source or 'not said'}")]))
    return "\n\n".join(filter(None, parts))


def _head(card: ModelCard) -> str:
    model = card.transformer
    line = f"{model.name} ({model.family}): {card.parameters_total:,} parameters"
    if card.parameters_active != card.parameters_total:
        line += f", {card.parameters_active:,} active a token"
    facts = [
        plural(model.layers, "layer"),
        f"hidden {model.hidden_size:,}",
        f"vocabulary {model.vocab_size:,}",
        "tied embeddings" if model.tied_embeddings else "separate head" if model.head else "no head",
    ]
    if model.max_sequence_length:
        facts.append(f"up to {model.max_sequence_length:,} tokens")
    facts.append(f"{number(card.flops_per_token)} FLOP a token at {card.sequence_length:,} tokens")
    notes = [paragraph(note, "  note: ", "        ") for note in card.notes]
    return "\n".join([clean(line), items(facts), *notes])


def _layers(card: ModelCard) -> str:
    rows = [
        [f"layer kind {index}" if len(card.kinds) > 1 else "layer", kind.layers, f"{kind.attention:,}",
         f"{kind.dense:,}", f"{kind.experts:,}", f"{kind.replicated:,}", f"{kind.total:,}"]
        for index, kind in enumerate(card.kinds)
    ]  # fmt: skip
    ends = {
        "embedding": card.embedding,
        "positions": card.positions,
        "head": card.head,
        "norm": card.final_norm,
        "other": card.other,
    }
    ends |= {f"{tower.name} tower ({tower.family})": tower.parameters for tower in card.towers}
    lines = [
        table(["", "count", "attention", "dense", "experts", "replicated", "each"], rows, "  "),
        items([f"{name} {size:,}" for name, size in ends.items() if size]),
    ]
    if card.parameters_predictor:
        told = f"apart: {card.parameters_predictor:,} in layers that predict further tokens"
        lines.append(paragraph(f"{told}; training.mtp_layers trains them", "  ", "    "))
    return "\n".join(lines)


def _keys(card: ModelCard, verbose: bool) -> str:
    """Which key gave which number."""
    shown = [key for key in card.keys if verbose or _given(key)]
    rows = [[key.number, _short(_word(key.value)), _short(key.source)] for key in shown]
    return table(["number", "value", "from"], rows, "  ") if rows else ""


def _given(key: KeyCard) -> bool:
    """Whether a key of the file gave a number: no fact, no formula, no default."""
    return not key.source.startswith(("fact of", "default of", "= "))


def _left_out(card: ModelCard) -> str:
    """Defaults that were taken, and keys that changed nothing."""
    taken = [f"{key} = {_word(value)}" for key, value in card.defaults.items()]
    lines = [("defaults of the class: ", taken), ("ignored keys: ", list(card.ignored))]
    return "\n".join(paragraph(", ".join(words), f"  {head}", "    ") for head, words in lines if words)


def _divisors(card: ModelCard, verbose: bool) -> str:
    """What each degree must divide, and why."""
    rules = [divisor for divisor in card.divisors if verbose or divisor.axis != "precision"]
    rows = [[rule.axis, rule.of, rule.number, "must" if rule.required else "may"] for rule in rules]
    reasons = dict.fromkeys(f"{rule.of}: {rule.reason}" for rule in rules)
    told = "\n".join(paragraph(reason, "  ", "    ") for reason in reasons)
    return table(["degree", "divides", "number", ""], rows, "  ") + "\n" + told


def _settings(block: Block) -> Iterator[str]:
    """What is set of an attention and a feed-forward, field by field."""
    parts: dict[str, object] = {**dict(block.attention), **dict(block.feed_forward)}
    yield from (f"{name.replace('_', ' ')} {value}" for name, value in parts.items() if value)


def _word(value: object) -> str:
    """A value as JSON has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_word, value))}]"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
