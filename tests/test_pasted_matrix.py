"""A first-time user pastes what `nvidia-smi topo -m` printed: the answer says what it took for granted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardwise.cli import main

pytestmark = pytest.mark.tree
DUMPS = Path(__file__).parent.parent / "benchmarks" / "data" / "topo"
JOB = ("--global-batch-size", "64", "--sequence-length", "2048")


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def planned(capsys: pytest.CaptureFixture[str], dump: str, card: str, *more: str) -> tuple[int, Any]:
    file = str(DUMPS / dump)
    return asked(capsys, "plan", "llama-3.2-1b", "--cluster", file, "--set", f"gpu={card}", *JOB, *more)


def told(answer: Any) -> str:
    return "\n".join(notice["message"] for notice in answer["warnings"])


def test_a_cut_matrix_gives_a_plan_and_its_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    """Header of 8, 4 rows: symmetry assumed, NIC mapping of the rest unknown, an upper bound told."""
    code, answer = planned(
        capsys,
        "dgx_a100_8gpu_12nic_truncated.txt",
        "A100-SXM-40GB",
        "--nodes",
        "2",
        "--set",
        "nic_gbit_per_s=200",
    )

    assert (code, answer["strategy"]["data_parallel"] >= 1) == (0, True)
    assert "the header lists 8 GPUs, 4 whole rows are present: GPU4-7 missing" in told(answer)
    assert "assumed NV12" in told(answer)
    assert "NIC mapping of GPU4-7 unknown, so inter-node time is an upper bound" in told(answer)
    assert "paste the rest or give nics_per_node" in told(answer)


def test_the_network_of_several_nodes_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """No network card listed: two nodes cannot be priced before somebody tells their network."""
    code, answer = planned(capsys, "a100_8gpu_nv12.txt", "A100-SXM-80GB", "--nodes", "2")
    assert (code, answer["error"]["field"]) == (2, "cluster.nic_gbit_per_s")

    more = ("--set", "nic_gbit_per_s=200", "--set", "nics_per_node=8", "--set", "fabric=infiniband-hdr")
    code, answer = planned(capsys, "a100_8gpu_nv12.txt", "A100-SXM-80GB", "--nodes", "2", *more)
    assert code == 0
    assert "no network card is listed" in told(answer)


def test_the_pcie_only_view_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """SYS between H100 cards is what `topo -mp` prints: planned as shown, the other view asked for."""
    code, answer = planned(capsys, "cloud_4gpu_sys_only.txt", "H100-SXM-80GB")

    assert code == 0
    assert "paste topo -m" in told(answer)


def test_a_degraded_link_is_told_and_priced(capsys: pytest.CaptureFixture[str]) -> None:
    """Two links of one card off: the minimum counts, and it is said."""
    code, answer = planned(capsys, "emulated_4gpu_degraded_links.txt", "B200-SXM")

    assert code == 0
    assert "links are degraded: NV16 where others have NV18" in told(answer)


def test_the_matrix_alone_is_shown_with_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a card there is no plan, but what was seen is told, and which cards it can be."""
    code, answer = asked(capsys, "show", "cluster", str(DUMPS / "a100_8gpu_nv12.txt"))

    assert code == 0
    assert answer["machines"][0]["islands"] == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert "A100-SXM-40GB, A100-SXM-80GB" in answer["question"]


def test_cards_are_visited_island_by_island(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs 0-2 and 1-3: ranks are told the order, so that neighbours share a bridge."""
    matrix = "\n".join(
        ["     GPU0 GPU1 GPU2 GPU3 CPU Affinity", "GPU0 X SYS NV12 SYS 0-7", "GPU1 SYS X SYS NV12 0-7"]
        + ["GPU2 NV12 SYS X SYS 0-7", "GPU3 SYS NV12 SYS X 0-7"]
    )
    file, out = tmp_path / "pairs.txt", tmp_path / "run"
    file.write_text(matrix)
    words = ("plan", "llama-3.2-1b", "--cluster", str(file), "--set", "gpu=A100-PCIe-80GB", *JOB)
    assert main([*words, "--set", "backend=fsdp", "--emit", "fsdp", "-o", str(out), "-q"]) == 0

    assert "CUDA_VISIBLE_DEVICES:-0,2,1,3" in (out / "launch.sh").read_text()


def test_a_drawing_is_the_same_bytes(tmp_path: Path) -> None:
    """The graph as SVG, twice; a plan colours it; another ending is refused."""
    pytest.importorskip("matplotlib")
    one, two = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (one, two):
        assert main(["show", "cluster", "NC96ads_A100_v4", "--nodes", "2", "-o", str(path), "-q"]) == 0

    assert one.read_bytes() == two.read_bytes()
    assert "spine" not in one.read_text() and "leaf:0" in one.read_text()
    assert main(["show", "cluster", "NC96ads_A100_v4", "-o", str(tmp_path / "a.doc"), "-q"]) == 2
    plan = tmp_path / "plan.json"
    job = ("--cluster", "NC96ads_A100_v4", "--nodes", "2", *JOB, "--set", "pipeline_parallel=2")
    assert main(["plan", "llama-3.2-1b", *job, "-o", str(plan), "-q"]) == 0
    coloured = tmp_path / "c.svg"
    words = ("--nodes", "2", "--plan", str(plan), "-o", str(coloured), "-q")
    assert main(["show", "cluster", "NC96ads_A100_v4", *words]) == 0
    assert coloured.read_bytes() != one.read_bytes()
