"""`lint`: each rule on a file that breaks it, at its line, and silent on what we write ourselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from random_plans import TARGETS, random_plans

from shardwise.cli import main
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.lint import Finding, lint
from shardwise.launch.lint.keys import facts
from shardwise.launch.lint.torchtitan import DEGREES, SHARDS

GOOD: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}
"""A DeepSpeed file without a fault."""

FSDP2 = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
  fsdp_reshard_after_forward: true
"""
"""An Accelerate YAML without a fault."""

MEGATRON = """\
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc-per-node 8 --nnodes 1 pretrain_gpt.py \\
  --tensor-model-parallel-size 2 --sequence-parallel \\
  --pipeline-model-parallel-size 2 \\
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 \\
  --micro-batch-size 1 \\
  --global-batch-size 64 \\
  --bf16
"""
"""A Megatron-LM script without a fault."""

TITAN = """\
torchrun -m torchtitan.train --module llama3 --config llama3_8b \\
  --parallelism.tensor_parallel_degree 2
"""
"""A torchtitan script without a fault."""


def found(folder: Path, **files: Any) -> list[Finding]:
    """Findings on `files`; the last underscore of a keyword is the dot of its name."""
    paths = []
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return lint(documents(paths))


def changed(path: str, value: Any) -> dict[str, Any]:
    """`GOOD` with a value at a dotted path."""
    made: dict[str, Any] = json.loads(json.dumps(GOOD))
    table = made
    *parents, key = path.split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
    table[key] = value
    return made


def test_files_without_a_fault_have_no_finding(tmp_path: Path) -> None:
    """The files that the rules below spoil."""
    for name, text in (("ds_json", GOOD), ("fsdp_yaml", FSDP2), ("run_sh", MEGATRON), ("titan_sh", TITAN)):
        assert found(tmp_path, **{name: text}) == []


DEEPSPEED = [
    ("train_batch_size", 7, "batch-triad", ""),
    ("train_micro_batch_size_per_gpu", 0, "batch-triad", "1"),
    ("gradient_accumulation_step", 2, "unknown-key", "gradient_accumulation_steps"),
    ("zero_optimization.gradient_clipping", 1.0, "misplaced-key", "gradient_clipping"),
    ("offload_optimizer", {"device": "cpu"}, "misplaced-key", "zero_optimization.offload_optimizer"),
    ("activation_checkpointing.partition_activation", True, "unknown-key", "partition_activations"),
    ("zero_optimization.stage", "2", "wrong-type", "2"),
    ("zero_optimization.stage", 4, "wrong-type", ""),
    ("zero_optimization", True, "wrong-type", "table"),
    ("bf16.enabled", "true", "wrong-type", "true"),
    ("train_micro_batch_size_per_gpu", 1.5, "wrong-type", ""),
    ("gradient_clipping", -1, "wrong-type", ""),
    ("zero_optimization.stage", "auto", "auto-unfilled", "value"),
    ("zero_optimization.overlap_comm", "auto", "auto-unfilled", "value"),
    ("zero_optimization.overlap_comm", "yes", "wrong-type", "true"),
    ("gradient_accumulation_steps", "auto", "auto-outside-trainer", ".hf.json"),
    ("fp16.enabled", True, "two-precisions", "false"),
    ("zero_optimization.offload_param", {"device": "cpu", "pin_memory": True}, "no-effect", "stage: 3"),
    ("zero_optimization.sub_group_size", 10**9, "no-effect", "stage: 3"),
    ("zero_optimization.offload_optimizer", {"device": "nvme"}, "offload-without-path", "nvme_path"),
    ("zero_optimization.offload_optimizer", {"device": "cpu"}, "offload-unpinned", "pin_memory: true"),
    ("zero_optimization.offload_optimizer", {"device": "disk"}, "wrong-type", ""),
    ("zero_optimization.mics_shard_size", -1, "removed-key", "zero_hpz_partition_size"),
    ("zero_optimization.cpu_offload", True, "removed-key", "offload_optimizer"),
    ("zero_optimization.reduce_bucket_size", 2e9, "large-bucket", "500000000"),
    ("optimizer", {"type": "AdanW"}, "unknown-optimizer", "AdamW"),
    ("scheduler", {"type": "WarmupCosine"}, "unknown-scheduler", "WarmupCosineLR"),
    ("data_types.grad_accum_dtype", "fp99", "wrong-type", "fp"),
    ("communication_data_type", "float16", "wrong-type", ""),
]


