"""fp8 and mxfp8: what published runs say of the two stands beside what the ledger offers."""

from __future__ import annotations

import csv
from pathlib import Path

from shardwise import Cluster, Plan, Request, Training, plan
from shardwise.costs.eight_bits import alike
from shardwise.costs.law import constants
from shardwise.plans.fields import field_text
from shardwise.solver import Case, compare

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
    told = [constants()[name] for name in ("fp8_ahead_least", "fp8_ahead_most")]

    assert len(found) >= 2
    assert [round(min(found), 1), round(max(found), 1)] == [constant.value for constant in told]
    assert f"({told[0].source})" in alike()


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

    assert alike() in offers["precision=mxfp8"]
    assert alike() not in offers["precision=fp8"]


def test_a_plan_in_either_kind_is_warned_of() -> None:
    """On cards that have both the ledger does not tell them apart; one alone needs no word."""
    for precision in (["fp8", "mxfp8"], "fp8", "mxfp8"):
        warnings = asked(precision=precision).warnings
        assert [notice.message for notice in warnings if notice.code == "eight-bits"] == [alike()]
    alone = plan(asked(precision="fp8").request.changed({"cluster.preset": "dgx-h100"}))
    assert isinstance(alone, Plan) and alone.strategy.precision == "fp8"
    assert not any(notice.code == "eight-bits" for notice in alone.warnings)


def test_compare_and_explain_carry_it() -> None:
    """Rows of a comparison as a plan does, and the text of the field."""
    found = compare(asked().request, [Case(name, {"choose.precision": name}) for name in ("fp8", "mxfp8")])

    assert all(any(each.code == "eight-bits" for each in row.warnings) for row in found.rows)
    assert alike() in field_text("precision").meaning
