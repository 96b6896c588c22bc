"""The strict shape of the arguments that describe a model.

Megatron-LM fills in what is left out (a feed-forward of four widths, dropout of 0.1, one group of
keys for every head); here everything is stated.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Zero = Annotated[float, Field(ge=0.0, le=0.0)]
Pattern = Annotated[str, Field(pattern=r"^\[[01]\](\*\d+)?(\+\[[01]\](\*\d+)?)*$")]
"""A list expression over layers, as `[0]*3+[1]*58`."""


class Strict(BaseModel):
    """No unknown arguments, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def length(pattern: str) -> int:
    """Layers of a list expression.

    >>> length("[0]*3+[1]")
    4
    """
    return sum(int(times or 1) for times in re.findall(r"\[[01]\](?:\*(\d+))?", pattern))


class AttentionArgs(Strict):
    """Attention: grouped-query, or latent."""

    num_attention_heads: Count
    kv_channels: Count
    group_query_attention: bool = False
    num_query_groups: Count | None = None
    qk_layernorm: bool = False
    window_size: Annotated[str, Field(pattern=r"^\d+,0$")] | None = None
    window_attn_skip_freq: Pattern | None = None
    multi_latent_attention: bool = False
    q_lora_rank: Count | None = None
    kv_lora_rank: Count | None = None
    qk_head_dim: Count | None = None
    qk_pos_emb_head_dim: Annotated[int, Field(ge=0)] | None = None
    v_head_dim: Count | None = None
    rope_type: Literal["rope", "yarn"] | None = None
    rotary_scaling_factor: Annotated[float, Field(ge=1)] | None = None
    mscale: Annotated[float, Field(ge=0)] | None = None
    mscale_all_dim: Annotated[float, Field(ge=0)] | None = None
    no_rope_fusion: bool = False

    @model_validator(mode="after")
    def _attends(self) -> Self:
        groups = self.num_query_groups
        if self.group_query_attention != (groups is not None):
            raise ValueError("num_query_groups goes with group_query_attention")
        if groups is not None and self.num_attention_heads % groups:
            raise ValueError(f"{groups} groups do not divide {self.num_attention_heads} heads")
        latent = (self.kv_lora_rank, self.qk_head_dim, self.qk_pos_emb_head_dim, self.v_head_dim)
        if any((value is not None) != self.multi_latent_attention for value in latent):
            raise ValueError("widths of latent attention go with multi_latent_attention, all of them")
        if self.q_lora_rank is not None and not self.multi_latent_attention:
            raise ValueError("q_lora_rank goes with multi_latent_attention")
        if self.multi_latent_attention and (self.group_query_attention or self.window_size):
            raise ValueError("latent attention has no groups and no window")
        if self.window_attn_skip_freq is not None and self.window_size is None:
            raise ValueError("window_attn_skip_freq goes with window_size")
        return self

    @model_validator(mode="after")
    def _turns(self) -> Self:
        if self.rope_type is not None and not self.multi_latent_attention:
            raise ValueError("rope_type goes with multi_latent_attention")
        yarn = (self.rotary_scaling_factor, self.mscale, self.mscale_all_dim)
        if any((value is not None) != (self.rope_type == "yarn") for value in yarn):
            raise ValueError("rotary_scaling_factor, mscale and mscale_all_dim go with rope_type yarn")
        if self.no_rope_fusion != (self.rope_type == "rope"):
            raise ValueError("rotary positions of latent attention are fused under rope_type yarn alone")
        return self


class ExpertArgs(Strict):
    """Experts, and the layers that have them; nothing at all in a dense model."""

    num_experts: Count | None = None
    moe_router_topk: Count | None = None
    moe_ffn_hidden_size: Count | None = None
    moe_shared_expert_intermediate_size: Count | None = None
    moe_shared_expert_gate: bool = False
    moe_layer_freq: Pattern | None = None
    moe_token_dispatcher_type: Literal["alltoall"] | None = None
    moe_grouped_gemm: bool = False
    moe_router_pre_softmax: bool = False
    moe_router_score_function: Literal["sigmoid"] | None = None
    moe_router_num_groups: Annotated[int, Field(ge=2)] | None = None
    moe_router_group_topk: Count | None = None
    moe_router_topk_scaling_factor: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _routes(self) -> Self:
        routed = self.num_experts is not None
        needed = (self.moe_router_topk, self.moe_ffn_hidden_size, self.moe_token_dispatcher_type)
        if any((value is not None) != routed for value in needed) or self.moe_grouped_gemm != routed:
            raise ValueError("arguments of experts go with num_experts, all of them")
        shared = self.moe_shared_expert_intermediate_size is not None
        if not routed and (shared or self.moe_layer_freq is not None):
            raise ValueError("shared experts and a pattern of layers go with num_experts")
        if self.moe_shared_expert_gate and not shared:
            raise ValueError("a gate goes with a shared expert")
        if self.num_experts and self.moe_router_topk and self.moe_router_topk > self.num_experts:
            raise ValueError(f"{self.moe_router_topk} of {self.num_experts} experts cannot be chosen")
        return self

    @model_validator(mode="after")
    def _scores(self) -> Self:
        if self.moe_router_pre_softmax and self.moe_router_score_function:
            raise ValueError("moe_router_pre_softmax is of softmax scores")
        groups, chosen = self.moe_router_num_groups, self.moe_router_group_topk
        if (groups is None) != (chosen is None):
            raise ValueError("moe_router_num_groups and moe_router_group_topk go together")
        if groups and chosen and (chosen >= groups or (self.num_experts or 0) % groups):
            raise ValueError(f"{chosen} of {groups} equal groups of experts cannot be chosen")
        return self


class ModelArgs(Strict):
    """Widths, positions, norms, biases and vocabulary; what the data loader need not make."""

    num_layers: Count
    mtp_num_layers: Count | None = None
    hidden_size: Count
    ffn_hidden_size: Count
    swiglu: bool = False
    seq_length: Count
    max_position_embeddings: Count
    position_embedding_type: Literal["learned_absolute", "rope"]
    normalization: Literal["LayerNorm", "RMSNorm"]
    norm_epsilon: Annotated[float, Field(ge=0)] | None = None
    init_method_std: Annotated[float, Field(ge=0)] | None = None
    rotary_base: Count | None = None
    rotary_percent: Annotated[float, Field(gt=0, lt=1)] | None = None
    use_rope_scaling: bool = False
    rope_scaling_factor: Annotated[float, Field(gt=0)] | None = None
    rotary_seq_len_interpolation_factor: Count | None = None
    disable_bias_linear: bool = False
    add_qkv_bias: bool = False
    untie_embeddings_and_output_weights: bool = False
    make_vocab_size_divisible_by: Literal[128]
    hidden_dropout: Zero
    attention_dropout: Zero
    transformer_impl: Literal["transformer_engine"]
    no_create_attention_mask_in_dataloader: Literal[True]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.mtp_num_layers is not None and self.position_embedding_type != "rope":
            raise ValueError("mtp_num_layers goes with position_embedding_type rope")
        if self.max_position_embeddings < self.seq_length:
            raise ValueError(f"{self.seq_length} tokens need as many positions")
        if self.add_qkv_bias and not self.disable_bias_linear:
            raise ValueError("add_qkv_bias without disable_bias_linear says nothing")
        if self.use_rope_scaling != (self.rope_scaling_factor is not None):
            raise ValueError("rope_scaling_factor goes with use_rope_scaling")
        if self.rotary_base is not None and self.position_embedding_type != "rope":
            raise ValueError("rotary_base goes with position_embedding_type rope")
        return self
