"""Backends: what each can run, keep, hide and write, as data with reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal

from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .context import ContextKind, Exchange, plain, unfit
from .optimizer import with_optimizer, without_master
from .overlap import SWITCHES, TENSOR_KNOB, Overlap, knob, overlaps, usual_overlap
from .recipe import Recipe, recipe, table
from .schedule import ScheduleName
from .strategy import BackendName, GradientDtype, Precision, Recompute, Strategy
from .training import Optimizer, Training
from .transformer import Block, Transformer
from .way import Kind

Freedom = Literal["free", "same", "all", "even"]
Offload = Literal["none", "optimizer", "optimizer+params"]


@dataclass(frozen=True, kw_only=True)
class AxisLimit(Listed):
    """The values an axis may take under a backend, and why no others."""

    axis: str
    values: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class TensorParallel(Listed):
    """What a backend asks of tensor parallel beyond the model's divisors."""

    families: tuple[str, ...]
    stack: str
    """The software stack that runs with tensor_parallel above 1."""
    loss_kernels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Backend(Listed):
    """A training framework: legal choices, resident bytes, overlap, and freedoms of a stage."""

    name: BackendName
    default_stack: str
    default_loss_kernel: str
    zero_stages: tuple[int, ...]
    weights_sharded_from_stage: int
    gradients_sharded_from_stage: int
    partial_shard_groups: bool
    reshard: tuple[bool, ...]
    recompute: tuple[Recompute, ...]
    recompute_freedom: Freedom
    offload: tuple[Offload, ...]
    offload_optimizer_from_stage: int
    offload_params_from_stage: int
    nvme_from_stage: int = 4
    """Least ZeRO stage whose states may live on NVMe; 4: none."""
    secondary_shards_from_stage: int = 4
    """Least ZeRO stage whose weights may have a second copy in a small group of ranks; 4: none."""
    offload_freedom: Freedom
    layers_freedom: Freedom
    pipeline_schedules: tuple[ScheduleName, ...]
    """Orders of passes it can run over several stages."""
    overlap: Overlap
    keeps_8_bit_inputs: bool = False
    """8-bit products keep their inputs in 8 bits for the backward (Transformer Engine), else in 16."""
    gradients_resident: bool
    """Gradients are alive through the forward pass even without accumulation."""
    sequence_parallel_pairs_with_tensor: bool
    folds_experts: bool = False
    """Experts lie over the ranks of a stage in a grid of their own, whatever tensor_parallel is; else they
    are cut as the rest of a layer."""
    vocab_multiple: int
    """The vocabulary is padded to a multiple of this times tensor_parallel."""
    recipes: dict[Precision, dict[GradientDtype, str]]
    """Byte recipes that can be priced."""
    precisions: tuple[Precision, ...]
    """Precisions that launch files can be written for."""
    loss_kernels: tuple[str, ...]
    optimizers: tuple[Optimizer, ...]
    gradient_dtype_from_stage: dict[Precision, dict[GradientDtype, int]]
    """The least ZeRO stage of a precision with gradients of a type, where not 0."""
    vocab_divides: bool
    """tensor_parallel must divide the vocabulary, which is not padded."""
    tensor_parallel: TensorParallel | None
    families: tuple[str, ...] | None
    """Model families it can be told of; None: any."""
    optimizer_zero_stages: dict[Optimizer, tuple[int, ...]]
    """ZeRO stages an optimizer runs at, where not all."""
    ways: dict[Kind, dict[str, tuple[int | str, ...]]]
    """Ways of training it can run, each with the values of knobs it is held to."""
    frozen_recipes: dict[Precision, str]
    """Byte recipe of frozen weights by precision."""
    quantised_recipe: str
    shards_quantised: bool
    """4-bit weights are cut where others are; else every rank holds them whole."""
    without_master: bool
    """It can train 16-bit weights without an fp32 copy."""
    without_sync: bool
    """It can leave gradients unreduced between micro-batches."""
    frees_gradients: bool
    """It can step inside the backward pass."""
    offloads_activations: bool = False
    """It can keep the inputs of recomputed layers in host memory."""
    names_recompute: bool = False
    """It can be told which modules of a layer selective recompute runs again."""
    trains_predictors: bool
    """It can train modules that predict further tokens, on the last stage beside the head."""
    because: dict[str, str]
    """The reason of each rule above, by the field it holds for."""
    context_kinds: tuple[ContextKind, ...]
    """How its context ranks can exchange keys and values."""
    context_masks: bool
    """Context ranks run windows and latent attention too, as far as their kind can."""
    limits: tuple[AxisLimit, ...]
    source: str

    def knows(self, model: Transformer) -> bool:
        """Whether launch files can describe the layers of `model`."""
        return self.families is None or model.family in self.families

    def runs(self, axis: str, value: int) -> bool:
        """Whether it can run this degree of an axis at all."""
        return all(value in limit.values for limit in self.limits if limit.axis == axis)

    def stages_of(self, optimizer: Optimizer) -> tuple[int, ...]:
        """ZeRO stages that run with an optimizer."""
        return self.optimizer_zero_stages.get(optimizer, self.zero_stages)

    def least_zero_stage(self, precision: Precision, gradient_dtype: GradientDtype) -> int:
        """The least ZeRO stage that runs with gradients of a type."""
        return self.gradient_dtype_from_stage.get(precision, {}).get(gradient_dtype, 0)

    def stack_for(self, tensor: int) -> str:
        """The software stack the backend runs by default with this tensor_parallel."""
        rule = self.tensor_parallel
        return rule.stack if rule is not None and tensor > 1 else self.default_stack

    def cuts_tensors_of(self, model: Transformer) -> bool:
        """Whether the backend has a tensor-parallel plan for the layers of `model`."""
        if self.tensor_parallel is None:
            return True
        plain = all(_plain(kind) for kind in model.kinds)
        return plain and model.family in self.tensor_parallel.families

    def refuses_exchange(self, model: Transformer, exchange: Exchange, tensor: int) -> str:
        """Why context ranks cannot exchange sequences of `model`, cut over `tensor` ranks, so; else empty."""
        if exchange.kind != "none" and not self.context_masks and not all(map(plain, model.kinds)):
            return self.because["context_parallel"]
        return unfit(model, exchange, tensor)

    def refuses(self, axis: str, degrees: Collection[int], model: Transformer) -> str:
        """Why the backend runs `model` with none of `degrees` of an axis; empty where it runs one."""
        for limit in self.limits:
            if limit.axis == axis and not set(limit.values) & set(degrees):
                return limit.reason
        if axis == "tensor_parallel" and 1 not in degrees and not self.cuts_tensors_of(model):
            return self.because[axis]
        return ""

    def refuses_overlap(self, strategy: Strategy) -> tuple[str, ...]:
        """Switches of overlap whose value the backend does not run beside the other choices of `strategy`."""
        fields = strategy.row()
        tensor = fields[TENSOR_KNOB] and not self.overlap.cuts(fields)
        return (*self.overlap.refused(strategy.zero_stage, fields), *([TENSOR_KNOB] if tensor else ()))

    def __hash__(self) -> int:
        return hash(self.name)

    def recipe(
        self, precision: Precision, gradient_dtype: GradientDtype, training: Training
    ) -> Recipe | None:
        """The bytes of a trained parameter, or None where the backend has no such combination."""
        name = self.recipes.get(precision, {}).get(gradient_dtype)
        if name is None:
            return None
        if training.master_weights or precision == "fp32":
            return with_optimizer(recipe(name), training.optimizer)
        return without_master(recipe(name), training.optimizer)

    def fixed_recipe(self, precision: Precision, quantised: bool) -> Recipe | None:
        """The bytes of a frozen parameter, or None where the backend has none of that precision."""
        if precision not in self.frozen_recipes:
            return None
        return recipe(self.quantised_recipe if quantised else self.frozen_recipes[precision])

    def held_to(self, training: Training) -> dict[str, tuple[int | str, ...]]:
        """Values of knobs that the way of training is held to."""
        kind = "share" if training.frozen else training.way.kind
        return self.ways.get(kind, {})

    def unable(self, training: Training) -> dict[str, object]:
        """Fields of a job that this backend cannot run, with their values."""
        cannot = {
            "trainable": training.way.kind not in self.ways,
            "frozen": bool(training.frozen) and "share" not in self.ways,
            "master_weights": not training.master_weights and not self.without_master,
            "sync_each_batch": not training.sync_each_batch and not self.without_sync,
            "optimizer_in_backward": training.optimizer_in_backward and not self.frees_gradients,
            "offload_activations": training.offload_activations and not self.offloads_activations,
            "recompute_modules": bool(training.recompute_modules) and not self.names_recompute,
            "mtp_layers": training.mtp_layers > 0 and not self.trains_predictors,
        }
        return {field: getattr(training, field) for field, wrong in cannot.items() if wrong}


