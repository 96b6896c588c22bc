"""What is said where: data on standard output, hints and warnings on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from ..inputs.record import dataclass

if TYPE_CHECKING:
    from ..plans import Notice

ASIDE = frozenset({"vocabulary"})
"""Codes of warnings that ask for nothing: told with -v."""

_CODES = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1"}


@dataclass(frozen=True)
class Voice:
    """How one command speaks: as JSON or text, how much, and with colour or without."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False

    def data(self, text: str) -> None:
        """The answer, to standard output."""
        _say(text, sys.stdout)

    def warn(self, message: str, hint: str = "") -> None:
        """A warning, told even with -q, and how to act on it."""
        _say(f"{self.paint('warning', 'yellow', sys.stderr)}: {message}", sys.stderr)
        if hint:
            self.hint(hint)

    def warnings(self, found: Sequence[Notice], name: str = "") -> None:
        """Each warning, or with -v alone where nothing is to be done; beside JSON none, which holds them."""
        if self.as_json:
            return
        for each in found:
            if each.code not in ASIDE:
                self.warn(f"{name}{each.message}", each.hint)
            elif self.verbose:
                self.note(f"note: {name}{each.message}; {each.hint}")

    def hint(self, message: str) -> None:
        """What to do next; silent with -q and beside JSON."""
        if not self.quiet and not self.as_json:
            _say(f"{self.paint('hint', 'cyan', sys.stderr)}: {message}", sys.stderr)

    def note(self, message: str) -> None:
        """A line about what happened, such as a file written; silent with -q and beside JSON."""
        if not self.quiet and not self.as_json:
            _say(message, sys.stderr)

    def paint(self, text: str, colour: str, stream: TextIO | None = None) -> str:
        """`text` in a colour where `stream` is a terminal that wants it; the words alone must do."""
        stream = stream or sys.stdout
        if self.no_color or "NO_COLOR" in os.environ or not stream.isatty():
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def _say(text: str, stream: TextIO) -> None:
    stream.write(text if text.endswith("\n") else text + "\n")
    stream.flush()
