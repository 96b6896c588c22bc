"""Writes docs/reference from the code: ``python scripts/docs.py``; a test holds the pages to it."""

from __future__ import annotations

from pathlib import Path

from shardwise.costs.glossary import term_names, term_text
from shardwise.plans.fields import field_names, field_text

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


def pages() -> dict[str, str]:
    """File name to text of every generated page."""
    return {"commands.md": commands(), "fields.md": fields(), "terms.md": terms()}


def commands() -> str:
    """Every command with its arguments and flags."""
    from typer.main import get_command

    from shardwise.cli.app import make_app

    group = get_command(make_app())
    lines = ["# Commands", ""]
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        about = " ".join((command.help or "").split())
        lines += [f"## shardwise {name}", "", about, "", "| argument or flag | meaning |", "|---|---|"]
        for parameter in command.params:
            words = [*parameter.opts, *parameter.secondary_opts]
            flag = parameter.param_type_name == "option"
            metavar = parameter.metavar or ""
            spelled = f"`{', '.join(words)}{' ' + metavar if metavar else ''}`" if flag else f"`{metavar}`"
            help_text = " ".join((getattr(parameter, "help", "") or "").split())
            lines.append(f"| {spelled.replace('|', chr(92) + '|')} | {help_text} |")
        lines.append("")
    return "\n".join(lines)


def fields() -> str:
    """Every field of a request."""
    lines = [
        "# Fields of a request",
        "",
        "| field | meaning | unit | default | elsewhere |",
        "|---|---|---|---|---|",
    ]
    for name in field_names():
        text = field_text(name)
        called = ", ".join(f"{tool} `{word}`" for tool, word in text.names.items())
        lines.append(f"| `{name}` | {text.meaning} | {text.unit} | {text.default} | {called} |")
    return "\n".join([*lines, ""])


def terms() -> str:
    """Every term of the ledger with its formula and source."""
    lines = [
        "# Terms of the ledger",
        "",
        "| term | formula | unit | source | grade |",
        "|---|---|---|---|---|",
    ]
    for name in term_names():
        text = term_text(name)
        lines.append(f"| `{name}` | {text.formula} | {text.unit} | {text.source} | {text.grade} |")
    grades = "Grades: M measured, D derived, P published, R reported, A assumed."
    return "\n".join([*lines, "", grades, ""])


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for page, text in pages().items():
        (FOLDER / page).write_text(text, encoding="utf-8")
