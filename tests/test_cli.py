"""What commands print and write, and with which exit code."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardwise.cli import main, options
from shardwise.cli.output import as_text
from shardwise.cli.tables import items, paragraph, table
from shardwise.cli.voice import Voice
from shardwise.inputs import InputError
from shardwise.launch import Objection, Refused
from shardwise.models import Strategy
from shardwise.plans import (
    Alternative,
    Best,
    Breach,
    Buckets,
    BytesPerParameter,
    Check,
    Conflict,
    Cost,
    Cure,
    MemoryReport,
    NoPlan,
    Notice,
    Offer,
    OutOfTime,
    PeakUncertainty,
    Plan,
    Proof,
    Request,
    StageMemory,
    TimeReport,
    Traffic,
    Uncertainty,
    read_request,
    read_strategy,
)

GIB = 2**30
WORDS = ["llama-3.1-8b", "--cluster", "dgx-h100", "--global-batch-size", "64", "--sequence-length", "8192"]
FLAGS = {"cluster.preset": "dgx-h100", "training.global_batch_size": 64, "training.sequence_length": 8192}


@pytest.fixture
def request_() -> Request:
    """The request of `WORDS`."""
    return read_request("llama-3.1-8b", FLAGS)


@pytest.fixture
def strategy(request_: Request) -> Strategy:
    """Some strategy for it."""
    data = {"backend": "deepspeed", "data_parallel": 8, "zero_stage": 3, "recompute": "full"}
    return read_strategy(data, request_.model, "test", request_.training)


@pytest.fixture
def memory() -> MemoryReport:
    """Some memory of one stage."""
    stage = StageMemory(
        stage=0, peak_moment="backward", total_bytes=60 * GIB, terms_bytes={"weights": 60 * GIB}
    )
    return MemoryReport(
        usable_bytes=79 * GIB, total_bytes=60 * GIB, limit_bytes=72 * GIB, verdict="fits", peak_stage=0,
        uncertainty=PeakUncertainty(low_bytes=54 * GIB, high_bytes=66 * GIB, basis="test"),
        views_bytes={"allocated": 50 * GIB, "reserved": 58 * GIB, "process": 60 * GIB},
        peak_moment="backward", terms_bytes=stage.terms_bytes, stages=(stage,), host_bytes_per_node=100 * GIB,
        host_usable_bytes=1800 * GIB, host_verdict="fits", load_peak_bytes=GIB, checkpoint_bytes=GIB,
        bytes_per_parameter=BytesPerParameter(recipe="r", weights=2, gradients=2, optimizer=12),
    )  # fmt: skip


@pytest.fixture
def time() -> TimeReport:
    """Some step time."""
    return TimeReport(
        step_seconds=61.4, terms_seconds={"compute": 48.9, "data_comm_exposed": 12.5, "expert_comm": 0.0},
        hidden_seconds={"data_comm": 3.0}, comm_fraction=0.2, limit_seconds=30.7, limit_fraction=0.5,
        tokens_per_second=8541.0, tokens_per_second_per_gpu=1067.6, model_tflops_per_gpu=400.0,
        mfu=0.412, hfu=0.5,
        uncertainty=Uncertainty(low_seconds=55.0, high_seconds=68.0, basis="test"),
    )  # fmt: skip


@pytest.fixture
def plan(request_: Request, strategy: Strategy, memory: MemoryReport, time: TimeReport) -> Plan:
    """Some plan."""
    return Plan(
        status="optimal", inputs_hash=request_.inputs_hash(), versions={"shardwise": "0"}, request=request_,
        strategy=strategy, writable_by=("deepspeed",), placement={"data_parallel": "island"}, memory=memory,
        time=time, traffic=(Traffic(axis="data", tier="island", bytes_per_card=10**9),),
        cost=Cost(usd_per_hour=98.3, usd_per_million_tokens=3.2),
        proof=Proof(
            bound_seconds=61.4, gap=0.0, rows_considered=1284, rows_excluded_by={"rule": 1283},
            leaves_solved=2, master_solves=1, deterministic_time=0.1,
            statement="no other row is below the bound",
        ),
        buckets=Buckets(
            reduce_bucket_elements=1, allgather_bucket_elements=1, prefetch_bucket_elements=1,
            max_live_parameters=1, persistence_threshold=1, sub_group_elements=1,
        ),
        alternatives=(
            Alternative(
                name="fsdp", strategy=strategy, step_seconds=63.0, memory_bytes=50 * GIB,
                loss_percent=2.6, why="x",
            ),
        ),
        offers=(
            Offer(set='precision="fp8"', resulting_step_seconds=50.0, gain_percent=18.6, caveat="8 bits"),
        ),
        warnings=(Notice(code="batch", message="the batch is small", hint="make it larger"),),
    )  # fmt: skip


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Puts an outcome in place of the search."""

    def put(outcome: object) -> None:
        monkeypatch.setattr("shardwise.solver.plan", lambda request, **_: outcome)

    return put


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch room that writes two files for deepspeed and refuses everything else."""

    def emit(plan: Plan, target: str, beside: object = None) -> dict[str, str]:
        if target != "deepspeed":
            raise Refused(target, "deepspeed", Objection("zero_stage", 3, "it cannot shard this"))
        return {"ds_config.json": "{}\n", "run.sh": "go\n"}

    monkeypatch.setattr("shardwise.launch.emit", emit)


def test_a_plan_in_80_columns(
    plan: Plan, searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """The text names the question, the knobs, time with terms, memory with its moment, and the proof."""
    searched(plan)
    assert main(["plan", *WORDS]) == 0
    told = capsys.readouterr()
    assert told.out == (
        "llama-3.1-8b on 1 x dgx-h100 (8 cards), 64 sequences of 8,192 tokens\n"
        "  trains all 8.03e9 parameters with adamw\n"
        "  deepspeed   zero 3   tp 1   pp 1   dp 8   micro-batch 1   accumulation 8\n"
        "  recompute full   offload none   bf16 (bf16 gradients)\n"
        "  step 61.4 s (compute 48.9, data comm exposed 12.5)\n"
        "  expected 55.0 to 68.0 s in 8 of 10 cases, by test\n"
        "  mfu 41.2 %, hfu 50.0 %, 1,068 tokens/s a card, 50 % of the physical limit\n"
        "  memory 60.0 of 79.0 GiB a card, fits (stage 0, backward; limit 72.0 GiB)\n"
        "  of these weights 60.0\n"
        "  peak expected 54.0 to 66.0 GiB in 8 of 10 cases\n"
        "  host 100.0 of 1,800.0 GiB a node, fits\n"
        "  optimal under this cost model and search space: 1,284 layouts considered, 2\n"
        "    solved to the end\n"
        "  $98.30 an hour, $3.2 a million tokens\n"
        "\n"
        "  instead    step  GiB a card  loss %\n"
        "  fsdp     63.0 s        50.0    +2.6\n"
        "  fsdp: deepspeed, zero 3, tp 1, pp 1, dp 8, micro-batch 1, accumulation 8,\n"
        "    recompute full, offload none, bf16 (bf16 gradients): x\n"
    )
    assert max(map(len, told.out.splitlines())) <= 80
    assert "warning: the batch is small" in told.err
    assert "hint: --set 'precision=\"fp8\"' would pay" in told.err
    assert "shardwise emit plan.json --to deepspeed" in told.err


def test_quiet_and_verbose(
    plan: Plan, searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """-q leaves warnings but no hints; -v adds stages, terms, traffic and the proof's statement."""
    searched(plan)
    main(["plan", *WORDS, "-q", "--top", "0"])
    quiet = capsys.readouterr()
    assert "hint" not in quiet.err and "warning" in quiet.err
    assert "instead" not in quiet.out
    main(["plan", *WORDS, "-v"])
    loud = capsys.readouterr().out
    assert "no other row is below the bound" in loud
    assert "weights 2, gradients 2, optimizer 12" in loud
    assert "traffic of a card a step" in loud


