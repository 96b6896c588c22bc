"""What Megatron-LM's arguments cannot say: refused with the choice and the reason, never dropped."""

from __future__ import annotations

from typing import Any

import pytest
from megatron_by_hand import NAMED, cut, named, stages
from plans_by_hand import megatron, plan, stage, tiny

from shardwise.launch import Refused, emit, refusal, writable_by
from shardwise.launch.megatron.families import known
from shardwise.models import Attention, Block, FeedForward, Stage, Strategy, Transformer

MIXTRAL = Transformer.preset("mixtral-8x7b")
WHOLE = stages(1, 32)
PAIR = stages(2, 2)

CANNOT: dict[str, tuple[Strategy, str]] = {
    "ZeRO stage 2": (megatron(2, 8), "zero_stage"),
    "a part of the ranks": (megatron(1, 8, shard_group_size=4), "shard_group_size"),
    "data ranks without the context ranks": (
        megatron(1, 4, context_parallel=2, shard_group_size=4), "shard_group_size",
    ),
    "weights freed": (megatron(1, 8, reshard_after_forward=True), "reshard_after_forward"),
    "bfloat16 gradients of float16": (
        megatron(1, 8, precision="fp16", gradient_dtype="bf16"), "gradient_dtype",
    ),
    "float32": (megatron(1, 8, precision="fp32"), "precision"),
    "weights offloaded": (megatron(1, 8, offload_params="cpu"), "offload_params"),
    "offload without the distributed optimizer": (
        megatron(0, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=4)), "offload_optimizer",
    ),
    "some layers offloaded": (
        megatron(1, 8, offload_optimizer="cpu", stages=stage(offloaded_layers=2)), "offloaded_layers",
    ),
    "offload without layers": (megatron(1, 8, offload_optimizer="cpu"), "offloaded_layers"),
    "another loss": (megatron(1, 8, loss_kernel="chunked"), "loss_kernel"),
    "sequence parallel alone": (megatron(1, 8, sequence_parallel=True), "sequence_parallel"),
    "more ranks than heads of keys": (megatron(1, 2, **cut(4)), "tensor_parallel"),
    "stages that are not the model": (megatron(1, 8, stages=stages(2, 3)), "stages"),
    "chunks without stages": (megatron(1, 8, virtual_pipeline=2), "virtual_pipeline"),
    "zero bubble": (
        megatron(1, 8, gradient_accumulation_steps=2, stages=PAIR, pipeline_schedule="zb-h1"),
        "pipeline_schedule",
    ),
    "micro-batches that are no group": (
        megatron(1, 8, virtual_pipeline=2, gradient_accumulation_steps=3, stages=PAIR),
        "gradient_accumulation_steps",
    ),
    "experts of a dense model": (megatron(1, 8, expert_parallel=2), "expert_parallel"),
    "stages that recompute different numbers": (
        megatron(1, 8, stages=(Stage(layers=2, recompute_full_layers=1), Stage(layers=2))),
        "recompute_full_layers",
    ),
    "one layer of one of two chunks": (
        megatron(
            1, 8, virtual_pipeline=2, gradient_accumulation_steps=2,
            stages=stages(2, 2, recompute_full_layers=1),
        ),
        "recompute_full_layers",
    ),
    "some layers recomputed in part": (
        megatron(1, 8, stages=stage(recompute_selective_layers=2)), "recompute_selective_layers",
    ),
    "one stage recomputed in part": (
        megatron(1, 8, stages=(Stage(layers=2, recompute_selective_layers=2), Stage(layers=2))),
        "recompute_selective_layers",
    ),
    "whole and part together": (
        megatron(1, 8, stages=stage(recompute_full_layers=2, recompute_selective_layers=2)),
        "recompute_selective_layers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CANNOT)
def test_what_the_arguments_cannot_say_is_refused(name: str) -> None:
    """The objection names the choice; a plan without it is written."""
    strategy, field = CANNOT[name]
    objection = refusal(strategy, tiny(), "megatron")

    assert objection is not None
    assert objection.field == field
    assert refusal(megatron(1, 8), tiny(), "megatron") is None


EXPERTS: dict[str, tuple[Strategy, str]] = {
    "tensor parallel without sequence parallel": (
        megatron(1, 4, tensor_parallel=2, stages=WHOLE), "sequence_parallel",
    ),
    "more ranks of experts than of the stage": (
        megatron(1, 4, expert_parallel=8, stages=WHOLE), "expert_parallel",
    ),
    "experts that do not divide": (megatron(1, 3, expert_parallel=3, stages=WHOLE), "expert_parallel"),
    "stages inside data ranks": (
        megatron(1, 8, expert_parallel=8, rank_order="tp-cp-pp-dp", stages=stages(2, 16)), "rank_order",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_have_limits_of_their_own(name: str) -> None:
    """The same with a model of experts."""
    strategy, field = EXPERTS[name]
    objection = refusal(strategy, MIXTRAL, "megatron")

    assert objection is not None
    assert objection.field == field
    assert refusal(megatron(1, 8, expert_parallel=8, stages=WHOLE), MIXTRAL, "megatron") is None


@pytest.mark.parametrize("name", NAMED)
def test_the_named_plans_have_no_objection(name: str) -> None:
    """Interleaved, uneven, mixed, offloaded: all can be said, by this target and in a job around it."""
    made = named(name)

    assert writable_by(made) == ("megatron", "slurm")


def test_a_window_has_no_ring() -> None:
    """Transformer Engine refuses sliding windows under point-to-point context parallel."""
    mistral = Transformer.preset("mistral-7b")
    ring = refusal(megatron(1, 4, context_parallel=2, stages=WHOLE), mistral, "megatron")

    assert ring is not None and ring.field == "context_parallel_kind"
    assert refusal(megatron(1, 8, stages=WHOLE), mistral, "megatron") is None
    for kind in ("all_gather", "ulysses"):
        strategy = megatron(1, 4, context_parallel=2, context_parallel_kind=kind, stages=WHOLE)
        assert refusal(strategy, mistral, "megatron") is None


def test_chunks_of_several_kinds_of_layers_can_be_written() -> None:
    """A stage holds layers from several depths then; the layout tells which."""
    deepseek = Transformer.preset("deepseek-v3")
    shallow = deepseek.model_copy(
        update={"runs": (deepseek.runs[0].model_copy(update={"layers": 2}), deepseek.runs[1])}
    )
    mixed = megatron(1, 8, virtual_pipeline=2, gradient_accumulation_steps=2, stages=stages(2, 30))

    assert refusal(mixed, shallow, "megatron") is None


@pytest.mark.parametrize(
    ("chunks", "allowed"),
    [
        (((30, 2), (28, 2)), True),
        (((30, 2), (30, 0)), True),
        (((30, 1), (29, 2)), True),
        (((31, 0), (31, 0)), False),
    ],
)
def test_modules_stand_in_the_last_chunk_of_a_stage(
    chunks: tuple[tuple[int, int], tuple[int, int]], allowed: bool
) -> None:
    """One that predicts a further token may have a chunk without the loss, but not one that others follow."""
    model = Transformer.preset("deepseek-v3").predicting(1)
    held = tuple(Stage(layers=sum(sizes), chunk_layers=sizes) for sizes in chunks)
    asked = megatron(1, 8, virtual_pipeline=2, gradient_accumulation_steps=2, stages=held)
    objection = refusal(asked, model, "megatron")

    assert (objection is None or objection.field != "stages") == allowed


@pytest.mark.parametrize("name", sorted(known().refused))
def test_a_family_without_arguments_is_refused_with_the_reason(name: str) -> None:
    """What the family has that Megatron-LM lacks, in a sentence."""
    objection = refusal(megatron(1, 8), tiny(name), "megatron")

    assert objection is not None
    assert (objection.field, objection.value) == ("model", name)
    assert objection.reason == known().refused[name]


@pytest.mark.parametrize("name", ["opt-350m", "gemma-2-9b", "gpt-neox-20b"])
def test_presets_of_such_families_are_refused(name: str) -> None:
    """Projected embeddings, four norms, parallel layers: never written as something near."""
    model = Transformer.preset(name)
    objection = refusal(megatron(1, 8, stages=(Stage(layers=model.layers),)), model, "megatron")

    assert objection is not None and objection.field == "model"


def test_an_unknown_family_is_told_the_known_ones() -> None:
    """A shape alone does not say how positions enter or what a gate is."""
    objection = refusal(megatron(1, 8), tiny("walrus"), "megatron")

    assert objection is not None
    assert "deepseek_v3, gpt2, llama, mistral" in objection.reason


def with_block(**changes: Any) -> Transformer:
    """The tiny Llama with parts of its block replaced."""
    model = tiny()
    block = model.runs[0].block.model_copy(update=changes)
    return model.model_copy(update={"runs": (model.runs[0].model_copy(update={"block": block}),)})


def attending(**changes: Any) -> Transformer:
    """The tiny Llama with another attention."""
    return with_block(attention=Attention(**{"heads": 4, "kv_heads": 2, "head_dim": 16, **changes}))


def feeding(**changes: Any) -> Transformer:
    """The tiny Llama with another feed-forward."""
    return with_block(feed_forward=FeedForward(**{"width": 128, **changes}))


SHAPES = {
    "four norms": (with_block(norms=4), "this one has 4"),
    "norms without a bias": (with_block(norm="scale"), "no word for norms of kind scale"),
    "another mixer beside": (
        with_block(beside=(Attention(heads=4, kv_heads=4, head_dim=16),)), "nothing beside",
    ),
    "a bias of the output alone": (attending(output_bias=True), "biases stand"),
    "experts with biases": (feeding(experts=4, experts_per_token=2, bias=True), "experts have no bias"),
    "one norm over all heads": (attending(qk_norm="full"), "norms each head"),
    "chunked attention": (attending(window=16, chunked=True), "no argument for chunks"),
    "attention in both directions": (attending(causal=False), "causal"),
    "borrowed keys": (attending(kv="borrowed"), "its own keys and values"),
    "sinks": (attending(sinks=True), "sinks"),
    "narrow values": (attending(value_head_dim=8), "one width"),
    "latent attention with a window": (
        attending(kv_heads=4, kv_rank=8, window=16), "no bias, no window",
    ),
    "a narrow space of experts": (feeding(experts=4, experts_per_token=2, latent_width=32), "hidden width"),
    "no feed-forward": (feeding(width=0), "hidden width"),
    "projected embeddings": (tiny().model_copy(update={"embedding_width": 32}), "projections between"),
    "a norm after the embedding": (tiny().model_copy(update={"embedding_norm": True}), "norm after"),
    "a bias of the head": (tiny().model_copy(update={"head_bias": True}), "bias of the head"),
    "no head": (tiny().model_copy(update={"head": False}), "always puts a norm and a head"),
    "an encoder": (tiny().model_copy(update={"encoder_layers": 2}), "encoder layers"),
    "learned positions": (tiny().model_copy(update={"positions": 64}), "this model has not"),
    "other parameters": (tiny().model_copy(update={"other": 7}), "parameters beside"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_without_an_argument_is_refused(name: str) -> None:
    """Even in a family that can be written."""
    model, words = SHAPES[name]
    objection = refusal(megatron(1, 8), model, "megatron")

    assert objection is not None
    assert (objection.field, objection.value) == ("model", "llama")
    assert words in objection.reason


def test_layers_differ_in_windows_and_experts_alone() -> None:
    """Two widths of heads, two windows, two widths of feed-forward have no argument."""
    plain = tiny().runs[0]
    pairs = {
        "one kind of attention": (attending(), attending(head_dim=8)),
        "--window-size is one": (attending(window=8), attending(window=16)),
        "all dense layers are alike": (feeding(), feeding(width=64)),
    }
    for words, (one, other) in pairs.items():
        runs = [plain.model_copy(update={"block": m.runs[0].block, "layers": 2}) for m in (one, other)]
        objection = refusal(megatron(1, 8), tiny().model_copy(update={"runs": tuple(runs)}), "megatron")

        assert objection is not None and words in objection.reason


def test_a_state_space_is_no_attention() -> None:
    """Mixers without softmax are refused before anything reads their heads."""
    from shardwise.models.mixers import Mixer

    mixer = Mixer(mixer="state_space", input_width=64, output_width=64)
    block = Block(attention=mixer, feed_forward=FeedForward(width=128))
    model = tiny().model_copy(update={"runs": (tiny().runs[0].model_copy(update={"block": block}),)})
    objection = refusal(megatron(1, 8), model, "megatron")

    assert objection is not None and "softmax attention" in objection.reason


TRAINING: dict[str, tuple[dict[str, Any], Strategy, str]] = {
    "an 8-bit optimizer": ({"optimizer": "adamw-8bit"}, megatron(1, 8), "training.optimizer"),
    "SGD of shards": ({"optimizer": "sgd"}, megatron(1, 8), "training.optimizer"),
    "a sequence the ring does not cut": (
        {"sequence": 30}, megatron(1, 4, context_parallel=2), "training.sequence_length",
    ),
    "more tokens than learned positions": (
        {"sequence": 2048, "model": Transformer.preset("gpt2")},
        megatron(1, 8, stages=stages(1, 12)),
        "training.sequence_length",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINING)
def test_the_training_is_refused_where_it_cannot_be_said(name: str) -> None:
    """Optimizer and sequence belong to the request, so they are refused when a plan is written."""
    changes, strategy, field = TRAINING[name]

    with pytest.raises(Refused) as caught:
        emit(plan(strategy, **changes), "megatron")

    assert caught.value.field == field
    assert caught.value.backend == "megatron"
