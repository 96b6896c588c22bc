"""What people asked in public threads, each as predicates on commands: ``python -m benchmarks.cases CSV [PREDICATES]``

CSV has a case a line (id, kind, source, setup, expected_from_our_tool); ``data/cases/users.csv`` is ours.
What must hold stands in ``data/cases/predicates/*.json``, written before the first run and not edited after
(the version history shows it); what misses is explained in the file of the same name under ``data/cases/why/``.
Without PREDICATES all of those files are used.

**To add a kind**, write ``data/cases/predicates/NAME.json``:

    {"about": "what these cases are, and what was assumed where a thread is silent",
     "cases": {
       "c019": {
         "says": "52 heads over 8 ranks: 4 is suggested",
         "files": {"config.json": {"model_type": "llama"}, "message.txt": "any text"},
         "runs": {"tp8": ["plan", "{folder}/config.json", "--cluster", "dgx-a100-80gb", "--nodes", "1",
                          "--global-batch-size", "64", "--sequence-length", "2048",
                          "--set", "tensor_parallel=8", "--json"]},
         "holds": [{"at": "exit_code", "equals": 1},
                   {"at": "cures.*.set", "contains": "tensor_parallel=4"}]}}}

`files` are written into an empty folder first (objects as JSON). `runs` are command lines of `shardwise`, run
in order in this process; `{folder}` is that folder, `{repository}` the checkout, and what one run wrote a
later one may read. `holds` are predicates: `benchmarks.predicates` has their subjects and verbs. Commit the
file, run, and only then write ``why/NAME.json``: {"c019": "one or two sentences on the cause of the miss"}.
"""  # noqa: E501

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shardwise.cli import main as shardwise
from shardwise.inputs import InputError, read_text
from shardwise.inputs.files import parse_json
from shardwise.runs.record import Record, read_records

from .face import Result, run, table
from .predicates import Outcome, judge, sentence

REPOSITORY = Path(__file__).parent.parent
CASES = REPOSITORY / "benchmarks" / "data" / "cases"
COLUMNS = ("id", "kind", "source", "setup", "expected_from_our_tool")


def measure(files: Sequence[str]) -> Result:
    """Every predicate on every case that has some, misses first; and counts by kind."""
    records = read_records(files[0], COLUMNS)
    sources = [Path(name) for name in files[1:]] or sorted((CASES / "predicates").glob("*.json"))
    lines = [line for source in sources for line in _file_lines(source, {r.text("id"): r for r in records})]
    lines.sort(key=lambda line: (line["verdict"] == "held", line["id"], line["predicate"]))
    kinds = sorted({record.text("kind") for record in records})
    of = {kind: [record for record in records if record.text("kind") == kind] for kind in kinds}
    return {
        "kinds": {kind: _counts(of[kind], lines) for kind in kinds},
        "total": _counts(records, lines),
        "lines": lines,
    }


def _counts(records: Iterable[Record], lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Cases, those with predicates, those of which every predicate holds; and the predicates."""
    ids = [record.text("id") for record in records]
    own = [line for line in lines if line["id"] in set(ids)]
    missed = [line for line in own if line["verdict"] == "missed"]
    asked, failed = {line["id"] for line in own}, {line["id"] for line in missed}
    return {
        "cases": len(ids),
        "cases_asked": len(asked),
        "cases_held": len(asked - failed),
        "predicates": len(own),
        "held": len(own) - len(missed),
        "missed": len(missed),
        "explained": sum(bool(line["why"]) for line in missed),
    }


def _file_lines(source: Path, records: Mapping[str, Record]) -> list[dict[str, Any]]:
    """The lines of one file of predicates, of the cases that `records` has."""
    cases = _table(source)["cases"]
    reasons = source.parent.parent / "why" / source.name
    why = _table(reasons) if reasons.is_file() else {}
    return [
        {**line, "id": name, "kind": records[name].text("kind"), "source": records[name].text("source"),
         "why": why.get(name, "") if line["verdict"] == "missed" else ""}
        for name, case in cases.items() if name in records
        for line in judged(case)
    ]  # fmt: skip


def _table(path: Path) -> Any:
    return parse_json(read_text(path, "predicates"), "predicates", str(path))


def judged(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The predicates of one case, each with its verdict and what was found."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in case.get("files", {}).items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / file).write_text(text, encoding="utf-8")
        runs = {title: commanded(words, folder) for title, words in case["runs"].items()}
        if not case["holds"]:
            raise InputError("holds", "[]", str(case.get("says")), "must hold one predicate or more")
        found = [(sentence(predicate), *judge(predicate, runs)) for predicate in case["holds"]]
    return [
        {"predicate": said, "verdict": "held" if held else "missed", "found": _short(values)}
        for said, held, values in found
    ]


def commanded(words: Sequence[str], folder: Path) -> Outcome:
    """What one command line of `shardwise` prints and returns."""
    out, err = io.StringIO(), io.StringIO()
    places = {"{folder}": str(folder), "{repository}": str(REPOSITORY)}
    filled = [reduce(lambda text, place: text.replace(*place), places.items(), word) for word in words]
    with redirect_stdout(out), redirect_stderr(err):
        code = shardwise(filled)
    printed = out.getvalue().replace(str(folder), "{folder}")
    try:
        answer = json.loads(printed)
    except ValueError:
        answer = None
    return Outcome(code, printed + err.getvalue().replace(str(folder), "{folder}"), answer, folder)


def _short(values: Sequence[Any]) -> str:
    """Values for a line of the table."""
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    text = " ".join("; ".join(shown).split())
    return text if len(text) <= 160 else f"{text[:120]} ... {text[-35:]}"


def text(found: Result) -> str:
    """Misses row by row with their reason, then the predicates that hold, then counts by kind."""
    parts = []
    for line in found["lines"]:
        parts.append(f"{line['verdict']}  {line['id']}  {line['predicate']}")
        parts.append(f"        found: {line['found'] or 'nothing'}")
        if line["verdict"] == "missed":
            parts.append(f"        why: {line['why'] or 'not explained'}")
    keys = ("cases", "cases_asked", "cases_held", "predicates", "held", "missed", "explained")
    counts = {**found["kinds"], "total": found["total"]}
    rows = [[kind, *(score[key] for key in keys)] for kind, score in counts.items()]
    return "\n".join(parts) + "\n\n" + table(("kind", *(key.replace("_", " ") for key in keys)), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run((__doc__ or "").splitlines()[0], ["CSV", "PREDICATES*"], measure, text, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
