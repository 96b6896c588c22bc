"""Which release of the package this is."""

from __future__ import annotations

from importlib import import_module


def release() -> str:
    """The version of the installed package, as its root says it; metadata would be read from disk."""
    return str(import_module(__name__.partition(".")[0]).__version__)
