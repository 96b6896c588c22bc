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
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeGuard

from . import interrupts

if TYPE_CHECKING:
    from typer.exceptions import TyperException

    from ..inputs import InputError

OK, NO, USAGE, STOPPED, DEFECT, PIPE, INTERRUPTED = 0, 1, 2, 3, 70, 141, 130


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
        from .usage import usage

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
