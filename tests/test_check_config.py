"""`check --config`: files of every dialect, what was edited of a plan, and the way to a better one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import deepspeed, fsdp, megatron, plan, stage

from shardwise.cli import main
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.documents.document import document_of
from shardwise.launch.patch import patch
from shardwise.launch.read import read_config
from shardwise.models import Strategy, Training, Transformer
from shardwise.models.chunks import sizes_of
from shardwise.plans import Plan, Request

REQUEST = Request(
    model=Transformer.preset("llama-3.1-8b"),
    cluster=Cluster.preset("dgx-h100", nodes=2),
    training=Training(global_batch_size=128, sequence_length=4096),
)


def read(folder: Path, **files: str) -> Strategy:
    """The strategy in `files`; the last underscore of a keyword is the dot of its name."""
    paths = []
    for name, text in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return read_config(documents(paths), REQUEST).strategy


def test_numbers_of_deepspeed_make_each_other(tmp_path: Path) -> None:
    """Micro-batch and total make the accumulation; no data type means gradients of the weights' type."""
    text = json.dumps(
        {
            "train_batch_size": 128,
            "train_micro_batch_size_per_gpu": 2,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
        }
    )
    found = read(tmp_path, ds_json=text)

    assert (found.data_parallel, found.micro_batch_size, found.gradient_accumulation_steps) == (16, 2, 4)
    assert (found.zero_stage, found.offload_optimizer, found.gradient_dtype) == (3, "cpu", "bf16")
    assert found.stages[0].offloaded_layers == 32


