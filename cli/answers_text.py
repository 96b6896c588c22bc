"""Forced changes, cases and curves as text."""

from __future__ import annotations

from ..inputs.quantity import gib, gibs
from ..plans import Compare, Curve, Why
from ..plans.row import BreakEven, Point
from .tables import items, paragraph, table
from .words import knobs, seconds, slower, span


def why_text(found: Why, held_words: str) -> str:
    """What a forced change costs, term by term, and what binds; or why nothing fits under it."""
    lines = [paragraph(f"forced: {found.set}", "", "  ")]
    if found.forced is None or found.forced_step_seconds is None or found.loss_percent is None:
        told = list(found.reasons)
        lines.append("  × no plan fits with it")
        lines += [paragraph(text, "  ├─▶ ", "  │   ") for text in told[:-1]]
        return "\n".join([*lines, paragraph(told[-1], "  ╰─▶ ", "      ")])
    if found.held:
        return "\n".join([*lines, paragraph(held_words, "  ", "    ")])
    both = f"step {seconds(found.forced_step_seconds)} against {seconds(found.planned_step_seconds)}"
    lines.append(f"  {both}: {slower(found.loss_percent)}")
    if found.forced_tokens != found.planned_tokens and found.loss_per_token_percent is not None:
        each = found.loss_per_token_percent
        per_token = f"{slower(each)} a token"
        tokens = f"{found.forced_tokens or 0:,} tokens a step in place of {found.planned_tokens or 0:,}"
        lines.append(paragraph(f"{per_token}: {tokens}", "  ", "    "))
    lines += [items(knobs(found.forced)), "", _terms(found), ""]
    before, after = found.planned_memory_bytes, found.forced_memory_bytes or 0
    lines.append(f"  memory {gibs(before)} to {gib(after)} a card")
    for limit in found.binds:
        text = f"binds: {limit.said}; without that limit {seconds(limit.resulting_step_seconds)} a step"
        lines.append(paragraph(text, "  ", "    "))
    if not found.binds:
        lines.append("  no single limit binds: the change itself costs the time")
    return "\n".join(lines)


def _terms(found: Why) -> str:
    scale, unit = (1e3, "ms") if found.planned_step_seconds < 1 else (1.0, "s")
    rows = [
        [
            term.name.replace("_", " "),
            f"{term.planned_seconds * scale:,.2f}",
            f"{term.forced_seconds * scale:,.2f}",
            f"{term.delta_seconds * scale:+,.2f}",
        ]
        for term in found.terms
        if abs(term.delta_seconds * scale) >= 0.005
    ]
    loss = (found.forced_step_seconds or 0.0) - found.planned_step_seconds
    rows.append(
        [
            "step",
            f"{found.planned_step_seconds * scale:,.2f}",
            f"{(found.forced_step_seconds or 0.0) * scale:,.2f}",
            f"{loss * scale:+,.2f}",
        ]
    )
    return table([f"term, {unit}", "plan", "forced", "change"], rows, "  ")


def compare_text(found: Compare) -> str:
    """Cases in a table, best first, each with its layout; the verdict; the break-even."""
    rows = sorted(found.rows, key=lambda row: (row.rank is None, row.rank or 0, row.name))
    cells = [[row.rank or "-", row.name, row.gpus, *_cells(row), "*" if row.pareto else ""] for row in rows]
    header = ["", "case", "cards", "step", "interval", "tokens/s", "GiB", "comm %", "$/Mtok", ""]
    alike = {"cards": len({row.gpus for row in rows}) == 1}
    alike["$/Mtok"] = all(row.usd_per_million_tokens is None for row in rows)
    shown = [place for place, head in enumerate(header) if not alike.get(head)]
    header, cells = [header[place] for place in shown], [[line[place] for place in shown] for line in cells]
    lines = [table(header, cells)]
    for row in rows:
        if row.strategy:
            lines.append(paragraph(f"{row.name}: {', '.join(knobs(row.strategy))}", "  ", "    "))
        else:
            lines.append(paragraph(f"{row.name}: no plan. {row.reason}", "  ", "    "))
    lines += ["", paragraph(found.verdict, "  ", "    ")]
    if any(row.pareto for row in rows):
        lines.append("  * no other case is better in time, cards, cost and headroom at once")
    if found.break_even:
        lines.append(paragraph(_flip(found.break_even), "  ", "    "))
    return "\n".join(lines)


def _flip(flip: BreakEven) -> str:
    low, high = _amount(flip.field, flip.low), _amount(flip.field, flip.high)
    if flip.value is None:
        return f"{flip.below} wins for every {flip.field} from {low} to {high}"
    return f"{flip.above} wins from {flip.field} = {_amount(flip.field, flip.value)}, {flip.below} below that"


def _amount(field: str, value: float) -> str:
    """A value of a field in the unit its name says, readable."""
    if field.endswith("bytes_per_s"):
        return f"{value / 1e9:,.4g} GB/s"
    return gib(value) if field.endswith("bytes") else f"{value:,.6g}"


def _cells(row: Point) -> list[str]:
    if row.step_seconds is None or row.low_seconds is None or row.high_seconds is None:
        return ["-"] * 6
    dollars = "-" if row.usd_per_million_tokens is None else f"{row.usd_per_million_tokens:.3g}"
    return [
        seconds(row.step_seconds),
        span(row.low_seconds, row.high_seconds),
        f"{row.tokens_per_second:,.0f}",
        gibs(row.memory_bytes or 0),
        f"{100 * (row.comm_fraction or 0):.0f}",
        dollars,
    ]


def curve_text(found: Curve) -> str:
    """A row a number of cards."""
    rows = []
    for row in found.rows:
        s = row.strategy
        layout = "no plan"
        if s is not None:
            degrees = (s.tensor_parallel, s.pipeline_parallel, s.context_parallel, s.data_parallel)
            layout = f"{s.backend} z{s.zero_stage} " + "x".join(str(degree) for degree in degrees)
        exact = "yes" if row.global_batch_exact else "/".join(str(n) for n in row.nearest_exact_batches)
        rows.append(
            [
                row.gpus,
                f"{row.nodes}x{row.gpus_per_node}",
                layout,
                "-" if row.step_seconds is None else seconds(row.step_seconds),
                "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}",
                "-" if row.memory_bytes is None else gibs(row.memory_bytes),
                exact,
                ("reshard" if row.needs_reshard else "") + (" *" if row.pareto else ""),
            ]
        )
    head = ["gpus", "nodes", "layout", "step", "tokens/s", "GiB", "batch", ""]
    lines = [table(head, rows)]
    lines.append(
        paragraph(
            "layout: backend, ZeRO stage, tp x pp x cp x dp. batch: whether the cards divide it, else the "
            "nearest sizes they do. reshard: a checkpoint of the row above is converted first. *: no other "
            "row is better in time, cards, cost and headroom at once.",
            "  ",
            "  ",
        )
    )
    envelopes = [f"{r.gpus}: best with {r.envelope_gpus}" for r in found.rows if r.envelope_gpus]
    if envelopes:
        lines.append(paragraph("envelope: " + ", ".join(envelopes), "  ", "    "))
    return "\n".join(lines)
