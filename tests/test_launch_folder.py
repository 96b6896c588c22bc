"""The whole folder of a target: the same bytes each time, sums that agree, scripts that parse, refusals."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from plans_by_hand import deepspeed, fsdp, megatron, plan, stage
from random_plans import random_plans

from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.launch import Refused, emit, narrowings, releases, targets, writable_by
from shardwise.launch.target import TARGETS
from shardwise.models import Stage, Strategy
from shardwise.models.strategy import BACKENDS
from shardwise.plans import Request, read_plan

SHARE = 'export OMP_NUM_THREADS="${OMP_NUM_THREADS:-14}"'
GOLDEN = Path(__file__).parent / "data" / "launch"
FOLDERS: dict[str, tuple[str, Strategy]] = {
    "deepspeed_zero3_two_machines": (
        "deepspeed",
        deepspeed(
            3, 16, offload_optimizer="cpu", offload_params="cpu",
            stages=stage(recompute_full_layers=4, offloaded_layers=4),
        ),
    ),
    "deepspeed_zero1_one_machine": (
        "deepspeed",
        deepspeed(1, 4, gradient_dtype="fp32", micro_batch_size=2, gradient_accumulation_steps=3),
    ),
    "fsdp_tensor_two_machines": (
        "fsdp",
        fsdp(
            3, 8, shard_group_size=4, tensor_parallel=2, sequence_parallel=True,
            stages=stage(recompute_full_layers=1, recompute_selective_layers=2),
        ),
    ),
    "fsdp_compiled_one_machine": (
        "fsdp",
        fsdp(2, 8, software_stack="fsdp-compile-2024", loss_kernel="compiled"),
    ),
    "accelerate_hybrid_two_machines": (
        "accelerate",
        fsdp(3, 16, shard_group_size=8, gradient_dtype="bf16", stages=stage(recompute_full_layers=4)),
    ),
    "accelerate_one_machine": (
        "accelerate",
        fsdp(2, 8, gradient_dtype="bf16", software_stack="fsdp-compile-2024", gradient_accumulation_steps=4),
    ),
    "transformers_two_machines": (
        "transformers",
        deepspeed(
            2, 16, offload_optimizer="cpu", loss_kernel="chunked", gradient_accumulation_steps=4,
            stages=stage(recompute_full_layers=4, offloaded_layers=4),
        ),
    ),
    "transformers_fsdp_two_machines": (
        "transformers",
        fsdp(
            3, 16, shard_group_size=8, gradient_dtype="bf16", gradient_accumulation_steps=4,
            software_stack="fsdp-compile-2024", stages=stage(recompute_full_layers=4),
        ),
    ),
    "transformers_fsdp_offloaded": (
        "transformers",
        fsdp(2, 8, gradient_dtype="bf16", offload_optimizer="cpu", offload_params="cpu",
             stages=stage(offloaded_layers=4)),
    ),
    "fsdp_context_two_machines": (
        "fsdp",
        fsdp(3, 4, context_parallel=4, context_parallel_kind="ring", shard_group_size=8,
             stages=stage(recompute_full_layers=4)),
    ),
    "accelerate_context_two_machines": (
        "accelerate",
        fsdp(3, 4, context_parallel=4, shard_group_size=8, gradient_dtype="bf16"),
    ),
    "transformers_fsdp_context": (
        "transformers",
        fsdp(3, 4, context_parallel=2, context_parallel_kind="ring", gradient_dtype="bf16"),
    ),
    "transformers_ulysses_two_machines": (
        "transformers", deepspeed(3, 8, context_parallel=2, gradient_accumulation_steps=2),
    ),
    "deepspeed_ulysses_two_machines": (
        "deepspeed", deepspeed(3, 8, context_parallel=2, gradient_accumulation_steps=2),
    ),
    "slurm_fsdp_two_machines": ("slurm", fsdp(3, 16, shard_group_size=8)),
    "slurm_deepspeed_two_machines": ("slurm", deepspeed(1, 16)),
    "megatron_two_machines": (
        "megatron",
        megatron(
            1, 4, tensor_parallel=2, sequence_parallel=True, gradient_accumulation_steps=2,
            stages=(Stage(layers=1), Stage(layers=3)),
        ),
    ),
    "megatron_one_machine": (
        "megatron",
        megatron(0, 4, precision="fp16", gradient_dtype="fp16", stages=stage(recompute_full_layers=4)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_the_files_are_those_we_agreed_on(name: str) -> None:
    """Equal to tests/data/launch to the byte; WRITE_GOLDEN=1 writes them anew, to be read afterwards."""
    target, strategy = FOLDERS[name]
    made = {k: v for k, v in emit(plan(strategy), target).items() if k not in ("plan.json", "README.md")}
    folder = GOLDEN / name
    if os.environ.get("WRITE_GOLDEN") == "1":
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in made.items():
            (folder / file).write_text(text, encoding="utf-8")

    assert made == {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize("name", FOLDERS)
def test_equal_plans_give_equal_bytes(name: str) -> None:
    """A plan read back from its own plan.json writes the same folder again."""
    target, strategy = FOLDERS[name]
    first = emit(plan(strategy), target)

    assert emit(plan(strategy), target) == first
    assert list(first)[-2:] == ["plan.json", "README.md"]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_plan_in_the_folder_is_the_plan(name: str, tmp_path: Path) -> None:
    """plan.json can be emitted from again."""
    target, strategy = FOLDERS[name]
    made = plan(strategy)
    path = tmp_path / "plan.json"
    path.write_text(emit(made, target)["plan.json"], encoding="utf-8")

    assert read_plan(str(path)) == made
    assert emit(read_plan(str(path)), target) == emit(made, target)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_readme_has_the_sum_of_every_other_file(name: str) -> None:
    """SHA-256, as `sha256sum` prints it."""
    target, strategy = FOLDERS[name]
    files = emit(plan(strategy), target)
    listed = dict(
        re.findall(r"^\| `([^`]+)` \| .* \| `([0-9a-f]{64})` \|$", files["README.md"], re.MULTILINE)
    )

    assert listed == {
        file: hashlib.sha256(text.encode()).hexdigest() for file, text in files.items() if file != "README.md"
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_the_readme_says_what_to_expect(name: str) -> None:
    """Peak, step, tokens and MFU of the plan, the optimum's statement and the tested releases."""
    target, strategy = FOLDERS[name]
    text = emit(plan(strategy), target)["README.md"]

    assert "| peak memory of a card | 0.00 GiB of 0.01 |" in text
    assert "| host memory of a machine | 1.0 GiB of 1,024.0: fits |" in text
    assert "| step | 0.250 s (0.200 to 0.300: made by hand) |" in text
    assert "| tokens | 1024 /s, 256 /s a card |" in text
    assert "MFU 0.400" in text
    assert "| status | optimal: made by hand |" in text
    assert releases.tested_with(*TARGETS[target].packages) in text


