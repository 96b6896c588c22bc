"""The side-by-side table of sharding schemes as text."""

from __future__ import annotations

from ..costs.scheme import Scheme, SideBySide
from .tables import paragraph, table
from .words import gib, gibs, number, plural


def ledger_text(found: SideBySide, verbose: bool) -> str:
    """The convention in a sentence, what each scheme keeps and moves, and from how many cards it fits."""
    known, schemes = found.recipe, found.schemes
    said = (
        f"{number(found.parameters)} parameters (P) on {plural(found.gpus, 'card')} of "
        f"{gib(found.card_bytes)} ({found.card_bytes / 1e9:,.1f} GB), before activations"
    )
    bytes_each = (
        f"recipe {known.name}: {known.weights_bytes:g} weight + {known.gradients_bytes:g} gradient + "
        f"{known.optimizer_bytes:g} optimizer = {known.total_bytes:g} bytes a parameter; "
        f"offload {found.offload}"
    )
    header = ["", *(scheme.name for scheme in schemes)]
    blocks = [
        paragraph(said),
        paragraph(bytes_each, "  ", "    "),
        "",
        table(header, [*_kept(schemes), *_moved(found), *_fits(found)], "  "),
    ]
    if verbose:
        blocks += ["", paragraph(f"source of the recipe: {known.source}", "  ", "    ")]
    return "\n".join(blocks)


def _kept(schemes: tuple[Scheme, ...]) -> list[list[str]]:
    rows = [
        ["bytes a parameter", *(f"{s.bytes_per_parameter:.2f}" for s in schemes)],
        ["GiB a card", *(gibs(s.bytes_per_card) for s in schemes)],
        ["GB a card", *(f"{s.bytes_per_card / 1e9:,.1f}" for s in schemes)],
        ["floor, GiB at any N", *(gibs(s.floor_bytes_per_card) for s in schemes)],
        ["buffers, GiB beside", *(gibs(s.buffer_bytes_per_card) for s in schemes)],
    ]
    if any(s.step_bytes_per_card != s.bytes_per_card for s in schemes):
        rows.append(["GiB at the step", *(gibs(s.step_bytes_per_card) for s in schemes)])
    if any(s.host_bytes_per_node for s in schemes):
        rows.append(["host, GiB a node", *(gibs(s.host_bytes_per_node) for s in schemes)])
    return rows


def _moved(found: SideBySide) -> list[list[str]]:
    """Traffic of a card in a step: multiples of P, and bytes with (N-1)/N."""
    once, more, share = (
        found.micro_batches,
        found.accumulated_micro_batches,
        f"x {found.gpus - 1}/{found.gpus}",
    )
    rows = [
        [f"traffic, {_batches(once)}", *(f"{s.traffic_parameters:g}P" for s in found.schemes)],
        [f"  {share}, GB", *(f"{s.traffic_bytes_per_card / 1e9:,.1f}" for s in found.schemes)],
    ]
    if more != once:
        rows += [
            [
                f"traffic, {_batches(more)}",
                *(f"{s.traffic_parameters_accumulated:g}P" for s in found.schemes),
            ],
            [
                f"  {share}, GB",
                *(f"{s.traffic_bytes_per_card_accumulated / 1e9:,.1f}" for s in found.schemes),
            ],
        ]
    return rows


def _batches(count: int) -> str:
    return "1 micro-batch" if count == 1 else f"{count} micro-batches"


def _fits(found: SideBySide) -> list[list[str]]:
    fits = [scheme.fits_from for scheme in found.schemes]
    return [
        ["fits from, any count", *(_cards(it.any) for it in fits)],
        [f"  nodes of {found.gpus_per_node}", *(_cards(it.whole_nodes) for it in fits)],
        ["  powers of two", *(_cards(it.powers_of_two) for it in fits)],
    ]


def _cards(count: int | None) -> str:
    return "never" if count is None else f"{count:,}"
