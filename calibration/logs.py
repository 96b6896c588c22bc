"""Step times in the logs of trainers: torchtitan, Megatron-LM, DeepSpeed."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import median

from ..inputs import InputError
from ..inputs.record import dataclass
from ..models import Training

WARM_UP = 5
"""Steps at the start that compile, allocate and fill caches; left out where at least as many follow."""

_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_TORCHTITAN = re.compile(rf"step:\s*\d+.*?\b(?:tps|wps):\s*{_NUMBER}")
_MEGATRON = re.compile(rf"elapsed time per iteration \(ms\):\s*{_NUMBER}")
_DEEPSPEED = re.compile(rf"\bCurrSamplesPerSec\s*=\s*{_NUMBER}")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class LoggedSteps:
    """The steps of one log: which trainer wrote it, seconds of each, and of the middle one."""

    trainer: str
    seconds: tuple[float, ...]

    @property
    def steady(self) -> float:
        """The median of the steps after the first few."""
        late = self.seconds[WARM_UP:] if len(self.seconds) >= 2 * WARM_UP else self.seconds
        return median(late)


def logged_steps(text: str, training: Training, gpus: int, origin: str) -> LoggedSteps:
    """The step times in a trainer's log of the job `training` on `gpus` cards.

    torchtitan prints tokens a second and card (``tps``, once ``wps``), Megatron-LM milliseconds an
    iteration, DeepSpeed sequences a second. Raises `InputError` where none of them is found.

    >>> job = Training(global_batch_size=512, sequence_length=4096)
    >>> line = " iteration 10/ 100 | elapsed time per iteration (ms): 2500.0 | learning rate: 1e-4 |"
    >>> logged_steps(line, job, 64, "run.log").steady
    2.5
    """
    plain = _COLOURS.sub("", text)
    readings: tuple[tuple[str, re.Pattern[str], Callable[[float], float]], ...] = (
        ("torchtitan", _TORCHTITAN, lambda rate: training.tokens / (rate * gpus)),
        ("megatron", _MEGATRON, lambda milliseconds: milliseconds / 1e3),
        ("deepspeed", _DEEPSPEED, lambda rate: training.global_batch_size / rate),
    )
    for trainer, pattern, seconds_of in readings:
        found = [float(number.replace(",", "")) for number in pattern.findall(plain)]
        if kept := tuple(seconds_of(number) for number in found if number > 0):
            return LoggedSteps(trainer, kept)
    reason = "holds no step time of torchtitan (tps), Megatron-LM (elapsed time) or DeepSpeed (SamplesPerSec)"
    raise InputError("runs", origin, origin, reason, code="no-runs")
