"""The way of training in launch files: what a target cannot carry, and what the training script must do."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.adapters import matrices, spelled_out
from ..models.backend import backend
from ..models.training import Training
from ..models.transformer import Transformer
from ..plans.plan import Plan
from .fsdp.limits import compiled
from .refused import Objection
from .releases import tested_with

FLOAT32 = "Accelerate makes trained weights float32 under mixed precision"
"""Why a plan without float32 weights is none of Accelerate, nor of the trainer, which shards through it."""

_TITAN = "torchtitan's configurations train every parameter of one model"

CANNOT: dict[str, dict[str, str]] = {
    "accelerate": {"master_weights": FLOAT32},
    "torchtitan": {
        "trainable": _TITAN,
        "frozen": _TITAN,
        "reference_model": _TITAN,
        "master_weights": "the arguments are written for float32 shards",
        "sync_each_batch": "torchtitan reduces gradients after every micro-batch",
        "offload_activations": "torchtitan keeps the inputs of recomputed layers on the card: write the plan "
        "for fsdp, or plan with --set offload_activations=false",
    },
}
"""Fields of a job that a target cannot carry though its backend can, with the reason."""


def objections(plan: Plan, target: str) -> Iterator[Objection]:
    """What of the job the target, or the backend of the plan, cannot run."""
    training, known = plan.request.training, backend(plan.strategy.backend)
    for field, value in known.unable(training).items():
        yield Objection(f"training.{field}", value, known.because[field])
    for knob, values in known.held_to(training).items():
        value = getattr(plan.strategy, knob)
        if value not in values:
            yield Objection(knob, value, known.because["way"])
    if target == "fsdp" and training.offload_activations and compiled(plan.strategy):
        reason = "compiled layers keep weights beside their inputs, which would move to the host with them"
        yield Objection("training.offload_activations", True, reason)
    usual = {name: field.default for name, field in Training.model_fields.items()}
    for field, reason in CANNOT.get(target, {}).items():
        value = getattr(training, field)
        if value != usual[field]:
            yield Objection(f"training.{field}", value, reason)


def notes(plan: Plan, target: str) -> Iterator[str]:
    """Sentences for the README: adapters, frozen parts, offloaded activations, packing, a reference model."""
    training = plan.request.training
    if training.way.adapts:
        yield from _adapters(plan)
    elif training.frozen:
        yield (
            f"Switch gradients off (`requires_grad_(False)`) for {', '.join(training.frozen)}, in 16 bits, "
            "before anything is wrapped: frozen weights are priced without gradients and optimizer states."
        )
    elif training.way.kind == "share":
        yield (
            f"Switch gradients off (`requires_grad_(False)`) for all but {100 * training.way.share:.0f} % of "
            "the parameters of each layer; the plan prices them in 16 bits, without gradients and states."
        )
    if training.offload_activations and target != "fsdp":
        yield (
            "Run forward and loss under `torch.autograd.graph.save_on_cpu(pin_memory=True)`, or under the "
            "offloading context of TRL or torchtune, which copies beside the compute: inputs of recomputed "
            "layers are priced in host memory."
        )
    yield from _data(training)
    if training.reference_model is not None:
        yield from _reference(training)


def _adapters(plan: Plan) -> Iterator[str]:
    training, model = plan.request.training, plan.request.model
    named = ", ".join(repr(name) for name in targets(training, model))
    yield (
        f"Make the model with peft: `get_peft_model(model, LoraConfig(r={training.way.rank}, "
        f"target_modules=[{named}]))` (names as Llama has them); base weights in 16 bits, "
        "adapters in float32, as peft makes them."
    )
    if training.way.kind == "qlora":
        kind = "torch.float16" if plan.strategy.precision == "fp16" else "torch.bfloat16"
        yield (
            "Load the base with `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4', "
            f"bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype={kind}, "
            f"bnb_4bit_quant_storage={kind})`: only weights stored in the type of the others can be sharded "
            f"beside them ({tested_with('bitsandbytes', 'peft')})."
        )
    if any(kind.feed_forward.experts for kind in model.kinds):
        yield from _experts(training)


def _experts(training: Training) -> Iterator[str]:
    """transformers 5 holds the experts of a layer as one parameter, which is no linear (modeling_mixtral)."""
    if {"gate_proj", "up_proj", "down_proj"} & spelled_out(training.lora_targets):
        yield (
            "transformers 5 fuses the experts of a layer into one parameter: name it in peft's "
            "`target_parameters`, or the adapters of experts, which are priced, are left out."
        )
    if training.way.kind == "qlora":
        yield (
            "bitsandbytes packs linears alone: load experts as separate linears (transformers 4), or they "
            "stay in 16 bits, four times what the plan prices."
        )


def targets(training: Training, model: Transformer) -> list[str]:
    """Names of the adapted matrices, in the order of a layer."""
    wanted = spelled_out(training.lora_targets)
    held = (matrix.name for block in model.kinds for matrix in matrices(block, model.hidden_size))
    return list(dict.fromkeys(name for name in held if name in wanted))


def _data(training: Training) -> Iterator[str]:
    if training.mean_document_length:
        yield (
            f"Pack documents (mean {training.mean_document_length} tokens) with a mask or position ids that "
            "keep them apart: attention is priced within a document."
        )
    if training.mean_sequence_length:
        yield (
            f"Sequences differ (mean {training.mean_sequence_length} tokens): memory is priced for the "
            "longest, time for the mean without padding; sort them by length, or pack them."
        )


def _reference(training: Training) -> Iterator[str]:
    if training.way.adapts and training.reference_model == "self":
        yield "The reference is the base with its adapters switched off (`model.disable_adapter()`)."
        return
    cut = "sharded like the trained one" if training.reference_sharded else "whole on every data rank"
    yield (
        f"Load the reference model frozen, in 16 bits, {cut}; it runs forward under `torch.no_grad()` for "
        "each micro-batch, before the trained model."
    )
