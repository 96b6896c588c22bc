"""Global choices of a request: everything that multiplies to the cluster, less what a rule refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from shardwise.models import Strategy, Transformer
from shardwise.models.backend import Backend, backend
from shardwise.models.stack import stack
from shardwise.models.strategy import Precision
from shardwise.plans import Request

from .stack import stack_of
from .trained import trains
from .wishes import obeys, paid_for, tensor_reach, wished


class Row(NamedTuple):
    """One value of every knob but the stages; named as the fields of `Strategy`."""

    backend: str
    software_stack: str
    precision: str
    gradient_dtype: str
    loss_kernel: str
    tensor_parallel: int
    context_parallel: int
    context_parallel_kind: str
    ulysses_group_size: int
    pipeline_parallel: int
    data_parallel: int
    expert_parallel: int
    expert_tensor_parallel: int
    zero_stage: int
    shard_group_size: int
    secondary_shard_group_size: int
    reshard_after_forward: bool
    overlap_gradient_reduce: bool
    overlap_parameter_gather: bool
    offload_optimizer: str
    offload_params: str
    sequence_parallel: bool
    overlap_tensor_parallel: bool
    rank_order: str
    micro_batch_size: int
    gradient_accumulation_steps: int
    virtual_pipeline: int
    pipeline_schedule: str


Words = tuple[str, str, str, str, str]
"""Backend, software stack, precision, gradient type, loss kernel."""


class Degrees(NamedTuple):
    """How the cards are cut."""

    tensor: int
    context: int
    kind: str
    heads: int
    pipeline: int
    data: int
    expert: int
    expert_tensor: int


def row_of(strategy: Strategy) -> Row:
    """The knobs of a strategy."""
    return Row(**strategy.row())


def every_row(request: Request) -> Iterator[Row]:
    """Every legal row that the request allows."""
    if not paid_for(request):
        return
    for row in _legal(request):
        if row.tensor_parallel > tensor_reach(request):
            continue
        if all(obeys(rule, row._asdict()) for rule in request.choose.rules):
            yield row


def _legal(request: Request) -> Iterator[Row]:
    for known, words in _software(request):
        for cut in _degrees(request, known):
            if not _runs_cut(request, words, cut.tensor):
                continue
            for shard in _shards(request, known, cut):
                if not _keeps_gradients(words, shard[0]) or not _steps(request, words, shard[0]):
                    continue
                for place in _places(request, known, shard[0]):
                    if not trains(request, known.name, cut.tensor, shard[0], place[1]):
                        continue
                    if shard[2] > 1 and not _doubles(request, place[1]):
                        continue
                    for sequence in _sequence_parallel(request, known, cut):
                        for order, batch in _schedule(request, known, cut):
                            if not _whole_blocks(request, words[2], cut, batch[0], sequence):
                                continue
                            for beside in _tensor_overlaps(request, words, cut.tensor, sequence):
                                rest = (*shard, *place, sequence, beside, order, *batch)
                                yield _row(words, cut, (*rest, _order(cut, batch[-1])))


def _row(words: Words, cut: Degrees, rest: tuple[Any, ...]) -> Row:
    return Row._make((*words, *cut, *rest))


def _order(cut: Degrees, chunks: int) -> str:
    """The schedule that a pipeline of so many chunks a stage runs."""
    if cut.pipeline == 1:
        return "none"
    return "1f1b" if chunks == 1 else "interleaved"


def _software(request: Request) -> Iterator[tuple[Backend, Words]]:
    """Backend with its stack, precision, gradients and loss: free ones take the default of the backend.

    A card must have the arithmetic, the backend a recipe for it; a stack belongs to one backend.
    """
    gpu, choose = request.cluster.node.gpu, request.choose
    usual: Precision = "fp16" if gpu.bf16_flops_per_s is None else "bf16"
    for name in ("deepspeed", "fsdp", "megatron"):
        known = backend(name)
        for precision in choose.precision or (usual,):
            dtypes = known.recipes.get(precision, {})
            if not wished(request, "backend", name) or gpu.peak_flops_per_s(precision) is None:
                continue
            if name == "megatron" and request.model.family not in DESCRIBED:
                continue
            if (name, precision) not in WRITTEN or (name, request.training.optimizer) not in STEPPED:
                continue
            for dtype in choose.gradient_dtype or list(dtypes)[:1]:
                for framework in choose.software_stack or STACKS[name]:
                    for loss in choose.loss_kernel or [known.default_loss_kernel]:
                        if (name, loss) not in LOSSES:
                            continue
                        if dtype in dtypes and stack(framework).backend == name:
                            yield known, (name, framework, precision, dtype, loss)


WRITTEN = {
    *(("deepspeed", word) for word in ("bf16", "fp16", "fp32")),
    *(("fsdp", word) for word in ("bf16", "fp16", "fp32")),
    *(("megatron", word) for word in ("bf16", "fp16", "fp8", "mxfp8")),
}
"""Precisions whose launch files can be written."""

STEPPED = {
    *(("deepspeed", word) for word in ("adamw", "lion", "sgd", "sgd-no-momentum")),
    *(("fsdp", word) for word in ("adamw", "adamw-8bit", "lion", "sgd", "sgd-no-momentum")),
    *(("megatron", word) for word in ("adamw", "sgd")),
}
"""Optimizers that launch files can name."""

LOSSES = {
    ("deepspeed", "eager"), ("deepspeed", "hf-eager"), ("deepspeed", "chunked"),
    ("fsdp", "eager"), ("fsdp", "compiled"),
    ("megatron", "megatron"),
}  # fmt: skip
"""Loss kernels of what the files start."""

STACKS = {
    "deepspeed": ["deepspeed-2024"],
    "fsdp": ["fsdp-compile-2024", "fsdp-hf-2023"],
    "megatron": ["megatron-core-2025"],
}
"""Stacks that run where none is chosen; the uncompiled one of FSDP with tensor parallel alone."""


def _runs_cut(request: Request, words: Words, t: int) -> bool:
    """Compiled layers lose gradients under FSDP's tensor parallel, whose plan knows few kinds of layers."""
    name, framework, _, _, loss = words
    if name != "fsdp":
        return True
    model = request.model
    if t == 1:
        return framework != "fsdp-hf-2023" or request.choose.software_stack is not None
    known = model.family in ("llama", "mistral", "qwen2") and model.vocab_size % t == 0
    plain = all(
        run.block.attention.qk_norm == "none" and not run.block.feed_forward.experts for run in model.runs
    )
    return known and plain and framework == "fsdp-hf-2023" and loss == "eager"


