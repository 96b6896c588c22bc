"""Inputs of recomputed layers in host memory: bytes left and moved, seconds that show, who can do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import fsdp, stage
from plans_by_hand import plan as made
from test_way_prices import LLAMA, ledger

from shardwise import NoPlan, Plan, Request, Training, plan
from shardwise.costs import Ledger
from shardwise.costs.law import law
from shardwise.hardware import Cluster
from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.read import read_config
from shardwise.launch.ways import notes, objections
from shardwise.models.backend import backend
from shardwise.runs.record import Record
from shardwise.runs.software import software_of
from shardwise.runs.ways import way_of_row

LONG = 16384
INPUT = 2 * 2048 * 4096 / 1024
"""KiB of the input of a layer of Llama-3.1 8B, a sequence of 2,048 tokens."""


def kept(found: Ledger, moment: str = "backward") -> int:
    """KiB of activations."""
    return found.stages[0].moments_kib[moment]["activations"]


def offloaded(**choices: Any) -> Ledger:
    """The ledger with inputs in host memory, layers recomputed whole where nothing else is said."""
    return ledger(job={"offload_activations": True}, **{"recompute": "full", **choices})


@pytest.mark.parametrize("micro", [1, 4])
def test_inputs_leave_the_card(micro: int) -> None:
    """Of 32 inputs five stay; the host of eight cards holds all of them, pinned."""
    found, usual = offloaded(micro_batch_size=micro), ledger(recompute="full", micro_batch_size=micro)

    assert kept(usual) == 32 * INPUT * micro
    assert kept(found) == law("offloaded_inputs_alive") * INPUT * micro
    assert found.host_terms_kib["offloaded_activations"] == 8 * 32 * 1.5 * INPUT * micro
    assert found.host_node_kib - usual.host_node_kib == found.host_terms_kib["offloaded_activations"]


def test_layers_that_are_kept_stay() -> None:
    """Without recomputation nothing of a layer leaves the card."""
    found, usual = offloaded(recompute="none"), ledger()

    assert kept(found) == kept(usual) + law("offloaded_inputs_alive") * INPUT
    assert found.terms_ns == usual.terms_ns


def test_copies_that_block_show_whole() -> None:
    """Out and back over the host's link, each micro-batch."""
    link = Cluster.preset("dgx-h100").node.host_link_bytes_per_s
    steps = 3
    found = offloaded(software_stack="fsdp-eager-2023", gradient_accumulation_steps=steps)

    shown = found.terms_ns["offload_exposed"] / 1e9
    assert shown == pytest.approx(steps * 32 * 2 * INPUT * 1024 / link, rel=1e-5)


def test_copies_beside_compute_are_hidden() -> None:
    """A layer's products take longer than its input over PCIe; torchtune copies on streams of its own."""
    found = offloaded(software_stack="torchtune-compile-2024")

    assert found.terms_ns.get("offload_exposed", 0) == 0
    usual = ledger(recompute="full", software_stack="torchtune-compile-2024")
    assert found.terms_ns == {name: ns for name, ns in usual.terms_ns.items() if name != "offload_exposed"}


@pytest.mark.parametrize("name", ["deepspeed", "megatron"])
def test_others_refuse_it(name: str) -> None:
    """With the reason of the backend."""
    job = Training(global_batch_size=8, sequence_length=512, offload_activations=True)

    assert set(backend(name).unable(job)) == {"offload_activations"} <= set(backend(name).because)
    assert not backend("fsdp").unable(job)


def test_a_plan_counts_card_and_host() -> None:
    """The inputs of a long sequence leave the card; a host that cannot hold them leaves no plan."""
    request = Request(
        model=LLAMA,
        cluster=Cluster.of_gpus("dgx-h100", 8),
        training=Training(
            global_batch_size=8, sequence_length=LONG, trainable="lora(16)", offload_activations=True
        ),
        choose={"backend": "fsdp", "recompute": "full", "micro_batch_size": 1, "context_parallel": 1},
    )
    found, without = plan(request), plan(request.changed({"training.offload_activations": False}))
    assert isinstance(found, Plan) and isinstance(without, Plan)
    left = (32 - law("offloaded_inputs_alive")) * 2 * LONG * 4096
    assert found.memory.terms_bytes["activations"] == without.memory.terms_bytes["activations"] - left
    assert found.memory.total_bytes < without.memory.total_bytes - 0.9 * left
    assert found.memory.host_bytes_per_node == 8 * 32 * 1.5 * 2 * LONG * 4096

    small = plan(request.changed({"limits.host_memory_bytes": 32 * 2**30}))
    assert isinstance(small, NoPlan)
    assert any(one.limit == "limits.host_memory_bytes" for one in small.conflict)


def test_files_say_how(tmp_path: Path) -> None:
    """The module of FSDP does it, and is read back; of others the README names the context or switch."""
    held = stage(recompute_full_layers=3)
    plan_made = made(fsdp(3, 8, stages=held), offload_activations=True)
    text = emit(plan_made, "fsdp")["fsdp_plan.py"]
    assert "offload_wrapper(layers[index])" in text and "OFFLOAD_ACTIVATIONS = True" in text
    assert "host" not in emit(made(fsdp(3, 8, stages=held)), "fsdp")["fsdp_plan.py"].split("def ")[0]
    (tmp_path / "fsdp_plan.py").write_text(text, encoding="utf-8")
    without = plan_made.request.changed({"training.offload_activations": False})
    assert read_config(documents([str(tmp_path)]), without).request.training.offload_activations
    assert any("save_on_cpu" in note for note in notes(plan_made, "accelerate"))
    (refused,) = objections(plan_made, "torchtitan")
    assert (
        refused.field == "training.offload_activations"
        and "--set offload_activations=false" in refused.reason
    )


def test_layers_that_compile_are_not_offloaded() -> None:
    """What a compiled layer keeps holds its weights too."""
    strategy = fsdp(3, 8, software_stack="fsdp-compile-2024", stages=stage(recompute_full_layers=3))
    (refused,) = objections(made(strategy, offload_activations=True), "fsdp")
    assert refused.field == "training.offload_activations"


def test_what_has_no_effect_is_said() -> None:
    """Offload without a layer recomputed whole changes nothing, as modules without one in part do not."""
    request = Request(
        model="llama-3.2-1b",
        cluster=Cluster.preset("dgx-h100"),
        training=Training(global_batch_size=16, sequence_length=512, offload_activations=True),
        choose={"backend": "fsdp", "recompute": "none"},
    )
    for word, idle in (("none", 1), ("full", 0)):
        found = plan(request.changed({"choose.recompute": word}))
        assert isinstance(found, Plan)
        told = [one.message for one in found.warnings if one.code == "no-effect"]
        assert len(told) == idle and all("training.offload_activations" in each for each in told)


@pytest.mark.parametrize(
    ("framework", "recompute", "priced"),
    [("torchtune", "full", True), ("torchtune", "none", False), ("Megatron-LM", "full", False)],
)
def test_rows_that_offload(framework: str, recompute: str, priced: bool) -> None:
    """Priced of recomputed layers under FSDP; of others the reading says that it is left out."""
    cells = {"framework": framework, "recompute": recompute, "notes": "activations offloaded", "year": "2025"}
    record = Record(cells)

    found = way_of_row(record, software_of(record))
    assert found.fields.get("offload_activations", False) == priced
    assert bool(found.stand_ins) != priced
