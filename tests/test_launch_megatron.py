"""`megatron_args.sh`: the arguments of Megatron-LM, by name, and what they say of a plan."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest
from megatron_by_hand import NAMED, UNEVEN, argv, cut, named, parsed, stages
from plans_by_hand import megatron, plan, stage, tiny
from pydantic import BaseModel

from shardwise.launch import emit
from shardwise.launch.megatron.layout import layers_of, layout, modules_of
from shardwise.launch.megatron.schema import MegatronArgs
from shardwise.launch.megatron.write import arguments, words
from shardwise.models import Stage, Strategy, Transformer
from shardwise.models.chunks import in_order

DATA = Path(__file__).parent / "data" / "launch"
KNOWN = json.loads((DATA / "megatron_flags.json").read_text(encoding="utf-8"))["arguments"]
COUNTS = {"nothing": (0, 0), "one": (1, 1), "some": (1, 99)}


def written(strategy: Strategy, folder: Path, **changes: Any) -> dict[str, list[str]]:
    """Arguments of a plan of the tiny model as bash expands them."""
    return parsed(argv(plan(strategy, **changes), folder))


@pytest.mark.parametrize("name", NAMED)
def test_the_files_are_those_we_agreed_on(name: str) -> None:
    """Equal to tests/data/launch to the byte; WRITE_GOLDEN=1 writes them anew, to be read afterwards."""
    made = {k: v for k, v in emit(named(name), "megatron").items() if k not in ("plan.json", "README.md")}
    folder = DATA / name
    if os.environ.get("WRITE_GOLDEN") == "1":
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in made.items():
            (folder / file).write_text(text, encoding="utf-8")

    assert made == {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize("name", NAMED)
def test_every_argument_is_one_of_megatrons(name: str, tmp_path: Path) -> None:
    """Its parser knows the name, the number of values and, where it lists them, the word."""
    for flag, values in parsed(argv(named(name), tmp_path)).items():
        least, most = COUNTS[KNOWN[flag]["takes"]]

        assert least <= len(values) <= most
        assert set(values) <= set(KNOWN[flag].get("words", values))


def test_every_field_is_one_of_megatrons_arguments() -> None:
    """No field of the schema is a name that Megatron-LM lacks, and switches are switches."""
    for group in MegatronArgs.model_fields.values():
        assert isinstance(group.annotation, type) and issubclass(group.annotation, BaseModel)
        for name, field in group.annotation.model_fields.items():
            switch = field.annotation in (bool, Literal[True])

            assert (KNOWN[f"--{name.replace('_', '-')}"]["takes"] == "nothing") == switch


@pytest.mark.parametrize("name", NAMED)
def test_bash_reads_the_words_we_wrote(name: str, tmp_path: Path) -> None:
    """Quoting keeps brackets, stars and bars; arrays are joined in the order of the file."""
    plain = [line.split(" ") for _, group in arguments(named(name)) for line in words(group)]

    assert argv(named(name), tmp_path) == [word.strip("'") for line in plain for word in line]
    for file in ("megatron_args.sh", "launch.sh"):
        subprocess.run(["bash", "-n", str(tmp_path / file)], check=True)


def test_the_launch_script_hands_them_to_torchrun(tmp_path: Path) -> None:
    """The script, all arguments, then those behind the script; one queue a card unless told otherwise."""
    given = argv(named("megatron_llama_8b_block"), tmp_path)
    stand_in = tmp_path / "torchrun"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$CUDA_DEVICE_MAX_CONNECTIONS" "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    bare = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MASTER_ADDR": "node-0"}
    done = subprocess.run(
        ["bash", str(tmp_path / "launch.sh"), "--lr", "2e-4"],
        env=bare, capture_output=True, text=True, check=True,
    )  # fmt: skip
    told = done.stdout.splitlines()

    assert told[0] == "1"
    assert told[1:3] == ["--nnodes=4", "--nproc-per-node=8"]
    assert told[told.index("pretrain_gpt.py") + 1 :] == [*given, "--lr", "2e-4"]


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1, 1, 1, 3], [7, *[8] * 14, 7], [7, 8, 8, 8] * 2, [4]])
def test_a_layout_reads_back(sizes: list[int]) -> None:
    """The word says the chunks it was made of, embedding first and loss last."""
    text = layout(sizes)

    assert layers_of(text) == sizes
    assert (text[0], text[-1]) == ("E", "L")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t|t",
        "Et|t",
        "t|EtL",
        "Et|(t|tL",
        "Emt|L",
        "Em|tmL",
        "EtmLm",
        "EtL|E",
        "Et*x|tL",
        "Et |tL",
        "E(t|)*999999999L",
    ],
)
def test_no_other_word_is_a_layout(text: str) -> None:
    """Missing ends, unknown letters, open brackets."""
    with pytest.raises(ValueError, match="no pipeline layout"):
        layers_of(text)


def test_chunks_go_round_the_stages() -> None:
    """Under interleaving the first chunk of every stage comes before the second of any."""
    strategy = megatron(1, 1, virtual_pipeline=2, stages=(Stage(layers=2), Stage(layers=6)))
    uneven = megatron(
        1, 1, virtual_pipeline=2, stages=(Stage(layers=3), Stage(layers=2, chunk_layers=(2, 0)))
    )

    assert layout(in_order(strategy)) == "Et|t*3|t|t*3L"
    assert layout(in_order(uneven)) == "Et*2|t*2|t|L"


def test_published_layouts_read_as_their_authors_say() -> None:
    """DeepSeek-V3 over 16 stages of two chunks: the module and the loss each have a chunk of their own."""
    sizes = layers_of("Et*3|(tt|)*29,m|L")

    assert sizes == [3, *[2] * 29, 1, 0] and modules_of("Et*3|(tt|)*29,m|L") == 1
    assert layout(sizes, 1) == "Et*3|(t*2|)*29m|L"


def test_equal_stages_need_no_layout(tmp_path: Path) -> None:
    """A number of chunks says all; stages that differ are spelt out, chunks and all."""
    even = written(
        megatron(1, 2, virtual_pipeline=2, gradient_accumulation_steps=2, stages=stages(2, 2)), tmp_path
    )
    spelt = parsed(argv(named("megatron_llama_405b_uneven"), tmp_path))

    assert even["--num-virtual-stages-per-pipeline-rank"] == ["2"]
    assert "--pipeline-model-parallel-layout" not in even
    assert spelt["--pipeline-model-parallel-layout"] == ["Et*7|(t*8|)*14t*7L"]
    assert "--num-virtual-stages-per-pipeline-rank" not in spelt
    assert sum(each.layers for each in UNEVEN) == 126


RECOMPUTED: dict[str, tuple[tuple[Stage, ...], int, str | None, dict[str, str]]] = {
    "none": (stages(2, 2), 1, None, {}),
    "one": (stages(2, 2, recompute_full_layers=1), 1, "full", {"method": "block", "num-layers": "1"}),
    "all": (stages(2, 2, recompute_full_layers=2), 1, "full", {"method": "uniform", "num-layers": "1"}),
    "one of each chunk": (
        stages(2, 4, recompute_full_layers=2), 2, "full", {"method": "block", "num-layers": "1"},
    ),
    "all of a short stage": (
        (Stage(layers=1, recompute_full_layers=1), Stage(layers=3, recompute_full_layers=2)),
        1, "full", {"method": "block", "num-layers": "2"},
    ),
    "part": (stages(2, 2, recompute_selective_layers=2), 1, "selective", {"modules": "mlp"}),
}  # fmt: skip


@pytest.mark.parametrize("name", RECOMPUTED)
def test_recomputation_is_one_number_a_chunk(name: str, tmp_path: Path) -> None:
    """Megatron-LM counts in every chunk of a stage; the plan counts over the stage."""
    laid, chunked, granularity, rest = RECOMPUTED[name]
    model = tiny()
    layers = sum(each.layers for each in laid)
    deeper = model.model_copy(update={"runs": (model.runs[0].model_copy(update={"layers": layers}),)})
    strategy = megatron(1, 1, stages=laid, virtual_pipeline=chunked, gradient_accumulation_steps=2)
    found = written(strategy, tmp_path, model=deeper)
    said = {
        flag.removeprefix("--recompute-"): values for flag, values in found.items() if "recompute" in flag
    }

    assert said == ({"granularity": [granularity], **{k: [v] for k, v in rest.items()}} if rest else {})


PRECISIONS = {
    ("bf16", "fp32"): ["--bf16", "--accumulate-allreduce-grads-in-fp32"],
    ("bf16", "bf16"): ["--bf16", "--grad-reduce-in-bf16", "--main-grads-dtype bf16"],
    ("fp16", "fp16"): ["--fp16"],
    ("fp8", "fp32"): [
        "--bf16", "--fp8-format hybrid", "--fp8-recipe tensorwise", "--accumulate-allreduce-grads-in-fp32",
    ],
    ("mxfp8", "fp32"): [
        "--bf16", "--fp8-format e4m3", "--fp8-recipe mxfp8", "--accumulate-allreduce-grads-in-fp32",
    ],
}  # fmt: skip


@pytest.mark.parametrize("pair", PRECISIONS)
def test_types_of_weights_and_gradients(pair: tuple[str, str]) -> None:
    """Of 16-bit gradients Adam keeps no float32 copy, which the plan does not price either."""
    made = arguments(plan(megatron(1, 4, precision=pair[0], gradient_dtype=pair[1])))

    assert list(words(made.precision)) == PRECISIONS[pair]
    assert made.memory.use_precision_aware_optimizer == (pair == ("bf16", "bf16"))


def test_stacks_of_2024_scale_with_a_delay() -> None:
    """The recipe is that of the software priced."""
    older = megatron(1, 4, precision="fp8", software_stack="nemo-2024")

    assert arguments(plan(older)).precision.fp8_recipe == "delayed"


def test_the_distributed_optimizer_is_zero_stage_1(tmp_path: Path) -> None:
    """Gathers are hidden only where there are any; reductions always."""
    sharded, whole = written(megatron(1, 4), tmp_path), written(megatron(0, 4), tmp_path)
    flags = ("--use-distributed-optimizer", "--overlap-param-gather")

    assert all(flag in sharded and flag not in whole for flag in flags)
    assert "--overlap-grad-reduce" in sharded and "--overlap-grad-reduce" in whole


def test_offload_is_of_all_states(tmp_path: Path) -> None:
    """A fraction of one, with the optimizer that can be offloaded."""
    found = written(megatron(1, 4, offload_optimizer="cpu", stages=stage(offloaded_layers=4)), tmp_path)

    assert found["--optimizer-offload-fraction"] == ["1.0"]
    assert {"--optimizer-cpu-offload", "--use-precision-aware-optimizer"} <= set(found)


def test_dropout_is_off_and_the_mask_is_not_made(tmp_path: Path) -> None:
    """Megatron-LM's defaults are 0.1 and a mask of sequence times sequence; the plan prices neither."""
    found = written(megatron(1, 4), tmp_path)

    assert found["--hidden-dropout"] == found["--attention-dropout"] == ["0.0"]
    assert "--no-create-attention-mask-in-dataloader" in found


