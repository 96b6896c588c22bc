"""`check`: does what somebody already has fit, how fast is it, and what does it lose?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..inputs import InputError
from . import options
from .config import files_told, read_files
from .errors import NO, OK
from .kept import kept_plan
from .voice import Voice

if TYPE_CHECKING:
    from ..launch.documents import Document
    from ..launch.read import Read
    from ..models import Strategy
    from ..plans import Check, Request


def check(
    source: options.Source,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="More files after --config.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            metavar="S.json",
            help='A strategy, such as {"backend": "deepspeed", "zero_stage": 2}.',
        ),
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN.json", help="The strategy of a plan.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="FILE...", help="Launch files of any client, or their folder."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="FILE", help="An out-of-memory message; - for stdin.")
    ] = None,
    patch: Annotated[
        bool, typer.Option("--patch", help="With --config: print a unified diff towards the best plan.")
    ] = False,
    *,
    job: options.Job,
    size: options.Size,
    strict: options.Strict = False,
    voice: Voice,
) -> int:
    """Judge a strategy you already have.

    Does it fit, how fast is it, and what does it lose against the best plan? With --message: which term of
    memory broke it, and what relieves it.
    """
    from ..inputs.origin import placed
    from ..plans import as_json as json_text
    from ..plans import read_request
    from .check_text import check_text

    request = read_request(source, job.flags() | size.flags(), job.settings)
    read = _configured(config, files, request)
    named = strategy is not None or plan is not None
    if named or not read:
        given = _given(strategy, plan, request, voice)
    else:
        given, request = Given(read[0].strategy, read[0].places), read[0].request
    try:
        if message is not None:
            return _diagnosed(message, request, given.strategy, voice)
        from ..solver import check as judge  # after the input: bad input is told without loading the solver

        found: Check = judge(request, given.strategy)
    except InputError as error:
        raise placed(error, given.places) from None
    if read:
        found = found.model_copy(update={"files": files_told(*read, request)})
    if patch and not voice.as_json:
        return _patched(found, voice)
    voice.data(json_text(found) if voice.as_json else check_text(found, request, voice.verbose))
    return _verdict(found, voice, strict)


def _patched(found: Check, voice: Voice) -> int:
    """The diff alone; an error where there are no files, and a hint where nothing is to be changed."""
    if found.files is None:
        reason = "patches a file of a client: give it with --config"
        raise InputError("patch", True, "--patch", reason, code="contradiction")
    if found.files.diff is not None:
        voice.data(found.files.diff.rstrip("\n"))
        return OK
    told = "no diff reaches this file: check without --patch lists the keys, emit writes it anew"
    voice.hint(told if found.files.patch else "nothing would be changed")
    return NO if found.files.patch else OK


def _diagnosed(source: str, request: Request, given: Strategy, voice: Voice) -> int:
    """Tells what an out-of-memory message means for a strategy."""
    from ..plans import as_json
    from ..plans.message import read_message
    from ..plans.raw import read_source
    from ..solver import diagnose
    from .check_text import diagnosis_text

    text, name = read_source(source, "message")
    found = diagnose(request, given, read_message(text, name))
    voice.data(as_json(found) if voice.as_json else diagnosis_text(found, given))
    if not found.reliefs and found.term != "loading":
        voice.hint("no pair of changes fits: shardwise plan with the same arguments finds what does")
    return NO


def _configured(
    config: list[str] | None, files: list[str] | None, request: Request
) -> tuple[Read, list[Document]] | None:
    """What --config and the files behind it hold; None without them."""
    if config is None:
        if files:
            reason = "one request is judged; files of a client come after --config"
            raise InputError("request", files[0], "argument", reason, code="contradiction")
        return None
    return read_files([*config, *(files or ())], request)


class Given(NamedTuple):
    """A strategy and, by dotted field, the place where it was read."""

    strategy: Strategy
    places: Mapping[str, str]


def _given(strategy: str | None, plan: str | None, request: Request, voice: Voice) -> Given:
    """The strategy of --strategy or --plan: exactly one of them."""
    from ..inputs.files import parse_json
    from ..inputs.lines import json_places
    from ..plans import read_strategy
    from ..plans.raw import read_source

    if (strategy is None) == (plan is None):
        asked = (
            "`check` judges what you have: give --strategy S.json, --plan PLAN.json or --config FILE; "
            "--set alone narrows a search: shardwise plan with the same arguments"
        )
        reason = asked if strategy is None else "contradicts --plan: give one"
        raise InputError("strategy", strategy or "nothing", "--strategy", reason, code="contradiction")
    if plan is not None:
        return Given(kept_plan(plan, voice).strategy, {"strategy": plan})
    spelled = (strategy or "").lstrip().startswith("{")
    text, name = (strategy or "", "--strategy") if spelled else read_source(strategy or "", "strategy")
    data = parse_json(text, "strategy", name)
    chosen = {
        f"strategy.{field.removeprefix('choose.')}": origin
        for field, origin in request.origins.items()
        if field.startswith("choose.") and field.removeprefix("choose.") not in data
    }
    places = {**chosen, **json_places(text, name, "strategy")}
    cards = request.cluster.gpus
    read = read_strategy(data, request.model, name, request.training, cards, places, request.choose)
    return Given(read, places)


def _verdict(found: Check, voice: Voice, strict: bool) -> int:
    """Warnings on standard error and the exit code."""
    from .words import risk

    voice.warnings(found.warnings)
    if found.verdict == "does_not_fit" or found.breaches:
        if not any(warning.code == "card-too-small" for warning in found.warnings):
            voice.hint("the best plan for the same request: shardwise plan with the same arguments")
        return NO
    if found.verdict == "risky" and not found.warnings and not voice.as_json:
        voice.warn(risk(found.memory), "memory above 92 % is known to fail later")
    return NO if found.verdict == "risky" and strict else OK