@pytest.mark.parametrize(("path", "value", "rule", "mend"), DEEPSPEED)
def test_rules_on_deepspeed(tmp_path: Path, path: str, value: Any, rule: str, mend: str) -> None:
    """One key changed in a file without a fault: the rule finds it, and the mend says what to write."""
    findings = found(tmp_path, ds_json=changed(path, value))

    assert rule in {each.rule for each in findings}
    assert any(mend in each.mend for each in findings if each.rule == rule)


TRAINER = (
    "deepspeed --num_gpus 8 train.py --deepspeed ds.json --output_dir o --gradient_accumulation_steps 2 \\\n"
)


@pytest.mark.parametrize(
    ("files", "rule", "name", "line"),
    [
        ({"run_sh": "deepspeed --num_gpus 4 t.py --deepspeed_config ds.json",
          "ds_json": changed("train_batch_size", 6)}, "batch-triad", "ds.json", 10),
        ({"run_sh": TRAINER + "--bf16 --per_device_train_batch_size 4", "ds_json": GOOD},
         "trainer-contradiction", "ds.json", 2),
        ({"run_sh": TRAINER + "--bf16 --per_device_train_batch_size 1 --gradient_accumulaton_steps 2",
          "ds_json": GOOD}, "unknown-key", "run.sh", 2),
        ({"run_sh": "deepspeed --num_gpus 8 t.py --deepspeed_config ds.json --pipeline-parallel-size 2",
          "ds_json": GOOD}, "zero-with-pipeline", "ds.json", 8),
        ({"run_sh": "deepspeed --num_nodes 2 --num_gpus 4 t.py --deepspeed_config ds.json",
          "ds_json": changed("zero_optimization", {"stage": 3, "zero_hpz_partition_size": 3})},
         "hpz-does-not-divide", "ds.json", 9),
        ({"job_sbatch": "#!/bin/bash\n#SBATCH --gres=gpu:v100:8\nsrun python t.py", "ds_json": GOOD},
         "bf16-on-old-card", "ds.json", 5),
        ({"job_sbatch": "#!/bin/bash\n#SBATCH --constraint=h100\n", "m_sh": MEGATRON.replace(
            "--bf16", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8")}, "mxfp8-below-blackwell", "m.sh", 8),
        ({"args_json": {"output_dir": "o", "bf16": True, "fp16": True}}, "two-precisions", "args.json", 4),
        ({"args_json": {"output_dir": "o", "gradient_checkpointing": True,
                        "fsdp_config": {"activation_checkpointing": True}}},
         "recomputed-twice", "args.json", 3),
        ({"args_json": {"output_dir": "o", "fsdp_config": {"reshard_after_forwards": True}}},
         "unknown-key", "args.json", 4),
        ({"args_json": {"output_dir": "o", "fsdp": True, "activation_checkpointing": True,
                        "fsdp_config": {"activation_checkpointing": True}}},
         "recomputed-twice", "args.json", 4),
        ({"args_json": {"output_dir": "o", "fsdp": True, "deepspeed": "ds.json"}},
         "two-engines", "args.json", 3),
        ({"args_json": {"output_dir": "o", "fsdp": "full_shardx auto_wrap"}}, "unknown-word", "args.json", 3),
        ({"run_sh": "torchrun t.py --output_dir o --bf16 \\\n --fsdp 'full_shard autowrap'"},
         "unknown-word", "run.sh", 2),
        ({"args_json": {"output_dir": "o", "fsdp": True,
                        "fsdp_config": {"version": 2, "backward_prefetch": "backward_pre"}}},
         "no-effect", "args.json", 6),
        ({"args_json": {"output_dir": "o", "fsdp": True,
                        "fsdp_config": {"transformer_layer_cls_to_wrap": "LlamaDecoderlayer"}}},
         "unknown-layer-class", "args.json", 5),
    ],
)  # fmt: skip
def test_rules_on_files_together(
    tmp_path: Path, files: dict[str, Any], rule: str, name: str, line: int
) -> None:
    """What one file says against another: the finding stands at the line at fault."""
    findings = [each for each in found(tmp_path, **files) if each.rule == rule]

    assert [(Path(each.file).name, each.line) for each in findings] == [(name, line)]


@pytest.mark.parametrize(
    ("old", "new", "rule", "line", "mend"),
    [
        ("fsdp_reshard_after_forward", "fsdp_reshard_after_forwards", "unknown-key", 10, "after_forward"),
        ("LlamaDecoderLayer", "LLaMADecoderLayer", "unknown-layer-class", 9, "LlamaDecoderLayer"),
        ("fsdp_version: 2\n", "fsdp_version: 2\n  fsdp_sharding_strategy: FULL_SHARD\n",
         "no-effect", 8, "fsdp_reshard"),
        ("fsdp_version: 2\n", "fsdp_version: 1\n", "no-effect", 10, "fsdp_version: 2"),
        ("num_machines: 1", "num_machines: 3", "uneven-machines", 5, "9"),
        ("distributed_type: FSDP", "distributed_type: FSDP2", "wrong-type", 2, "FSDP"),
        ("fsdp_version: 2\n", "fsdp_version: 2\n  fsdp_cpu_ram_efficient_loading: false\n",
         "loads-on-every-rank", 8, "true"),
        ("fsdp_config:", "parallelism_config:\n  parallelism_config_tp_size: 3\nfsdp_config:",
         "mesh-size", 6, "8"),
    ],
)  # fmt: skip
def test_rules_on_accelerate(tmp_path: Path, old: str, new: str, rule: str, line: int, mend: str) -> None:
    """One line of a YAML without a fault changed."""
    findings = [each for each in found(tmp_path, f_yaml=FSDP2.replace(old, new)) if each.rule == rule]

    assert [each.line for each in findings] == [line]
    assert mend in findings[0].mend


@pytest.mark.parametrize(
    ("old", "new", "rule", "line", "mend"),
    [
        ("--num-layers", "--num-layer", "unknown-key", 5, "--num-layers"),
        ("--micro-batch-size", "--batch-size", "removed-key", 6, "--micro-batch-size"),
        ("parallel-size 2 --seq", "parallel-size 3 --seq", "does-not-divide", 3, "2 or 1"),
        ("--pipeline-model-parallel-size 2",
         "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 3",
         "does-not-divide", 4, "layout"),
        ("--global-batch-size 64", "--global-batch-size 63", "batch-triad", 7, "64"),
        ("--tensor-model-parallel-size 2 ", "", "no-effect", 3, "--tensor-model-parallel-size"),
        ("--bf16", "--bf16 --recompute-num-layers 1", "no-effect", 8, "--recompute-granularity"),
        ("--bf16", "--bf16 --recompute-granularity full", "without-method", 8, "uniform"),
        ("--bf16", "--bf16 --recompute-granularity selectiv", "unknown-word", 8, "selective"),
        ("--bf16", "--bf16 --recompute-granularity selective --recompute-modules core_attn mpl",
         "unknown-word", 8, "mlp"),
        ("--bf16", "--bf16 --recompute-granularity selective --recompute-modules mla_up_proj mlp",
         "word-without-module", 8, "--multi-latent-attention"),
        ("--bf16", "--bf16 --num-experts 8 --recompute-granularity selective --recompute-modules moe_act",
         "word-without-module", 8, "--moe-grouped-gemm"),
        ("--bf16", "--bf16 --fp16", "two-precisions", 8, "--fp16"),
        ("--bf16", "--bf16 --use-torch-fsdp2", "zero-with-pipeline", 8, "distributed"),
        ("--hidden-size 4096", "--hidden-size 4104 --fp8-format hybrid", "fp8-alignment", 5, "16"),
        ("--sequence-parallel", "--num-experts 8", "experts-without-sequence", 3, "--sequence-parallel"),
        ("export CUDA_DEVICE_MAX_CONNECTIONS=1", "", "connections", 2, "CUDA_DEVICE_MAX_CONNECTIONS=1"),
        ("--bf16", "--bf16 --overlap-grad-reduce false", "wrong-type", 8, "leave --overlap-grad-reduce out"),
        ("--bf16", "--bf16 --overlap-grad-reduce=True", "wrong-type", 8, "--overlap-grad-reduce"),
        ("--bf16", "--bf16 --num-experts 8 --expert-tensor-parallel-size 3", "does-not-divide", 8, "of 4"),
        ("--bf16", "--bf16 --moe-ffn-hidden-size 1000 --expert-tensor-parallel-size 16",
         "does-not-divide", 8, "multiply"),
        ("--bf16", "--bf16 --pipeline-model-parallel-layout 'Et*8|t*8|t*16L'", "does-not-divide", 8, "by 2"),
        ("--bf16", "--bf16 --pipeline-model-parallel-layout 'Et*16|t*15L'", "bad-value", 8, "32 layers"),
        ("--bf16", "--bf16 --pipeline-model-parallel-layout 'Et*16|t*16'", "bad-value", 8, "split by |"),
        ("--bf16", "--bf16 --pipeline-model-parallel-layout 'Et*16|t*16mL'",
         "bad-value", 8, "--mtp-num-layers 1"),
        ("--bf16", "--bf16 --mtp-num-layers 1 --pipeline-model-parallel-layout 'Et*16|t*16L'",
         "modules-without-place", 8, "mL"),
        ("--bf16", "--bf16 --account-for-loss-in-pipeline-split --pipeline-model-parallel-layout "
         "'Et*16|t*16L'", "refused-together", 8, "without --account-for-loss"),
        ("--micro-batch-size 1", "--micro-batch-size", "wrong-type", 6, "whole number"),
        ("--seq-length 4096", "--seq-length 4096 8192", "wrong-type", 5, "whole number"),
    ],
)  # fmt: skip
def test_rules_on_megatron(tmp_path: Path, old: str, new: str, rule: str, line: int, mend: str) -> None:
    """One argument of a script without a fault changed."""
    text = MEGATRON.replace(old, new)
    assert text != MEGATRON
    findings = [each for each in found(tmp_path, m_sh=text) if each.rule == rule]

    assert findings[0].line == line
    assert mend in findings[0].mend


@pytest.mark.parametrize("value", ["banana", "0", "-1", "1.5", "'2 4'"])
@pytest.mark.parametrize("name", facts("megatron")["counts"])
def test_every_degree_of_megatron_is_a_whole_number(tmp_path: Path, name: str, value: str) -> None:
    """One finding at the line of the argument, whatever stands there, and none stops the rules."""
    flag = f"--{name.replace('_', '-')}"
    text = MEGATRON + f"torchrun pretrain_gpt.py --num-experts 8 {flag} {value}\n"
    told = [(each.rule, each.line) for each in found(tmp_path, m_sh=text) if each.rule == "wrong-type"]

    assert told == [("wrong-type", 9)]


@pytest.mark.parametrize("name", ["cp_comm_type", "recompute_granularity", "fp8_format", "recompute_modules"])
def test_an_argument_with_a_value_has_one(tmp_path: Path, name: str) -> None:
    """argparse expects one: the line of the argument is named."""
    text = MEGATRON + f"torchrun pretrain_gpt.py --{name.replace('_', '-')} --swiglu\n"

    assert [each.line for each in found(tmp_path, m_sh=text) if each.rule == "wrong-type"] == [9]


@pytest.mark.parametrize("value", ["banana", "1.5", ""])
def test_every_degree_of_torchtitan_is_a_whole_number(tmp_path: Path, value: str) -> None:
    """In a script and in a TOML file."""
    for name in (*DEGREES, SHARDS):
        text = f"torchrun -m torchtitan.train --module llama3 --parallelism.{name} {value}\n"
        assert [each.rule for each in found(tmp_path, t_sh=text)] == ["wrong-type"]
        toml = f'[parallelism]\n{name} = "{value}"\n[training]\nsteps = 3\n'
        assert [(each.rule, each.line) for each in found(tmp_path, t_toml=toml)] == [("wrong-type", 2)]


def test_what_a_shell_adds_is_no_value(tmp_path: Path) -> None:
    """Redirections, pipes and variables from outside follow the last flag without being its value."""
    for tail in ("2>&1 | tee log", "> log.txt", "$MORE", '"${MORE[@]}"', "`more`"):
        text = MEGATRON.replace("--bf16", f"--bf16 {tail}")
        assert found(tmp_path, m_sh=text) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("tensor_parallel_degree 2", "tensor_parallel_degre 2", "unknown-key"),
        ("tensor_parallel_degree 2", "tensor_parallel_degree -3", "wrong-type"),
        (
            "tensor_parallel_degree 2",
            "tensor_parallel_degree 2 --activation_checkpoint.mode full",
            "removed-key",
        ),
    ],
)
def test_rules_on_torchtitan(tmp_path: Path, old: str, new: str, rule: str) -> None:
    """What its parser takes, or refuses with a list of hundreds."""
    findings = found(tmp_path, t_sh=TITAN.replace(old, new))

    assert [(each.rule, each.line) for each in findings] == [(rule, 2)]


def test_the_default_file_of_accelerate_is_named(tmp_path: Path) -> None:
    """A launcher without its file takes whatever stands in the user's home."""
    assert [each.rule for each in found(tmp_path, run_sh="accelerate launch train.py\n")] == [
        "default-config"
    ]
    assert found(tmp_path, run_sh="accelerate launch --config_file a.yaml train.py\n") == []


def test_emitted_folders_have_no_finding(tmp_path: Path) -> None:
    """203 random plans of all targets, 29 each."""
    for target in TARGETS:
        for index, plan in enumerate(random_plans(target, 29, seed=1)):
            folder = tmp_path / f"{target}{index}"
            folder.mkdir()
            for name, text in emit(plan, target).items():
                (folder / name).write_text(text, encoding="utf-8")

            assert lint(documents([str(folder)])) == []


def test_the_command_tells_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text with file and line, JSON with five fields, exit 1; clean files exit 0."""
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(changed("zero_optimization.stage", "3"), indent=1), encoding="utf-8")

    assert main(["lint", str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}:8: wrong-type: ")
    assert main(["lint", str(path), "--json"]) == 1
    row = json.loads(capsys.readouterr().out)["findings"][0]
    assert set(row) == {"rule", "file", "line", "message", "mend"}
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    assert main(["lint", str(path)]) == 0
    assert main(["lint", str(tmp_path / "none.json")]) == 2


def test_it_loads_the_tables_of_its_file_alone(tmp_path: Path) -> None:
    """No typer, no pydantic, no solver, and for JSON no YAML reader: a submit hook runs it on each job."""
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    code = (
        "import sys; from shardwise.cli import main; main(['lint', sys.argv[1]]);"
        "print([name for name in ('typer', 'pydantic', 'numpy', 'yaml', 'ortools', 'networkx',"
        " 'shardwise.launch.lint.megatron', 'shardwise.launch.emission') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_sections_of_torchtitan_are_known_by_name(tmp_path: Path) -> None:
    """A section spelt amiss, and an option that misses its section; other sections are let be."""
    script = tmp_path / "run.sh"
    words = "--training.local_batch_size 1 --paralelism.pipeline_parallel_degree 2 --tensor_parallel_degree 2"
    script.write_text(f"torchrun -m torchtitan.train {words} --checkpoint.interval 5 --own.thing 1\n")
    found = {(each.rule, each.mend) for each in lint(documents([str(script)]))}

    assert found == {
        ("unknown-key", "did you mean parallelism?"),
        ("misplaced-key", "--parallelism.tensor_parallel_degree"),
    }
