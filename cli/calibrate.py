"""`calibrate`: measured steps become a site catalogue; `--suggest`: the runs that would teach most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .errors import OK
from .kept import kept_plan
from .voice import Voice

if TYPE_CHECKING:
    from ..calibration import Calibrated
    from ..hardware import Site


def calibrate(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUNS...]", help="CSV of the known columns, or logs of the run of --plan."),
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="The plan that wrote the logs.")
    ] = None,
    suggested: Annotated[
        str | None, typer.Option("--suggest", metavar="PLAN", help="Print the short runs that teach most.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the site is called.")] = "site",
    date: Annotated[
        str | None, typer.Option("--date", metavar="DATE", help="Of the runs; else that of the newest file.")
    ] = None,
    output: options.Output = None,
    force: options.Force = False,
    *,
    voice: Voice,
) -> int:
    """Learn a site's constants from its own runs; `plan --site` then uses them.

    Says what the runs could tell and what they could not.
    """
    from ..inputs import InputError
    from .output import refuse_taken

    if suggested is not None:
        return _suggest(suggested, voice)
    if not runs:
        raise InputError("runs", "nothing", "argument", "is required: a CSV or logs", code="missing")
    if output is not None:
        refuse_taken(output, force=force)
    found = _calibrated(runs, plan, name, date, voice)
    _told(found, output, force, voice)
    return OK


def _calibrated(runs: list[str], plan: str | None, name: str, date: str | None, voice: Voice) -> Calibrated:
    from ..calibration import calibrate, steps_of

    steps, aside = steps_of(runs, None if plan is None else kept_plan(plan, voice))
    return calibrate(steps, name, date or _date_of(runs), aside)


def _date_of(runs: list[str]) -> str:
    """The day the newest of the files was written, UTC."""
    import os
    from datetime import UTC, datetime

    return datetime.fromtimestamp(max(os.path.getmtime(run) for run in runs), UTC).date().isoformat()


def _told(found: Calibrated, output: str | None, force: bool, voice: Voice) -> None:
    from ..plans import as_json
    from .output import write_file

    if output and output != "-":
        write_file(output, as_json(found.site), force=force)
    if voice.as_json or output == "-":
        voice.data(as_json(found.site))
    else:
        voice.data(_text(found.site))
    for run, reason in found.set_aside[:10]:
        voice.warn(f"{run}: {reason}; set aside")
    if len(found.set_aside) > 10:
        voice.warn(f"{len(found.set_aside) - 10} more runs set aside")
    if output and output != "-":
        voice.note(f"wrote {output}; use it with `plan ... --site {output}`")


def _text(site: Site) -> str:
    from .tables import table

    rows = [
        [c.name, f"{c.value:g}", f"{c.low:g} to {c.high:g}", f"{c.catalogue:g}", str(c.runs), c.unit]
        for c in site.constants
    ]
    lines = [
        _judged(site),
        table(("constant", "value", "80 %", "catalogue", "runs", "unit"), rows) if rows else "nothing told",
    ]
    if site.unidentified:
        lines.append("could not be told, kept as in the catalogue: " + ", ".join(site.unidentified))
    return "\n".join(lines)


def _judged(site: Site) -> str:
    """How far the runs are from what was predicted of them."""
    within = f"80 % within {100 * site.interval:.0f} %"
    if site.runs == 1:
        return (
            f"1 run: off by {site.median_error_before:g} % by the catalogue; another run would tell how well "
            f"its constants hold: {within}"
        )
    return (
        f"{site.runs} runs: median error {site.median_error_before:g} % by the catalogue, "
        f"{site.median_error:g} % by these runs (left out in turn); {within}"
    )


def _suggest(path: str, voice: Voice) -> int:
    from ..calibration import suggest
    from ..plans import as_json
    from .tables import table

    found = suggest(kept_plan(path, voice))
    if voice.as_json:
        voice.data(as_json({"suggestions": [entry.model_dump(mode="json") for entry in found]}))
        return OK
    rows = [
        [
            ", ".join(f"{key}={value}" for key, value in entry.changes.items()) or "the plan itself",
            str(entry.steps),
            f"{entry.step_seconds:.3g}",
            f"{entry.spread_percent_before:g} -> {entry.spread_percent_after:g}",
            ", ".join(entry.teaches),
        ]
        for entry in found
    ]
    voice.data(table(("run", "steps", "s a step", "spread of the plan %", "teaches"), rows))
    return OK
