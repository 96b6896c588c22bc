"""How much a search does, in counts: rows priced, option tables, masters, leaves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shardwise.hardware import Cluster
from shardwise.models import Training
from shardwise.plans import Request
from shardwise.solver import close, search
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.search import Search
from shardwise.solver.uniform import uniform


def asked(model: str, batch: int, length: int, nodes: int = 8, **choose: Any) -> Request:
    """A model on machines of eight cards."""
    training = Training(global_batch_size=batch, sequence_length=length)
    cluster = Cluster.preset("dgx-h100", nodes=nodes)
    return Request(model=model, cluster=cluster, training=training, choose=choose)


def work(request: Request, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What the search of a request does."""
    found: Counter[str] = Counter()
    tables = close.Closing._tables

    def even(part: Coefficients) -> Any:
        found["batches"] += 1
        found["rows"] += len(part.strategies)
        return uniform(part)

    def made(closing: Any, entry: Any) -> Any:
        found["tables"] += 1
        return tables(closing, entry)

    monkeypatch.setattr(search, "uniform", even)
    monkeypatch.setattr(close.Closing, "_tables", made)
    outcome = Search(request).run()
    assert outcome.best is not None and outcome.proved
    found["masters"], found["leaves"] = outcome.tally.masters, outcome.tally.leaves
    return found


@pytest.mark.parametrize(
    ("model", "batch", "length", "most"),
    [
        ("llama-2-7b", 512, 4096, {"batches": 1, "rows": 1000, "tables": 1}),
        ("llama-3.1-70b", 512, 8192, {"batches": 2, "rows": 5500, "tables": 5}),
    ],
)
def test_a_search_closes_by_bounds(
    model: str, batch: int, length: int, most: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few batches, few rows whose memory is priced, hardly an option table; one leaf and no master."""
    found = work(asked(model, batch, length), monkeypatch)

    assert (found["masters"], found["leaves"]) == (0, 1)
    assert {name: found[name] for name in most if found[name] > most[name]} == {}


def test_a_stack_of_two_kinds_is_closed_by_frontiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of two kinds lie in order, so frontiers are exact: a leaf, or two that bounds do not part."""
    request = asked("deepseek-v3", 15360, 4096, nodes=256, virtual_pipeline=[1])
    found = work(request, monkeypatch)

    assert found["leaves"] <= 2
    assert found["rows"] <= 3500 and found["tables"] <= 50


def test_interleaved_chunks_of_two_kinds_take_a_leaf_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frontiers do not know that rounds wait for embedding and head; twice as many rows can be opened."""
    found = work(asked("deepseek-v3", 15360, 4096, nodes=256), monkeypatch)

    assert found["leaves"] <= 2
    assert found["rows"] <= 6000 and found["tables"] <= 60


@pytest.mark.parametrize("model", ["llama-2-7b", "llama-3.1-70b"])
def test_rows_that_stand_alone_need_one_table(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FSDP leaves each layer free on its one stage: such rows are solved at once, the best is the leaf."""
    found = work(asked(model, 512, 8192, backend=["fsdp"]), monkeypatch)

    assert (found["tables"], found["masters"], found["leaves"]) == (1, 0, 1)


def test_masters_are_asked_once_a_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several rows are within the limit: bounds are sharp before the master chooses."""
    found = work(asked("llama-3.1-8b", 256, 8192, rules=("tensor_parallel >= 2",)), monkeypatch)

    assert found["masters"] == found["leaves"]