@pytest.mark.parametrize("name", FOLDERS)
def test_the_launch_script_is_bash(name: str, tmp_path: Path) -> None:
    """`bash -n` reads it, and where a variable must be set it says so before anything starts."""
    target, strategy = FOLDERS[name]
    path = tmp_path / "launch.sh"
    path.write_text(emit(plan(strategy), target)["launch.sh"], encoding="utf-8")
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", str(path)], env=bare, capture_output=True, text=True)

    subprocess.run(["bash", "-n", str(path)], check=True)
    assert done.returncode != 0
    if "two_machines" in name and target != "deepspeed":
        assert "set MASTER_ADDR to the name of the first machine" in done.stderr


@pytest.mark.parametrize(
    ("cards", "line"),
    [(4, "--nnodes=1 --nproc-per-node=4"), (8, "--nnodes=1 --nproc-per-node=8"), (24, "--nnodes=3")],
)
def test_ranks_fill_whole_machines_or_a_part_of_one(cards: int, line: str) -> None:
    """Machines and ranks a machine follow from the world."""
    assert line in emit(plan(fsdp(3, cards)), "fsdp")["launch.sh"]


def test_a_world_that_leaves_a_machine_half_empty_is_refused() -> None:
    """12 ranks on machines of 8: no launcher line is right for both machines."""
    made = plan(fsdp(3, 12), cluster=Cluster.of_gpus("dgx-h100", 16))

    with pytest.raises(InputError, match="12 ranks do not fill machines of 8 cards"):
        emit(made, "fsdp")


