"""The arguments of a model and of a layout, each from the noun it describes."""

from __future__ import annotations

from itertools import groupby

from ...models.chunks import in_order
from ...models.mixers import Attention
from ...models.stack import stack
from ...models.strategy import Strategy
from ...models.training import Training
from ...models.transformer import FeedForward, Transformer
from ...plans.plan import Plan
from .constants import latent_args, number_args, router_args
from .families import known
from .layout import layout, uneven
from .model_schema import AttentionArgs, ExpertArgs, ModelArgs
from .recompute import all_whole, recomputed_modules, whole_layers
from .schema import Exchange, MemoryArgs, ParallelArgs, PrecisionArgs

NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}

EXCHANGES: dict[str, Exchange] = {
    "ring": "p2p",
    "all_gather": "all_gather",
    "ulysses": "a2a",
    "ulysses+ring": "a2a+p2p",
}
"""Words of --cp-comm-type; Transformer Engine compares them letter by letter."""


def two_levels(strategy: Strategy) -> tuple[int, int] | None:
    """Ranks of the all-to-all and of the ring over its groups, inner first."""
    if strategy.context_parallel_kind != "ulysses+ring":
        return None
    inner = strategy.ulysses_group_size
    return inner, strategy.context_parallel // inner


def decoder_kinds(model: Transformer) -> tuple[int, ...]:
    """The kind of each layer that `--num-layers` counts: all but the modules that predict further tokens."""
    return model.predicting(0).kind_of_layer


def model_args(model: Transformer, training: Training) -> ModelArgs:
    """Widths, positions, norms, biases of `model` at the sequence length of `training`."""
    kind, sequence = model.kinds[0], training.sequence_length
    learned = known().families[model.family].positions == "learned_absolute"
    longest = model.positions if learned else max(model.max_sequence_length or sequence, sequence)
    dense = next((k.feed_forward for k in model.kinds if not k.feed_forward.experts), kind.feed_forward)
    biases = isinstance(kind.attention, Attention) and kind.attention.qkv_bias
    return ModelArgs.model_validate(
        {
            "num_layers": len(decoder_kinds(model)),
            "hidden_size": model.hidden_size,
            "ffn_hidden_size": dense.width,
            "swiglu": dense.gated,
            "seq_length": sequence,
            "max_position_embeddings": longest,
            "position_embedding_type": known().families[model.family].positions,
            "normalization": NORMS[kind.norm],
            "disable_bias_linear": not dense.bias,
            "add_qkv_bias": biases and not dense.bias,
            "untie_embeddings_and_output_weights": not model.tied_embeddings,
            "make_vocab_size_divisible_by": 128,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            **number_args(model),
            "mtp_num_layers": model.mtp_layers or None,
            "transformer_impl": "transformer_engine",
            "no_create_attention_mask_in_dataloader": True,
        }
    )


def attention_args(model: Transformer) -> AttentionArgs:
    """Heads of `model`, their groups, latent vectors and windows.

    `--window-size` counts the tokens before a token, so one less than a window that holds the token.
    """
    mixers = [kind.attention for kind in model.kinds if isinstance(kind.attention, Attention)]
    first, latent = mixers[0], mixers[0].kv_rank is not None
    grouped = not latent and first.kv_heads < first.heads
    window = next((mixer.window for mixer in mixers if mixer.window), None)
    sliding = [bool(mixers[kind].window) for kind in decoder_kinds(model)]
    return AttentionArgs(
        num_attention_heads=first.heads,
        kv_channels=first.head_dim,
        group_query_attention=grouped,
        num_query_groups=first.kv_heads if grouped else None,
        qk_layernorm=latent or first.qk_norm == "per_head",
        window_size=f"{window - 1},0" if window else None,
        window_attn_skip_freq=None if all(sliding) or not window else pattern(sliding),
        multi_latent_attention=latent,
        q_lora_rank=first.q_rank or None,
        kv_lora_rank=first.kv_rank,
        qk_head_dim=first.head_dim if latent else None,
        qk_pos_emb_head_dim=first.rope_head_dim if latent else None,
        v_head_dim=(first.value_head_dim or first.head_dim) if latent else None,
        **latent_args(model),
    )


def expert_args(model: Transformer) -> ExpertArgs:
    """Experts of `model` and the layers that have them."""
    routed: FeedForward | None = next(
        (kind.feed_forward for kind in model.kinds if kind.feed_forward.experts), None
    )
    if routed is None:
        return ExpertArgs()
    layers = [bool(model.kinds[kind].feed_forward.experts) for kind in decoder_kinds(model)]
    return ExpertArgs(
        num_experts=routed.experts,
        moe_router_topk=routed.experts_per_token,
        moe_ffn_hidden_size=routed.width,
        moe_shared_expert_intermediate_size=routed.shared_width or None,
        moe_shared_expert_gate=routed.shared_gate,
        moe_layer_freq=None if all(layers) else pattern(layers),
        moe_token_dispatcher_type="alltoall",
        moe_grouped_gemm=True,
        **router_args(model),
    )


