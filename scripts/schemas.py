"""Writes docs/schemas/*.json from the types. Run it after a change of a public type."""

from __future__ import annotations

from pathlib import Path

from shardwise.cli.schema import schema_files

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"


def main() -> None:
    """Writes every schema."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
