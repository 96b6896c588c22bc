"""The models of the catalogue: published sizes, names as people write them."""

from __future__ import annotations

import pytest

from shardwise.inputs import InputError
from shardwise.models import Transformer, count, model_names
from shardwise.models.catalogue import catalogue

PUBLISHED = {
    # unique parameters as the model cards' weight files hold them, tied copies once
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "opt-13b": 12_853_473_280,
    "opt-30b": 29_974_540_288,
    "opt-66b": 65_719_701_504,
    "gpt-neox-20b": 20_554_567_680,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "gemma-7b": 8_537_680_896,
    "gemma-2-27b": 27_227_128_320,
    "smollm-1.7b": 1_711_376_384,
    "deepseek-v3": 671_026_404_352,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    "kimi-k2": 1_026_408_209_408,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "glm-4-9b": 9_399_951_360,
    "minimax-m2": 228_689_748_992,
    "qwen3-coder-480b-a35b": 480_154_875_392,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "qwen2.5-vl-7b": 8_292_166_656,
    "gemma-3-4b": 4_300_079_472,
    "gemma-3-12b": 12_187_325_040,
    "gemma-3-27b": 27_432_406_640,
    "llama-4-scout": 108_641_793_536,
    "llama-4-maverick": 401_583_781_376,
    "llama-3.2-11b-vision": 10_670_220_835,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "phi-2": 2_779_683_840,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "bloom-176b": 176_247_271_424,
    "bloom-7b1": 7_069_016_064,
    "mpt-7b": 6_649_286_656,
    "gpt-j-6b": 6_050_882_784,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "dbrx-132b": 131_596_523_520,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "command-r-35b": 34_980_831_232,
    "olmo-2-7b": 7_298_617_344,
    "starcoder2-15b": 15_957_889_024,
    "yi-34b": 34_388_917_248,
    "tinyllama-1.1b": 1_100_048_384,
    "jamba-1.5-mini": 51_570_323_328,
    "mamba-2.8b": 2_768_345_600,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "t5-large": 737_668_096,
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-30b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "codellama-34b": 33_743_970_304,
    "mistral-7b-v0.3": 7_248_023_552,
    "command-r-plus-104b": 103_810_674_688,
    "seed-oss-36b": 36_151_104_512,
    "gemma-3-1b": 999_885_952,
    "phi-3.5-moe": 41_873_153_344,
}
ROUNDED = {
    # 1e9, as the papers print them (Korthikanti et al., arXiv 2205.05198, table 3; GPT-3's 175)
    "megatron-22b": 22,
    "megatron-175b": 175,
    "megatron-530b": 530,
    "megatron-1t": 1008,
    "gpt3-175b": 175,
    # and as their cards do
    "nemotron-h-56b": 56.3,
    "qwen3.5-35b-a3b": 35,
    "glm-4.5": 353,
    "glm-4.5-air": 107,
    "qwen2-57b-a14b": 57.4,
    "falcon-180b": 178.6,
    "mpt-30b": 30,
    "opt-175b": 175,
    "nemotron-4-340b": 341,
    "longcat-flash-560b": 560,
    "deepseek-v3.2": 671,
    "glm-5": 744,
}
ACTIVE = {
    "mixtral-8x7b": 12.9,
    "mixtral-8x22b": 39.1,
    "qwen3-235b-a22b": 22,
    "deepseek-v3": 37,
    "qwen1.5-moe-a2.7b": 2.7,
    "gpt-oss-120b": 5.7,
    "kimi-k2": 32.5,
    "qwen3-coder-480b-a35b": 35,
    "deepseek-v2": 21,
    "dbrx-132b": 36,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_has_its_published_parameters(name: str) -> None:
    """To the unit."""
    assert count(Transformer.preset(name)).total == PUBLISHED[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_a_model_of_a_paper_has_its_rounded_size(name: str) -> None:
    """Within half a percent of the printed billions."""
    assert count(Transformer.preset(name)).total / 1e9 == pytest.approx(ROUNDED[name], rel=0.005)


@pytest.mark.parametrize("name", ACTIVE)
def test_a_sparse_model_activates_what_its_card_says(name: str) -> None:
    """Billions a token meets, within two percent (cards round, and some leave out the embedding)."""
    assert count(Transformer.preset(name)).active / 1e9 == pytest.approx(ACTIVE[name], rel=0.02)


@pytest.mark.parametrize("name", model_names())
def test_every_entry_is_whole(name: str) -> None:
    """It has a source, bears its own name, can be hashed, and round-trips through JSON."""
    model = Transformer.preset(name)

    assert model.name == name
    assert model.source
    assert hash(model) == hash(Transformer.model_validate_json(model.model_dump_json()))
    assert Transformer.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("llama3.1-8b", "llama-3.1-8b"),
        ("llama-3.1-8b-instruct", "llama-3.1-8b"),
        ("LLAMA_3.1_70B", "llama-3.1-70b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("llama2-70b", "llama-2-70b"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("GPT3", "gpt3-175b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("deepseek-r1", "deepseek-v3"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("state-spaces/mamba-2.8b-hf", "mamba-2.8b"),
        ("Bloom", "bloom-176b"),
        ("google-bert/bert-base-uncased", "bert-base"),
        ("Llama 3.1 70B", "llama-3.1-70b"),
        ("llama3-70b", "llama-3-70b"),
        ("GPT3 175B", "gpt3-175b"),
        ("gpt-3", "gpt3-175b"),
        ("qwen2.5 7b instruct", "qwen2.5-7b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "llama-3.1-8b"),
        ("unsloth/Llama-3.1-8B-bnb-4bit", "llama-3.1-8b"),
        ("google/gemma-3-12b-pt", "gemma-3-12b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama-3.3-70b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("Jamba", "jamba-1.5-mini"),
    ],
)
def test_a_model_is_found_as_people_write_it(written: str, name: str) -> None:
    """Any case and separator, with the organisation of the hub, with the ending of a tuned copy."""
    assert Transformer.preset(written).name == name


def test_a_hundred_models_are_known_by_name() -> None:
    """Dense, sparse, hybrid, encoders, encoder-decoders, and with towers."""
    models = [Transformer.preset(name) for name in model_names()]

    assert len(models) >= 100
    assert any(model.towers for model in models)
    assert any(model.encoder_layers for model in models)
    assert any(model.predictor for model in models)


def test_no_two_models_share_a_spelling() -> None:
    """Names and aliases stay apart when case, separators, organisations and endings are gone."""
    book = catalogue()
    owners: dict[str, set[str]] = {}
    for name, entry in book.models.items():
        for word in (name, *entry.aliases):
            owners.setdefault(book.plain(word), set()).add(name)

    assert [names for names in owners.values() if len(names) > 1] == []


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("llama-3.1-80b", "llama-3.1-8b"),
        ("mixtral-8x7", "mixtral-8x7b"),
        ("qwen-2.5-7b-x", "qwen2.5-7b"),
        ("llama 70b", "llama-3.1-70b"),
        ("70b", "llama-3.1-70b"),
        ("llama-3.1", "llama-3.1-70b"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(written: str, nearest: str) -> None:
    """The error stands at `model`, keeps the origin it was given, and says what may have been meant."""
    with pytest.raises(InputError) as caught:
        Transformer.preset(written, "job.toml:1")
    error = caught.value

    assert (error.field, error.value, error.origin) == ("model", written, "job.toml:1")
    assert error.code == "unknown-model"
    assert nearest in error.legal


@pytest.mark.parametrize(
    "written", ["", "/", "meta-llama/", "x" * 10_000, "someone/llama-3.1-8b", "\x1b[31m"]
)
def test_a_name_that_means_nothing_is_refused(written: str) -> None:
    """Empty, endless, of an organisation not known, unprintable: one line of plain text."""
    with pytest.raises(InputError) as caught:
        Transformer.preset(written)

    assert caught.value.message.isprintable()


def test_deepseek_v3_is_three_dense_layers_and_58_sparse_ones() -> None:
    """Latent attention throughout; 256 experts, 8 a token, one shared (arXiv 2412.19437)."""
    model = Transformer.preset("deepseek-v3")

    assert [run.layers for run in model.runs] == [3, 58]
    assert [kind.feed_forward.experts for kind in model.kinds] == [0, 256]
    assert {kind.attention.kv_rank for kind in model.kinds} == {512}