def pattern(layers: list[bool]) -> str:
    """A list expression of ones and zeros.

    >>> pattern([False, False, True])
    '[0]*2+[1]'
    """
    runs = [(int(there), len(list(run))) for there, run in groupby(layers)]
    return "+".join(f"[{there}]*{times}" if times > 1 else f"[{there}]" for there, times in runs)


def parallel_args(plan: Plan) -> ParallelArgs:
    """Degrees, order and overlap of the plan; stages spelt out where they differ.

    Buckets are left to Megatron-LM: they are views of one buffer, so they cost no memory, and the share
    of communication that a software stack hides was measured with its own.
    """
    strategy = plan.strategy
    routed = any(kind.feed_forward.experts for kind in plan.request.model.kinds)
    interleaved = strategy.virtual_pipeline if strategy.virtual_pipeline > 1 else None
    modules = plan.request.model.mtp_layers
    spelt = layout(in_order(strategy), modules) if uneven(strategy, modules) else None
    sharded = strategy.zero_stage == 1
    return ParallelArgs(
        tensor_model_parallel_size=strategy.tensor_parallel,
        sequence_parallel=strategy.sequence_parallel,
        pipeline_model_parallel_size=strategy.pipeline_parallel,
        num_virtual_stages_per_pipeline_rank=None if spelt else interleaved,
        pipeline_model_parallel_layout=spelt,
        context_parallel_size=strategy.context_parallel,
        cp_comm_type=EXCHANGES.get(strategy.context_parallel_kind),
        hierarchical_context_parallel_sizes=two_levels(strategy),
        expert_model_parallel_size=strategy.expert_parallel if routed else None,
        expert_tensor_parallel_size=strategy.expert_tensor_parallel if routed else None,
        use_tp_pp_dp_mapping=strategy.rank_order == "tp-cp-pp-dp" and strategy.pipeline_parallel > 1,
        use_distributed_optimizer=sharded,
        overlap_grad_reduce=strategy.overlap_gradient_reduce,
        overlap_param_gather=strategy.overlap_parameter_gather,
        tp_comm_overlap=strategy.overlap_tensor_parallel,
    )


def memory_args(plan: Plan) -> MemoryArgs:
    """Recomputation and offload.

    Modules that predict further tokens are priced as kept, which they are by blocks alone.
    """
    strategy = plan.strategy
    offloads, word = strategy.offload_optimizer == "cpu", strategy.recompute
    modules = recomputed_modules(plan.request.model, plan.request.training)
    whole = all_whole(strategy) and not plan.request.model.mtp_layers
    method = "uniform" if whole else "block"
    number = 1 if method == "uniform" else whole_layers(strategy)
    how: dict[str, dict[str, object]] = {
        "none": {},
        "selective": {"recompute_modules": modules},
        "full": {"recompute_method": method, "recompute_num_layers": number},
    }
    return MemoryArgs.model_validate(
        {
            "recompute_granularity": None if word == "none" else word,
            **how[word],
            "use_precision_aware_optimizer": offloads or _short_gradients(plan),
            "optimizer_cpu_offload": offloads,
            "optimizer_offload_fraction": 1.0 if offloads else None,
        }
    )


def precision_args(plan: Plan) -> PrecisionArgs:
    """Types of weights, products and gradients."""
    strategy = plan.strategy
    word, half = strategy.precision, strategy.precision in ("bf16", "fp8", "mxfp8")
    recipe = stack(strategy.software_stack).scaling
    eight = {"fp8": ("hybrid", recipe), "mxfp8": ("e4m3", "mxfp8")}.get(word, (None, None))
    short = half and strategy.gradient_dtype == "bf16"
    return PrecisionArgs.model_validate(
        {
            "bf16": half,
            "fp16": word == "fp16",
            "fp8_format": eight[0],
            "fp8_recipe": eight[1],
            "accumulate_allreduce_grads_in_fp32": half and not short,
            "grad_reduce_in_bf16": short,
            "main_grads_dtype": "bf16" if short and _short_gradients(plan) else None,
        }
    )


def _short_gradients(plan: Plan) -> bool:
    """Whether Adam takes bfloat16 gradients as they are, where it would copy them to float32 otherwise."""
    strategy: Strategy = plan.strategy
    adam = plan.request.training.optimizer == "adamw"
    return strategy.zero_stage == 1 and strategy.gradient_dtype == "bf16" and adam
