"""Slurm reads the topology of the tests, and we read what Slurm then says of itself."""

from __future__ import annotations

import pytest
from e2e.conftest import TOPOLOGY
from e2e.slurm import Slurm

from shardwise.hardware.topology import cluster_of_text, sighting_of

pytestmark = pytest.mark.e2e


def test_slurm_reads_back_the_topology(slurm: Slurm) -> None:
    """What `scontrol show topology` prints gives the same leaves as the file that was written."""
    printed = slurm.run("scontrol", "show", "topology").stdout
    leaves = {machine.name: machine.leaf for machine in sighting_of(TOPOLOGY).machines}

    assert {machine.name: machine.leaf for machine in sighting_of(printed).machines} == leaves
    assert leaves == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2"}


def test_scontrol_show_node_is_read(slurm: Slurm) -> None:
    """Cards, cores and memory of idle machines as Slurm prints them."""
    machines = sighting_of(slurm.run("scontrol", "show", "node").stdout).machines

    assert [machine.name for machine in machines] == ["n1", "n2", "n3"]
    assert {(m.cards, m.free, m.card, m.cpu_cores, m.host_memory_bytes) for m in machines} == {
        (8, 8, "h100", 8, 100 * 2**20)
    }


def test_cards_of_a_running_job_are_not_free(slurm: Slurm) -> None:
    """A job that holds five cards of one machine leaves three there."""
    job = slurm.run("sbatch", "--parsable", "-w", "n2", "--gres=gpu:5", "--wrap", "sleep 60").stdout.strip()
    assert job.isdigit()
    try:
        slurm.until(
            lambda: slurm.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", "running"
        )
        text = TOPOLOGY + slurm.run("scontrol", "-d", "show", "node").stdout
        cluster = cluster_of_text(text, "scontrol", {"machine": "dgx-h100"})
    finally:
        slurm.run("scancel", job)

    assert cluster.free == ((8, 3), (8,))


def test_a_node_on_one_line_is_the_same_node(slurm: Slurm) -> None:
    """`scontrol -o` writes a record a line, the kernel's number (#1 SMP) in its midst."""
    one, several = (slurm.run("scontrol", *flags, "show", "node").stdout for flags in (("-o",), ()))

    assert sighting_of(one).machines == sighting_of(several).machines
