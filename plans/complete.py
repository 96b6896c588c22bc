"""A strategy as people write it, completed to a whole one."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod
from typing import Any

from pydantic import ValidationError

from ..inputs import InputError, nearest
from ..inputs.kinds import refuse_no_mapping, refuse_other
from ..inputs.origin import as_input_error, placed
from ..models import Strategy, Training, Transformer
from ..models.backend import Backend, backend
from ..models.divisors import divisors_of
from ..models.strategy import BACKENDS, PLACES, RECOMPUTES
from .choose import Choose
from .follows import choices, refuse_contradiction


def read_strategy(
    data: Mapping[str, Any],
    transformer: Transformer,
    origin: str,
    training: Training | None = None,
    cards: int | None = None,
    places: Mapping[str, str] | None = None,
    choose: Choose | None = None,
) -> Strategy:
    """The strategy in `data` for `transformer`.

    Only `backend` must be given. What is missing is filled as the backend runs by default: its
    software stack, loss kernel and gradient dtype, whole shard groups, even layers per stage with
    the words `recompute` (none, selective, full) and offload applied to all of them; with
    `training`, gradient accumulation that meets its global batch; with `cards`, data_parallel that
    uses them all; with `choose`, first of all its knobs that have one value. `places` has the origin of
    single fields, dotted, where that is known better than `origin`. Raises `InputError`.
    """
    refuse_no_mapping(data, "strategy")
    refuse_other(transformer, Transformer)
    data = {**_settled(choose), **data} if choose is not None else data
    try:
        return _completed(data, transformer, origin, training, cards)
    except InputError as error:
        raise placed(error, places or {}) from None


def _settled(choose: Choose) -> dict[str, Any]:
    """The knobs for which `choose` leaves one value."""
    values = {name: getattr(choose, name) for name in type(choose).model_fields if name != "rules"}
    return {name: value[0] for name, value in values.items() if value is not None and len(value) == 1}


def _completed(
    data: Mapping[str, Any],
    transformer: Transformer,
    origin: str,
    training: Training | None,
    cards: int | None,
) -> Strategy:
    fields = choices(data, "strategy", origin)
    _refuse_unknown(fields, origin)
    engine = _engine(fields.get("backend"), origin)
    word = data.get("recompute")
    if cards is not None and "data_parallel" not in fields:
        fields["data_parallel"] = _data_ranks(fields, cards, origin)
    try:
        _fill(fields, engine)
        if training is not None and "gradient_accumulation_steps" not in fields:
            fields["gradient_accumulation_steps"] = _accumulation(fields, training, origin)
        if "stages" not in fields:
            fields["stages"] = _stages(fields, transformer.layers, word, origin)
        strategy = Strategy.model_validate(fields)
    except ValidationError as error:
        raise as_input_error(error, {"strategy": origin}, "strategy", Strategy) from None
    if strategy.layers != transformer.layers:
        reason = f"hold {strategy.layers} layers, the model has {transformer.layers}"
        held = [stage.layers for stage in strategy.stages]
        raise InputError("strategy.stages", held, origin, reason, code="contradiction")
    if strategy.stages[-1].layers < transformer.mtp_layers:
        reason = f"the last must hold the {transformer.mtp_layers} modules that predict further tokens"
        held = [stage.layers for stage in strategy.stages]
        raise InputError("strategy.stages", held, origin, reason, code="contradiction")
    refuse_contradiction(data, strategy, "strategy", origin)
    return strategy


def _refuse_unknown(fields: Mapping[str, Any], origin: str) -> None:
    """Refuses a key that no strategy has, before what is missing: that may be what it misspells."""
    for key, value in fields.items():
        if key not in Strategy.model_fields:
            reason, legal = "is not known", nearest(str(key), Strategy.model_fields)
            raise InputError(f"strategy.{key}", value, origin, reason, legal=legal, code="unknown-field")


def _engine(name: object, origin: str) -> Backend:
    if name is None:
        raise InputError("strategy.backend", "nothing", origin, "is required", legal=BACKENDS, code="missing")
    if not isinstance(name, str) or name not in BACKENDS:
        raise InputError("strategy.backend", name, origin, "is not a known choice", legal=BACKENDS)
    return backend(name)


def _degree(fields: Mapping[str, Any], key: str) -> int:
    """A degree for the arithmetic here; a wrong one counts as 1 and is refused by `Strategy`."""
    value = fields.get(key, 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else 1


def _fill(fields: dict[str, Any], engine: Backend) -> None:
    """Defaults of `engine` for what `fields` leaves out."""
    fields.setdefault("software_stack", engine.stack_for(_degree(fields, "tensor_parallel")))
    fields.setdefault("loss_kernel", engine.default_loss_kernel)
    fields.setdefault("zero_stage", engine.zero_stages[-1] if engine.partial_shard_groups else 0)
    written = engine.recipes.get(fields.get("precision", "bf16"), {}) if _is_text(fields, "precision") else {}
    if written:
        fields.setdefault("gradient_dtype", next(iter(written)))
    sharded = fields["zero_stage"] != 0
    group = _degree(fields, "data_parallel") * _degree(fields, "context_parallel")
    fields.setdefault("shard_group_size", group if sharded else 1)
    fields.setdefault("reshard_after_forward", fields["zero_stage"] == 3 and True in engine.reshard)
    paired = engine.sequence_parallel_pairs_with_tensor and _degree(fields, "tensor_parallel") > 1
    fields.setdefault("sequence_parallel", paired)


def _data_ranks(fields: Mapping[str, Any], cards: int, origin: str) -> int:
    """Data ranks that use all cards beside the other degrees, which must divide them."""
    axes = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    degrees = {axis: _degree(fields, axis) for axis in axes}
    ranks, rest = divmod(cards, prod(degrees.values()))
    if ranks and not rest:
        return ranks
    axis = next((axis for axis in axes if cards % degrees[axis]), max(axes, key=lambda each: degrees[each]))
    others = prod(degrees.values()) // degrees[axis]
    legal = [str(each) for each in divisors_of(cards) if cards % (each * others) == 0]
    product = " x ".join(f"{name} {degree}" for name, degree in degrees.items() if degree > 1)
    near = sorted(legal, key=lambda each: (abs(log2(int(each) / degrees[axis])), int(each)))
    reason = f"{product} does not divide the {cards} cards of the cluster"
    raise InputError(f"strategy.{axis}", degrees[axis], origin, reason, legal=near, code="contradiction")


def _is_text(fields: Mapping[str, Any], key: str) -> bool:
    return isinstance(fields.get(key, ""), str)


def _accumulation(fields: Mapping[str, Any], training: Training, origin: str) -> int:
    """Micro-batches a step so that the global batch is met exactly."""
    at_once = _degree(fields, "data_parallel") * _degree(fields, "micro_batch_size")
    steps, rest = divmod(training.global_batch_size, at_once)
    if rest or not steps:
        batch, key = training.global_batch_size, "micro_batch_size"
        key = key if key in fields or "data_parallel" not in fields else "data_parallel"
        degree = _degree(fields, key)
        product = " x ".join(
            f"{name} {_degree(fields, name)}" for name in ("data_parallel", "micro_batch_size")
        )
        reason = f"{product} = {at_once} does not divide training.global_batch_size = {batch}"
        others = at_once // degree
        legal = [d for d in divisors_of(batch // others) if batch % others == 0] if others <= batch else []
        near = [str(d) for d in sorted(legal, key=lambda d: (abs(log2(d / degree)), d))[:4]]
        raise InputError(f"strategy.{key}", degree, origin, reason, legal=near, code="contradiction")
    return steps


def _stages(fields: Mapping[str, Any], layers: int, word: object, origin: str) -> list[dict[str, int]]:
    """Even stages, the first ones a layer longer where `layers` does not divide."""
    if word is not None and word not in RECOMPUTES:
        raise InputError("strategy.recompute", word, origin, "is not a known choice", legal=RECOMPUTES)
    for key in ("offload_optimizer", "offload_params"):
        if fields.get(key, "none") not in PLACES:
            raise InputError(f"strategy.{key}", fields[key], origin, "is not a known choice", legal=PLACES)
    depth = _degree(fields, "pipeline_parallel")
    if depth > layers:
        reason = f"exceeds the {layers} layers of the model"
        raise InputError("strategy.pipeline_parallel", depth, origin, reason, legal=[str(layers)])
    offloaded = any(fields.get(key, "none") != "none" for key in ("offload_optimizer", "offload_params"))
    each, longer = divmod(layers, depth)
    held = [each + (stage < longer) for stage in range(depth)]
    return [
        {
            "layers": count,
            "recompute_full_layers": count if word == "full" else 0,
            "recompute_selective_layers": count if word == "selective" else 0,
            "offloaded_layers": count if offloaded else 0,
        }
        for count in held
    ]
