"""Whether a row trained the modules that predict further tokens (MTP).

NVIDIA's recipes for Megatron train them where ``catalogue/recipes.json`` says so. A row that publishes model
FLOP/s tells by itself: of the FLOPs a token with and without them the nearer one was counted, as Megatron-LM
counts what it trains (`num_floating_point_operations`).
"""

from __future__ import annotations

from ..models import Transformer, training_flops_per_token
from .recipes import recipe_modules
from .record import Record


def trained_modules(record: Record, transformer: Transformer) -> int:
    """Modules that a row on Megatron trained; 0 where neither recipe nor FLOP/s tell of any."""
    modules = min(recipe_modules(record), transformer.predictor_depth)
    counted, length = counted_flops_per_token(record), record.integer("seq_len")
    if not modules or counted is None or not length:
        return modules
    found = {n: training_flops_per_token(transformer.predicting(n), length) for n in (0, modules)}
    return min(found, key=lambda n: abs(found[n] - counted))


def counted_flops_per_token(record: Record) -> float | None:
    """Model FLOPs a token by the FLOP/s and the tokens a second (or the step) of a row, None without them."""
    speed, kind = record.number("tflops_per_gpu"), record.word("tflops_kind")
    if not speed or kind != "model":
        return None
    if rate := record.number("tokens_per_s_per_gpu"):
        return speed * 1e12 / rate
    sizes = [record.number(name) for name in ("step_time_s", "gpus", "global_batch_seqs", "seq_len")]
    if not all(sizes):
        return None
    seconds, cards, batch, length = (size or 0.0 for size in sizes)
    return speed * 1e12 * seconds * cards / (batch * length)
