"""fp8 and mxfp8: what published runs say of the two stands beside what the ledger offers."""

from __future__ import annotations

import csv
from pathlib import Path

from shardwise import Cluster, Plan, Request, Training, plan
from shardwise.solver.eight_bits import AHEAD_PERCENT, ALIKE

RUNS = Path(__file__).resolve().parent.parent / "benchmarks" / "data" / "published_runs.csv"
SAME = (
    *("source_ref", "gpu", "gpus", "params_b", "seq_len", "global_batch_seqs", "micro_batch_seqs"),
    *("tp", "pp", "vpp", "cp", "ep", "dp"),
)


def ahead() -> list[float]:
    """How many percent more tokens a second fp8 had, of each pair of runs that differ in precision alone."""
    with RUNS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tokens_per_s_per_gpu"] and row["gpu"][:2] == "GB"]
    rates: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        same = rates.setdefault(tuple(row[name] for name in SAME), {})
        same[row["precision"]] = float(row["tokens_per_s_per_gpu"])
    both = [same for same in rates.values() if {"fp8", "mxfp8"} <= set(same)]
    return [100 * (same["fp8"] / same["mxfp8"] - 1) for same in both]


def test_published_pairs_are_as_told() -> None:
    """The least and the most by which fp8 is ahead are those of the runs, to a tenth of a percent."""
    found = ahead()

    assert len(found) >= 2
    assert (round(min(found), 1), round(max(found), 1)) == AHEAD_PERCENT


def asked(**choose: object) -> Plan:
    """A small model on a machine whose cards have both."""
    training = Training(global_batch_size=64, sequence_length=2048)
    request = Request(
        model="llama-3.2-1b", cluster=Cluster.preset("dgx-b200"), training=training, choose=choose
    )
    found = plan(request)
    assert isinstance(found, Plan)
    return found


def test_who_offers_mxfp8_says_so() -> None:
    """An offer of mxfp8 tells it; one of fp8 need not."""
    offers = {offer.set: offer.caveat for offer in asked().offers if offer.set.startswith("precision=")}

    assert ALIKE in offers["precision=mxfp8"]
    assert ALIKE not in offers["precision=fp8"]


def test_a_choice_between_both_is_warned_of() -> None:
    """A plan free to take either says that the ledger does not tell them apart; one of one kind does not."""
    both, one = asked(precision=["fp8", "mxfp8"]), asked(precision="fp8")

    assert [notice.message for notice in both.warnings if notice.code == "eight-bits"] == [ALIKE]
    assert not any(notice.code == "eight-bits" for notice in one.warnings)
