"""The schema of `megatron_args.sh` refuses what Megatron-LM fills in, sets aside or finds late."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from megatron_by_hand import NAMED, named
from pydantic import ValidationError

from shardwise.launch.megatron.schema import MegatronArgs
from shardwise.launch.megatron.write import arguments

GPT = "megatron_gpt3_interleaved"
LLAMA = "megatron_llama_405b_uneven"
MIXTRAL = "megatron_mixtral_experts"
BLOCK = "megatron_llama_8b_block"
DEEPSEEK = "megatron_deepseek_mixed"
MISTRAL = "megatron_mistral_offload"


def values(name: str) -> dict[str, Any]:
    """The arguments of a named plan."""
    return arguments(named(name)).model_dump()


@pytest.mark.parametrize("name", NAMED)
def test_the_schema_reads_what_is_written(name: str) -> None:
    """Written and read back strictly, nothing changes."""
    assert MegatronArgs.model_validate(values(name)).model_dump() == values(name)


WRONG: dict[str, tuple[str, str, Any]] = {
    "an unknown argument": (LLAMA, "model.num_layer", 126),
    "a number in quotes": (LLAMA, "model.num_layers", "126"),
    "a number for a switch": (LLAMA, "model.swiglu", 1),
    "dropout": (LLAMA, "model.hidden_dropout", 0.1),
    "vocabulary padded to 64": (LLAMA, "model.make_vocab_size_divisible_by", 64),
    "an unknown norm": (LLAMA, "model.normalization", "BatchNorm"),
    "more tokens than positions": (GPT, "model.max_position_embeddings", 1024),
    "biases of queries where all are there": (GPT, "model.add_qkv_bias", True),
    "groups without the switch": (LLAMA, "attention.group_query_attention", False),
    "groups that do not divide": (LLAMA, "attention.num_query_groups", 7),
    "groups beside latent vectors": (DEEPSEEK, "attention.group_query_attention", True),
    "latent attention without a rank": (DEEPSEEK, "attention.kv_lora_rank", None),
    "a rank without latent attention": (LLAMA, "attention.q_lora_rank", 16),
    "a window that looks ahead": (MISTRAL, "attention.window_size", "4095,4095"),
    "a pattern of windows without a window": (LLAMA, "attention.window_attn_skip_freq", "[1]*126"),
    "a pattern of another depth": (DEEPSEEK, "experts.moe_layer_freq", "[0]*3+[1]*57"),
    "a pattern that is code": (DEEPSEEK, "experts.moe_layer_freq", "[1]*61+exit()"),
    "no router": (MIXTRAL, "experts.moe_router_topk", None),
    "more chosen than there are": (MIXTRAL, "experts.moe_router_topk", 9),
    "a gate without a shared expert": (MIXTRAL, "experts.moe_shared_expert_gate", True),
    "arguments of experts without experts": (LLAMA, "experts.moe_ffn_hidden_size", 64),
    "another dispatcher": (MIXTRAL, "experts.moe_token_dispatcher_type", "allgather"),
    "experts that do not divide": (MIXTRAL, "parallel.expert_model_parallel_size", 3),
    "expert parallel of a dense model": (LLAMA, "parallel.expert_model_parallel_size", 2),
    "sequence parallel without tensor parallel": (MIXTRAL, "parallel.sequence_parallel", True),
    "experts and tensor parallel without it": (MIXTRAL, "parallel.tensor_model_parallel_size", 2),
    "tensor ranks that do not divide heads": (LLAMA, "parallel.tensor_model_parallel_size", 16),
    "a ring of one": (GPT, "parallel.cp_comm_type", "p2p"),
    "no ring of two": (LLAMA, "parallel.cp_comm_type", None),
    "a sequence the ring does not cut": (LLAMA, "parallel.context_parallel_size", 3),
    "chunks beside a layout": (LLAMA, "parallel.num_virtual_stages_per_pipeline_rank", 2),
    "a layout of fifteen stages": (LLAMA, "parallel.pipeline_model_parallel_layout", "Et*7|(t*8|)*13t*15L"),
    "a layout with a layer less": (LLAMA, "parallel.pipeline_model_parallel_layout", "Et*6|(t*8|)*14t*7L"),
    "a layout without a head": (LLAMA, "parallel.pipeline_model_parallel_layout", "Et*7|(t*8|)*14t*7"),
    "uneven stages without a layout": (LLAMA, "parallel.pipeline_model_parallel_layout", None),
    "chunks that are not equal": (GPT, "parallel.num_virtual_stages_per_pipeline_rank", 5),
    "one stage in an order": (MISTRAL, "parallel.use_tp_pp_dp_mapping", True),
    "gathers hidden without shards": (LLAMA, "parallel.use_distributed_optimizer", False),
    "gathers hidden without reductions": (LLAMA, "parallel.overlap_grad_reduce", False),
    "a method without granularity": (LLAMA, "memory.recompute_method", "block"),
    "no number of layers": (BLOCK, "memory.recompute_num_layers", None),
    "uniform units of three layers": (BLOCK, "memory.recompute_method", "uniform"),
    "modules under full recomputation": (BLOCK, "memory.recompute_modules", ("mlp",)),
    "an unknown module": (MIXTRAL, "memory.recompute_modules", ("mhc",)),
    "no module": (MIXTRAL, "memory.recompute_modules", ()),
    "half of the states": (MISTRAL, "memory.optimizer_offload_fraction", 0.5),
    "a fraction without offload": (LLAMA, "memory.optimizer_offload_fraction", 1.0),
    "offload without the optimizer for it": (MISTRAL, "memory.use_precision_aware_optimizer", False),
    "SGD of shards": (LLAMA, "step.optimizer", "sgd"),
    "no type at all": (LLAMA, "precision.bf16", False),
    "negative clipping": (LLAMA, "step.clip_grad", -1.0),
    "both 16-bit types": (LLAMA, "precision.fp16", True),
    "8-bit products without a recipe": (BLOCK, "precision.fp8_recipe", None),
    "8-bit products beside float32": (BLOCK, "precision.bf16", False),
    "two types of gradients": (LLAMA, "precision.grad_reduce_in_bf16", True),
    "no type of gradients": (LLAMA, "precision.accumulate_allreduce_grads_in_fp32", False),
    "bfloat16 main gradients of float32 reductions": (LLAMA, "precision.main_grads_dtype", "bf16"),
    "bfloat16 main gradients copied": (MIXTRAL, "memory.use_precision_aware_optimizer", False),
    "an infinite rate": (LLAMA, "recipe.lr", float("inf")),
    "a warm-up as long as the run": (LLAMA, "recipe.lr_warmup_fraction", 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_one_change_to_good_arguments_is_refused(name: str) -> None:
    """The arguments are good before, and refused after."""
    kind, path, value = WRONG[name]
    good = values(kind)
    changed = copy.deepcopy(good)
    group, field = path.split(".")
    changed[group][field] = value
    MegatronArgs.model_validate(good)

    with pytest.raises(ValidationError):
        MegatronArgs.model_validate(changed)


def test_experts_of_a_dense_feed_forward_are_not_recomputed() -> None:
    """The module `moe` needs experts."""
    changed = values(GPT)
    changed["memory"] |= {"recompute_granularity": "selective", "recompute_modules": ("moe",)}

    with pytest.raises(ValidationError, match="goes with num_experts"):
        MegatronArgs.model_validate(changed)
