"""torchtitan's pipeline options, and the layers it gives each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...models.schedule import Schedule, schedule_called

if TYPE_CHECKING:
    from .read import Options

SECTION = "parallelism.pipeline_parallel_"
UNREAD = (f"{SECTION}schedule_csv", "parallelism.module_fqns_per_model_part")
"""Options that lay stages or passes out by hand."""


def pipeline_fields(options: Options, stages: int, layers: int, local: int, recompute: str) -> dict[str, Any]:
    """Choices of a pipeline of `stages` for a rank's batch of `local` sequences, by their name in `Strategy`.

    Micro-batches are `pipeline_parallel_microbatch_size` sequences, 1 where that is left out. Embedding and
    head count as `first_stage_less_layers` and `last_stage_less_layers` layers, 1 each; what does not divide
    makes the first chunks one layer longer (torchtitan, distributed/pipeline_parallel.py).
    """
    for path in UNREAD:
        if options.given(path) is not None and options.given(path).value:  # type: ignore[union-attr]
            raise options.wrong(path, "is not priced; pipeline_parallel_schedule names one that is")
    known = _schedule(options)
    micro = options.number(f"{SECTION}microbatch_size", 1)
    steps, rest = divmod(local, micro) if micro > 0 else (0, 1)
    if rest or not steps:
        raise options.wrong(f"{SECTION}microbatch_size", f"does not divide local_batch_size {local}", ("1",))
    ends = tuple(options.number(f"{SECTION}{end}_stage_less_layers", 1) for end in ("first", "last"))
    each = options.number(f"{SECTION}layers_per_stage", 0)
    chunks = _chunks(options, known, stages, layers + sum(ends), each)
    held = [0] * stages
    for link, size in enumerate(_links(layers, stages * chunks, ends)):
        place = link % stages
        back = known.placement == "vee" and link >= stages
        held[stages - 1 - place if back else place] += size
    if min(held) < 1:
        raise options.wrong(f"{SECTION}degree", f"leaves a stage of {layers} layers without any")
    return {
        "pipeline_parallel": stages,
        "virtual_pipeline": chunks,
        "pipeline_schedule": known.name,
        "micro_batch_size": micro,
        "gradient_accumulation_steps": steps,
        "stages": [
            {"layers": size, f"recompute_{recompute}_layers": size}
            if recompute != "none"
            else {"layers": size}
            for size in held
        ],
    }


def _schedule(options: Options) -> Schedule:
    """What `pipeline_parallel_schedule` names, 1F1B where nothing is said."""
    word = options.word(f"{SECTION}schedule", "1F1B")
    known = schedule_called(word)
    if known is None or known.name in ("none", "zb-h1", "zb-h2", "dualpipe"):
        legal = ("1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble")
        raise options.wrong(f"{SECTION}schedule", "is no schedule of torchtitan", (*legal, "DualPipeV"))
    return known


def _chunks(options: Options, known: Schedule, stages: int, weight: int, each: int) -> int:
    """Chunks of a stage: by `layers_per_stage`, else one, or two where the schedule has several."""
    if not each:
        return 1 if known.chunks == "one" else 2
    chunks, rest = divmod(-(-weight // each), stages)
    fits = {"one": chunks == 1, "two": chunks == 2, "many": chunks > 1}
    if rest or not fits[known.chunks]:
        reason = f"makes {-(-weight // each)} chunks over {stages} stages, not what {known.name} runs"
        raise options.wrong(f"{SECTION}layers_per_stage", reason)
    return chunks


def _links(layers: int, links: int, ends: tuple[int, ...]) -> list[int]:
    """Layers of each link of the chain."""
    each, more = divmod(layers + sum(ends), links)
    sizes = [each + (link < more) for link in range(links)]
    sizes[0] -= ends[0]
    sizes[-1] -= ends[-1]
    return sizes
