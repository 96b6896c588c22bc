"""How Megatron-LM's arguments cut the layers: those of each chunk of each stage."""

from __future__ import annotations

from ...models.transformer import Transformer
from .asked import Arguments
from .layout import layers_of, modules_of

Chunks = list[tuple[int, ...]]
"""Layers of each chunk of each stage, modules that predict further tokens among them."""

ENDS = ("embedding", "loss")


def held_chunks(args: Arguments, model: Transformer, stages: int) -> Chunks:
    """Chunks of a spelt layout; else equal ones, first and last stage as told.

    `--account-for-embedding-in-pipeline-split` takes a layer from the first chunk, that of the loss one from
    the last: with one layer more the stages are even (megatron/core/transformer/transformer_block.py).
    """
    spelt = args.word("pipeline_model_parallel_layout")
    if spelt is not None:
        return _spelt(args, spelt, stages, model.mtp_layers)
    layers = model.layers - model.mtp_layers
    fewer = [int(args.switch(f"account_for_{end}_in_pipeline_split")) for end in ENDS]
    told = next((name for name in _NUMBERS if args.given(name) is not None), None)
    if sum(fewer) and told is not None:
        raise args.wrong(told, "cannot stand beside --account-for-embedding or -loss-in-pipeline-split")
    sizes = _even(args, layers + sum(fewer), stages)
    chunks = _number(args, sizes)
    if any(size % chunks for size in sizes):
        reason = f"{next(n for n in sizes if n % chunks)} layers make no {chunks} equal chunks"
        raise args.wrong("num_virtual_stages_per_pipeline_rank", reason)
    held = [[size // chunks] * chunks for size in sizes]
    held[0][0] -= fewer[0]
    held[-1][-1] += model.mtp_layers - fewer[1]
    if min(held[0][0], held[-1][-1]) < 0:
        raise args.wrong("pipeline_model_parallel_size", "leaves no layer in the first or last chunk")
    return [tuple(size) for size in held]


_NUMBERS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")


def _even(args: Arguments, layers: int, stages: int) -> list[int]:
    """Layers of each stage, all alike but those whose number is told."""
    first, last = (args.number(name) for name in _NUMBERS)
    ends, middle = (first or 0) + (last or 0), stages - (first is not None) - (last is not None)
    each, left = divmod(layers - ends, middle) if middle else (0, layers - ends)
    if left or each < 0:
        reason = f"{layers} layers make no {stages} stages: state a layout"
        raise args.wrong("pipeline_model_parallel_size", reason)
    sizes = [*[first] * (first is not None), *[each] * middle, *[last] * (last is not None)]
    return [size or 0 for size in sizes]


def _number(args: Arguments, sizes: list[int]) -> int:
    """Chunks of a stage, of whose stages `sizes` are the layers."""
    chunks = args.number("num_virtual_stages_per_pipeline_rank")
    each = args.number("num_layers_per_virtual_pipeline_stage")
    if chunks is None and each is not None:
        if max(sizes) % each:
            raise args.wrong("num_layers_per_virtual_pipeline_stage", f"does not divide {max(sizes)} layers")
        chunks = max(sizes) // each
    return chunks or 1


def _spelt(args: Arguments, spelt: str, stages: int, trained: int) -> Chunks:
    try:
        sizes, modules = layers_of(spelt), modules_of(spelt)
    except ValueError as error:
        raise args.wrong("pipeline_model_parallel_layout", str(error)) from None
    if modules != trained:
        reason = f"has {modules} modules (m), --mtp-num-layers {trained}"
        raise args.wrong("pipeline_model_parallel_layout", reason)
    chunks, left = divmod(len(sizes), stages)
    if left or not chunks:
        raise args.wrong("pipeline_model_parallel_layout", f"its chunks are no multiple of {stages} stages")
    if not all(sum(sizes[stage::stages]) for stage in range(stages)):
        reason = "leaves a stage without a layer, which is not priced"
        raise args.wrong("pipeline_model_parallel_layout", reason)
    return [tuple(sizes[stage::stages]) for stage in range(stages)]