def test_auto_takes_the_trainer_s_arguments(tmp_path: Path) -> None:
    """From its JSON or its command line; alone it is an error that says what is missing."""
    auto = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}
    auto |= {"gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}}  # type: ignore[dict-item]
    text = json.dumps({**auto, "zero_optimization": {"stage": 2}})
    line = (
        "deepspeed --num_nodes 2 --num_gpus 8 t.py --deepspeed ds.json --per_device_train_batch_size 4 \\\n"
    )
    line += " --gradient_accumulation_steps 2 --bf16 --gradient_checkpointing\n"

    with pytest.raises(InputError, match="trainer's arguments"):
        read(tmp_path, ds_json=text)
    found = read(tmp_path, ds_json=text, run_sh=line)
    assert (found.micro_batch_size, found.gradient_accumulation_steps, found.precision) == (4, 2, "bf16")
    assert found.recompute == "full"


FSDP1 = """\
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config:
  fsdp_sharding_strategy: {word}
  fsdp_offload_params: {offload}
  fsdp_activation_checkpointing: true
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
"""


@pytest.mark.parametrize(
    ("word", "stage_number", "group"),
    [("FULL_SHARD", 3, 16), ("SHARD_GRAD_OP", 2, 16), ("HYBRID_SHARD", 3, 8), ("1", 3, 16)],
)
def test_fsdp1_is_read(tmp_path: Path, word: str, stage_number: int, group: int) -> None:
    """Its sharding words are ZeRO stages; the hybrid one shards inside a machine."""
    found = read(tmp_path, a_yaml=FSDP1.format(word=word, offload="false"))

    assert (found.backend, found.zero_stage, found.shard_group_size) == ("fsdp", stage_number, group)
    assert (found.recompute, found.offload_params) == ("full", "none")


def test_accelerate_s_deepspeed_is_read(tmp_path: Path) -> None:
    """Its own keys, with the trainer's micro-batch; or the file it names."""
    text = "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
    own = text + "deepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 8\n"
    own += "  offload_optimizer_device: cpu\n  offload_param_device: none\n"
    line = "accelerate launch --config_file a.yaml t.py --per_device_train_batch_size 1 --output_dir o\n"
    found = read(tmp_path, a_yaml=own, run_sh=line)

    assert (found.backend, found.zero_stage, found.gradient_accumulation_steps) == ("deepspeed", 3, 8)
    assert found.offload_optimizer == "cpu"
    (tmp_path / "ds.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 8}), encoding="utf-8")
    named = read(tmp_path, b_yaml=text + "deepspeed_config:\n  deepspeed_config_file: ds.json\n")
    assert (named.micro_batch_size, named.zero_stage, named.precision) == (8, 0, "fp32")


MEGATRON = """\
NODES=2
TP=2
GPT_ARGS="
  --tensor-model-parallel-size $TP \\
  --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2
  --sequence-parallel --use-distributed-optimizer
  --recompute-granularity selective
"
TRAIN_ARGS=(--micro-batch-size 1 --global-batch-size 128 --bf16)
torchrun --nproc_per_node 8 --nnodes ${NODES} pretrain_gpt.py $GPT_ARGS ${TRAIN_ARGS[@]}
"""


def test_a_megatron_script_is_read(tmp_path: Path) -> None:
    """Variables and arrays are put in; chunks follow from the layers of a chunk."""
    found = read(tmp_path, run_sh=MEGATRON)

    assert (found.tensor_parallel, found.pipeline_parallel, found.data_parallel) == (2, 4, 2)
    assert (found.virtual_pipeline, found.zero_stage, found.shard_group_size) == (4, 1, 2)
    assert [s.recompute_selective_layers for s in found.stages] == [8, 8, 8, 8]
    assert (found.gradient_dtype, found.gradient_accumulation_steps) == ("fp32", 64)


def test_a_megatron_yaml_is_read(tmp_path: Path) -> None:
    """Tables of any depth, switches as booleans."""
    text = "language_model:\n  num_layers: 32\nmodel_parallel:\n  tensor_model_parallel_size: 4\n"
    text += "  sequence_parallel: true\n  pipeline_model_parallel_size: 1\nmicro_batch_size: 2\n"
    text += "use_distributed_optimizer: true\nbf16: true\nglobal_batch_size: 128\n"
    found = read(tmp_path, m_yaml=text)

    assert (found.tensor_parallel, found.data_parallel, found.micro_batch_size) == (4, 4, 2)
    assert (found.zero_stage, found.sequence_parallel) == (1, True)


def test_uneven_ends_of_megatron_are_read(tmp_path: Path) -> None:
    """First and last stage by their own argument, the middle evenly."""
    text = "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --bf16 --pipeline-model-parallel-size 4 "
    text += "--decoder-first-pipeline-num-layers 6 --decoder-last-pipeline-num-layers 8\n"
    found = read(tmp_path, run_sh=text)

    assert [s.layers for s in found.stages] == [6, 9, 9, 8]


@pytest.mark.parametrize(
    ("cut", "sizes"),
    [
        ("--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split "
         "--num-layers-per-virtual-pipeline-stage 1", None),
        ("--pipeline-model-parallel-layout 'Et*3|t*6|(t*4|)*5t*3L'", [(3, 4), (6, 4), (4, 4), (4, 3)]),
        ("--num-virtual-stages-per-pipeline-rank 2", [(4, 4)] * 4),
    ],
)  # fmt: skip
def test_chunks_of_several_lengths_are_read(
    tmp_path: Path, cut: str, sizes: list[tuple[int, int]] | None
) -> None:
    """A layout's chunks go round the stages; 34 layers, embedding and loss among them, fill no four."""
    text = "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --bf16 --pipeline-model-parallel-size 4 "
    text += f"{cut}\n"
    if sizes is None:
        with pytest.raises(InputError, match="34 layers make no 4 stages"):
            read(tmp_path, run_sh=text)
        return
    found = read(tmp_path, run_sh=text)

    assert [sizes_of(stage, found.virtual_pipeline) for stage in found.stages] == sizes


def test_ends_that_take_the_place_of_a_layer_are_read(tmp_path: Path) -> None:
    """Llama-3.1 405B over 8 x 8: with embedding and loss among 126 layers every chunk would hold two."""
    request = Request(
        model="llama-3.1-405b",
        cluster=Cluster.preset("dgx-h100", nodes=8),
        training=Training(global_batch_size=8, sequence_length=8192),
    )
    text = "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --bf16 --pipeline-model-parallel-size 8 "
    text += "--tensor-model-parallel-size 8 --sequence-parallel --num-virtual-stages-per-pipeline-rank 8 "
    text += "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split\n"
    (tmp_path / "run.sh").write_text(text, encoding="utf-8")
    found = read_config(documents([str(tmp_path / "run.sh")]), request).strategy

    first, *inner, last = found.stages
    assert first.chunk_layers == (1, *[2] * 7) and last.chunk_layers == (*[2] * 7, 1)
    assert {(stage.layers, stage.chunk_layers) for stage in inner} == {(16, None)}


def test_a_torchtitan_file_is_read(tmp_path: Path) -> None:
    """Degrees of -1 take the cards that are left; compiled loss by default."""
    text = "[training]\nlocal_batch_size = 2\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 2\n"
    text += (
        'data_parallel_shard_degree = -1\n[compile]\nenable = true\n[activation_checkpoint]\nmode = "full"\n'
    )
    found = read(tmp_path, t_toml=text)

    assert (found.data_parallel, found.tensor_parallel, found.shard_group_size) == (8, 2, 8)
    assert (found.recompute, found.loss_kernel) == ("full", "compiled")


PIPED = """[training]
local_batch_size = {local}
seq_len = 4096
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "{schedule}"
{rest}
[activation_checkpoint]
mode = "none"
"""


@pytest.mark.parametrize(
    ("word", "name", "chunks", "layers"),
    [
        ("1F1B", "1f1b", 1, [16, 16]),
        ("GPipe", "gpipe", 1, [16, 16]),
        ("Interleaved1F1B", "interleaved", 2, [16, 16]),
        ("interleavedzerobubble", "interleaved-zb", 2, [16, 16]),
        ("ZBVZeroBubble", "zb-v", 2, [15, 17]),
        ("DualPipeV", "dualpipe-v", 2, [15, 17]),
    ],
)
def test_a_torchtitan_pipeline_is_read(
    tmp_path: Path, word: str, name: str, chunks: int, layers: list[int]
) -> None:
    """32 layers, embedding and head as one each, over two stages; under a V both stand on the first."""
    found = read(tmp_path, t_toml=PIPED.format(schedule=word, local=16, rest=""))

    assert (found.pipeline_schedule, found.virtual_pipeline) == (name, chunks)
    assert [stage.layers for stage in found.stages] == layers
    assert (found.data_parallel, found.micro_batch_size, found.gradient_accumulation_steps) == (8, 1, 16)
    assert (found.zero_stage, found.reshard_after_forward) == (2, False)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"ds_json": '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1}'}, "64 sequences"),
        ({"ds_json": '{"zero_optimization": {"stage": 3, "zero_quantized_weights": true},\n'
                     '"train_micro_batch_size_per_gpu": 1}'}, "quantized weights"),
        ({"ds_json": '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8.5},\n'
                     '"train_micro_batch_size_per_gpu": 1}'}, "whole number"),
        ({"ds_json": '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": "3"}}'},
         "whole number from 0 to 3"),
        ({"a_yaml": FSDP1.format(word="NO_SHARD", offload="false")}, "stages 2 and 3"),
        ({"m_sh": MEGATRON.replace("--bf16", "--bf16 --use-megatron-fsdp")}, "not priced"),
        ({"m_sh": MEGATRON.replace("--bf16", "--num-layers 30")}, "has 32"),
        ({"m_sh": MEGATRON.replace("NODES=2", "NODES=3")}, "3 data-parallel"),
        ({"t_toml": PIPED.format(schedule="ZBVZeroBubble", local=8,
                                 rest="pipeline_parallel_layers_per_stage = 17")},
         "makes 2 chunks over 2 stages, not what zb-v runs"),
        ({"t_toml": PIPED.format(schedule="ZBV2", local=8, rest="")}, "ZBVZeroBubble"),
        ({"t_toml": PIPED.format(schedule="DualPipeV", local=3, rest="")}, "4 micro-batches or more"),
        ({"t_toml": PIPED.format(schedule="1F1B", local=8, rest="pipeline_parallel_microbatch_size = 3")},
         "does not divide"),
        ({"t_toml": PIPED.format(schedule="1F1B", local=8, rest='pipeline_parallel_schedule_csv = "a.csv"')},
         "names one that is"),
        ({"n_json": '{"learning": 3}'}, "no configuration"),
    ],
)  # fmt: skip
def test_what_cannot_be_priced_is_told(tmp_path: Path, files: dict[str, str], words: str) -> None:
    """One error with the place, never another strategy than the file's."""
    with pytest.raises(InputError, match=words):
        read(tmp_path, **files)


