"""Software stacks: the few constants by which a framework differs from the physical formulas."""

from __future__ import annotations

from dataclasses import field
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from ..inputs import InputError, nearest
from ..inputs.listed import Listed
from ..inputs.record import dataclass
from .recipe import table
from .strategy import BackendName


@dataclass(frozen=True, kw_only=True)
class Stack(Listed):
    """Constants of a framework of a year.

    Factors multiply the time of GEMMs, attention and memory-bound work; `host_launch_seconds` is what the
    host takes for an operation of a layer's forward, its share of modules, autograd and hooks with it;
    `tensor_exposed` and `data_exposed` are the shares of ring-model communication that show.
    """

    name: str
    backend: BackendName
    gemm_factor: Annotated[float, Field(gt=0)]
    attention_factor: Annotated[float, Field(gt=0)]
    memory_factor: Annotated[float, Field(gt=0)]
    host_launch_seconds: Annotated[float, Field(ge=0)]
    tensor_exposed: Annotated[float, Field(ge=0)]
    data_exposed: Annotated[float, Field(ge=0)]
    tensor_overlapped: bool = False
    """Whether `tensor_exposed` is what shows with `overlap_tensor_parallel`: its runs had it on."""
    tensor_otherwise: str | None = None
    """The stack whose `tensor_exposed` tells what shows with that switched the other way."""
    sums_beside_weights: bool = False
    """Whether tensor ranks sum the gradient of a product's input beside the product for its weight's own."""
    data_overlapped: bool = False
    """Whether `data_exposed` is what shows of gradients reduced beside the backward pass: its runs did so."""
    data_otherwise: str | None = None
    """The stack whose `data_exposed` tells what shows with that switched the other way; None: its software
    has no such switch, or nothing is known of it."""
    host_wait_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What the device waits for the host in a layer and micro-batch, however much it has to do."""
    exchange_wait_seconds: Annotated[float, Field(ge=0)] = 0.0
    """What the device waits for the host in both passes of a chunk where the host waits for each exchange
    between stages before it launches more: it finds nothing queued."""
    pipeline_exposed: Annotated[float, Field(ge=0)] = 1.0
    """Share of a send between pipeline stages that shows: 1 where it blocks."""
    accumulation_factor: Annotated[float, Field(ge=0)]
    fixed_seconds: Annotated[float, Field(ge=0)]
    activation_set: str
    """What a layer saves for its backward (`costs`, saved sets)."""
    selective_set: str
    """What it saves under selective recompute; "none" where there is no such thing."""
    full_set: str = "input"
    """What a layer saves under full recompute."""
    attention_kernel: Literal["written-out", "unfused", "flash2", "flash3", "flash4"]
    """Scores as products, with operators for scale, mask and softmax or one kernel of them; or the generation
    of fused kernels: a card without the newer one runs flash2."""
    gather_share: Annotated[float, Field(gt=0, le=1)]
    """Share of the network cards that a layer's collectives between islands reach."""
    context_imbalance: Annotated[float, Field(ge=0)]
    """What an unbalanced causal split over many context ranks adds to attention, as a share of it."""
    moved_set: str | None = None
    """What its kernels read and write (`costs`, moved bytes); None: as those of `activation_set`."""
    allocator: Literal["caching", "planned"] = "caching"
    """Whether blocks are cached as they come (PyTorch) or all placed before the run (OneFlow)."""
    step_kernel: Literal["fused", "foreach"] = "fused"
    """How Adam steps: one kernel, or operations over all parameters together with a temporary."""
    recipes: dict[str, str] = field(default_factory=dict)
    """Byte recipes by precision that go before the backend's."""
    frozen_recipes: dict[str, str] = field(default_factory=dict)
    """The same of frozen weights."""
    reduce_buckets: Annotated[int, Field(ge=1)] = 1
    """Gradient buckets alive at once where their reduction overlaps the backward; else there is one."""
    sums_whole: Annotated[int, Field(ge=0, le=2)] = 0
    """The last ZeRO stage that sums each gradient on all ranks (an all-reduce) before a rank keeps its own;
    0: none does."""
    keeps_root: bool = True
    """Whether FSDP's root holds embedding and head and stays gathered from forward to backward."""
    adapter_units: Annotated[int, Field(ge=0)] = 0
    """Sharded units that each adapted matrix makes of its own: 2 where a unit must be trained or frozen as a
    whole (FSDP1 with peft's wrap policy), 0 where not (FSDP2)."""
    flat_units: bool = False
    """Whether adapters lie in one flat parameter with the frozen weights of their layer, all of which then
    has a gradient (FSDP1 with ``use_orig_params``)."""
    keeps_offloaded_gradients: bool = False
    """Whether gradient shards that go to the host stay on the card until the backward ends (FSDP1:
    ``_saved_grad_shard`` of each unit), or are let go once copied (FSDP2)."""
    adapter_code: Literal["plain", "peft"] = "plain"
    """Whether adapters have the type of the base, or stay in fp32 and cast what they read (peft)."""
    exchange: Literal["alltoall", "deepep", "hybridep"] = "alltoall"
    """How tokens travel to their experts: NCCL sends a copy to each; DeepEP and HybridEP send one to each
    card that holds some of a token's experts, and between islands one to each island."""
    exchange_overlapped: bool = False
    """Whether tokens of one micro-batch travel beside the compute of another (Megatron Core's
    ``overlap_moe_expert_parallel_comm``)."""
    graphs: Literal["none", "router", "attention", "step"] = "none"
    """What CUDA graphs hold: nothing, router and preprocessing of a layer with experts, its attention too, or
    the whole step of any layer, with experts in one fused grouped kernel whatever `expert_kernel` says."""
    expert_kernel: Literal["loop", "grouped", "modules"] = "loop"
    """Whether the host launches each expert's products on their own (Transformer Engine), or one kernel's, or
    each expert is a module that the model's code calls in turn (Transformers before 5)."""
    attention_bits: Literal[8, 16] = 16
    """Operands of the attention core: 8 where a recipe says ``fp8_dot_product_attention``."""
    scaling: Literal["delayed", "tensorwise"] = "tensorwise"
    """By which values 8-bit operands are scaled: of earlier steps, or their own (Megatron's --fp8-recipe)."""
    balanced: bool = False
    """Whether the router is forced to balance, as benchmarks do."""
    weighs_inside: bool = False
    """Whether a token's weight is put on the activation within its expert, so that what the expert gives is
    not kept for the gradient of that weight (Megatron Core since 0.12)."""
    keeps_gathered: bool = False
    """Whether inputs that sequence-parallel ranks gather for a product are kept whole for its backward, as
    autograd keeps what a product reads, or as they were, to be gathered again (Megatron-LM)."""
    activation_copies: Literal["beside", "blocking"] = "blocking"
    """Whether offloaded activations travel on a stream of their own or stop the compute (PyTorch's
    ``save_on_cpu``)."""
    loads_whole: bool = False
    """Whether each card holds all weights in 16 bits for a moment before they are sharded."""
    source: str
    grade: str

    @property
    def writes_scores(self) -> bool:
        """Whether attention is products, whose scores stand in memory."""
        return self.attention_kernel in ("written-out", "unfused")


