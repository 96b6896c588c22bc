"""The walls of the house: who may import whom, who may print, who may touch OR-Tools."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardwise

ROOT = Path(shardwise.__file__).resolve().parent
FLOORS = {
    "inputs": 0,
    "models": 1,
    "hardware": 1,
    "costs": 2,
    "plans": 3,
    "runs": 3,
    "solver": 4,
    "calibration": 4,
    "launch": 4,
    "cli": 5,
}
MODULES = sorted(path for room in FLOORS for path in (ROOT / room).resolve().rglob("*.py"))


def room_of(path: Path) -> str:
    """The room a module lies in."""
    return next(part for part in reversed(path.parts[:-1]) if part in FLOORS)


def imported_rooms(path: Path) -> Iterator[str]:
    """Rooms a module imports, at its head or inside functions."""
    room = room_of(path)
    base = next(parent for parent in path.parents if parent.name == room)
    depth = len(path.relative_to(base).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("shardwise."):
                    yield alias.name.split(".")[1]
        elif isinstance(node, ast.ImportFrom):
            if node.level == depth + 1:
                names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
                yield from names
            elif node.level == 0 and (node.module or "").startswith("shardwise"):
                yield (node.module or "").split(".")[1] if "." in (node.module or "") else "shardwise"


def calls(path: Path, name: str) -> bool:
    """Whether a module calls the builtin `name`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(tree)
    )


def test_every_room_is_found() -> None:
    """The list of modules is not empty for any room, so the tests below cannot pass on nothing."""
    assert {room_of(path) for path in MODULES} == set(FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{room_of(path)}/{path.name}")
def test_imports_go_down(path: Path) -> None:
    """A floor knows only the floors under it; rooms on one floor do not know each other."""
    room = room_of(path)
    wrong = [
        other for other in imported_rooms(path) if other != room and FLOORS.get(other, 9) >= FLOORS[room]
    ]

    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{room_of(path)}/{path.name}")
def test_only_the_solver_knows_ortools(path: Path) -> None:
    """OR-Tools is imported in `solver/` alone."""
    names = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    }

    assert "ortools" not in names or room_of(path) == "solver"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{room_of(path)}/{path.name}")
def test_only_the_faces_print(path: Path) -> None:
    """Nothing below `cli` prints; modules that are written out as files of a plan are no part of it."""
    written_out = "parts" in path.parts

    assert not calls(path, "print") or room_of(path) == "cli" or written_out


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import shardwise` loads no numpy, pydantic, networkx or OR-Tools."""
    heavy = ("numpy", "pydantic", "networkx", "ortools")
    code = f"import sys, shardwise; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_every_export_is_listed_and_there() -> None:
    """`__all__` is sorted, complete, and each name can be imported."""
    assert shardwise.__all__ == sorted(shardwise.__all__)
    assert all(getattr(shardwise, name) is not None for name in shardwise.__all__)