def best(strategy: Strategy) -> Plan:
    """A plan for sixteen cards around `strategy`."""
    return plan(strategy)


@pytest.mark.parametrize(
    ("was", "better"),
    [
        (
            deepspeed(2, 16, offload_optimizer="cpu", micro_batch_size=2, stages=stage(offloaded_layers=4)),
            deepspeed(3, 16, gradient_accumulation_steps=2, stages=stage(recompute_full_layers=4)),
        ),
        (deepspeed(3, 16, gradient_dtype="fp32"), deepspeed(0, 16)),
        (deepspeed(1, 16, precision="fp16", gradient_dtype="fp16"), deepspeed(1, 16)),
    ],
)
def test_the_patched_file_is_the_better_plan(was: Strategy, better: Strategy) -> None:
    """Writing the changes into the file's keys makes it read as the better strategy."""
    text = emit(plan(was), "deepspeed")["ds_config.json"]
    file = document_of(text, "ds_config.json")
    values: dict[str, Any] = json.loads(text)
    for change in patch(file, "deepspeed", plan(better)):
        table = values
        *parents, key = change.key.split(".")
        for parent in parents:
            table = table.setdefault(parent, {})
        if change.better == "take it away":
            table.pop(key)
        else:
            try:
                table[key] = json.loads(change.better)
            except ValueError:
                table[key] = change.better
    mended = document_of(json.dumps(values), "ds_config.json")

    assert patch(mended, "deepspeed", plan(better)) == []
    assert read_config([mended], plan(better).request).strategy == better


