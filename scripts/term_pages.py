"""Writes docs/terms/memory/*.md from docs/terms/memory.json and the ledger. Run it after a change."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

from shardwise.costs.book import Book
from shardwise.costs.columns import Strategies
from shardwise.costs.law import law
from shardwise.costs.layout import Layout
from shardwise.costs.moments import MOMENTS
from shardwise.costs.price import price
from shardwise.hardware import Cluster
from shardwise.models import Strategy, Training, Transformer
from shardwise.plans import read_strategy

FOLDER = Path(__file__).parent.parent / "docs" / "terms"
GRADES = {
    "M": "measured",
    "D": "derived and checked",
    "P": "published",
    "R": "recalled",
    "A": "assumed",
}


def entries() -> dict[str, dict[str, Any]]:
    """The terms that have a page."""
    text = (FOLDER / "memory.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["terms"]
    return found


def example(entry: dict[str, Any]) -> tuple[Transformer, Training, Cluster, Strategy]:
    """The job and the strategy of a page: Llama-3.1 8B on eight cards, one sequence of 4,096 tokens each."""
    model, cluster = Transformer.preset("llama-3.1-8b"), Cluster.preset("dgx-h100")
    data = {"micro_batch_size": 1, "gradient_accumulation_steps": 1, **entry["strategy"]}
    strategy = read_strategy(data, model, "docs/terms/memory.json", None, cluster.gpus)
    batch = strategy.data_parallel * strategy.micro_batch_size * strategy.gradient_accumulation_steps
    return model, Training(global_batch_size=batch, sequence_length=4096), cluster, strategy


def of_ledger(name: str, entry: dict[str, Any]) -> float:
    """Bytes of the term in its example, by the ledger."""
    model, training, cluster, strategy = example(entry)
    ledger = price(model, training, cluster, [strategy])[0]
    return 1024.0 * ledger.stages[0].moments_kib[entry["moment"]].get(name, 0)


def by_hand(entry: dict[str, Any]) -> float:
    """The same, as the page works it: a sum of products."""
    return float(sum(prod(_number(factor) for factor in factors) for factors in entry["by_hand"]))


def _number(factor: float | str) -> float:
    return law(factor) if isinstance(factor, str) else factor


def page(name: str, entry: dict[str, Any]) -> str:
    """The page of a term."""
    model, training, cluster, strategy = example(entry)
    book = Book(Layout(model, training, cluster, Strategies.of([strategy])))
    note = next(term.note for term in book.memory[entry["moment"]] if term.name == name)
    moments = [m for m in MOMENTS if any(t.name == name and _lives(t) for t in book.memory[m])]
    worked = " + ".join(" x ".join(_written(x) for x in factors) for factors in entry["by_hand"])
    size = by_hand(entry)
    return (
        f"# {name.replace('_', ' ')}\n\n"
        f"{entry['says']}\n\n"
        f"| | |\n|---|---|\n"
        f"| symbol | {entry['symbol']}, {note.unit} on one card |\n"
        f"| formula | {note.formula} |\n"
        f"| alive at | {', '.join(moments)} |\n"
        f"| source | {note.source} |\n"
        f"| grade | {note.grade}, {GRADES[note.grade]} |\n\n"
        f"**Worked.** Llama-3.1 8B on 8 cards, {entry['setting']}, at the moment `{entry['moment']}`: "
        f"{worked} = {size:,.0f} bytes = **{size / 2**30:.2f} GiB**.\n\n"
        f"`shardwise explain {name}` has it for other ZeRO stages.\n"
    )


def _lives(term: Any) -> bool:
    return any(int(abs(value).max()) for value in term.coefficients.values())


def _written(factor: float | str) -> str:
    if isinstance(factor, str):
        return f"{factor} ({law(factor):,g})"
    return f"{factor:,}"


def files() -> dict[str, str]:
    """Text of every page by file name, and the table of contents."""
    found = {f"{name}.md": page(name, entry) for name, entry in entries().items()}
    lines = [
        f"| [{name.replace('_', ' ')}]({name}.md) | {e['symbol']} | {e['says'].split('.')[0]}. |"
        for name, e in entries().items()
    ]
    found["README.md"] = (
        "# Terms of card memory\n\n"
        "The peak of a card is the largest sum over four moments: end of the forward at the loss,\n"
        "inside the backward, end of the backward, optimizer step; on the worst pipeline stage. Symbols:\n"
        "N parameters, d cards that share a state, T tokens of a micro-batch on a rank, h hidden size,\n"
        "V vocabulary, kappa width of keys, t tensor-parallel degree, A what a layer saves, a token.\n\n"
        "| term | symbol | what |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    )
    return found


def main() -> None:
    """Writes every page."""
    for name, text in files().items():
        (FOLDER / "memory" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
