"""A strategy: every choice that decides how one training step is laid out on the cards."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from ..inputs import Frozen, InputError
from .context import USUAL, ContextKind, Exchange, usual_group
from .context import misfit as context_misfit
from .overlap import KNOBS as OVERLAP_KNOBS
from .overlap import usual_overlap
from .schedule import ScheduleName, misfit, usual_schedule

Degree = int
BackendName = Literal["deepspeed", "fsdp", "megatron"]
Precision = Literal["bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"]
GradientDtype = Literal["bf16", "fp16", "fp32"]
Recompute = Literal["none", "selective", "full"]
Place = Literal["none", "cpu", "nvme"]
RankOrder = Literal["tp-cp-dp-pp", "tp-cp-pp-dp"]

BACKENDS: tuple[BackendName, ...] = ("deepspeed", "fsdp", "megatron")
PRECISIONS: tuple[Precision, ...] = ("bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4")
GRADIENT_DTYPES: tuple[GradientDtype, ...] = ("bf16", "fp16", "fp32")
ELEMENT_BYTES: dict[Precision, float] = {
    "bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "mxfp8": 1.03125, "nvfp4": 0.5625
}  # fmt: skip
"""Bytes of an element by its type; MX scales are a byte per 32 elements, NVFP4 ones a byte per 16."""
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
PLACES: tuple[Place, ...] = ("none", "cpu", "nvme")
RANK_ORDERS: tuple[RankOrder, ...] = ("tp-cp-dp-pp", "tp-cp-pp-dp")


class Stage(Frozen):
    """The integers of one pipeline stage, first stage first.

    `layers` are held in order of depth; of them the first `recompute_full_layers` are recomputed
    whole in the backward pass, the next `recompute_selective_layers` in part, and the states of the
    last `offloaded_layers` live in host memory. Under interleaving a stage holds `virtual_pipeline`
    chunks; its counts are over all of them, laid into the chunks as evenly as can be.
    """

    model_config = ConfigDict(strict=True)

    layers: int = Field(ge=1)
    recompute_full_layers: int = Field(default=0, ge=0)
    recompute_selective_layers: int = Field(default=0, ge=0)
    offloaded_layers: int = Field(default=0, ge=0)
    device: str | None = None
    chunk_layers: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, strict=False)
    """Layers of each chunk where they differ; left out: as even as can be, longer chunks first."""

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.recompute_full_layers + self.recompute_selective_layers > self.layers:
            raise ValueError("recompute_full_layers + recompute_selective_layers must not exceed layers")
        if self.offloaded_layers > self.layers:
            raise ValueError("offloaded_layers must not exceed layers")
        if self.chunk_layers is not None and sum(self.chunk_layers) != self.layers:
            raise ValueError("chunk_layers must add up to layers")
        return self


def _scheduled(data: dict[str, Any]) -> dict[str, Any]:
    """The schedule of a strategy that names none."""
    stages, chunks = (data.get(name, 1) for name in ("pipeline_parallel", "virtual_pipeline"))
    if data.get("pipeline_schedule") is not None or not (isinstance(stages, int) and isinstance(chunks, int)):
        return {}
    return {"pipeline_schedule": usual_schedule(stages, chunks)}


def even_chunks(layers: int, chunks: int) -> tuple[int, ...]:
    """Layers of each chunk of a stage, as even as can be, longer ones first.

    >>> even_chunks(7, 3)
    (3, 2, 2)
    """
    each, more = divmod(layers, chunks)
    return tuple(each + (chunk < more) for chunk in range(chunks))


def _chunked(data: dict[str, Any]) -> dict[str, Any]:
    """The stages of a strategy, with the sizes of chunks told where they differ and only there."""
    chunks, stages = data.get("virtual_pipeline", 1), data.get("stages")
    if not isinstance(chunks, int) or chunks < 1 or not isinstance(stages, list | tuple):
        return {}
    return {"stages": tuple(_with_sizes(stage, chunks) for stage in stages)}


def _with_sizes(stage: Any, chunks: int) -> Any:
    """A stage, or what shall become one, with the sizes of its chunks."""
    told = stage.model_dump() if isinstance(stage, Stage) else stage
    if not isinstance(told, dict) or not isinstance(layers := told.get("layers"), int):
        return stage
    sizes = told.get("chunk_layers")
    if sizes is None and layers % chunks:
        return {**told, "chunk_layers": even_chunks(layers, chunks)}
    if sizes is not None and tuple(sizes) == (layers // chunks,) * chunks:
        return {**told, "chunk_layers": None}
    return stage


def _exchange(data: dict[str, Any]) -> dict[str, Any]:
    """Kind and group of context ranks, as the backend has them where a strategy does not say."""
    context = data.get("context_parallel", 1)
    if not isinstance(context, int) or context < 1:
        return {}
    usual = "none" if context == 1 else USUAL.get(str(data.get("backend")), "ring")
    kind = data.get("context_parallel_kind") or usual
    size = data.get("ulysses_group_size", usual_group(str(kind), context))
    return {"ulysses_group_size": size, "context_parallel_kind": kind}


def _overlap(data: dict[str, Any]) -> dict[str, bool]:
    """What backend and stack hide where a strategy does not say."""
    return usual_overlap(data, {name: data[name] for name in OVERLAP_KNOBS if name in data})


class Strategy(Frozen):
    """Global choices, which multiply to the world, and the integers of each pipeline stage.

    World = data_parallel * tensor_parallel * pipeline_parallel * context_parallel. Experts are laid
    over the same cards: expert_parallel * expert_tensor_parallel divides
    data_parallel * context_parallel * tensor_parallel.
    """

    model_config = ConfigDict(strict=True)

    backend: BackendName
    software_stack: str
    data_parallel: Degree = Field(default=1, ge=1)
    tensor_parallel: Degree = Field(default=1, ge=1)
    pipeline_parallel: Degree = Field(default=1, ge=1)
    context_parallel: Degree = Field(default=1, ge=1)
    context_parallel_kind: ContextKind = "none"
    """How context ranks exchange keys and values; left out: as the backend does by default."""
    ulysses_group_size: Degree = Field(default=1, ge=1)
    """Neighbouring context ranks that exchange heads; left out: all of them under ulysses, else 1."""
    expert_parallel: Degree = Field(default=1, ge=1)
    expert_tensor_parallel: Degree = Field(default=1, ge=1)
    virtual_pipeline: int = Field(default=1, ge=1)
    zero_stage: int = Field(default=0, ge=0, le=3)
    shard_group_size: int = Field(default=1, ge=1)
    """Cards that share one copy of the sharded states; 1 when zero_stage is 0, at most dp * cp."""
    secondary_shard_group_size: int = Field(default=1, ge=1)
    """Ranks that together hold a second copy of the weights (hpZ); 1: there is none."""
    reshard_after_forward: bool = False
    """zero_stage 3 only: gathered weights are freed after the forward pass and gathered again."""
    overlap_gradient_reduce: bool = False
    """Gradients are reduced beside the backward pass; left out: as the backend does by default."""
    overlap_parameter_gather: bool = False
    """Weights are gathered after a step beside the forward pass; left out: as the backend does by default."""
    sequence_parallel: bool = False
    overlap_tensor_parallel: bool = False
    """What sequence-parallel tensor ranks send runs beside the products that use it; left out: as in the runs
    that the stack was measured on."""
    micro_batch_size: int = Field(default=1, ge=1)
    gradient_accumulation_steps: int = Field(default=1, ge=1)
    precision: Precision = "bf16"
    gradient_dtype: GradientDtype = "bf16"
    loss_kernel: str = "eager"
    offload_optimizer: Place = "none"
    offload_params: Place = "none"
    rank_order: RankOrder = "tp-cp-dp-pp"
    """Innermost axis first: which ranks are neighbours."""
    pipeline_schedule: ScheduleName = "none"
    """Order of passes over the stages; where it is left out 1f1b, or interleaved where stages have chunks."""
    stages: tuple[Stage, ...] = Field(strict=False)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, data: Any) -> Any:
        """Fills in the schedule, chunks, exchange and overlap that the degrees and the backend ask for."""
        return (
            {**data, **_scheduled(data), **_exchange(data), **_overlap(data), **_chunked(data)}
            if isinstance(data, dict)
            else data
        )

    @model_validator(mode="after")
    def _runs(self) -> Self:
        degrees = self.pipeline_parallel, self.virtual_pipeline
        if self.pipeline_schedule != usual_schedule(*degrees):
            reason = misfit(self.pipeline_schedule, *degrees, self.gradient_accumulation_steps)
            if reason is not None:
                raise InputError("pipeline_schedule", self.pipeline_schedule, "strategy", reason)
        return self

    @model_validator(mode="after")
    def _exchanged(self) -> Self:
        exchange = Exchange(self.context_parallel_kind, self.ulysses_group_size)
        reason = context_misfit(exchange, self.context_parallel)
        if reason:
            told = f"context_parallel_kind {' of '.join(map(str, exchange))}: {reason}"
            raise InputError("context_parallel_kind", self.context_parallel_kind, "strategy", told)
        return self

    @model_validator(mode="after")
    def _stages(self) -> Self:
        if len(self.stages) != self.pipeline_parallel:
            reason = f"stages holds {len(self.stages)} entries, pipeline_parallel is {self.pipeline_parallel}"
            raise InputError("stages", [stage.layers for stage in self.stages], "strategy", reason)
        for number, stage in enumerate(self.stages):
            if stage.chunk_layers is not None and len(stage.chunk_layers) != self.virtual_pipeline:
                reason = (
                    f"tells of {len(stage.chunk_layers)} chunks, virtual_pipeline is {self.virtual_pipeline}"
                )
                raise InputError(
                    f"stages.{number}.chunk_layers", list(stage.chunk_layers), "strategy", reason
                )
        return self

    @property
    def world(self) -> int:
        """Cards used."""
        return self.data_parallel * self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @property
    def layers(self) -> int:
        """Layers held by all stages."""
        return sum(stage.layers for stage in self.stages)

    @property
    def recompute(self) -> Recompute:
        """The word for what the stages recompute: none, selective, or full if any layer is whole."""
        if any(stage.recompute_full_layers for stage in self.stages):
            return "full"
        return "selective" if any(stage.recompute_selective_layers for stage in self.stages) else "none"

    def row(self) -> dict[str, Any]:
        """The global choices alone, by name."""
        return self.model_dump(exclude={"stages"})
