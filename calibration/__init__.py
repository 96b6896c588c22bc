"""Calibration: what a site's own measured steps tell of its cards, links and software."""

from .calibrate import Calibrated, calibrate
from .measured import MeasuredStep
from .sources import steps_of
from .suggest import Suggestion, suggest

__all__ = ["Calibrated", "MeasuredStep", "Suggestion", "calibrate", "steps_of", "suggest"]