MODELS: dict[str, dict[str, str | None]] = {
    "gpt2": {"position-embedding-type": "learned_absolute", "normalization": "LayerNorm", "num-layers": "12"},
    "llama-3.1-8b": {"num-query-groups": "8", "untie-embeddings-and-output-weights": None, "swiglu": None},
    "qwen2.5-7b": {"disable-bias-linear": None, "add-qkv-bias": None, "position-embedding-type": "rope"},
    "qwen3-8b": {"qk-layernorm": None, "kv-channels": "128"},
    "mistral-7b": {"window-size": "4095,0"},
    "qwen1.5-moe-a2.7b": {
        "num-experts": "60", "moe-shared-expert-intermediate-size": "5632", "moe-shared-expert-gate": None,
        "moe-router-pre-softmax": None,
    },
    "deepseek-v3": {
        "moe-layer-freq": "[0]*3+[1]*58", "kv-lora-rank": "512", "q-lora-rank": "1536", "v-head-dim": "128",
        "ffn-hidden-size": "18432", "moe-ffn-hidden-size": "2048", "qk-layernorm": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_shape_of_a_model(name: str, tmp_path: Path) -> None:
    """What the ledger counts is what Megatron-LM builds."""
    model = Transformer.preset(name)
    strategy = megatron(1, 8, stages=(Stage(layers=model.layers),))
    found = written(strategy, tmp_path, model=model, sequence=1024)
    said = {flag: values for flag, values in found.items() if flag.removeprefix("--") in MODELS[name]}

    assert said == {f"--{flag}": [value] if value else [] for flag, value in MODELS[name].items()}


def test_tied_heads_and_no_biases_are_said(tmp_path: Path) -> None:
    """Each is the absence of an argument, or its presence."""
    tied = written(megatron(1, 4), tmp_path, model=tiny(tied=True))
    biased = parsed(argv(named("megatron_gpt3_interleaved"), tmp_path))

    assert "--untie-embeddings-and-output-weights" not in tied
    assert "--disable-bias-linear" in tied and "--add-qkv-bias" not in tied
    assert not {"--disable-bias-linear", "--add-qkv-bias", "--swiglu"} & set(biased)


def test_a_window_in_some_layers_is_a_pattern(tmp_path: Path) -> None:
    """One in the pattern is a layer with a window, which holds the token itself."""
    model = tiny("mistral")
    block = model.runs[0].block
    narrow = block.model_copy(update={"attention": block.attention.model_copy(update={"window": 16})})
    runs = (
        model.runs[0].model_copy(update={"block": narrow, "layers": 3}),
        model.runs[0].model_copy(update={"layers": 1}),
    )
    found = written(megatron(1, 4), tmp_path, model=model.model_copy(update={"runs": runs}))

    assert (found["--window-size"], found["--window-attn-skip-freq"]) == (["15,0"], ["[1]*3+[0]"])


def test_both_kinds_of_layers_recompute_their_feed_forward(tmp_path: Path) -> None:
    """A dense feed-forward is `mlp`, one of experts is `moe`; attention is fused and kept."""
    model = Transformer.preset("deepseek-v3")
    part = stages(1, 61, recompute_selective_layers=61)
    found = written(megatron(1, 8, stages=part), tmp_path, model=model, sequence=512)

    assert found["--recompute-modules"] == ["mlp", "moe"]
    assert argv(named("megatron_mixtral_experts"), tmp_path).count("moe") == 1


def test_the_order_of_ranks_and_experts(tmp_path: Path) -> None:
    """Stages inside data ranks is an argument; experts are cut as the plan cuts them."""
    inner = written(megatron(1, 2, rank_order="tp-cp-pp-dp", stages=stages(2, 2)), tmp_path)
    outer = written(megatron(1, 2, stages=stages(2, 2)), tmp_path)
    mixtral = Transformer.preset("mixtral-8x7b")
    strategy = megatron(1, 4, **cut(2, expert_parallel=4, expert_tensor_parallel=2, stages=stages(1, 32)))
    found = written(strategy, tmp_path, model=mixtral)

    assert "--use-tp-pp-dp-mapping" in inner and "--use-tp-pp-dp-mapping" not in outer
    assert "--expert-model-parallel-size" not in inner
    assert found["--expert-model-parallel-size"] == ["4"]
    assert found["--expert-tensor-parallel-size"] == ["2"]
    assert found["--moe-token-dispatcher-type"] == ["alltoall"]


def test_the_placeholders_have_a_run_to_start_with(tmp_path: Path) -> None:
    """Made-up tokens that no release pads beyond the priced vocabulary, and steps for the tokens asked."""
    found = written(megatron(1, 4), tmp_path)
    made = plan(megatron(1, 4))
    asked = made.request.training.model_copy(update={"total_tokens": 1000})
    counted = made.model_copy(update={"request": made.request.model_copy(update={"training": asked})})

    assert found["--train-iters"] == ["50"]
    assert found["--vocab-size"] == ["255"]
    assert parsed(argv(counted, tmp_path))["--train-iters"] == [str(-(-1000 // 128))]
    assert written(megatron(0, 4), tmp_path, optimizer="sgd")["--sgd-momentum"] == ["0.9"]


def test_the_readme_tells_the_stages_and_the_work_left() -> None:
    """What stands where, which script to take, what is a placeholder, what pads the vocabulary."""
    text = emit(named("megatron_llama_405b_uneven"), "megatron")["README.md"]
    experts = emit(named("megatron_mixtral_experts"), "megatron")["README.md"]

    assert "| pipeline stages | 16, of 7, 14 x 8, 7 layers |" in text
    assert "| context parallel | 2, a ring |" in text
    assert (
        "read by its own three checks of arguments, not run, in our tests with Megatron-LM core_v0.16.1"
        in text
    )
    assert "pads to 129024" in text
    assert "`DATA_ARGS`" in text and "pretrain_gpt.py" in text
    assert "sdpa" not in text
    assert "| expert parallel | 8, each expert cut over 1 |" in experts
    assert "Experts are priced in balance" in experts