def _plain(kind: Block) -> bool:
    """A layer without experts and without norms on queries and keys."""
    return not kind.feed_forward.experts and getattr(kind.attention, "qk_norm", "none") == "none"


@cache
def backends() -> dict[str, Backend]:
    """All backends by name."""
    return {
        name: Backend.listed(name=name, **{**entry, **_parts(entry), "overlap": overlaps()[name]})
        for name, entry in table("backends").items()
    }


def _parts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of an entry that are objects of their own."""
    tensor = entry["tensor_parallel"]
    return {
        "tensor_parallel": None if tensor is None else TensorParallel.listed(**tensor),
        "limits": tuple(AxisLimit.listed(**limit) for limit in entry["limits"]),
    }


def backend(name: str) -> Backend:
    """The backend `name` (one of `strategy.BACKENDS`)."""
    return backends()[name]


def usually_overlapped(strategy: Strategy) -> dict[str, bool]:
    """Every switch of overlap as backend and stack of `strategy` have it by themselves."""
    return usual_overlap(strategy.row(), {})


def derived_words(strategy: Strategy) -> dict[str, Any]:
    """Words that follow from a strategy's choices and its backend, as answers tell them."""
    on = {switch: getattr(strategy, knob(switch)) for switch in SWITCHES}
    third = strategy.zero_stage == 3 and on[backend(strategy.backend).overlap.zero3_gather]
    return {"recompute": strategy.recompute, "overlap": {**on, "zero3_gather": third}}
