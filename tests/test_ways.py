"""Ways of training as values: what a request may say, and what of a model it means."""

from __future__ import annotations

import pytest

from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import Training, Transformer
from shardwise.models.work import flops_per_token, parameters
from shardwise.plans import Request

LLAMA = Transformer.preset("llama-3.1-8b")


def job(**more: object) -> Training:
    """One sequence a step."""
    return Training.model_validate({"global_batch_size": 8, "sequence_length": 4096, **more})


@pytest.mark.parametrize(
    ("value", "legal"),
    [
        ("lora(0)", "lora(1)"),
        ("lora(x)", "lora(16)"),
        ("qlora()", "qlora(16)"),
        ("lora", "lora(16)"),
        ("some", "all"),
        (0, "all"),
        (1.5, "all"),
        (True, "all"),
    ],
)
def test_nonsense_is_refused_with_the_nearest_value(value: object, legal: str) -> None:
    """Rank 0, a rank that is no number, a share above one: the error names the field and a legal value."""
    request = {"model": "llama-3.1-8b", "cluster": Cluster.preset("dgx-h100"), "training": {
        "global_batch_size": 8, "sequence_length": 4096, "trainable": value}}  # fmt: skip
    with pytest.raises(ValueError) as caught:
        Request.model_validate(request)
    inner = caught.value.errors()[0]["ctx"]["error"]  # type: ignore[attr-defined]
    assert isinstance(inner, InputError)
    assert inner.field == "training.trainable"
    assert legal in inner.legal


def test_a_target_no_layer_has_is_refused_with_the_nearest() -> None:
    """Llama has q_proj, not q_porj."""
    with pytest.raises(InputError, match="no layer of") as caught:
        Request(
            model=LLAMA,
            cluster=Cluster.preset("dgx-h100"),
            training=job(trainable="lora(8)", lora_targets=["q_porj"]),
        )
    assert "q_proj" in caught.value.legal


@pytest.mark.parametrize("more", [{"lora_targets": ["q_proj"]}, {"frozen": ["head"], "trainable": "lora(4)"}])
def test_fields_that_contradict_trainable_are_refused(more: dict[str, object]) -> None:
    """Targets without adapters mean nothing; adapters freeze everything already."""
    with pytest.raises(ValueError):
        job(**more)


def test_a_share_of_one_is_all() -> None:
    """1.0 and "all" are one job."""
    assert job(trainable=1.0) == job(trainable="all") == job()


@pytest.mark.parametrize(
    ("targets", "each"),
    [
        (["q_proj", "v_proj"], 4096 + 4096 + 4096 + 1024),
        (["attention"], 2 * (4096 + 4096) + 2 * (4096 + 1024)),
        (["mlp"], 3 * (4096 + 14336)),
        (["all-linear"], 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)),
    ],
)
def test_adapters_have_rank_times_inputs_and_outputs(targets: list[str], each: int) -> None:
    """r (in + out) a matrix (arXiv 2106.09685): rank 16 on all linears of Llama-3.1 8B is 41,943,040."""
    held = parameters(job(trainable="lora(16)", lora_targets=targets), LLAMA)
    assert held.trained == 32 * 16 * each
    assert held.frozen == 8_030_261_248


def test_the_words_of_other_tools_mean_the_same_matrices() -> None:
    """torchtune's and peft's names agree."""
    names = job(trainable="lora(4)", lora_targets="q_proj,v_proj,o_proj,gate_proj,down_proj,up_proj")
    other = job(trainable="lora(4)", lora_targets="wq, wv, output_proj, w1, w2, w3")
    assert parameters(names, LLAMA) == parameters(other, LLAMA)


def test_a_4_bit_base_leaves_embedding_head_and_norms() -> None:
    """bitsandbytes packs the linears of the layers: 32 x 218,103,808 of 8.03e9 (arXiv 2305.14314)."""
    held = parameters(job(trainable="qlora(16)"), LLAMA)
    assert held.quantised == 32 * 218_103_808
    assert held.frozen == 2 * 128_256 * 4096 + 65 * 4096


def test_frozen_parts_are_not_trained() -> None:
    """Without embedding and head (and its norm) 32 layers are left."""
    held = parameters(job(frozen=["embedding", "head"]), LLAMA)
    assert held.trained == 32 * 218_112_000
    assert held.total == 8_030_261_248


def test_a_frozen_matrix_costs_two_products_of_three() -> None:
    """LoRA: 4 N a token instead of 6 N, and 6 a parameter of the adapters."""
    full, adapters = flops_per_token(job(), LLAMA), flops_per_token(job(trainable="lora(16)"), LLAMA)
    cores = 6.0 * 2 * 4096 * 4097 / 2 * 32
    frozen = 8_030_261_248 - 128_256 * 4096
    assert full == pytest.approx(6.0 * frozen + cores)
    assert adapters == pytest.approx(4.0 * frozen + cores + 6.0 * 41_943_040)


def test_documents_shorten_what_a_token_attends_to() -> None:
    """Packed documents of 512 tokens: 256.5 keys a query instead of 2048.5; sequences stay 4096 long."""
    packed, whole = flops_per_token(job(mean_document_length=512), LLAMA), flops_per_token(job(), LLAMA)
    assert whole - packed == pytest.approx(6.0 * 2 * 4096 * (2048.5 - 256.5) * 32)


def test_the_mean_length_counts_tokens() -> None:
    """A step works through the tokens there are, not those of the longest sequence."""
    assert job(mean_sequence_length=1024).tokens == 8 * 1024
    with pytest.raises(ValueError, match="at most sequence_length"):
        job(mean_sequence_length=8192)


def test_a_reference_adds_its_forward() -> None:
    """DPO: a third of the trained model's FLOPs again; a smaller teacher by its own count."""
    plain, doubled = flops_per_token(job(), LLAMA), flops_per_token(job(reference_model="self"), LLAMA)
    assert doubled == pytest.approx(plain * 4 / 3)
    small = Transformer.preset("llama-3.2-1b")
    taught = flops_per_token(job(reference_model=small), LLAMA)
    assert taught - plain == pytest.approx(flops_per_token(job(), small) / 3)