@cache
def stacks() -> dict[str, Stack]:
    """All software stacks by name."""
    return {name: Stack.listed(name=name, **_inherited(name)) for name in table("stacks")}


def _inherited(name: str) -> dict[str, Any]:
    """An entry of the catalogue over those of its parents."""
    entry = dict(table("stacks")[name])
    parent = entry.pop("parent", None)
    return {**_inherited(parent), **entry} if parent else entry


def heirs(name: str, field: str) -> tuple[str, ...]:
    """Stacks that have `field` from the entry `name`: itself, and those that inherit it.

    >>> heirs("megatron-deepspeed-2022", "gemm_factor")
    ('megatron-deepspeed-2022', 'megatron-deepspeed-2020')
    """
    return tuple(other for other in table("stacks") if holder(other, field) == name)


@cache
def holder(name: str, field: str) -> str:
    """The entry that gives the stack `name` its `field`.

    >>> holder("megatron-deepspeed-2020", "gemm_factor")
    'megatron-deepspeed-2022'
    """
    entry = table("stacks")[name]
    return name if field in entry or "parent" not in entry else holder(entry["parent"], field)


def stack(name: str, origin: str = "software_stack") -> Stack:
    """The stack `name`; raises `InputError` with the nearest names."""
    if name not in stacks():
        raise InputError("software_stack", name, origin, "no such stack", legal=nearest(name, stacks()))
    return stacks()[name]


def stack_names() -> list[str]:
    """Names of all stacks, sorted."""
    return sorted(stacks())
