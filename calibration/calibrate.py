"""From measured steps to a site: what they tell of its cards, links and software, and what they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np
import numpy.typing as npt

from ..costs import price
from ..hardware import Site, SiteConstant
from ..inputs import InputError
from ..inputs.record import dataclass
from .facts import facts
from .fit import Array, Fit, changes
from .measured import MeasuredStep, MeasuredSteps, catalogue_value, unknowns_of

ROUNDS = 2
FOLDS = 5
INSIDE = 0.8
"""Share of left-out runs that the interval holds."""
ONE_SIDED = 1.2816
"""Standard deviations of a normal between which 80 % lies."""
FAR = 3.0
"""A run so many times slower or faster than the catalogue says was misread."""
LEAST_INTERVAL = 0.03
SHARES = (1.0, 0.5, 0.25)
"""Of the spreads held likely: how far a site's constants may lie from the catalogue's."""


@dataclass(frozen=True)
class Calibrated:
    """A site, and the runs that were set aside with the reason."""

    site: Site
    set_aside: tuple[tuple[str, str], ...]


def calibrate(steps: Sequence[MeasuredStep], name: str, date: str) -> Calibrated:
    """The site that `steps` show. Raises `InputError` on "runs" where no run makes sense.

    Where what the other runs teach tells a run worse than the catalogue does, nothing is learnt.
    """
    trusted, aside = _sifted(steps)
    if not trusted:
        reason = "holds no run that can be trusted: " + "; ".join(f"{a} {b}" for a, b in aside[:3])
        raise InputError("runs", len(steps), "runs", reason, code="no-runs")
    rows = MeasuredSteps(tuple(trusted))
    fit = _settled(Fit.start(rows, unknowns_of(trusted)))
    known = _identified(fit)
    told, left_out = _best(Fit.start(rows, [u for u, yes in zip(fit.unknowns, known, strict=True) if yes]))
    before = np.abs(rows.seconds({}) / rows.measured - 1.0)
    if np.mean(left_out) > np.mean(before):
        told, left_out, known = Fit.start(rows, ()), before, np.zeros(len(known), dtype=np.bool_)
    site = Site(
        name=name,
        date=date,
        runs=len(trusted),
        evidence=tuple(dict.fromkeys(step.evidence for step in trusted)),
        median_error_before=round(float(np.median(before)) * 100.0, 2),
        median_error=round(float(np.median(left_out)) * 100.0, 2),
        interval=round(min(max(_quantile(left_out), LEAST_INTERVAL), 0.9), 4),
        constants=_constants(told, fit),
        unidentified=tuple(u.paths[0] for u, yes in zip(fit.unknowns, known, strict=True) if not yes),
        measured=tuple(sorted({f"{s.strategy.software_stack}/{s.cluster.node.gpu.name}" for s in trusted})),
    )
    return Calibrated(site, tuple(aside))


def _sifted(steps: Sequence[MeasuredStep]) -> tuple[list[MeasuredStep], list[tuple[str, str]]]:
    """Runs that can be, and the others with the reason."""
    if not steps:
        return [], []
    kept, aside = [], []
    predicted = MeasuredSteps(tuple(steps)).seconds({}).tolist()
    for step, seconds in zip(steps, predicted, strict=True):
        if not np.isfinite(seconds):
            aside.append((step.name, "cannot be priced: the card lacks its arithmetic"))
        elif step.seconds < _limit_seconds(step):
            aside.append((step.name, f"{step.seconds:.4g} s is faster than the cards' peak allows"))
        elif not 1.0 / FAR <= step.seconds / seconds <= FAR:
            times = max(step.seconds / seconds, seconds / step.seconds)
            word = "slower" if step.seconds > seconds else "faster"
            aside.append((step.name, f"is {times:.1f} times {word} than expected: check its columns"))
        else:
            kept.append(step)
    return kept, aside


def _limit_seconds(step: MeasuredStep) -> float:
    """The model's FLOPs at the cards' peak."""
    ledger = price(step.transformer, step.training, step.cluster, [step.strategy])[0]
    return ledger.limit_ns / 1e9


def _settled(fit: Fit) -> Fit:
    for _ in range(ROUNDS):
        fit = fit.refined()
    return fit


def _best(start: Fit) -> tuple[Fit, Array]:
    """The fit that tells runs left out of it best, of constants drawn more and more to the catalogue.

    How far a site lies from the catalogue, and how far its runs scatter, is so learnt from the runs.
    """
    tried = []
    for share in SHARES:
        fit = _settled(start.drawn(share))
        tried.append((fit, _left_out(fit)))
    return min(tried, key=lambda one: float(np.mean(one[1])))


def _identified(fit: Fit) -> npt.NDArray[np.bool_]:
    """Constants whose spread the runs narrow to a share of what was held likely."""
    before = np.array([u.kin_spread for u in fit.unknowns])
    found: npt.NDArray[np.bool_] = fit.spreads() < facts("spreads")["identified_share"] * before
    return found


def _left_out(fit: Fit) -> Array:
    """|predicted / measured - 1| of each run, from fits without its fold (its own run where few)."""
    n = len(fit.rows.measured)
    folds = np.arange(n) % min(FOLDS, n)
    errors = np.zeros(n)
    for fold in range(min(FOLDS, n)):
        values = fit.solved(folds != fold) if n > 1 else fit.values * 0 + _starts(fit)
        seconds = fit.rows.seconds(changes(fit.unknowns, values))
        errors = np.where(folds == fold, np.abs(seconds / fit.rows.measured - 1.0), errors)
    return errors


def _starts(fit: Fit) -> Array:
    return np.log([fit.rows.start(u) for u in fit.unknowns])


def _quantile(errors: Array) -> float:
    """What the next run's error stays below with 80 %: the ceil(0.8 (n + 1))-th, else twice the worst."""
    place = int(np.ceil(INSIDE * (len(errors) + 1)))
    ordered = np.sort(errors)
    return float(ordered[place - 1]) if place <= len(ordered) else 2.0 * float(ordered[-1])


def _constants(fit: Fit, whole: Fit) -> tuple[SiteConstant, ...]:
    """What `fit` tells, and how surely: by `whole`, as what the runs could not tell may differ too."""
    units = facts("spreads")
    spreads = dict(zip((u.paths[0] for u in whole.unknowns), whole.spreads().tolist(), strict=True))
    found = []
    for u, value in zip(fit.unknowns, fit.values.tolist(), strict=True):
        spread = spreads[u.paths[0]]
        table, _, field = u.paths[0].split("/")
        reach = ONE_SIDED * spread
        found.append(
            SiteConstant(
                name=u.paths[0],
                value=_rounded(exp(value)),
                low=_rounded(exp(value - reach)),
                high=_rounded(exp(value + reach)),
                catalogue=catalogue_value(u.paths[0]),
                unit=units[table][field]["unit"],
                runs=int(fit.rows.moved_by(u).sum()),
            )
        )
    return tuple(found)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
