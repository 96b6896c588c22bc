"""Calibration of memory: the constant is found on made rows, sources are left out, intervals hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fitting import studied
from benchmarks.peaks import SHARE, Peak, Peaks, Spot, coverage, residuals_of, residuals_without
from shardwise.costs.interval import peak_interval
from shardwise.costs.law import constants, law
from shardwise.costs.ledger import View


def peak(source: str, number: int, share: float, ratio: float = 1.0, view: View = "process") -> Peak:
    """A row of 10 GiB, half of it with holes, measured at `share` of holes times `ratio`."""
    return Peak(
        source=source,
        name=f"{source}-{number}",
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
    alike = [peak(source, i, 0.1, ratio) for source in "abcefg" for i, ratio in enumerate(ratios)]
    pool = Peaks((*alike, *(peak("d", i, 0.1, 0.5) for i in range(11)))).pool(0.1)
    without = residuals_of(pool, "d")

    assert 0.95 - 1e-4 <= without.low < 1.0 < without.high <= 1.05 + 1e-4
    assert (without.rows, without.sources) == (66, 6)
    assert residuals_of(pool).low == pytest.approx(0.5)


def test_guessed_rows_are_no_evidence() -> None:
    """A rule filled the micro-batch: how far such a row is off says nothing of the ledger."""
    told, guessed = peak("a", 0, 0.1), replace(peak("b", 0, 0.1, 3.0), guessed=True)

    assert Peaks((told, guessed)).pool(0.1).names == ("a",)


def test_what_is_kept_of_peaks_rests_on_the_other_sources() -> None:
    """Each source of the file lacks its own rows; the catalogue has all, and holds the prediction."""
    every = peak_interval()
    own = {name: every.rows - found.rows for name, found in residuals_without().items()}

    assert all(found.sources == every.sources - 1 for found in residuals_without().values())
    assert len(own) == every.sources and sum(own.values()) == every.rows
    assert every.low < 1.0 < every.high


def test_coverage_is_by_the_sources_own_interval() -> None:
    """A source that no file has is held by the catalogue's; readings that differ widen it."""
    high = peak_interval().high
    part = [peak("nobody", i, law(SHARE), ratio) for i, ratio in enumerate((high - 0.01, high + 0.01))]
    wide = [replace(each, spread=(1.0, 1.2)) for each in part]

    assert coverage(Peaks(tuple(part)))["inside"] == 0.5
    assert coverage(Peaks(tuple(wide)))["inside"] == 1.0


def test_the_catalogue_names_its_sources_and_day() -> None:
    """The fitted constant carries both."""
    fitted = constants()[SHARE]

    assert fitted.date and fitted.grade == "M" and fitted.source.count(",") >= 1
