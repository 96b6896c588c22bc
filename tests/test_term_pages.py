"""Pages of the memory terms: the worked number is the ledger's, and the text is current."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "term_pages.py"


def script() -> ModuleType:
    """scripts/term_pages.py as a module."""
    spec = importlib.util.spec_from_file_location("term_pages", SCRIPT)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


PAGES = script()


@pytest.mark.parametrize("name", sorted(PAGES.entries()))
def test_the_worked_number_is_the_ledgers(name: str) -> None:
    """A sum of products by hand, and what the ledger says of the same job, to the KiB's rounding."""
    entry = PAGES.entries()[name]

    assert PAGES.by_hand(entry) == pytest.approx(PAGES.of_ledger(name, entry), rel=1e-6, abs=4096)


def test_pages_are_current() -> None:
    """`python scripts/term_pages.py` would write what is there."""
    folder = PAGES.FOLDER / "memory"

    assert {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} == PAGES.files()
