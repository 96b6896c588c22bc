"""From measured steps to a site: what they tell of its cards, links and software, and what they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1

import numpy as np
import numpy.typing as npt

from ..costs import price
from ..costs.scatter import own_scatter
from ..hardware import Site, SiteConstant
from ..inputs import InputError
from ..inputs.record import dataclass
from .facts import facts
from .fit import Array, Fit, changes
from .measured import MeasuredStep, MeasuredSteps, catalogue_value, unknowns_of

ROUNDS = 2
FOLDS = 5
ONE_SIDED = 1.2816
"""Standard deviations of a normal between which 80 % lies."""
FAR = 3.0
"""A run so many times slower or faster than the catalogue says was misread."""
LEAST_INTERVAL = 0.03
"""What steps of one run differ by from day to day."""
LEAST_ERROR = 1e-4
"""Mean error below which a fit is no better."""
TOLD = 5
"""Runs set aside that an error names."""
SHARES = (2.0, 1.0, 0.5, 0.25, 0.125)
"""Of the spreads held likely: how far a site's constants may lie from the catalogue's.

The logarithm of the true share is held normal around 1 with one octave as its deviation (`_weighed`), so
these lie a deviation apart: three below, beyond which a site is the catalogue's, and one above, where the
runs alone decide. Shares of 8 to 1/32 in their place move the median errors of published halves by a tenth
of a point at most (`benchmarks.halves`, zero_bubble and megatron_sc21).
"""


@dataclass(frozen=True)
class Calibrated:
    """A site, and the runs that were set aside with the reason."""

    site: Site
    set_aside: tuple[tuple[str, str], ...]


def calibrate(
    steps: Sequence[MeasuredStep], name: str, date: str, aside: Sequence[tuple[str, str]] = ()
) -> Calibrated:
    """The site that `steps` show, beside runs set `aside` before. `InputError` on "runs" where none is left.

    Where what the other runs teach tells a run worse than the catalogue does, nothing is learnt.
    """
    trusted, doubted = _sifted(steps)
    aside = (*aside, *doubted)
    if not trusted:
        raise InputError("runs", len(aside), "runs", _none_left(aside), code="no-runs")
    rows = MeasuredSteps(tuple(trusted))
    fit = _settled(Fit.start(rows, unknowns_of(trusted)))
    known = _identified(fit)
    only = [u for u, yes in zip(fit.unknowns, known, strict=True) if yes]
    told, left_out = _weighed(_settled(Fit.start(rows, only)))
    before = rows.seconds({}) / rows.measured
    if np.mean(_errors(left_out)) > np.mean(_errors(before)):
        told, left_out, known = Fit.start(rows, ()), before, np.zeros(len(known), dtype=np.bool_)
    site = Site(
        name=name,
        date=date,
        runs=len(trusted),
        evidence=tuple(dict.fromkeys(step.evidence for step in trusted)),
        median_error_before=round(float(np.median(_errors(before))) * 100.0, 2),
        median_error=round(float(np.median(_errors(left_out))) * 100.0, 2),
        interval=round(
            min(max(expm1(own_scatter().reach(np.abs(np.log(left_out)).tolist())), LEAST_INTERVAL), 0.9), 4
        ),
        constants=_constants(told, fit),
        unidentified=tuple(u.paths[0] for u, yes in zip(fit.unknowns, known, strict=True) if not yes),
        measured=tuple(sorted({f"{s.strategy.software_stack}/{s.cluster.node.gpu.name}" for s in trusted})),
    )
    return Calibrated(site, aside)


def _none_left(aside: Sequence[tuple[str, str]]) -> str:
    """Why no run is left, the first few by name."""
    if not aside:
        return "hold no run: a table needs a line for each, a log its steps"
    told = "; ".join(f"{run}: {reason}" for run, reason in aside[:TOLD])
    more = f"; and {len(aside) - TOLD} more" if len(aside) > TOLD else ""
    return f"hold no run that can be trusted: {told}{more}"


def _errors(ratios: Array) -> Array:
    """abs(predicted / measured - 1)."""
    found: Array = np.abs(ratios - 1.0)
    return found


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


def _weighed(fit: Fit) -> tuple[Fit, Array]:
    """Constants drawn more or less to the catalogue, weighed by how well each tells runs left out of it.

    How far a site lies from the catalogue is so learnt from the runs: few leave it at what was held likely
    (a share of 1, likely within a factor of 2), many decide. Errors are taken as Laplace's.
    """
    tried = [fit.drawn(share) for share in SHARES]
    left_out = [np.log(_left_out(each)) for each in tried]
    sizes = np.maximum([float(np.mean(_errors(np.exp(logs)))) for logs in left_out], LEAST_ERROR)
    likely = -len(fit.rows.measured) * np.log(sizes) - np.log2(SHARES) ** 2 / 2.0
    weights = np.exp(likely - likely.max()) / np.exp(likely - likely.max()).sum()
    values: Array = weights @ np.array([each.solved() for each in tried])
    ratios: Array = np.exp(weights @ np.array(left_out))
    return Fit.at(fit.rows, fit.unknowns, values), ratios


def _identified(fit: Fit) -> npt.NDArray[np.bool_]:
    """Constants whose spread the runs narrow by a twentieth or more of what was held likely."""
    before = np.array([u.kin_spread for u in fit.unknowns])
    found: npt.NDArray[np.bool_] = fit.spreads() < facts("spreads")["identified_share"] * before
    return found


def _left_out(fit: Fit) -> Array:
    """Predicted over measured of each run, from fits without its fold (its own run where few)."""
    n = len(fit.rows.measured)
    folds = np.arange(n) % min(FOLDS, n)
    ratios = np.ones(n)
    for fold in range(min(FOLDS, n)):
        values = fit.solved(folds != fold) if n > 1 else _starts(fit)
        seconds = fit.rows.seconds(changes(fit.unknowns, values))
        ratios = np.where(folds == fold, seconds / fit.rows.measured, ratios)
    return ratios


def _starts(fit: Fit) -> Array:
    return np.log([fit.rows.start(u) for u in fit.unknowns])


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
