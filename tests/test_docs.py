"""The docs tell what the code does: generated pages are current, and every command in them runs."""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardwise.cli import main
from shardwise.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if p.exists()]

pytestmark = pytest.mark.tree


def consoles(path: Path) -> Iterator[str]:
    """Command lines of the console blocks of a page; a line ending in a backslash goes on."""
    for block in re.findall(r"```console\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ shardwise "):
                yield line.removeprefix("$ ").partition(" #")[0].strip()


def test_generated_pages_are_current() -> None:
    """``python scripts/docs.py`` would change nothing."""
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, text in script.pages().items():
        assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == text, name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    """Each command stands in the reference."""
    assert f"## shardwise {name}" in (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in PAGES if any(consoles(p))], ids=lambda path: path.name)
def test_every_command_in_a_page_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder with the examples, one after the other; none is bad usage, none a defect."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    own = {
        "topo.txt": ROOT / "examples" / "10_cut_matrix.txt",
        "job.toml": ROOT / "examples" / "01_does_it_fit.toml",
        "mine.json": ROOT / "examples" / "01_zero2.json",
        "path/to/config.json": ROOT / "tests" / "data" / "hf_configs" / "llama3_1_8b.json",
    }
    for name, source in own.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for line in consoles(path):
        if "runs.csv" in line:
            continue  # measured steps of the reader's own
        told = ""
        for part in line.split(" | "):
            monkeypatch.setattr("sys.stdin", io.StringIO(told))
            code = main(shlex.split(part)[1:])
            said = capsys.readouterr()
            told = said.out
            assert code in (0, 1), f"{part}\n{said.err}"


def test_the_page_of_the_curves_is_current() -> None:
    """``python scripts/curves_page.py`` would change nothing."""
    spec = importlib.util.spec_from_file_location("curves_page", ROOT / "scripts" / "curves_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert (ROOT / "docs" / "curves.md").read_text(encoding="utf-8") == module.page()
