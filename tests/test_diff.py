"""The patch as a unified diff: `patch` makes the better file of it, which then reads as the better plan."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from plans_by_hand import deepspeed, megatron, plan
from random_plans import random_plans

from shardwise.cli import main
from shardwise.launch import emit
from shardwise.launch.bundle import Client
from shardwise.launch.diff import diff
from shardwise.launch.documents.document import document_of
from shardwise.launch.patch import FILES, patch
from shardwise.plans import Plan

ASKED = ("llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "512",
         "--sequence-length", "2048")  # fmt: skip
needs_patch = pytest.mark.skipif(not shutil.which("patch"), reason="the program patch is not installed")


def difference(text: str, name: str, client: Client, better: Plan) -> str | None:
    """The diff that leads from `text` to `better`."""
    file = document_of(text, name)
    return diff(text, file, client, patch(file, client, better))


def applied(text: str, name: str, change: str, folder: Path) -> str:
    """The text after the program `patch`."""
    (folder / name).write_text(text, encoding="utf-8")
    words = ["patch", "--batch", "--posix", "-p0"]
    subprocess.run(words, cwd=folder, input=change, text=True, check=True, capture_output=True)
    return (folder / name).read_text(encoding="utf-8")


@needs_patch
@pytest.mark.parametrize("client", ["deepspeed", "accelerate", "megatron", "torchtitan"])
def test_the_patched_file_needs_no_more_changes(client: Client, tmp_path: Path) -> None:
    """From each of 40 random plans to the next of the same model: every diff applies, and leaves nothing."""
    name = FILES[client][0]
    by_model: dict[object, list[Plan]] = {}
    for made in random_plans(client, 40, seed=2):
        by_model.setdefault((made.request.model, made.request.training.sequence_length), []).append(made)
    changed = 0
    for was, better in (pair for plans in by_model.values() for pair in pairwise(plans)):
        text = emit(was, client)[name]
        if not patch(document_of(text, name), client, better):
            continue
        change = difference(text, name, client, better)
        assert change is not None
        mended = applied(text, name, change, tmp_path)
        changed += 1

        assert patch(document_of(mended, name), client, better) == []
    assert changed > 10


def test_comments_and_order_of_a_script_stay() -> None:
    """Only lines of what changes are touched."""
    was = (
        "# mine\ntorchrun x.py \\\n  --tensor-model-parallel-size 4 \\\n  --micro-batch-size 1 \\\n  --bf16\n"
    )
    better = plan(megatron(1, 8, tensor_parallel=2, sequence_parallel=True))
    change = difference(was, "m.sh", "megatron", better)

    assert change is not None
    assert "-  --tensor-model-parallel-size 4 \\\n+  --tensor-model-parallel-size 2 \\\n" in change
    assert "\n # mine\n" in change
    assert "+  --sequence-parallel \\\n" in change


@needs_patch
@pytest.mark.parametrize("last", ["--bf16", "--recompute-granularity full"])
def test_a_command_over_several_lines_stays_one(last: str, tmp_path: Path) -> None:
    """New arguments are continued, and the line before one that goes is not: bash hands all of them on."""
    was = (
        f"torchrun x.py \\\n  --tensor-model-parallel-size 4 \\\n  --log-interval 1 \\\n  {last}\necho end\n"
    )
    better = plan(megatron(1, 8, tensor_parallel=2, sequence_parallel=True))
    change = difference(was, "m.sh", "megatron", better)
    assert change is not None
    mended = applied(was, "m.sh", change, tmp_path)
    say = f"torchrun() {{ echo $@; }}\n{mended}"
    told = subprocess.run(["bash", "-c", say], capture_output=True, text=True, check=True).stdout
    first, _, rest = told.partition("\n")

    assert "--tensor-model-parallel-size 2" in first and "--sequence-parallel" in first
    assert "--recompute-granularity" not in first
    assert rest == "end\n"


def test_lists_stay_on_their_line() -> None:
    """A hand-written JSON with its own indent keeps its looks."""
    made = emit(plan(deepspeed(2, 8)), "deepspeed")["ds_config.json"]
    four = json.dumps(json.loads(made), indent=4).replace(
        "[\n                0.9,\n                0.95\n            ]", "[0.9, 0.95]"
    )
    assert "[0.9, 0.95]" in four
    change = difference(four + "\n", "ds_config.json", "deepspeed", plan(deepspeed(3, 8)))

    assert change is not None
    assert '-        "stage": 2,\n+        "stage": 3,\n' in change
    assert "betas" not in "".join(line for line in change.splitlines() if line[:1] in "+-")


def test_nothing_to_change_and_modules_give_none() -> None:
    """The same plan; a module of ours is written anew."""
    same = plan(deepspeed(2, 8))
    text = emit(same, "deepspeed")["ds_config.json"]

    assert difference(text, "ds_config.json", "deepspeed", same) is None


def test_a_trainers_file_does_without_the_ranks_of_a_sequence() -> None:
    """Accelerate tells the trainer of them in its environment; a file for DeepSpeed alone says them."""
    shared = plan(deepspeed(3, 4, context_parallel=2, context_parallel_kind="ulysses"))
    trainer = emit(shared, "transformers")["ds_config.hf.json"]
    alone = emit(plan(deepspeed(3, 8)), "deepspeed")["ds_config.json"]

    assert difference(trainer, "ds_config.hf.json", "deepspeed", shared) is None
    assert '"sequence_parallel_size": 2' in (difference(alone, "ds_config.json", "deepspeed", shared) or "")


def test_the_command_prints_what_patch_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ds_config.json at stage 0: the diff alone on standard output, the same in JSON."""
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps({"train_batch_size": 512, "train_micro_batch_size_per_gpu": 1,
                                "bf16": {"enabled": True}}, indent=2) + "\n", encoding="utf-8")  # fmt: skip
    assert main(["check", *ASKED, "--config", str(path), "--patch"]) == 0
    told = capsys.readouterr().out

    assert told.startswith(f"--- {path}\n+++ {path}\n")
    main(["check", *ASKED, "--config", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["files"]["diff"] == told
    assert main(["check", *ASKED, "--strategy", "s.json", "--patch"]) == 2


SCRIPT = """\
torchrun --nproc-per-node 8 pretrain_gpt.py \\
  --num-layers 4 --hidden-size 64 --num-attention-heads 4 \\
  --tensor-model-parallel-size 1 --use-distributed-optimizer \\
  --micro-batch-size 1 \\
  --bf16 \\
  --data-path /my/data
"""
"""Somebody's script, whose last argument is of the data."""


@pytest.mark.parametrize("array", [False, True])
def test_a_new_argument_stands_with_its_kind(array: bool) -> None:
    """Switches of overlap go to the other arguments of parallel ranks, whatever stands last in the script."""
    text = SCRIPT
    if array:
        head, *rest = SCRIPT.replace(" \\\n", "\n").splitlines()
        text = "\n".join(["ARGS=(", *rest, ")", f'{head} "${{ARGS[@]}}"', ""])
    change = difference(text, "run.sh", "megatron", plan(megatron(1, 8)))
    assert change is not None
    after = [line for line in change.splitlines() if not line.startswith("-")]
    place = next(i for i, line in enumerate(after) if "--use-distributed-optimizer" in line)

    assert ["--overlap-grad-reduce" in line for line in after[place + 1 : place + 3]].count(True) == 1
    assert [line.strip(" +\\") for line in after if "data-path" in line] == ["--data-path /my/data"]
    last = [i for i, line in enumerate(after) if "--data-path" in line][0]
    assert not any(line.startswith("+") for line in after[last:])
