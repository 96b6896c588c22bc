"""What a request leaves open: for each knob the values allowed, or None for any."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from ..inputs import Frozen, InputError, nearest
from ..models.context import ContextKind
from ..models.overlap import KNOBS as OVERLAP_KNOBS
from ..models.recipe import losses
from ..models.stack import stack_names
from ..models.strategy import BackendName, GradientDtype, Place, Precision, RankOrder, Recompute

Degree = Annotated[int, Field(ge=1, le=2**20)]
Count = Annotated[int, Field(ge=1, le=2**24)]
ZeroStage = Annotated[int, Field(ge=0, le=3)]
Name = Annotated[str, Field(min_length=1, max_length=100)]

LONGEST_RANGE = 65536
"""Values one list or range may hold."""

WHOLE = (
    "data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel",
    "ulysses_group_size", "expert_parallel",
    "expert_tensor_parallel", "virtual_pipeline", "zero_stage", "shard_group_size",
    "secondary_shard_group_size", "micro_batch_size", "gradient_accumulation_steps",
)  # fmt: skip
"""Knobs that are whole numbers, for which a range ``1..8`` may be written."""

SWITCHES = ("sequence_parallel", "reshard_after_forward", *OVERLAP_KNOBS)
WORDS = {
    "backend": get_args(BackendName),
    "precision": get_args(Precision),
    "gradient_dtype": get_args(GradientDtype),
    "recompute": get_args(Recompute),
    "offload_optimizer": get_args(Place),
    "offload_params": get_args(Place),
    "rank_order": get_args(RankOrder),
    "context_parallel_kind": get_args(ContextKind),
}

_RANGE = re.compile(r"\s*(\d{1,12})\s*\.\.\s*(\d{1,12})\s*")


class Choose(Frozen):
    """Allowed values of each knob; None leaves it free.

    Each field takes one value, a list, or (whole numbers) a range ``"1..8"`` with both ends; it is
    kept as a tuple without repeats, whole numbers ascending. Precision None means bf16 (fp16 on a
    card without bf16). `rules` are lines of arithmetic on the knobs, read by the search.

    >>> Choose.model_validate({"tensor_parallel": "1..3", "backend": "fsdp"}).tensor_parallel
    (1, 2, 3)
    """

    model_config = ConfigDict(strict=True)

    backend: tuple[BackendName, ...] | None = None
    precision: tuple[Precision, ...] | None = None
    gradient_dtype: tuple[GradientDtype, ...] | None = None
    loss_kernel: tuple[Name, ...] | None = None
    software_stack: tuple[Name, ...] | None = None
    recompute: tuple[Recompute, ...] | None = None
    offload_optimizer: tuple[Place, ...] | None = None
    offload_params: tuple[Place, ...] | None = None
    sequence_parallel: tuple[bool, ...] | None = None
    reshard_after_forward: tuple[bool, ...] | None = None
    overlap_gradient_reduce: tuple[bool, ...] | None = None
    overlap_parameter_gather: tuple[bool, ...] | None = None
    overlap_tensor_parallel: tuple[bool, ...] | None = None
    rank_order: tuple[RankOrder, ...] | None = None
    data_parallel: tuple[Degree, ...] | None = None
    tensor_parallel: tuple[Degree, ...] | None = None
    pipeline_parallel: tuple[Degree, ...] | None = None
    context_parallel: tuple[Degree, ...] | None = None
    context_parallel_kind: tuple[ContextKind, ...] | None = None
    ulysses_group_size: tuple[Degree, ...] | None = None
    expert_parallel: tuple[Degree, ...] | None = None
    expert_tensor_parallel: tuple[Degree, ...] | None = None
    virtual_pipeline: tuple[Degree, ...] | None = None
    zero_stage: tuple[ZeroStage, ...] | None = None
    shard_group_size: tuple[Degree, ...] | None = None
    secondary_shard_group_size: tuple[Degree, ...] | None = None
    micro_batch_size: tuple[Count, ...] | None = None
    gradient_accumulation_steps: tuple[Count, ...] | None = None
    rules: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _listed(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        if value is None and name != "rules":
            return None
        values = _values(value, name)
        if name == "rules":
            return _rules(values)
        if not values:
            raise InputError(f"choose.{name}", "[]", "choose", "allows no value at all", code="empty-list")
        return _checked(values, name)


def _catalogued(name: str) -> list[str]:
    """Names the model room's catalogues hold for a knob without a fixed set of words."""
    return stack_names() if name == "software_stack" else sorted(losses())


def _values(value: Any, name: str) -> tuple[Any, ...]:
    """`value` as a tuple: a range is spelled out, one value stands alone."""
    if isinstance(value, str):
        found = _RANGE.fullmatch(value) if name in WHOLE else None
        return _range(found[1], found[2], value, name) if found else (value,)
    if isinstance(value, list | tuple | set | frozenset | range):
        if len(value) > LONGEST_RANGE:
            reason = f"holds more than {LONGEST_RANGE} values"
            raise InputError(f"choose.{name}", value, "choose", reason, code="too-large")
        return tuple(sorted(value, key=repr)) if isinstance(value, set | frozenset) else tuple(value)
    return (value,)


def _rules(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if not isinstance(value, str):
            legal = ['["tensor_parallel * pipeline_parallel <= 16"]']
            raise InputError("choose.rules", value, "choose", "must be text", legal=legal)
    return values


def _range(low: str, high: str, text: str, name: str) -> tuple[int, ...]:
    first, last = int(low), int(high)
    field = f"choose.{name}"
    if last < first:
        raise InputError(
            field, text, "choose", "runs backwards", legal=[f"{last}..{first}"], code="bad-range"
        )
    if last - first >= LONGEST_RANGE:
        reason = f"spans more than {LONGEST_RANGE} values"
        raise InputError(field, text, "choose", reason, legal=[f"{first}..{first + 1023}"], code="too-large")
    return tuple(range(first, last + 1))


def _checked(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """`values` without repeats in a fixed order; what has the wrong type is refused here, in words."""
    for value in values:
        kind = int if name in WHOLE else bool if name in SWITCHES else str
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _mistaken(value, name)
    if name in WHOLE or name in SWITCHES:
        return tuple(sorted(set(values)))
    known: Iterable[str] = WORDS.get(name) or _catalogued(name)
    unknown = [value for value in dict.fromkeys(values) if value not in known]
    if unknown and name not in WORDS:
        field = f"choose.{name}"
        raise InputError(field, unknown[0], "choose", "is not known", legal=nearest(unknown[0], known))
    return tuple([word for word in known if word in values] + unknown)


def _mistaken(value: Any, name: str) -> InputError:
    """The error of a value of another type than its knob has."""
    from ..inputs.meant import numbers, truths

    if name in WHOLE:
        reason = "must be a whole number, a list of them or a range"
        legal = numbers(value, True) or ["2", "[1, 2]", "1..3"]
    elif name in SWITCHES:
        reason, legal = "must be true or false", truths(value)
    else:
        reason, legal = "must be text", list(WORDS.get(name) or _catalogued(name))
    return InputError(f"choose.{name}", value, "choose", reason, legal=legal)