DESCRIBED = {
    *("deepseek_v2", "deepseek_v3", "gpt2", "llama", "mistral"),
    *("mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
}
"""Families whose layers Megatron-LM has arguments for."""


def _steps(request: Request, words: Words, zero: int) -> bool:
    """Megatron's distributed optimizer takes Adam alone."""
    return not (words[0] == "megatron" and request.training.optimizer == "sgd" and zero > 0)


def _keeps_gradients(words: Words, zero: int) -> bool:
    """DeepSpeed keeps fp32 gradients beside bf16 weights from ZeRO stage 1 on only."""
    return not (words[0] == "deepspeed" and words[2:4] == ("bf16", "fp32") and zero == 0)


def _runs(known: Backend, axis: str, value: int) -> bool:
    """Whether a backend can run that degree of an axis at all."""
    return all(value in limit.values for limit in known.limits if limit.axis == axis)


def _degrees(request: Request, known: Backend) -> Iterator[Degrees]:
    """Every card is used once, and the batch and the model can be cut that way."""
    world, model = request.cluster.gpus, request.model
    for t in range(1, world + 1):
        if not (_runs(known, "tensor_parallel", t) and wished(request, "tensor_parallel", t)):
            continue
        for c in range(1, world // t + 1):
            if not (_runs(known, "context_parallel", c) and wished(request, "context_parallel", c)):
                continue
            for p in range(1, world // (t * c) + 1):
                d = world // (t * c * p)
                if t * c * p * d != world or request.training.global_batch_size % d:
                    continue
                if p > stack_of(request).layers or not _runs(known, "pipeline_parallel", p):
                    continue
                if not (wished(request, "pipeline_parallel", p) and wished(request, "data_parallel", d)):
                    continue
                if _cuts_layers(model, t) and _cuts_sequence(request, c):
                    yield from _with_experts(request, known, (t, c, p, d))


def _cuts_layers(model: Transformer, t: int) -> bool:
    """Each rank of a tensor-parallel group has whole heads, whole key-value heads and equal columns."""
    for run in model.runs:
        attention, forward = run.block.attention, run.block.feed_forward
        width = forward.shared_width if forward.experts else forward.width
        if attention.heads % t or attention.kv_heads % t or width % t:
            return False
    return True


def _cuts_sequence(request: Request, c: int) -> bool:
    """Zig-zag halves: each context rank takes one early and one late slice."""
    return c == 1 or request.training.sequence_length % (2 * c) == 0


KINDS = {
    "megatron": ("ring", "all_gather", "ulysses", "ulysses+ring"),
    "fsdp": ("all_gather", "ring"),
    "deepspeed": ("ulysses",),
}
"""How each backend can exchange a sequence, as it does by itself first."""


def _exchanges(request: Request, name: str, t: int, c: int) -> Iterator[tuple[str, int]]:
    """(kind, ranks that exchange heads): the usual one; others of long sequences, or where it cannot run.

    Unasked an all-to-all stays in an island, and has two levels only where the context ranks leave one.
    """
    if c == 1:
        yield from (("none", 1) for _ in range(_asked_for(request, "none", 1)))
        return
    pairs = [(kind, size) for kind in KINDS[name] for size in range(1, c + 1) if _is_of(kind, size, c)]
    able = [pair for pair in pairs if _exchanged(request, name, t, *pair)]
    choose, island = request.choose, request.cluster.tiers().tiers[0].cards
    if choose.context_parallel_kind or choose.ulysses_group_size:
        yield from (pair for pair in able if _asked_for(request, *pair))
        return
    usual = [pair for pair in able if pair[0] == KINDS[name][0]]
    yield from usual
    if usual and request.training.sequence_length < 2 * request.model.hidden_size:
        return
    near = [pair for pair in able if pair not in usual and (pair[1] == 1 or t * pair[1] <= island)]
    two = [size for kind, size in near if kind == "ulysses+ring"]
    yield from (pair for pair in near if pair[0] != "ulysses+ring")
    if two and t * c > island:
        yield "ulysses+ring", max(two)


def _asked_for(request: Request, kind: str, size: int) -> bool:
    words, sizes = request.choose.context_parallel_kind, request.choose.ulysses_group_size
    return (words is None or kind in words) and (sizes is None or size in sizes)


def _is_of(kind: str, size: int, c: int) -> bool:
    """Heads are exchanged by nobody, by all, or by equal groups."""
    if kind == "ulysses+ring":
        return 1 < size < c and c % size == 0
    return size == (c if kind == "ulysses" else 1)


def _exchanged(request: Request, name: str, t: int, kind: str, size: int) -> bool:
    """Windows never go round; latent keys and values always do; each rank has whole heads of both.

    Megatron-LM alone has windows and latent keys and values over several ranks at all.
    """
    mixers = [run.block.attention for run in request.model.runs]
    if name != "megatron" and any(mixer.window or mixer.kv_rank is not None for mixer in mixers):
        return False
    if any(mixer.window for mixer in mixers) and kind in ("ring", "ulysses+ring"):
        return False
    if any(mixer.kv_rank is not None for mixer in mixers) and kind in ("all_gather", "ulysses"):
        return False
    return all(number % (t * size) == 0 for mixer in mixers for number in (mixer.heads, mixer.kv_heads))


BLOCKS = {"fp8": 16, "mxfp8": 32}
"""Rows and columns of an 8-bit product come in blocks of this."""


def _whole_blocks(request: Request, precision: str, cut: Degrees, sequences: int, split: bool) -> bool:
    """Whether every product of a layer, on one card, has sides that are whole blocks."""
    block, model = BLOCKS.get(precision, 1), request.model
    sides = [model.hidden_size * cut.tensor]
    for run in model.runs:
        attention, forward = run.block.attention, run.block.feed_forward
        sides += [attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim]
        sides += [forward.shared_width] if forward.experts else [forward.width]
        if forward.experts and forward.width % (cut.expert_tensor * block):
            return False
    ranks = cut.context * (cut.tensor if split else 1)
    tokens = sequences * request.training.sequence_length
    return tokens % (ranks * block) == 0 and all(side % (cut.tensor * block) == 0 for side in sides)


def _with_experts(request: Request, known: Backend, cut: tuple[int, int, int, int]) -> Iterator[Degrees]:
    """Equally many whole experts on each rank, each cut into equal columns over some ranks.

    Sharded data parallel wraps a module on the ranks of its tensor mesh, so there experts are cut as
    the rest; elsewhere experts lie freely over the ranks of a stage, but must fill them.
    """
    t, c, p, d = cut
    routed = [run.block.feed_forward for run in request.model.runs if run.block.feed_forward.experts]
    own_grid = known.name == "megatron"
    legal = []
    for e in range(1, d * c * t + 1):
        for et in range(1, d * c * t + 1):
            if not routed and (e, et) != (1, 1):
                continue
            if routed and not own_grid and et != t:
                continue
            if any(forward.experts % e or forward.width % et for forward in routed) or d * c * t % (e * et):
                continue
            if not (wished(request, "expert_parallel", e) and wished(request, "expert_tensor_parallel", et)):
                continue
            if _runs(known, "expert_parallel", e):
                legal.append((e, et))
    for e, et in legal:
        if not own_grid or _cut_of_use(request, legal, e, et):
            yield from (Degrees(t, c, *way, p, d, e, et) for way in _exchanges(request, known.name, t, c))


def _cut_of_use(request: Request, legal: list[tuple[int, int]], e: int, et: int) -> bool:
    """Unasked an expert is cut inside a machine only, and where no more whole experts lie on as many ranks.

    Or where none are apart, so that no token travels to another's experts.
    """
    told = " ".join(request.choose.rules)
    if request.choose.expert_tensor_parallel or "expert_parallel" in told or "expert_tensor_parallel" in told:
        return True
    node = request.cluster.node
    machine = min(max(node.gpus, node.island_size), request.cluster.gpus)
    rivals = [whole for whole, cut in legal if whole * cut == e * et and cut <= machine]
    return et <= machine and (e == 1 or e == max(rivals))


def _shards(
    request: Request, known: Backend, cut: Degrees
) -> Iterator[tuple[int, int, int, bool, bool, bool]]:
    """(zero stage, shard group, secondary group, reshard, reductions and gathers beside compute).

    States lie over all data ranks, or over equal groups of them.
    """
    ranks = cut.data * cut.context
    for zero in range(4):
        if zero not in known.zero_stages or not wished(request, "zero_stage", zero):
            continue
        for size in range(1, ranks + 1):
            whole = size == (ranks if zero else 1)
            part = zero > 0 and known.name == "fsdp" and size > 1 and cut.expert == 1
            part &= size % cut.context == 0
            if not whole and not (part and ranks % size == 0):
                continue
            again = zero == 3
            if wished(request, "shard_group_size", size) and wished(request, "reshard_after_forward", again):
                for second in _seconds(request, known, zero, ranks):
                    for beside in _overlaps(request, known.name, zero):
                        yield zero, size, second, again, *beside


def _overlaps(request: Request, name: str, zero: int) -> Iterator[tuple[bool, bool]]:
    """Whether gradients are reduced, and weights gathered after a step, beside compute.

    A switch nobody speaks of is on wherever it can be, but for the one whose second bucket costs memory.
    """
    reduces_named, gathers_named = (_spoken(request, f"overlap_{word}") for word in SWITCHES)
    for reduces, gathers in product((True, False), repeat=2):
        idle = not gathers and not gathers_named and _beside(name, zero, reduces, True)
        buckets = name == "deepspeed" and zero in (1, 2)
        idle |= not reduces and not (reduces_named or buckets) and _beside(name, zero, True, gathers)
        kept = wished(request, "overlap_gradient_reduce", reduces)
        kept &= wished(request, "overlap_parameter_gather", gathers)
        if _beside(name, zero, reduces, gathers) and kept and not idle:
            yield reduces, gathers


SWITCHES = ("gradient_reduce", "parameter_gather")


def _beside(name: str, zero: int, reduces: bool, gathers: bool) -> bool:
    """Whether a backend runs so: FSDP does both, DeepSpeed's ZeRO switches the first alone.

    Megatron-LM switches both, the second beside a distributed optimizer and the first only.
    """
    if name == "fsdp":
        return reduces and gathers
    if name == "deepspeed":
        return not gathers and not (reduces and zero == 0)
    return not gathers or (reduces and zero > 0)


def _tensor_overlaps(request: Request, words: Words, tensor: int, sequence: bool) -> Iterator[bool]:
    """Whether tensor ranks overlap: Megatron-LM's can, each with a part of a sequence, on one island.

    Unasked they do where the stack's runs did.
    """
    knob, island = "overlap_tensor_parallel", request.cluster.node.island_size
    able = words[0] == "megatron" and tensor > 1 and sequence and tensor <= min(island, request.cluster.gpus)
    usual = able and stack(words[1]).tensor_overlapped
    for on in (False, True):
        if (able or not on) and wished(request, knob, on) and (_spoken(request, knob) or on == usual):
            yield on


def _spoken(request: Request, knob: str) -> bool:
    """Whether a request names a knob, in its choices or in a rule."""
    return getattr(request.choose, knob) is not None or any(knob in rule for rule in request.choose.rules)


def _seconds(request: Request, known: Backend, zero: int, ranks: int) -> Iterator[int]:
    """Ranks of a second copy of the weights: none; under DeepSpeed's ZeRO-3 equal groups, fewer than all.

    Unasked those that fill an island or a machine.
    """
    yield from (size for size in (1,) if wished(request, "secondary_shard_group_size", size))
    if known.name != "deepspeed" or zero < 3:
        return
    filled = [tier.cards for tier in request.cluster.tiers().tiers if tier.name in ("island", "node")]
    for size in range(2, ranks):
        named = request.choose.secondary_shard_group_size is not None
        usual = named or size in filled
        if ranks % size == 0 and usual and wished(request, "secondary_shard_group_size", size):
            yield size


def _doubles(request: Request, params: str) -> bool:
    """Whether weights can have a second copy: all of them trained, and on the card."""
    training = request.training
    return params == "none" and training.way.kind == "all" and not training.frozen


def _places(request: Request, known: Backend, zero: int) -> Iterator[tuple[str, str]]:
    """(optimizer, parameters): on the card or the host. A backend offloads from some ZeRO stage on."""
    for word in known.offload:
        optimizer = "cpu" if word.startswith("optimizer") else "none"
        params = "cpu" if word.endswith("params") else "none"
        if optimizer == "cpu" and zero < known.offload_optimizer_from_stage:
            continue
        if params == "cpu" and zero < known.offload_params_from_stage:
            continue
        if wished(request, "offload_optimizer", optimizer) and wished(request, "offload_params", params):
            yield optimizer, params


def _sequence_parallel(request: Request, known: Backend, cut: Degrees) -> Iterator[bool]:
    """It splits tokens over the tensor-parallel ranks; with experts beside tensor parallel it is a must."""
    routed = any(run.block.feed_forward.experts for run in request.model.runs)
    tokens = request.training.sequence_length // cut.context
    for on in (False, True):
        possible = cut.tensor > 1 and known.sequence_parallel_pairs_with_tensor and tokens % cut.tensor == 0
        if on and not possible:
            continue
        if not on and routed and cut.tensor > 1:
            continue
        if wished(request, "sequence_parallel", on):
            yield on


def _schedule(request: Request, known: Backend, cut: Degrees) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Rank order; micro-batch, accumulation, chunks: the batch exactly, rounds of whole pipelines."""
    share, layers = request.training.global_batch_size // cut.data, stack_of(request).layers
    for order in ("tp-cp-dp-pp", "tp-cp-pp-dp"):
        routed = any(run.block.feed_forward.experts for run in request.model.runs)
        equal = cut.expert * cut.expert_tensor == cut.tensor * cut.context
        differs = cut.pipeline > 1 and cut.data > 1 and (equal or not routed)
        if (order == "tp-cp-pp-dp" and not differs) or not wished(request, "rank_order", order):
            continue
        for size in range(1, share + 1):
            steps = share // size
            if size * steps != share or not wished(request, "micro_batch_size", size):
                continue
            if not wished(request, "gradient_accumulation_steps", steps):
                continue
            for v in range(1, layers + 1):
                rounds = cut.pipeline > 1 and steps % cut.pipeline == 0
                if v > 1 and not (
                    rounds
                    and _chunked(request, known, cut.pipeline, v)
                    and _runs(known, "virtual_pipeline", v)
                ):
                    continue
                if wished(request, "virtual_pipeline", v):
                    yield order, (size, steps, v)


def _chunked(request: Request, known: Backend, stages: int, chunks: int) -> bool:
    """Chunks divide the layers of the fullest stage of an even cut, or all layers where they are of one kind.

    Unless all are alike no limit may ask what stages send or show, and no backend may cut evenly. The first
    round is full, so that what predicts further tokens leaves it.
    """
    stack, limits = stack_of(request), request.limits
    fullest = next(n for n in range(stack.layers + 1) if n * stages >= stack.layers)
    asked = limits.max_comm_fraction is not None or limits.max_uplink_bytes_per_step is not None
    free = known.layers_freedom == "free" and not asked and not request.cluster.others
    if len(set(stack.kinds)) > 1:
        full = (fullest // chunks) * stages <= stack.layers - stack.modules
        return free and fullest % chunks == 0 and full
    if stack.layers % chunks == 0:
        return stages * chunks <= stack.layers
    held = next(n for n in range(stack.layers + 1) if n * chunks >= stack.layers)
    return free and fullest % chunks == 0 and held >= stages
