"""`compare`: cases side by side, which one wins, and where that flips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .errors import NO, OK
from .progress import working
from .voice import Voice

if TYPE_CHECKING:
    from ..plans import Compare, Request
    from ..solver import Case

MOST_CASES = 200


def compare(
    source: options.Source,
    vary: Annotated[
        list[str] | None, typer.Option("--vary", metavar="KEY=A,B,C", help="Every combination of values.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="K=V,K=V", help="One case, as often as needed.")
    ] = None,
    break_even: Annotated[
        str | None,
        typer.Option("--break-even", metavar="KEY=LOW..HIGH", help="Where the two best change places."),
    ] = None,
    *,
    job: options.Job,
    size: options.Size,
    output: options.Output = None,
    force: options.Force = False,
    voice: Voice,
) -> int:
    """Rank cases, by product (--vary) or one by one (--case).

    Cases may also stand in the request file, as tables [cases.NAME]. With -o DIR the launch files of every
    case are written, to measure by.
    """
    from ..plans import as_json as json_text
    from ..plans import read_question
    from .answers_text import compare_text
    from .output import refuse_taken

    if output is not None:
        refuse_taken(output, force=force)
    given = [*_paired(case or ()), *_products(vary or ())]
    question = read_question(source, job.flags() | size.flags(), [*_machine(given, job), *job.settings])
    named = [*question.cases, *given]
    along = question.along if break_even is None else _range(break_even)
    _counted(named)
    from ..solver import Case
    from ..solver import compare as ranked  # after the input: bad input is told without loading the solver

    cases = [Case(name, changes) for name, changes in named]
    with working(f"searching {len(cases)} cases", not (voice.quiet or voice.as_json)):
        found = ranked(question.request, cases, along)
    if output and output != "-":
        found = found.model_copy(update={"written": _written(question.request, cases, output, force)})
    voice.data(json_text(found) if voice.as_json else compare_text(found))
    for path in found.written:
        voice.note(f"wrote {path}")
    _advise(found, voice, output)
    return OK if found.ranking else NO


def _paired(texts: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Cases of --case: ``[NAME:] key=value,key=value``."""
    from ..plans.settings import parsed, settings_in

    for text in texts:
        name, colon, rest = text.partition(":")
        named = bool(colon) and "=" not in name
        settings = [parsed(one, "--case") for one in settings_in(rest if named else text)]
        yield (name if named else text).strip(), {field: value for field, value, _ in settings}


def _products(texts: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Cases of all --vary together: every combination of their values."""
    from ..inputs import InputError
    from ..plans.settings import field_of, value_of

    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values.strip():
            legal = ["nodes=2,4,8"]
            raise InputError("--vary", text, "--vary", "must be written key=a,b,c", legal=legal)
        field = field_of(key.strip(), "--vary")
        apart = (
            _apart(values) if field.startswith("choose.") else [v for t in _apart(values) for v in _span(t)]
        )
        axes.append([(key.strip(), field, value, value_of(value, field)) for value in apart])
    for picks in product(*axes) if axes else ():
        yield ", ".join(f"{key}={text}" for key, _, text, _ in picks), {f: v for _, f, _, v in picks}


def _span(text: str) -> list[str]:
    """The numbers of a span ``1..8`` (doubling) or ``8..64:8``; any other text as it stands."""
    from .curve import counts_of, is_span

    return [str(number) for number in counts_of(text, "--vary")] if is_span(text) else [text]


def _apart(text: str) -> list[str]:
    """Values between commas that stand in no bracket."""
    found, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [value.strip() for value in found if value.strip()]


def _machine(given: Sequence[tuple[str, Mapping[str, Any]]], job: options.Job) -> list[str]:
    """The setting that gives the request machines where every case names its own and no flag does."""
    presets = [changes.get("cluster.preset") for _, changes in given]
    return [f"cluster.preset={presets[0]}"] if presets and all(presets) and not job.cluster else []


def _range(text: str) -> tuple[str, float, float]:
    """(field, low, high) of ``key=low..high``."""
    from ..inputs import InputError
    from ..plans.question import along_of

    key, _, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    try:
        if dots:
            return along_of(key.strip(), float(low), float(high), "--break-even")
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    legal = ["cluster.node.nic_bytes_per_s=25e9..400e9"]
    raise InputError("--break-even", text, "--break-even", "must be written key=low..high", legal=legal)


def _counted(named: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    from ..inputs import InputError

    if not named:
        reason = "there is nothing to compare: give --vary, --case or [cases.NAME] in the request"
        raise InputError("cases", "nothing", "command line", reason, legal=["--vary nodes=2,4"])
    if len(named) > MOST_CASES:
        reason = f"are {len(named)} cases, at most {MOST_CASES} are compared at once"
        raise InputError("cases", len(named), "command line", reason)


def _written(request: Request, cases: Sequence[Case], folder: str, force: bool) -> tuple[str, ...]:
    """Plan and launch files of each case with a plan, in a folder of its own under `folder`."""
    from ..launch import writable_by
    from ..plans import Plan, as_json
    from ..solver import plan as search
    from .emit import launch_files
    from .output import write_all

    files: dict[str, str] = {}
    for case in cases:
        found = search(request.changed(dict(case.changes), origin=f"case {case.name}"), writers=writable_by)
        if not isinstance(found, Plan):
            continue
        slug = "".join(c if c.isalnum() else "-" for c in case.name.lower()).strip("-")
        files[f"{slug}/plan.json"] = as_json(found)
        for target in found.writable_by[:1]:
            made = launch_files(found, target)
            files |= {f"{slug}/{name}": text for name, text in made.files.items()}
    return tuple(str(path) for path in write_all(folder, files, force=force))


def _advise(found: Compare, voice: Voice, output: str | None) -> None:
    """Warnings of the winner, and what to do where the model cannot tell."""
    if voice.as_json:
        return
    for row in found.rows:
        if row.rank == 1:
            voice.warnings(row.warnings, f"{row.name}: ")
    if found.settled is False and not output:
        voice.hint("add -o DIR to write the launch files of every case, run each for 50 steps and compare")
