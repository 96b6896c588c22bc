"""Mixers beside attention, towers, further-token layers: priced where they run, told where they are not."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, Plan, Request, Training, plan
from shardwise.costs.products import mixer_products
from shardwise.costs.saved_sets import saved_bytes, saved_sets
from shardwise.models import Attention, Block, FeedForward, Mixer, Run, Transformer, parse_config
from shardwise.models.parameters import layer_count

HIDDEN = 512
OWN = Attention(heads=8, kv_heads=2, head_dim=64)
STATE = Mixer(mixer="state_space", heads=8, input_width=1200, output_width=512, core_flops=40_000)
CROSS = Attention(heads=8, kv_heads=8, head_dim=64, kv="memory", memory_width=256, causal=False)
FORWARD = FeedForward(width=1024)


@pytest.mark.parametrize(
    "mixer",
    [
        OWN,
        STATE,
        CROSS,
        OWN.model_copy(update={"kv": "keys_only"}),
        OWN.model_copy(update={"kv": "borrowed"}),
        OWN.model_copy(update={"gate_width": 512}),
        Attention(heads=8, kv_heads=8, head_dim=48, kv_rank=64, q_rank=128, rope_head_dim=16),
    ],
)
def test_products_hold_every_weight_of_a_mixer(mixer: Attention | Mixer) -> None:
    """Their elements are the parameters of the layer but for norms and what is no matrix."""
    block = Block(attention=mixer, feed_forward=FeedForward(width=0), norms=0)
    vectors = (mixer.kv_rank or 0) + mixer.q_rank
    elements = sum(product.n * product.k for product in mixer_products(mixer, HIDDEN))

    assert elements == layer_count(block, HIDDEN).total - vectors


def test_a_layer_saves_for_each_of_its_mixers() -> None:
    """Queries, keys, values and outputs of both; the feed-forward once; a cross-attention's own norm."""
    none = Mixer(mixer="none")
    alone, one, other, both, crossed = (
        saved_bytes(Block(attention=first, beside=beside, feed_forward=FORWARD), HIDDEN, "fused")
        for first, beside in ((none, ()), (OWN, ()), (STATE, ()), (OWN, (STATE,)), (OWN, (CROSS,)))
    )
    statistics = saved_sets()["fused"].heads * none.heads

    assert both[1] == one[1] + other[1] - (alone[1] - statistics)
    assert both[0] == one[0]
    assert crossed[0] == one[0] + 2 * saved_sets()["fused"].mixer_input * HIDDEN


def step(beside: tuple[Attention | Mixer, ...]) -> Plan:
    """The plan of eight layers with something beside their attention."""
    block = Block(attention=OWN, feed_forward=FORWARD, beside=beside)
    model = Transformer(
        name="x", family="x", hidden_size=HIDDEN, vocab_size=8192, runs=(Run(block=block, layers=8),)
    )
    choose: dict[str, Any] = {"backend": ["fsdp"], "recompute": ["none"], "micro_batch_size": [8]}
    found = plan(
        Request(
            model=model,
            cluster=Cluster.preset("dgx-h100"),
            training=Training(global_batch_size=64, sequence_length=8192),
            choose=choose | {"zero_stage": [2]},
        )
    )
    assert isinstance(found, Plan)
    return found


def test_what_stands_beside_takes_time_and_memory() -> None:
    """A second attention, a state space, a cross-attention: each makes a longer step and a higher peak."""
    bare = step(())
    for beside in ((OWN,), (STATE,), (CROSS,)):
        more = step(beside)

        assert more.time.terms_seconds["compute"] > 1.05 * bare.time.terms_seconds["compute"]
        assert more.memory.terms_bytes["activations"] > 1.05 * bare.memory.terms_bytes["activations"]


def test_towers_and_further_tokens_are_told() -> None:
    """What the step time leaves out is said, with the share of the FLOPs it would add."""
    vision = {"model_type": "siglip_vision_model", "hidden_size": 64, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 4, "intermediate_size": 64, "image_size": 28, "patch_size": 14}
    text = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    seen = parse_config({"model_type": "llava", "text_config": text, "vision_config": vision}, "x")
    keys: dict[str, Any] = {
        "model_type": "mimo",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_hidden_layers": 2,
    }
    keys["num_key_value_heads"] = 8
    keys |= {"intermediate_size": 512}
    keys |= {"vocab_size": 512, "num_nextn_predict_layers": 1}
    for model, code in ((seen, "tower"), (parse_config(keys, "x"), "predictor")):
        found = plan(
            Request(
                model=model,
                cluster=Cluster.preset("dgx-h100"),
                training=Training(global_batch_size=64, sequence_length=512),
            )
        )

        assert isinstance(found, Plan)
        told = [warning.message for warning in found.warnings if warning.code == code]
        assert len(told) == 1
        assert "% of the FLOPs" in told[0]
