"""Megatron-LM's three checks of arguments, on a CPU: parse, validate, configuration.

By hand: ``PYTHONPATH=/path/to/Megatron-LM python megatron_steps.py cases.json told.json``, where cases.json
is a list of {"arguments": [...], "world": N}. Cards are pretended; nothing is started.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import typing
from types import SimpleNamespace
from typing import Any

import torch
import typing_extensions


def pretend() -> None:
    """A Hopper card, asked only for its capability, and a Transformer Engine, asked only for its version.

    Releases from core_v0.17 are for Python 3.12; all that their arguments take from it is a decorator.
    """
    vars(typing).setdefault("override", typing_extensions.override)
    import megatron.core.utils as utils
    from packaging.version import Version

    utils.get_te_version = lambda: Version("2.8.0")
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(major=9, minor=0, name="H100")


def steps(case: dict[str, Any]) -> dict[str, Any]:
    """What the client understands of one list of arguments, or the step that refused it and why."""
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args

    os.environ |= {"RANK": "0", "WORLD_SIZE": str(case["world"]), "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    sys.argv = ["pretrain_gpt.py", *case["arguments"]]
    step = "parse"
    try:
        args = parse_args()
        step = "validate"
        validate_args(args)
        step = "configuration"
        config = core_transformer_config_from_args(args)
    except (SystemExit, Exception):
        return {"step": step, "error": traceback.format_exc()[-1500:]}
    return {
        "step": "all",
        "data_parallel": args.data_parallel_size,
        "tensor": config.tensor_model_parallel_size,
        "pipeline": config.pipeline_model_parallel_size,
        "context": config.context_parallel_size,
        "recompute": config.recompute_granularity,
        "layers": config.num_layers,
        "numbers": {
            "norm_epsilon": config.layernorm_epsilon,
            "initial_deviation": config.init_method_std,
            "base": args.rotary_base,
            "scaled": args.use_rope_scaling,
            "yarn": [config.rope_type, config.rotary_scaling_factor, config.mscale, config.mscale_all_dim]
            if args.multi_latent_attention
            else None,
            "router": [config.moe_router_score_function, config.moe_router_pre_softmax]
            + [config.moe_router_num_groups, config.moe_router_topk_scaling_factor]
            if args.num_experts
            else None,
        },
    }


if __name__ == "__main__":
    pretend()
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    target = sys.argv[2]
    told = [steps(case) for case in cases]
    with open(target, "w", encoding="utf-8") as file:
        json.dump(told, file)