@pytest.mark.parametrize("target", ["deepspeed", "fsdp", "accelerate", "megatron", "transformers"])
def test_an_optimizer_on_the_host_has_its_share_of_the_cores(target: str) -> None:
    """112 cores among 8 cards; without offload nothing is said."""
    made = [made for made in random_plans(target, 40, seed=5) if made.request.cluster.node.cpu_cores == 112]
    lines = [(each, emit(each, target)["launch.sh"].count(SHARE)) for each in made]

    assert {count for _, count in lines} == {0, 1}
    assert all(count == (each.strategy.offload_optimizer != "none") for each, count in lines)


def test_the_targets_are_seven() -> None:
    """One backend may have several targets, and a job is written around those of any."""
    of_all = ("deepspeed", "fsdp", "accelerate", "megatron", "transformers", "torchtitan", "slurm")

    assert targets() == of_all


@pytest.mark.parametrize("target", targets())
def test_narrowings_are_values_of_choose(target: str) -> None:
    """A request takes each, they are of the target's backends, of each one, and exclude each other."""
    request = plan(fsdp(3, 8)).request
    narrowed = []
    for narrowing in narrowings(target):
        changes = {f"choose.{name}": value for name, value in narrowing.items()}
        narrowed.append(request.changed(changes, origin="test"))

    assert narrowed and all(isinstance(each, Request) for each in narrowed)
    chosen = {name for each in narrowed for name in each.choose.backend or BACKENDS}
    assert chosen == set(TARGETS[target].backends)
    assert len({each.inputs_hash() for each in narrowed}) == len(narrowed)


def test_accelerate_is_searched_with_and_without_recomputation() -> None:
    """Its YAML has no cut of layers, partial recomputation, partial offload or float32 reductions."""
    common = {"backend": "fsdp", "tensor_parallel": 1, "gradient_dtype": "bf16"}
    common |= {"offload_optimizer": "none", "offload_params": "none"}

    assert narrowings("accelerate") == ({**common, "recompute": "none"}, {**common, "recompute": "full"})


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (deepspeed(3, 8), ("deepspeed", "transformers", "slurm")),
        (fsdp(3, 8), ("fsdp", "slurm")),
        (fsdp(3, 8, gradient_dtype="bf16"), ("fsdp", "accelerate", "transformers", "slurm")),
        (megatron(1, 8), ("megatron", "slurm")),
        (megatron(1, 8, loss_kernel="chunked"), ()),
    ],
)
def test_writable_by_names_all_targets_that_can(strategy: Strategy, names: tuple[str, ...]) -> None:
    """A plan of another backend, or with a choice a target lacks, is not written by it."""
    assert writable_by(plan(strategy)) == names


def test_a_refusal_names_choice_reason_and_backend() -> None:
    """With the backend the caller can solve again for a plan this target writes."""
    made = plan(fsdp(3, 8))

    with pytest.raises(Refused) as caught:
        emit(made, "deepspeed")

    assert caught.value.code == "cannot-write"
    assert (caught.value.target, caught.value.backend) == ("deepspeed", "deepspeed")
    assert str(caught.value) == (
        "backend = fsdp (from --to deepspeed): only plans made for backend deepspeed can be written"
    )


def test_an_8_bit_optimizer_is_no_word_of_deepspeed() -> None:
    """FSDP's module leaves the optimizer to the script, DeepSpeed's file has to name it."""
    with pytest.raises(Refused, match="training.optimizer"):
        emit(plan(deepspeed(3, 8), optimizer="adamw-8bit"), "deepspeed")

    assert "AdamW8bit" in emit(plan(fsdp(3, 8), optimizer="adamw-8bit"), "fsdp")["README.md"]


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    """Did you mean."""
    with pytest.raises(InputError) as caught:
        emit(plan(fsdp(3, 8)), "deepsped")

    assert caught.value.legal[0] == "deepspeed"


def test_a_batch_that_the_ranks_do_not_make_is_refused() -> None:
    """A plan edited by hand must not start another training than it says."""
    made = plan(deepspeed(3, 8))
    edited = made.model_copy(update={"strategy": deepspeed(3, 8, micro_batch_size=2)})

    with pytest.raises(InputError, match="make 16 sequences a step"):
        emit(edited, "deepspeed")
