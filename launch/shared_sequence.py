"""What a person must do where several ranks share a sequence, by target."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.strategy import Strategy
from ..plans.plan import Plan

_SDPA = (
    'load the model with `attn_implementation="sdpa"`, and pack no padding: attention is causal, unmasked.'
)
_POSITIONS = "Batches hold `position_ids`: the part of a sequence that a rank has does not start at 0."


def notes(plan: Plan, target: str) -> Iterator[str]:
    """Sentences for the README of `target`, in order; none where no sequence is shared."""
    strategy = plan.strategy
    if strategy.context_parallel == 1:
        return
    if target == "deepspeed":
        yield from _deepspeed(strategy)
    elif target == "transformers":
        yield f"Which ranks share a sequence stands in `launch.sh`, as variables of Accelerate; {_SDPA}"
        yield _POSITIONS
    elif target == "accelerate":
        yield f"Ranks share a sequence: {_SDPA}"
        yield (
            "Run forward and backward inside `accelerator.maybe_context_parallel(buffers=..., "
            "buffer_seq_dims=...)` over tokens, next tokens and positions, which it cuts in place."
        )
    elif target == "fsdp":
        yield (
            "Ranks that share a sequence must read the same data, whole: use `fsdp_plan.data_rank(mesh)`; "
            "`step` cuts it."
        )
        yield f"In our tests torch's kernel for CPUs stood in for those of cards; {_SDPA}"


def _deepspeed(strategy: Strategy) -> Iterator[str]:
    ranks, size = strategy.context_parallel, strategy.micro_batch_size
    yield (
        f"{ranks} ranks share a sequence. Before `deepspeed.initialize` call `mpu = UlyssesSPAttentionHF."
        f'register_with_transformers(model, core_attn_implementation="sdpa", sequence_parallel_size={ranks}, '
        f"micro_batch_size={size})` of `deepspeed.runtime.sequence_parallel.ulysses_sp`, and hand it `mpu`; "
        "wrap the loader in `UlyssesSPDataLoaderAdapter`."
    )
    if strategy.zero_stage < 3:
        yield (
            "Below ZeRO stage 3 gradients are summed over the ranks of a sequence, not averaged as over data "
            f"ranks: call `engine.backward(loss / {ranks})`."
        )
    yield f"There too {_SDPA}"
    yield _POSITIONS
