"""Calibration of memory: the constant is found on made rows, sources are left out, intervals hold."""

from __future__ import annotations

import pytest

from benchmarks.fitting import studied
from benchmarks.peaks import SHARE, Peak, Peaks, Spot, coverage
from shardwise.costs.interval import ANY, Residuals, kinds_of, peak_interval, residuals
from shardwise.costs.law import constants, law
from shardwise.costs.ledger import View


def peak(source: str, number: int, share: float, ratio: float = 1.0, view: View = "process") -> Peak:
    """A row of 10 GiB, half of it with holes, measured at `share` of holes times `ratio`."""
    return Peak(
        source=source,
        name=f"{source}-{number}",
        kinds=kinds_of("fsdp", 1),
        view=view,
        measured_gib=(10.0 + share * 5.0) * ratio,
        spots=(Spot(10.0, 0.0 if view == "allocated" else 5.0, 1.0),),
        usable_gib=80.0,
        load_gib=0.0,
        guessed=False,
        spread=(1.0, 1.0),
    )


def test_the_share_of_holes_is_found() -> None:
    """All rows measured with a tenth of holes: a tenth is fitted, from every set of two sources."""
    part = Peaks(tuple(peak(source, i, 0.1) for source in "abc" for i in range(3)))

    assert part.fit(part.sources()) == {SHARE: 0.1}
    found = studied(part)
    assert found["mean_fitted"] == found["mean_left_out"] == pytest.approx(0.0, abs=1e-9)


def test_a_source_left_out_has_no_say() -> None:
    """A source that saw twice the holes is off by what the others chose."""
    part = Peaks(
        tuple(peak(s, i, share) for s, share in (("a", 0.1), ("b", 0.1), ("c", 0.2)) for i in range(2))
    )
    line = studied(part)["lines"][2]

    assert line["constants_left_out"] == {SHARE: 0.1}
    assert line["left_out"] == pytest.approx(100 * (1 - 10.5 / 11.0))


def test_one_source_fits_nothing() -> None:
    """Below two sources the catalogue stands; sources that count live tensors say nothing of holes."""
    alone = Peaks((peak("a", 0, 0.3), peak("b", 0, 0.0, view="allocated")))

    assert alone.fit(alone.sources()) == {SHARE: law(SHARE)}


def test_intervals_of_other_sources_hold_rows_like_theirs() -> None:
    """Sources that scatter alike hold each other's rows; one that is half as large is not held."""
    ratios = [0.95 + 0.01 * i for i in range(11)]
    alike = [peak(source, i, 0.1, ratio) for source in "abc" for i, ratio in enumerate(ratios)]
    part = Peaks((*alike, *(peak("d", i, 0.1, 0.5) for i in range(11))))
    found = coverage(part)

    assert found["inside_by_source"]["d"] == 0.0
    assert all(found["inside_by_source"][source] >= 0.8 for source in "abc")


def test_sources_weigh_alike_in_an_interval() -> None:
    """Ninety rows of one source do not drown one row of another."""
    found = Residuals.of({"many": [1.0] * 90, "one": [1.3]})

    assert (found.low, found.high, found.rows, found.sources) == (1.0, 1.3, 91, 2)


def test_the_catalogue_names_its_sources_and_day() -> None:
    """The fitted constant carries both; every kind of interval rests on several sources and holds 1."""
    fitted = constants()[SHARE]

    assert fitted.date and fitted.grade == "M" and fitted.source.count(",") >= 1
    assert all(entry.sources >= 3 or kind == ANY for kind, entry in residuals().items())
    assert peak_interval("megatron", 4)[0] in kinds_of("megatron", 4)
