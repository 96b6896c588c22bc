"""What Megatron-LM is asked for: arguments of a script, a list or a YAML file, with their places."""

from __future__ import annotations

from typing import Any

from ...inputs import InputError
from ..bundle import Bundle, Given, whole
from ..documents import Document
from ..documents.script import spoken


class Arguments:
    """All arguments of a bundle: flags of scripts, and the leaves of a YAML file."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        file = bundle.of("megatron")
        self.leaves: dict[str, Given] = {}
        if file is not None and file.kind != "script":
            self._flatten(file, file.values, "")

    def _flatten(self, file: Document, table: dict[str, Any], path: str) -> None:
        for key, value in table.items():
            inner = f"{path}.{key}" if path else key
            if isinstance(value, dict):
                self._flatten(file, value, inner)
            else:
                self.leaves[key.replace("-", "_")] = Given([str(value)], file.where(inner))

    def given(self, name: str) -> Given | None:
        """The words behind an argument and their place."""
        found = self.bundle.argument(name) or self.leaves.get(name)
        return None if found and found.value and found.value[0] in ("None", "null") else found

    def values(self, name: str) -> list[str]:
        """The words of an argument that takes some; none where it is not there or comes from outside."""
        found = self.given(name)
        if found is not None and not found.value:
            raise self.wrong(name, "needs a value: argparse stops there")
        return [] if found is None else spoken(found.value)

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number."""
        words, found = self.values(name), self.given(name)
        if found is None or not words:
            return default
        number = whole(words[0], name, found.where)
        if number < 1:
            raise InputError(name, number, found.where, "must be at least 1", legal=["1"])
        return number

    def count(self, name: str, default: int = 1) -> int:
        """A whole number that has a default."""
        return self.number(name, default) or default

    def switch(self, name: str) -> bool:
        """Whether a switch is set: as a flag, which takes no value, or as true in a YAML file."""
        if self.bundle.argument(name) is None and name in self.leaves:
            return self._truth(name)
        found = self.given(name)
        if found is not None and (words := spoken(found.value)):
            raise self.wrong(name, f"is a switch and takes no value: argparse stops at {words[0][:40]!r}")
        return found is not None

    def _truth(self, name: str) -> bool:
        found = self.given(name)
        if found is not None and found.value[0] not in ("True", "False"):
            raise self.wrong(name, "must be true or false", ("true", "false"))
        return found is not None and found.value[0] == "True"

    def asked(self, name: str) -> bool:
        """Whether an argument is there, with any value that does not switch it off."""
        found = self.given(name)
        return found is not None and found.value[:1] != ["False"]

    def word(self, name: str) -> str | None:
        """The first word."""
        return next(iter(self.values(name)), None)

    def wrong(self, name: str, reason: str, legal: tuple[str, ...] = ()) -> InputError:
        """The error of an argument."""
        found = self.given(name)
        value = " ".join(found.value[:3]) if found else "nothing"
        origin = found.where if found else "arguments"
        return InputError(f"--{name.replace('_', '-')}", value or "set", origin, reason, legal=legal)
