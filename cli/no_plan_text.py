"""The proof that there is no plan, or a search that was stopped, as text."""

from __future__ import annotations

from ..plans import NoPlan, OutOfTime, Request
from .tables import items, paragraph
from .words import job, knobs, quoted, seconds


def no_plan_text(outcome: NoPlan, request: Request) -> str:
    """Why nothing fits, as sentences that end at the user's own words."""
    reasons = list(outcome.reasons) or ["every layout breaks a rule or a limit"]
    lines = [paragraph(f"No plan fits {job(request)}", "  × ", "    ")]
    for reason in reasons[:-1]:
        lines.append(paragraph(reason, "  ├─▶ ", "  │   "))
    lines.append(paragraph(reasons[-1], "  ╰─▶ ", "      "))
    lines.append(f"    ({outcome.rows_considered:,} layouts considered, none fits)")
    return "\n".join(lines)


def cure_hints(outcome: NoPlan) -> list[str]:
    """What to do next: each change that alone would cure it, ready to paste."""
    if not outcome.cures:
        return ["no single change, pair of changes or number of nodes tried here cures it"]
    several = len(outcome.cures) > 1
    head = "any one of these is enough, found by solving again:" if several else "this is enough:"
    lines = [head]
    for cure in outcome.cures:
        cards = f", {cure.new_gpus:,} more cards" if cure.new_gpus else ""
        risky = ", a risky fit" if cure.verdict == "risky" else ""
        lines.append(f"  --set {quoted(cure.set)}")
        moves = zip(cure.from_.split("; "), cure.to.split("; "), strict=True)
        told = "; ".join(f"{now} to {then}" for now, then in moves)
        why = f"{cure.change} ({told}): step {seconds(cure.resulting_step_seconds)}{cards}{risky}"
        lines.append(paragraph(why, "      ", "      "))
        if cure.strategy is not None:
            lines.append(items(knobs(cure.strategy), "        "))
    return ["\n".join(lines)]


def out_of_time_text(outcome: OutOfTime, request: Request) -> str:
    """What a search stopped by its limit can say."""
    bound = (
        "" if outcome.bound_seconds is None else f"; no step can be below {seconds(outcome.bound_seconds)}"
    )
    text = (
        f"Stopped before any plan for {job(request)} was found; nothing is proved "
        f"({outcome.rows_considered:,} layouts considered{bound})"
    )
    return paragraph(text, "  ? ", "    ")
