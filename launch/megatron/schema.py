"""The strict shape of `megatron_args.sh`: the arguments we write, stricter than Megatron-LM's parser.

A field is an argument: `num_layers` is `--num-layers`. Megatron-LM itself lets pass, or sets aside with
a warning, sequence parallel without tensor parallel, an offload fraction without offload, arguments of
experts without experts, and recompute words that contradict each other; this schema refuses them.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ...models.training import Module
from .layout import layers_of, modules_of
from .model_schema import AttentionArgs, Count, ExpertArgs, ModelArgs, Strict, length

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


Exchange = Literal["p2p", "all_gather", "a2a", "a2a+p2p"]


class ParallelArgs(Strict):
    """How the model lies on the cards, and which communication is hidden."""

    tensor_model_parallel_size: Count
    sequence_parallel: bool = False
    pipeline_model_parallel_size: Count
    num_virtual_stages_per_pipeline_rank: Annotated[int, Field(ge=2)] | None = None
    pipeline_model_parallel_layout: str | None = None
    context_parallel_size: Count
    cp_comm_type: Exchange | None = None
    hierarchical_context_parallel_sizes: tuple[Count, Count] | None = None
    expert_model_parallel_size: Count | None = None
    expert_tensor_parallel_size: Count | None = None
    use_tp_pp_dp_mapping: bool = False
    use_distributed_optimizer: bool = False
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    tp_comm_overlap: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sequence_parallel and self.tensor_model_parallel_size == 1:
            raise ValueError("sequence_parallel needs tensor_model_parallel_size above 1")
        if (self.cp_comm_type is not None) != (self.context_parallel_size > 1):
            raise ValueError("cp_comm_type goes with context_parallel_size above 1")
        sizes = self.hierarchical_context_parallel_sizes
        if (sizes is not None) != (self.cp_comm_type == "a2a+p2p"):
            raise ValueError("hierarchical_context_parallel_sizes go with cp_comm_type a2a+p2p")
        if sizes is not None and prod(sizes) != self.context_parallel_size:
            raise ValueError(f"{sizes} ranks on two levels are not {self.context_parallel_size}")
        if (self.expert_model_parallel_size is None) != (self.expert_tensor_parallel_size is None):
            raise ValueError("both sizes of experts are stated, or none")
        if self.tp_comm_overlap and not self.sequence_parallel:
            raise ValueError("tp_comm_overlap needs sequence_parallel")
        if self.overlap_param_gather and not (self.use_distributed_optimizer and self.overlap_grad_reduce):
            raise ValueError("overlap_param_gather needs the distributed optimizer and overlap_grad_reduce")
        return self

    @model_validator(mode="after")
    def _stages(self) -> Self:
        stages, chunks = self.pipeline_model_parallel_size, self.num_virtual_stages_per_pipeline_rank
        if stages == 1 and (chunks or self.pipeline_model_parallel_layout or self.use_tp_pp_dp_mapping):
            raise ValueError("chunks, a layout and a place in the order need two stages or more")
        if chunks and self.pipeline_model_parallel_layout:
            raise ValueError("a layout states its chunks itself")
        if (
            self.pipeline_model_parallel_layout
            and len(layers_of(self.pipeline_model_parallel_layout)) % stages
        ):
            raise ValueError(f"chunks of the layout are no multiple of {stages} stages")
        return self


class StepArgs(Strict):
    """What one optimizer step processes."""

    micro_batch_size: Count
    global_batch_size: Count
    optimizer: Literal["adam", "sgd"]
    clip_grad: Annotated[float, Field(ge=0)]


class MemoryArgs(Strict):
    """What is recomputed, and which states live in host memory."""

    recompute_granularity: Literal["full", "selective"] | None = None
    recompute_method: Literal["uniform", "block"] | None = None
    recompute_num_layers: Count | None = None
    recompute_modules: Annotated[tuple[Module, ...], Field(min_length=1)] | None = None
    use_precision_aware_optimizer: bool = False
    optimizer_cpu_offload: bool = False
    optimizer_offload_fraction: Annotated[float, Field(ge=1.0, le=1.0)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        full, partial = (self.recompute_granularity == word for word in ("full", "selective"))
        if (self.recompute_method is not None) != full or (self.recompute_num_layers is not None) != full:
            raise ValueError("recompute_method and recompute_num_layers go with granularity full")
        if (self.recompute_modules is not None) != partial:
            raise ValueError("recompute_modules go with granularity selective")
        if self.recompute_method == "uniform" and self.recompute_num_layers != 1:
            raise ValueError("uniform recomputation keeps the input of every layer: one layer a unit")
        if (self.optimizer_offload_fraction is not None) != self.optimizer_cpu_offload:
            raise ValueError("optimizer_offload_fraction goes with optimizer_cpu_offload")
        if self.optimizer_cpu_offload and not self.use_precision_aware_optimizer:
            raise ValueError("optimizer_cpu_offload needs use_precision_aware_optimizer")
        return self


class PrecisionArgs(Strict):
    """Types of weights, products and gradients."""

    bf16: bool = False
    fp16: bool = False
    fp8_format: Literal["hybrid", "e4m3"] | None = None
    fp8_recipe: Literal["tensorwise", "delayed", "mxfp8"] | None = None
    accumulate_allreduce_grads_in_fp32: bool = False
    grad_reduce_in_bf16: bool = False
    main_grads_dtype: Literal["bf16"] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.bf16 == self.fp16:
            raise ValueError("either bf16 or fp16")
        if (self.fp8_format is None) != (self.fp8_recipe is None) or (self.fp8_format and not self.bf16):
            raise ValueError("8-bit products have a format and a recipe, beside bf16")
        if (self.accumulate_allreduce_grads_in_fp32 + self.grad_reduce_in_bf16) != self.bf16:
            raise ValueError("bf16 training states whether gradients are fp32 or bf16")
        if self.main_grads_dtype and not self.grad_reduce_in_bf16:
            raise ValueError("main_grads_dtype bf16 goes with grad_reduce_in_bf16")
        return self


class RecipeArgs(Strict):
    """Placeholders of the training recipe, no decisions of the plan."""

    train_iters: Count
    lr: Positive
    lr_decay_style: Literal["cosine"]
    lr_warmup_fraction: Share
    weight_decay: Annotated[float, Field(ge=0)]
    adam_beta1: Share | None = None
    adam_beta2: Share | None = None
    adam_eps: Positive | None = None
    sgd_momentum: Share | None = None
    mtp_loss_scaling_factor: Positive | None = None
    moe_router_load_balancing_type: Literal["aux_loss", "seq_aux_loss"] | None = None
    moe_aux_loss_coeff: Positive | None = None
    moe_router_enable_expert_bias: bool = False
    eval_iters: Annotated[int, Field(ge=0)]
    log_interval: Count
    log_throughput: bool = False


class DataArgs(Strict):
    """Placeholders again: made-up tokens of the model's vocabulary."""

    mock_data: Literal[True]
    tokenizer_type: Literal["NullTokenizer"]
    vocab_size: Count


