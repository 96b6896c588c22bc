"""Every failure as one message and one exit code.

| code | when |
|---|---|
| 0 | a plan, or it fits |
| 1 | proved that nothing fits; does not fit |
| 2 | usage or input error |
| 3 | a limit stopped the search before any plan |
| 70 | a defect of this program (`SHARDWISE_TRACEBACK=1` shows where) |
| 130 | interrupted; `plan` has shown the best so far |
| 141 | the reader of a pipe went away |
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeGuard

from . import interrupts

if TYPE_CHECKING:
    from typer.exceptions import TyperException

    from ..inputs import InputError

OK, NO, USAGE, STOPPED, DEFECT, PIPE, INTERRUPTED = 0, 1, 2, 3, 70, 141, 130

_COMMAND = re.compile(r"No such command ['\"](.*?)['\"]\.", re.DOTALL)


def guarded(body: Callable[[], int], words: Sequence[str], commands: Sequence[str]) -> int:
    """Runs `body` and returns its exit code, or tells what went wrong and returns that of the failure.

    `words` is the command line: JSON is asked for where it holds ``--json``.
    """
    try:
        code = body()
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code
            print("interrupted", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return PIPE
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _drop_output()  # typer turns a closed pipe into exit 1, which is the answer NO of ours
        return PIPE
    except Exception as error:
        if interrupts(error):
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        if _of_typer(error):
            return _tell_usage(error, words, commands)
        if os.environ.get("SHARDWISE_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.filename is None:  # of a stream: files have names
            _drop_output()
            tell(finding_of(_unsaid(error)), as_json=False)
            return USAGE
        finding = finding_of(error)
        tell(finding, "--json" in words)
        return DEFECT if finding["code"] == "defect" else USAGE


def _drop_output() -> None:
    """Points standard output at nothing, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unsaid(error: OSError) -> InputError:
    """An answer that the standard output did not take."""
    from ..inputs import InputError

    reason = f"cannot be written: {error.strerror or error}"
    return InputError("output", "-", "standard output", reason, code="output-exists")


def _of_typer(error: Exception) -> TypeGuard[TyperException]:
    """Whether typer raised it; typer is loaded then, and need not be for this question."""
    exceptions = sys.modules.get("typer.exceptions")
    return exceptions is not None and isinstance(error, exceptions.TyperException)


def _tell_usage(error: TyperException, words: Sequence[str], commands: Sequence[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)
    else:
        tell(usage(error, commands), "--json" in words)
    return USAGE


def finding_of(error: Exception) -> dict[str, Any]:
    """The error object of an `InputError`; anything else is a defect of ours and says so."""
    from ..inputs import InputError

    if isinstance(error, InputError):
        return {
            "code": error.code,
            "field": error.field,
            "value": error.value,
            "origin": error.origin,
            "message": error.message,
            "legal": error.legal,
        }
    what = f"{type(error).__name__}: {error}"[:200]
    message = f"a defect of shardwise, not of your input ({what}); SHARDWISE_TRACEBACK=1 shows where"
    return {"code": "defect", "field": "", "value": "", "origin": "", "message": message, "legal": []}


def usage(error: TyperException, commands: Sequence[str]) -> dict[str, Any]:
    """The error object of a command line that cannot be read."""
    from ..inputs import shorten

    message = shorten(" ".join(error.format_message().split()), 300)
    option = getattr(error, "option_name", None)
    legal = sorted(getattr(error, "possibilities", None) or [])
    unknown = _COMMAND.match(error.format_message())
    field = _field_of(option) if type(error).__name__ == "NoSuchOption" and _takes_set(error) else None
    if field:
        legal = [f"--set {field}=VALUE"]
        message = f"No such option: {option}; legal: {legal[0]}"
    parameter = getattr(error, "param", None)
    if unknown:
        value = unknown[1]
        legal = get_close_matches(value, commands, n=3, cutoff=0.6) or list(commands)
        message = f"no such command {value[:40]!r}; legal: {', '.join(legal)}"
    else:
        value = option or ""
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    if type(error).__name__ == "MissingParameter" and path:
        message = f"{message} `{path} --help` tells what it takes"
    named = "command" if unknown else option or getattr(parameter, "name", None) or "command line"
    return {
        "code": "usage",
        "field": named,
        "value": value[:80],
        "origin": "command line",
        "message": message,
        "legal": legal,
    }


def _takes_set(error: TyperException) -> bool:
    """Whether the command takes ``--set``."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    return any("--set" in getattr(each, "opts", ()) for each in getattr(command, "params", ()))


def _field_of(option: str | None) -> str | None:
    """The field of a request that somebody gave as an option of its name, in the words of ``--set``."""
    from ..inputs import InputError
    from ..plans.settings import field_of

    key = (option or "").lstrip("-").replace("-", "_")
    with suppress(InputError):
        return key if field_of(key, "command line") else None
    return None


def tell(finding: dict[str, Any], as_json: bool) -> None:
    """Prints an error object: JSON on standard output, or one line on standard error.

    JSON that the standard output does not take becomes the line.
    """
    if as_json:
        try:
            print(json.dumps({"error": finding}, sort_keys=True, indent=2), flush=True)
            return
        except OSError:
            _drop_output()
    line = "".join(c if c.isprintable() else "?" for c in finding["message"])
    with suppress(OSError):
        print(f"error: {line}", file=sys.stderr)
