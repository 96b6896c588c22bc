"""The one exception of the package: bad input, told so that a person can mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class InputError(ValueError):
    """Input that cannot be used.

    Raised by readers and validators, never by the search: an outcome without a plan is a value.

    Attributes: `code` a stable kebab-case word; `field` the dotted field of the request or the key
    of the file; `value` what was met; `origin` where it stood (``job.toml:9``,
    ``--nodes``, ``default``); `legal` the nearest legal values, best first; where more are legal than are
    listed the message says so.

    >>> str(InputError("nodes", -1, "--nodes", "must be at least 1", legal=["1"]))
    'nodes = -1 (from --nodes): must be at least 1; legal: 1'
    """

    def __init__(
        self,
        field: str,
        value: object,
        origin: str,
        reason: str,
        *,
        legal: Sequence[str] = (),
        code: str = "bad-value",
    ) -> None:
        self.code = code
        self.field = shorten(field)
        self.value = shorten(value)
        self.origin = shorten(origin, 240)
        self.reason = reason
        self.legal = legal if isinstance(legal, list) else list(legal)
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The one line a person reads."""
        head = f"{self.field} = {self.value} (from {self.origin}): {self.reason}"
        others = " and others" if getattr(self.legal, "more", False) else ""
        return f"{head}; legal: {', '.join(self.legal)}{others}" if self.legal else head


def shorten(value: object, length: int = 80) -> str:
    """`value` as one printable line of at most `length` characters.

    >>> shorten("a" * 100, 10), shorten(("q_proj", True))
    ('aaaaaaa...', '["q_proj", true]')
    """
    if isinstance(value, int) and value.bit_length() > 4 * length:
        return f"an integer of {value.bit_length()} bits"
    text = value if isinstance(value, str) else _written(value)
    text = "".join(c if c.isprintable() else "?" for c in text[: length + 1])
    return text if len(text) <= length else text[: length - 3] + "..."


def _written(value: object) -> str:
    """`value` as a file has it: lists, tables, truth and nothing in the words of JSON, a noun by its name."""
    if isinstance(value, bool | list | tuple | Mapping) or value is None:
        import json

        try:
            return json.dumps(value, ensure_ascii=False, default=_called)
        except (TypeError, ValueError, RecursionError):
            return repr(value)
    return _called(value)


def _called(value: object) -> str:
    return str(getattr(value, "name", None) or repr(value))
