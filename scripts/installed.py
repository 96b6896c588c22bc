"""An installed package against the tree: ``python scripts/installed.py TREE``, by that package's interpreter.

Its files are those of the tree, byte for byte, and each module loads with what is installed beside it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import shardwise

WRITTEN = "shardwise.launch.fsdp.parts."
"""Modules that are written into launch folders, for the torch of whoever starts them."""


def files(folder: Path) -> dict[str, bytes]:
    """Contents by path of what stands below a folder and its links, without bytecode."""
    found = {}
    for place, below, names in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if name != "__pycache__"]
        paths = [Path(place, name) for name in names]
        found |= {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return found


def differing(tree: Path, package: Path) -> Iterator[str]:
    """What is wrong with each file that is not as in the tree."""
    wanted, found = files(tree / "src" / "shardwise"), files(package)
    if package.resolve().is_relative_to(tree.resolve() / "src"):
        yield f"{package} is the tree itself"
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield f"{name} is missing"
        elif name not in wanted:
            yield f"{name} is not in the tree"
        elif found[name] != wanted[name]:
            yield f"{name} differs"


def unloadable() -> Iterator[str]:
    """Modules of the package that cannot be imported, and why."""
    for module in pkgutil.walk_packages(shardwise.__path__, "shardwise.", onerror=lambda name: None):
        if module.name.endswith("__main__") or module.name.startswith(WRITTEN):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            yield f"{module.name}: {type(error).__name__}: {error}"


def main() -> int:
    """Prints what is wrong; 1 if anything is."""
    wrong = [*differing(Path(sys.argv[1]), Path(shardwise.__path__[0])), *unloadable()]
    print("\n".join(wrong) or "every file is the tree's, every module loads")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