def test_changes_of_a_script_name_its_flags_and_lines() -> None:
    """What changes, what goes, what is new."""
    was = "torchrun x.py \\\n --tensor-model-parallel-size 4 \\\n --micro-batch-size 1 "
    was += "--recompute-granularity full\n"
    better = megatron(1, 8, tensor_parallel=2, sequence_parallel=True)
    changes = {
        (c.line, c.key): (c.value, c.better)
        for c in patch(document_of(was, "m.sh"), "megatron", plan(better))
    }

    assert changes[(2, "--tensor-model-parallel-size")] == ("4", "2")
    assert changes[(3, "--recompute-granularity")] == ("full", "take it away")
    assert changes[(1, "--sequence-parallel")] == ("nothing", "true")
    assert (3, "--micro-batch-size") not in changes


ASKED = ("llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "512",
         "--sequence-length", "2048")  # fmt: skip


def test_an_edited_folder_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As written; then with another micro-batch: the plan's name, the choice, and the patch back."""
    folder = tmp_path / "run"
    words = ["plan", *ASKED, "--set", "backend=deepspeed", "--emit", "deepspeed", "-o", str(folder), "-q"]
    assert main(words) == 0
    capsys.readouterr()
    assert main(["check", *ASKED, "--config", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"]["edited_files"] == [] and told["files"]["edited"] == []
    name = told["files"]["plan_hash"][:4]

    path = folder / "ds_config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    micro, steps = values["train_micro_batch_size_per_gpu"], values["gradient_accumulation_steps"]
    assert steps % 2 == 0
    values |= {"train_micro_batch_size_per_gpu": 2 * micro, "gradient_accumulation_steps": steps // 2}
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    main(["check", *ASKED, "--config", str(path), str(folder / "launch.sh")])
    text = " ".join(capsys.readouterr().out.split())
    assert f"this is plan {name}, edited: micro_batch_size {micro} to {2 * micro}" in text
    assert f"ds_config.json:3 train_micro_batch_size_per_gpu: {2 * micro} -> {micro}" in text


def test_files_without_a_flag_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A second request is no file of a client."""
    assert main(["check", *ASKED, "other.toml"]) == 2
    assert "--config" in capsys.readouterr().err
    assert main(["check", *ASKED]) == 2
    assert "--config" in capsys.readouterr().err


def test_a_folder_of_fsdp_is_read_without_running_it(tmp_path: Path) -> None:
    """The module's constants are taken from its syntax tree: a statement in it does nothing."""
    text = emit(plan(fsdp(3, 16)), "fsdp")["fsdp_plan.py"]
    path = tmp_path / "fsdp_plan.py"
    trap = tmp_path / "trap"
    path.write_text(f"open({str(trap)!r}, 'w')\n{text}", encoding="utf-8")

    assert read_config(documents([str(path)]), plan(fsdp(3, 16)).request).strategy == fsdp(3, 16)
    assert not trap.exists()


@pytest.mark.parametrize("said", [" false", "=false", " off", " 1"])
def test_a_switch_of_megatron_takes_no_value(tmp_path: Path, said: str) -> None:
    """argparse stops at the word: it is refused at its line, never read as on or off."""
    text = "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --bf16 \\\n"
    text += f"  --micro-batch-size 1 --global-batch-size 128 --overlap-grad-reduce{said}\n"
    with pytest.raises(InputError, match="is a switch and takes no value: argparse stops at") as error:
        read(tmp_path, args_sh=text)
    assert error.value.field == "--overlap-grad-reduce"
    assert error.value.origin.endswith("args.sh:2")


def test_an_auto_that_nobody_fills_in_is_read_as_its_readers_do(tmp_path: Path) -> None:
    """DeepSpeed leaves an auto of its tables out; trainer and Accelerate stop at a key they do not know."""
    zero = {"stage": 2, "overlap_comm": "auto"}
    sizes = {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 1}
    text = json.dumps({**sizes, "bf16": {"enabled": True}, "zero_optimization": zero}, indent=1)
    assert read(tmp_path, ds_json=text).overlap_gradient_reduce is False

    line = "deepspeed --num_nodes 2 --num_gpus 8 t.py --deepspeed ds.json --per_device_train_batch_size 1\n"
    with pytest.raises(InputError, match="neither the trainer nor Accelerate fills in") as error:
        read(tmp_path, ds_json=text, run_sh=line)
    assert error.value.field == "zero_optimization.overlap_comm"
    assert error.value.origin.endswith("ds.json:9")


@pytest.mark.parametrize("name", ["gradient_accumulation_steps", "train_batch_size"])
def test_an_auto_at_the_top_needs_a_trainer(tmp_path: Path, name: str) -> None:
    """DeepSpeed compares the word with numbers, so it is no 1 where no trainer fills it in."""
    sizes = {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 8, name: "auto"}
    text = json.dumps({**sizes, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}})
    with pytest.raises(InputError, match="trainer's arguments") as error:
        read(tmp_path, ds_json=text)
    assert error.value.field == name


@pytest.mark.parametrize("flag", ["--cp-comm-type", "--recompute-granularity", "--micro-batch-size"])
def test_an_argument_of_megatron_without_its_value_is_refused(tmp_path: Path, flag: str) -> None:
    """argparse stops there: it is not read as if the argument were not given."""
    text = "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --bf16 \\\n"
    text += f"  --context-parallel-size 2 --global-batch-size 128 {flag}\n"
    with pytest.raises(InputError, match="needs a value") as error:
        read(tmp_path, args_sh=text)
    assert (error.value.field, error.value.origin[-9:]) == (flag, "args.sh:2")


def test_layers_of_another_family_are_refused(tmp_path: Path) -> None:
    """Accelerate stops where no layer has the class that it is told to wrap."""
    made = emit(plan(fsdp(3, 16, gradient_dtype="bf16"), model=REQUEST.model), "accelerate")
    text = next(text for name, text in made.items() if name.endswith(".yaml"))
    assert "LlamaDecoderLayer" in text

    with pytest.raises(InputError, match="Accelerate finds no such layer") as caught:
        read(tmp_path, run_yaml=text.replace("LlamaDecoderLayer", "MistralDecoderLayer"))
    assert caught.value.legal == ["LlamaDecoderLayer"]
    assert read(tmp_path, run_yaml=text).zero_stage == 3
