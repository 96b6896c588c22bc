"""What the optima of many requests have shown: infeasible ones, uneven stages, values of knobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shardwise.models import Strategy
from shardwise.plans import Request

WANTED: dict[str, tuple[object, ...]] = {
    "backend": ("deepspeed", "fsdp", "megatron"),
    "zero_stage": (0, 1, 2, 3),
    "tensor_parallel": (1, 2, 4),
    "pipeline_parallel": (1, 2, 4),
    "context_parallel": (1, 2),
    "expert_parallel": (1, 2),
    "expert_tensor_parallel": (1, 2),
    "virtual_pipeline": (1, 2),
    "chunks": ("alike", "of several lengths"),
    "interleaved": ("nothing", "one kind", "several kinds"),
    "micro_batch_size": (1, 2, 4),
    "recompute": ("none", "selective", "full"),
    "offload": ("none", "optimizer", "optimizer+params"),
    "sequence_parallel": (False, True),
    "rank_order": ("tp-cp-dp-pp", "tp-cp-pp-dp"),
    "reshard_after_forward": (False, True),
    "overlap_parameter_gather": (False, True),
    "shard_group": ("one card", "part", "whole"),
    "second_copy": (False, True),
    "precision": ("bf16", "fp16", "fp32", "fp8"),
    "layers": ("one kind", "two kinds"),
    "predictors": (False, True),
}
"""Values that must each be optimal in some requests."""

LEAST = 10
"""In how many requests at least."""


def shown(request: Request, strategy: Strategy) -> dict[str, object]:
    """The value of each wanted knob in a strategy."""
    offloads = [word for word in ("optimizer", "params") if getattr(strategy, f"offload_{word}") == "cpu"]
    ranks = strategy.data_parallel * strategy.context_parallel
    size = strategy.shard_group_size
    found = {name: getattr(strategy, name) for name in WANTED if hasattr(strategy, name) and name != "layers"}
    return found | {
        "offload": "+".join(offloads) or "none",
        "shard_group": "one card" if size == 1 else "whole" if size == ranks else "part",
        "second_copy": strategy.secondary_shard_group_size > 1,
        "chunks": "of several lengths" if any(s.chunk_layers for s in strategy.stages) else "alike",
        "interleaved": _interleaved(request, strategy),
        "layers": "one kind" if len({run.block for run in request.model.runs}) == 1 else "two kinds",
        "predictors": request.training.mtp_layers > 0,
    }


def _interleaved(request: Request, strategy: Strategy) -> str:
    """The layers that lie in several chunks a stage."""
    if strategy.virtual_pipeline == 1:
        return "nothing"
    alike = len({run.block for run in request.model.runs}) == 1 and not request.training.mtp_layers
    return "one kind" if alike else "several kinds"


def uneven(strategy: Strategy) -> bool:
    """Whether stages differ in layers, recompute or offload."""
    return len(set(strategy.stages)) > 1


def chosen_uneven(strategy: Strategy) -> bool:
    """Whether they differ although the layers could have been shared out evenly."""
    chunks = strategy.pipeline_parallel * strategy.virtual_pipeline
    return uneven(strategy) and strategy.layers % chunks == 0


@dataclass
class Coverage:
    """A tally over requests."""

    requests: int = 0
    infeasible: int = 0
    uneven: int = 0
    chosen_uneven: int = 0
    layouts: int = 0
    optimal: Counter[tuple[str, object]] = field(default_factory=Counter)

    def add(self, request: Request, strategy: Strategy | None, layouts: int) -> None:
        """Count one request and its optimum; None: nothing fits."""
        self.requests += 1
        self.layouts += layouts
        if strategy is None:
            self.infeasible += 1
            return
        self.uneven += uneven(strategy)
        self.chosen_uneven += chosen_uneven(strategy)
        self.optimal.update(shown(request, strategy).items())

    @property
    def rare(self) -> dict[str, int]:
        """Wanted values optimal in fewer than `LEAST` requests."""
        return {f"{name} {value}": count for name, value, count in self._counts() if count < LEAST}

    def _counts(self) -> list[tuple[str, object, int]]:
        return [
            (name, value, self.optimal[name, value]) for name, values in WANTED.items() for value in values
        ]

    def line(self) -> str:
        """All of it in one line."""
        counts = self._counts()
        name, value, least = min(counts, key=lambda entry: entry[2])
        return (
            f"coverage: {self.requests} requests, {self.layouts} layouts; infeasible {self.infeasible}, "
            f"stages uneven {self.uneven} (by choice {self.chosen_uneven}); {len(counts)} values of "
            f"{len(WANTED)} knobs, the rarest {name} {value}, optimal {least} times"
        )
