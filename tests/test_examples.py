"""The ten requests in examples/ print what stands beside them; ``python scripts/examples.py`` renews it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [pytest.mark.tree, pytest.mark.slow]

if not (ROOT / "scripts" / "examples.py").exists():
    pytest.skip("the scripts stand in the tree alone", allow_module_level=True)
spec = importlib.util.spec_from_file_location("examples_script", ROOT / "scripts" / "examples.py")
assert spec is not None and spec.loader is not None
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def test_there_are_ten() -> None:
    """One request a first user's script, numbered."""
    names = [path.name[:2] for path in script.requests()]

    assert names == [f"{number:02d}" for number in range(1, 11)]


@pytest.mark.parametrize("path", script.requests(), ids=lambda path: path.stem)
def test_an_example_prints_its_golden_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, in 80 columns, whatever the terminal; what is said aside stands on lines of its own."""
    monkeypatch.chdir(ROOT)
    found = script.output(path)

    assert found == path.with_suffix(".out").read_text(encoding="utf-8")
    printed = [line for line in found.splitlines() if not line.startswith(("$", "warning: ", "hint: "))]
    assert max(map(len, printed)) <= 80