def test_json_is_one_sorted_object(
    plan: Plan, searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """--json prints one object with sorted keys and nothing else, the same bytes each time."""
    searched(plan)
    main(["plan", *WORDS, "--json"])
    first = capsys.readouterr()
    main(["plan", *WORDS, "--json"])
    assert capsys.readouterr().out == first.out
    assert first.err == ""
    data = json.loads(first.out)
    assert data["status"] == "optimal"
    assert (data["strategy"]["recompute"], data["strategy"]["pipeline_schedule"]) == ("full", "none")
    assert json.dumps(data, sort_keys=True, indent=2) + "\n" == first.out


def test_strict_makes_risky_a_failure(
    plan: Plan, searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A risky plan is exit 0 with a warning, and exit 1 under --strict."""
    searched(plan.model_copy(update={"memory": plan.memory.model_copy(update={"verdict": "risky"})}))
    assert main(["plan", *WORDS]) == 0
    assert "risky" in capsys.readouterr().err
    assert main(["plan", *WORDS, "--strict"]) == 1
    searched(plan)
    assert main(["plan", *WORDS, "--strict"]) == 0


def test_a_plan_is_written_and_read_back(
    plan: Plan,
    searched: Callable[[object], None],
    launched: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """-o writes a file, which emit takes by name or from standard input."""
    searched(plan)
    path = tmp_path / "new" / "plan.json"
    assert main(["plan", *WORDS, "-o", str(path)]) == 0
    assert main(["emit", str(path), "--to", "deepspeed", "-o", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "run.sh").read_text() == "go\n"
    assert main(["plan", *WORDS, "-o", str(path)]) == 2
    assert main(["plan", *WORDS, "-o", str(path), "--force"]) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO(path.read_text()))
    assert main(["emit", "-", "--to", "deepspeed", "-o", "-"]) == 0
    assert capsys.readouterr().out == "==> ds_config.json <==\n{}\n\n==> run.sh <==\ngo\n"
    assert main(["emit", str(path), "--to", "deepspeed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["run.sh"] == "go\n"


def test_plan_and_launch_files_make_one_folder(
    plan: Plan, searched: Callable[[object], None], launched: None, tmp_path: Path
) -> None:
    """--emit adds the launch files to the folder of the plan; a refusal writes nothing and exits 1."""
    searched(plan)
    folder = tmp_path / "run"
    assert main(["plan", *WORDS, "--emit", "fsdp", "-o", str(folder)]) == 1
    assert not list(tmp_path.iterdir())
    assert main(["plan", *WORDS, "--emit", "deepspeed", "-o", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["ds_config.json", "plan.json", "run.sh"]


def test_no_plan_reads_as_sentences(
    searched: Callable[[object], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proof that nothing fits is exit 1: a headline, reasons, the limits that clash, cures as hints."""
    cure = Cure.model_validate(
        {
            "change": "two nodes",
            "set": "cluster.nodes=2",
            "from": "1",
            "to": "2",
            "resulting_step_seconds": 3.25,
        }
    )
    outcome = NoPlan(
        inputs_hash="0", versions={},
        reasons=("the states need 131.4 GiB a card.", "a card offers 74.5 GiB."),
        conflict=(Conflict(limit="limits.memory_margin", value="0.08", origin="default"),), cures=(cure,),
        rows_considered=7, rows_excluded_by={"bound": 7},
    )  # fmt: skip
    searched(outcome)
    assert main(["plan", *WORDS, "-o", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[0].startswith("  × No plan fits llama-3.1-8b on 1 x dgx-h100 (8 cards)")
    assert "  ├─▶ the states need 131.4 GiB a card." in told.out
    assert "  ╰─▶ a card offers 74.5 GiB." in told.out
    assert told.err == (
        "hint: this is enough:\n  --set 'cluster.nodes=2'\n      two nodes (1 to 2): step 3.25 s\n"
    )
    assert not list(tmp_path.iterdir())
    assert main(["plan", *WORDS, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["cures"][0]["from"] == "1"


def test_a_stopped_search_is_no_proof(
    searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A search stopped by its limit is exit 3 and says that nothing is proved."""
    searched(
        OutOfTime(inputs_hash="0", versions={}, rows_considered=9, bound_seconds=1.5, deterministic_time=1.0)
    )
    assert main(["plan", *WORDS, "--time-limit", "1s"]) == 3
    assert "nothing is proved" in capsys.readouterr().out


def test_a_feasible_plan_tells_its_gap(
    plan: Plan, searched: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan stopped by a limit never claims to be optimal."""
    proof = plan.proof.model_copy(update={"gap": 0.031, "bound_seconds": 59.5})
    searched(plan.model_copy(update={"status": "feasible", "proof": proof}))
    assert main(["plan", *WORDS]) == 0
    told = capsys.readouterr().out
    assert "at most 3.1 % above" in told and "optimal" not in told


@pytest.mark.parametrize(
    ("verdict", "breaches", "flags", "code"),
    [
        ("fits", (), [], 0),
        ("risky", (), [], 0),
        ("risky", (), ["--strict"], 1),
        ("does_not_fit", (), [], 1),
        ("fits", (Breach(rule="r", reason="tp exceeds the island", origin="--set x"),), [], 1),
    ],
)
def test_check_tells_verdict_and_loss(
    verdict: Any,
    breaches: tuple[Breach, ...],
    flags: list[str],
    code: int,
    plan: Plan,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """check is exit 0 when it fits or is risky, 1 when not, or when a rule is broken, as its head says."""
    found = Check(
        inputs_hash="0", versions={}, verdict=verdict, strategy=plan.strategy, breaches=breaches,
        memory=plan.memory, time=plan.time, traffic=(), cost=plan.cost, loss_percent=12.5,
        best=Best(status="optimal", strategy=plan.strategy, step_seconds=54.6),
    )  # fmt: skip
    monkeypatch.setattr("shardwise.solver.check", lambda request, strategy: found)
    path = tmp_path / "s.json"
    path.write_text('{"backend": "deepspeed", "data_parallel": 8}')
    assert main(["check", *WORDS, "--strategy", str(path), *flags]) == code
    told = capsys.readouterr().out
    assert told.startswith(("refused, memory " if breaches else "") + verdict.replace("_", " "))
    assert "12.5 % slower than the best plan (54.6 s)" in told
    assert all(breach.reason in told for breach in breaches)


@pytest.mark.parametrize("kind", ["models", "clusters", "gpus", "stacks", "optimizers"])
def test_lists_hold_every_name(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A list is a table in 80 columns and, as JSON, the same names with their facts."""
    assert main(["list", kind]) == 0
    text = capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    names = [entry["name"] for entry in json.loads(capsys.readouterr().out)["entries"]]
    assert [line.split("  ")[0] for line in text.splitlines()[1:]] == names
    assert max(map(len, text.splitlines())) <= 80


def test_show_model_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """The parameters of a shown model are the sum of its components."""
    assert main(["show", "model", "llama-3.1-8b", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    ends = sum(card[part] for part in ("embedding", "positions", "head", "final_norm", "other"))
    layers = sum(kind["layers"] * kind["total"] for kind in card["kinds"])
    assert card["parameters_total"] == 8_030_261_248 == ends + layers
    assert main(["show", "model", "llama-3.1-8b"]) == 0
    assert "8,030,261,248 parameters" in capsys.readouterr().out


def test_show_model_tells_keys_defaults_notes_and_divisors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which key gave which number, what the class took for a missing one, what changed nothing, and why."""
    keys: dict[str, Any] = {
        "model_type": "qwen2_vl",
        "text_config": {"hidden_size": 1024, "num_attention_heads": 8},
    }
    keys["vision_config"] = {"model_type": "qwen2_vl", "depth": 2}
    keys |= {"image_token_id": 7, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(keys))

    assert main(["show", "model", str(tmp_path), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    parts = ("embedding", "positions", "head", "final_norm", "other")
    towers = sum(tower["parameters"] for tower in card["towers"])
    layers = sum(kind["layers"] * kind["total"] for kind in card["kinds"])
    found = {key["number"]: (key["value"], key["source"]) for key in card["keys"]}
    of = {rule["of"]: rule for rule in card["divisors"]}

    assert card["parameters_total"] == sum(card[part] for part in parts) + towers + layers
    assert card["embedding"] == card["transformer"]["vocab_size"] * 1024
    assert found["text.heads"] == (8, "text_config.num_attention_heads")
    assert found["text.head_dim"] == (128, "= hidden_size / heads")
    assert card["defaults"]["text_config.num_hidden_layers"] == 80
    assert "image_token_id" in card["ignored"]
    assert "quantization_config" in card["notes"][0]
    assert "whole query heads" in of["heads"]["reason"]
    assert main(["show", "model", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "text_config.num_attention_heads" in text
    assert "note: quantization_config" in text
    assert max(map(len, text.splitlines())) <= 110


def test_plan_reads_what_show_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config.json may hold numbers that are no JSON, where nobody looks at them; a request may not."""
    keys = '{"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4,'
    keys += ' "time_step_limit": [0.0, Infinity]}'
    (tmp_path / "odd.json").write_text(keys)
    words = ["--cluster", "dgx-h100", "--global-batch-size", "8", "--sequence-length", "128"]

    assert main(["show", "model", str(tmp_path / "odd.json")]) == 0
    assert main(["plan", str(tmp_path / "odd.json"), *words]) == 0
    (tmp_path / "request.json").write_text('{"model": "gpt2-large", "limits": {"memory_margin": Infinity}}')
    capsys.readouterr()
    assert main(["plan", str(tmp_path / "request.json"), *words]) == 2
    assert "is not a finite number" in capsys.readouterr().err


def test_show_cluster_tells_its_tiers(capsys: pytest.CaptureFixture[str]) -> None:
    """A shown cluster names every tier with its cards."""
    assert main(["show", "cluster", "dgx-h100", "--nodes", "64"]) == 0
    text = capsys.readouterr().out
    assert main(["show", "cluster", "dgx-h100", "--nodes", "64", "--json"]) == 0
    tiers = json.loads(capsys.readouterr().out)["tiers"]
    assert tiers[-1]["cards"] == 512
    assert all(tier["name"] in text for tier in tiers)


def test_tables_keep_to_columns() -> None:
    """Numbers stand right, words left; control characters of strange names are not printed."""
    assert table(["a", "b"], [["x\x1b[31m", 1], ["y", 200]]) == "a         b\nx?[31m    1\ny       200"
    assert items(["12345"] * 20).splitlines()[0] == "  " + "   ".join(["12345"] * 10)
    assert paragraph("word " * 30, "× ", "  ").splitlines()[1].startswith("  word")
    assert as_text({"one": "1\n"}) == "1\n"


def test_bare_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without words the help is shown on standard error, exit 2."""
    assert main([]) == 2
    assert "Usage: shardwise" in capsys.readouterr().err
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("shardwise ")


def test_errors_of_the_search_are_told(
    request_: Request, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input that only the search can see is told like any other."""

    def search(request: Request, **_: object) -> None:
        raise InputError("choose.rules", "a +", request.origin("choose.rules"), "is no rule")

    monkeypatch.setattr("shardwise.solver.plan", search)
    assert main(["plan", *WORDS, "--set", "rules=a +"]) == 2
    assert capsys.readouterr().err == "error: choose.rules = a + (from --set rules=a +): is no rule\n"


def test_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Search, write, emit again, check: the same files, the same step, no loss; a refusal names the best."""
    run, again = tmp_path / "run", tmp_path / "again"
    assert main(["plan", *WORDS, "--emit", "deepspeed", "-o", str(run)]) == 0
    saved = str(run / "plan.json")
    assert main(["emit", saved, "--to", "deepspeed", "-o", str(again)]) == 0
    assert {p.name: p.read_text() for p in run.iterdir()} == {p.name: p.read_text() for p in again.iterdir()}
    capsys.readouterr()
    assert main(["check", *WORDS, "--plan", saved, "--set", "backend=deepspeed", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = json.loads((run / "plan.json").read_text())
    assert plan["strategy"]["backend"] == "deepspeed"
    assert found["time"]["step_seconds"] == plan["time"]["step_seconds"] == found["best"]["step_seconds"]
    assert found["loss_percent"] == 0
    assert main(["emit", saved, "--to", "fsdp", "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)
    assert (refused["files"], refused["refused"]["backend"]) == ({}, "fsdp")
    assert refused["best"]["strategy"]["backend"] == "fsdp"


@pytest.mark.parametrize("size", ["30e9", "30B", "30000000000"])
def test_ledger_is_a_table_in_80_columns(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table tells bytes, multiples of P, and from how many cards each scheme fits."""
    assert main(["ledger", size, "--gpus", "8", "--card", "74.5GiB"]) == 0
    rows = {line.strip().rpartition("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    told = {" ".join(words[:-4]): words[-4:] for words in rows.values() if len(words) > 4}
    assert told["bytes a parameter"] == ["16.00", "5.50", "3.75", "2.00"]
    assert told["GiB a card"] == ["447.0", "153.7", "104.8", "55.9"]
    assert told["traffic, 1 micro-batch"] == ["2P", "2P", "2P", "3P"]
    assert told["fits from, any count"] == ["never", "never", "22", "7"]
    assert told["nodes of 8"] == ["never", "never", "24", "8"]
    assert told["powers of two"] == ["never", "never", "32", "8"]
    assert main(["ledger", size, "--gpus", "8", "--card", "74.5GiB", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["schemes"]) == 4


def test_the_module_is_the_command() -> None:
    """``python -m shardwise`` runs where no script stands on the path."""
    told = subprocess.run([sys.executable, "-m", "shardwise", "--version"], capture_output=True, text=True)

    assert (told.returncode, told.stdout.split()[0]) == (0, "shardwise")


def test_a_group_of_flags_reaches_its_command_whole() -> None:
    """A command asks for groups; typer sees each flag of theirs, once, with the group's default."""

    def command(word: str, *, size: options.Size, voice: Voice) -> int:
        assert (word, size, voice) == ("x", options.Size(nodes="2"), Voice(quiet=True))
        return 7

    told = options.spelled(command)

    assert told(word="x", nodes="2", gpus=None, as_json=False, quiet=True, verbose=False, no_color=False) == 7
    names = list(inspect.signature(told).parameters)
    assert names == ["word", "nodes", "gpus", "as_json", "quiet", "verbose", "no_color"]
