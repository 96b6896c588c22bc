"""Writes the answers in docs/clusters.md anew: ``python scripts/cluster_page.py``

Each TOML request of the page that plans is asked, and what stands between the comments after it is replaced.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

PAGE = Path(__file__).resolve().parent.parent / "docs" / "clusters.md"
ANSWER = re.compile(r"```toml\n(model = .*?)```\n(.*?)<!-- answer -->\n.*?<!-- end -->\n", re.S)
TOLD = ("allocation", "fragments", "pools")


def answer(request: str) -> str:
    """Warnings of the plan, and what other choices lose."""
    from shardwise import Plan, plan
    from shardwise.plans import read_request

    with TemporaryDirectory() as folder:
        file = Path(folder, "request.toml")
        file.write_text(request, encoding="utf-8")
        found = plan(read_request(str(file)))
    assert isinstance(found, Plan)
    lines = []
    for notice in found.warnings:
        if notice.code in TOLD:
            texts = (f"warning: {notice.message}", f"hint: {notice.hint}")
            lines += [line for text in texts for line in textwrap.wrap(text, 124, subsequent_indent=" " * 9)]
    rows = [
        f"| {other.name} | {other.step_seconds:.4g} s | {other.loss_percent:.0f} % | {other.why} |"
        for other in found.alternatives
    ]
    told = "\n".join(f"    {line}" for line in lines)
    table = "\n".join(["| instead | step | loss | |", "|---|---|---|---|", *rows])
    return f"    a step takes {found.time.step_seconds:.4g} s\n{told}\n\n{table}\n"


def page(text: str) -> str:
    """The page with its answers as they are now."""

    def renewed(met: re.Match[str]) -> str:
        return f"```toml\n{met[1]}```\n{met[2]}<!-- answer -->\n{answer(met[1])}<!-- end -->\n"

    return ANSWER.sub(renewed, text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