class MegatronArgs(Strict):
    """`megatron_args.sh`, one array a field."""

    model: ModelArgs
    attention: AttentionArgs
    experts: ExpertArgs
    parallel: ParallelArgs
    step: StepArgs
    memory: MemoryArgs
    precision: PrecisionArgs
    recipe: RecipeArgs
    data: DataArgs

    @model_validator(mode="after")
    def _layers(self) -> Self:
        model, parallel = self.model, self.parallel
        chunks = parallel.num_virtual_stages_per_pipeline_rank or 1
        if parallel.pipeline_model_parallel_layout is not None:
            modules = modules_of(parallel.pipeline_model_parallel_layout)
            layers = sum(layers_of(parallel.pipeline_model_parallel_layout)) - modules
            if (layers, modules) != (model.num_layers, model.mtp_num_layers or 0):
                known = f"{model.num_layers} layers and {model.mtp_num_layers or 0} modules"
                raise ValueError(f"the layout has {layers} and {modules} of {known}")
        elif model.num_layers % (parallel.pipeline_model_parallel_size * chunks):
            raise ValueError(f"{model.num_layers} layers make no equal chunks; state a layout")
        if model.seq_length % (2 * parallel.context_parallel_size) and parallel.context_parallel_size > 1:
            raise ValueError("seq_length must be a multiple of 2 * context_parallel_size")
        for pattern in (self.experts.moe_layer_freq, self.attention.window_attn_skip_freq):
            if pattern is not None and length(pattern) != model.num_layers:
                raise ValueError(f"{pattern} has {length(pattern)} entries for {model.num_layers} layers")
        return self

    @model_validator(mode="after")
    def _divided(self) -> Self:
        attention, parallel = self.attention, self.parallel
        groups = attention.num_query_groups or attention.num_attention_heads
        if groups % parallel.tensor_model_parallel_size:
            raise ValueError(f"{parallel.tensor_model_parallel_size} does not divide {groups} heads of keys")
        experts, over = self.experts.num_experts, parallel.expert_model_parallel_size
        if (experts is None) != (over is None):
            raise ValueError("sizes of expert parallel go with num_experts")
        if experts is not None and over is not None and experts % over:
            raise ValueError(f"{over} ranks do not divide {experts} experts")
        heads = self._heads_exchanged()
        if groups % (parallel.tensor_model_parallel_size * heads):
            raise ValueError(f"{heads} ranks exchange no whole heads of keys, of {groups}")
        if experts and parallel.tensor_model_parallel_size > 1 and not parallel.sequence_parallel:
            raise ValueError("experts beside tensor parallel need sequence_parallel")
        return self

    def _heads_exchanged(self) -> int:
        """Ranks of an all-to-all of heads."""
        sizes = self.parallel.hierarchical_context_parallel_sizes
        whole = self.parallel.context_parallel_size if self.parallel.cp_comm_type == "a2a" else 1
        return sizes[0] if sizes is not None else whole

    @model_validator(mode="after")
    def _states(self) -> Self:
        aware, sharded = self.memory.use_precision_aware_optimizer, self.parallel.use_distributed_optimizer
        if aware and not sharded:
            raise ValueError("use_precision_aware_optimizer needs the distributed optimizer")
        if sharded and self.step.optimizer != "adam":
            raise ValueError("the distributed optimizer takes Adam alone")
        if (self.recipe.mtp_loss_scaling_factor is None) != (self.model.mtp_num_layers is None):
            raise ValueError("mtp_loss_scaling_factor goes with mtp_num_layers")
        if self.model.mtp_num_layers and self.memory.recompute_method == "uniform":
            raise ValueError("modules that predict further tokens are kept by recompute_method block alone")
        if self.precision.main_grads_dtype and not aware:
            raise ValueError("main_grads_dtype bf16 needs use_precision_aware_optimizer")
        modules = self.memory.recompute_modules or ()
        routed = sorted({"moe", "moe_act", "shared_experts"} & set(modules))
        if routed and self.experts.num_experts is None:
            raise ValueError(f"recompute_modules {routed[0]} goes with num_experts")
        return self
