"""A command line that cannot be read, told as every other bad input: what, where from, why, what would do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typer.exceptions import TyperException

ORIGIN = "command line"

_COMMAND = re.compile(r"No such command ['\"](.*?)['\"]\.", re.DOTALL)
_SURPLUS = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)


def usage(error: TyperException, commands: Sequence[str]) -> dict[str, Any]:
    """The error object of a command line that typer refused; `commands` are those there are."""
    from ..inputs import shorten

    field, value, reason, legal = _told(error, commands)
    value = shorten(value)
    head = value if field == value else f"{field} = {value}"
    message = f"{head} (from {ORIGIN}): {shorten(' '.join(reason.split()), 300)}"
    message += f"; legal: {', '.join(legal)}" if legal else ""
    return {
        "code": "usage", "field": field, "value": value, "origin": ORIGIN, "message": message, "legal": legal,
    }  # fmt: skip


def _told(error: TyperException, commands: Sequence[str]) -> tuple[str, str, str, list[str]]:
    """Field, value, reason and what is legal."""
    text = error.format_message()
    unknown, surplus = _COMMAND.match(text), _SURPLUS.match(text)
    if unknown:
        near = get_close_matches(unknown[1], commands, n=3, cutoff=0.6) or list(commands)
        return "command", unknown[1], "is no command of shardwise", near
    if surplus:
        return ORIGIN, surplus[1], f"is more than `{_path(error)}` takes: {_arguments(error)}", []
    option = str(getattr(error, "option_name", None) or "")
    if type(error).__name__ == "NoSuchOption":
        return option, option, f"is no option of `{_path(error)}`", _instead(error, option)
    if option:
        reason = text.removeprefix(f"Option {option!r} ").rstrip(".")
        return option, "nothing" if "requires" in reason else option, reason, _example(error, option)
    if type(error).__name__ == "MissingParameter":
        return _missing(error)
    name = _name(getattr(error, "param", None))
    return name, name, text, []


def _missing(error: TyperException) -> tuple[str, str, str, list[str]]:
    """A word that the command needs; where it is one of a few, the help of an argument lists them."""
    parameter, path = getattr(error, "param", None), _path(error)
    name = _name(parameter)
    few = name.split("|") if name.islower() and "|" in name else []
    help_text = str(getattr(parameter, "help", None) or "").rstrip(".")
    what = f"is required: {help_text[:1].lower()}{help_text[1:]}" if help_text else "is required"
    return name, "nothing", f"{what}; `{path} --help` tells what it takes", few


def _path(error: TyperException) -> str:
    """The command as it was called."""
    return getattr(getattr(error, "ctx", None), "command_path", "") or "shardwise"


def _parameters(error: TyperException) -> list[Any]:
    command = getattr(getattr(error, "ctx", None), "command", None)
    return list(getattr(command, "params", ()))


def _arguments(error: TyperException) -> str:
    """What stands on the command line without a dash, as help has it."""
    names = [_name(each) for each in _parameters(error) if _is_argument(each)]
    return " ".join(names) or "no words"


def _is_argument(parameter: Any) -> bool:
    return getattr(parameter, "param_type_name", "") == "argument"


def _name(parameter: Any) -> str:
    """A parameter as a person writes it: its long option, or its word in the help."""
    if parameter is None:
        return ORIGIN
    options = [each for each in getattr(parameter, "opts", ()) if each.startswith("--")]
    if options and not _is_argument(parameter):
        return str(options[0])
    return str(getattr(parameter, "metavar", None) or getattr(parameter, "name", None) or ORIGIN)


def _example(error: TyperException, option: str) -> list[str]:
    """The option with what it takes."""
    found = [each for each in _parameters(error) if option in getattr(each, "opts", ())]
    metavar = getattr(found[0], "metavar", None) if found else None
    return [f"{option} {metavar}"] if metavar else []


def _instead(error: TyperException, option: str) -> list[str]:
    """What was meant by an unknown option: a field of the request, or the options nearest to it."""
    takes_set = any("--set" in getattr(each, "opts", ()) for each in _parameters(error))
    field = _field_of(option) if takes_set else None
    return [f"--set {field}=VALUE"] if field else sorted(getattr(error, "possibilities", None) or [])


def _field_of(option: str) -> str | None:
    """The field of a request that somebody gave as an option of its name, in the words of ``--set``."""
    from ..inputs import InputError
    from ..plans.settings import field_of

    key = option.lstrip("-").replace("-", "_")
    with suppress(InputError):
        return key if field_of(key, ORIGIN) else None
    return None
