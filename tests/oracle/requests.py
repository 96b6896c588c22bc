"""Random small requests. One seed, one request."""

from __future__ import annotations

from random import Random

from shardwise.plans import Request

from .machines import binding
from .themes import THEMES, crowded, shared

RULES = (
    "tensor_parallel * pipeline_parallel <= 4",
    "micro_batch_size * 2 <= gradient_accumulation_steps or zero_stage >= 2",
    "data_parallel >= pipeline_parallel",
    "not (pipeline_parallel == 2 and virtual_pipeline == 1)",
    "gradient_accumulation_steps % pipeline_parallel == 0",
    "1 <= micro_batch_size < 4",
    "data_parallel // tensor_parallel != 1",
    "sequence_parallel + zero_stage * 2 > 1",
    "expert_parallel <= expert_tensor_parallel * 2",
)
"""Rules on two knobs or more, of every operator."""


def request(seed: int) -> Request:
    """The request of a seed: a theme, and now and then a rule, a deadline, a margin, a reach.

    >>> request(7) == request(7)
    True
    """
    rng = Random(seed)
    fields = THEMES[seed % len(THEMES)](rng)
    if rng.random() < 0.2:
        fields["choose"]["rules"] = rng.sample(RULES, rng.choice((1, 1, 2)))
    if rng.random() < 0.25:
        fields["limits"]["max_step_seconds"] = 0.01 * 100 ** rng.random()
    if rng.random() < 0.15:
        fields["limits"]["memory_margin"] = rng.choice((0.0, 0.02, 0.2))
    if rng.random() < 0.15:
        fields["limits"]["tensor_parallel_within"] = rng.choice(("island", "node", "leaf"))
    return binding(rng, Request(**fields))


def exchanging(seed: int) -> Request:
    """A request for several ways to exchange a sequence, on cards so small that they differ in what fits.

    >>> len(exchanging(1).choose.context_parallel_kind) > 1
    True
    """
    rng = Random(seed)
    return binding(rng, Request(**crowded(rng)))


def sharing(seed: int) -> Request:
    """A request that splits sequences over ranks of FSDP or DeepSpeed.

    >>> {sharing(seed).choose.backend for seed in range(8)} == {("fsdp",), ("deepspeed",)}
    True
    """
    rng = Random(seed)
    return binding(rng, Request(**shared(rng)))


OBJECTIVES = ("step_seconds", "usd_per_token", "gpus")


def varied(seed: int) -> Request:
    """The request of a seed with one of the objectives in turn, and now and then a limit on stages.

    >>> [varied(seed).objective.minimize for seed in (0, 1, 2)]
    ['step_seconds', 'usd_per_token', 'gpus']
    """
    rng, asked = Random(-1 - seed), request(seed)
    limits = dict(asked.limits)
    if rng.random() < 0.15:
        limits["max_comm_fraction"] = round(rng.uniform(0.02, 0.5), 4)
    if rng.random() < 0.15:
        limits["max_uplink_bytes_per_step"] = int(10 ** rng.uniform(7, 10))
    objective = {"minimize": OBJECTIVES[seed % len(OBJECTIVES)]}
    return Request(**{**dict(asked), "limits": limits, "objective": objective, "origins": {}})
