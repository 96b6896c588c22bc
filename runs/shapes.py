"""The transformer of a row, and the rules for what the columns lack.

Rules: `vocab` blank is 51,200 (the Megatron vocabulary); `heads` blank is hidden/180 where that is
whole (the one such source), `kv_heads` blank equals `heads`; head size is hidden/heads. Where
``catalogue/shapes.json`` knows the layers, hidden size and vocabulary, the missing dimensions (head size,
windows, shared experts, latent attention) come from there. Ungated feed-forwards have LayerNorm, and
learned positions where the embedding is tied, but for the ALiBi vocabulary of 250,880. Blank
`tied_embeddings` is tied where ungated.
"""

from __future__ import annotations

from functools import cache

from ..inputs import Frozen, InputError
from ..models import Attention, Block, FeedForward, Run, Transformer
from .facts import facts
from .record import Record
from .refusal import Refused

USUAL_VOCABULARY = 51200
USUAL_HEAD = 180
ALIBI_VOCABULARY = 250880
MOST_LAYERS = 10_000


class Shape(Frozen):
    """What the columns do not say of one published model: a catalogue name, or the missing dimensions."""

    layers: int
    hidden: int
    vocab: int
    experts: int | None = None
    """Where two models differ in nothing else of the three."""
    preset: str | None = None
    head_dim: int | None = None
    window: int | None = None
    """Sliding window of every second layer, from the first on."""
    source: str


@cache
def shapes() -> dict[tuple[int, int, int], Shape]:
    """Known shapes by (layers, hidden, vocab)."""
    entries = facts("shapes")["shapes"]
    found = [Shape.model_validate(entry) for entry in entries]
    return {(shape.layers, shape.hidden, shape.vocab): shape for shape in found}


def transformer_of(record: Record) -> tuple[Transformer, tuple[str, ...]]:
    """The model of a row and the columns that a rule filled; `Refused` where no rule can."""
    layers, hidden = record.needed("layers"), record.needed("hidden")
    if layers > MOST_LAYERS:
        raise Refused("shape", f"layers = {layers} is more than {MOST_LAYERS:,}")
    imputed = [column for column in ("vocab", "heads") if not record.said(column)]
    vocab = record.integer("vocab") or USUAL_VOCABULARY
    known = shapes().get((layers, hidden, vocab))
    if known and known.experts not in (None, record.integer("experts")):
        known = None
    if known and known.preset:
        return Transformer.preset(known.preset), ()
    try:
        return _built(record, layers, hidden, vocab, known), tuple(imputed)
    except InputError as error:
        raise Refused("shape", f"the dimensions make no model: {error.message}") from None


def _built(record: Record, layers: int, hidden: int, vocab: int, known: Shape | None) -> Transformer:
    gated = record.word("ffn_type") in ("swiglu", "geglu")
    said = record.flag("tied_embeddings")
    tied = not gated if said is None else said
    learned = tied and not gated and vocab != ALIBI_VOCABULARY
    full = _block(record, hidden, known, gated)
    runs: tuple[Run, ...] = (Run(block=full, layers=layers),)
    if known and known.window:
        sliding = full.attention.model_copy(update={"window": known.window})
        pair = (full.model_copy(update={"attention": sliding}), full)
        runs = tuple(Run(block=pair[depth % 2], layers=1) for depth in range(layers))
    return Transformer(
        name=record.name,
        family="published",
        hidden_size=hidden,
        vocab_size=vocab,
        runs=runs,
        tied_embeddings=tied,
        positions=record.needed("seq_len") if learned else 0,
    )


def _block(record: Record, hidden: int, known: Shape | None, gated: bool) -> Block:
    heads = record.integer("heads") or (hidden // USUAL_HEAD if hidden % USUAL_HEAD == 0 else 0)
    size = known.head_dim if known and known.head_dim else None
    if not heads or (size is None and hidden % heads):
        raise Refused("no-heads", "heads is blank, or does not divide hidden")
    experts = record.integer("experts") or 0
    experts = experts if experts > 1 else 0
    return Block(
        attention=Attention(
            heads=heads,
            kv_heads=record.integer("kv_heads") or heads,
            head_dim=size or hidden // heads,
            qkv_bias=not gated,
            output_bias=not gated,
        ),
        feed_forward=FeedForward(
            width=record.needed("ffn_hidden"),
            gated=gated,
            bias=not gated,
            experts=experts,
            experts_per_token=(record.integer("experts_topk") or 1) if experts else 0,
        ),
        norm="rms" if gated else "layer",
    )
