"""Bad input through the command line: one message with field, value and origin; nothing left behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shardwise.cli import main
from shardwise.hardware.named import gpu_names

JOB = """model = "llama-3.1-8b"
[cluster]
preset = "dgx-h100"
nodes = 1
[training]
global_batch_size = 64
sequence_length = 4096
"""
CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
    "max_position_embeddings": 2048, "tie_word_embeddings": False,
}  # fmt: skip
FLAGS = ("--cluster", "dgx-h100", "--global-batch-size", "64", "--sequence-length", "1024")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a good request in it."""
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one error of `words`, told alike as text and as JSON, with exit code 2 both times."""
    code = main(words)
    text = capsys.readouterr()
    assert code == 2, (text.out, text.err)
    assert text.out == ""
    assert text.err.count("\n") == 1
    assert len(text.err) < 1000
    assert text.err.startswith("error: ")
    assert "Traceback" not in text.err
    code = main([words[0], "--json", *words[1:]])
    spoken = capsys.readouterr()
    assert code == 2
    assert spoken.err == ""
    told: dict[str, Any] = json.loads(spoken.out)["error"]
    assert set(told) == {"code", "field", "value", "origin", "message", "legal"}
    assert told["code"] != "defect"
    assert text.err == f"error: {told['message']}\n"
    assert told["field"] in told["message"]
    assert told["value"] in told["message"]
    assert f"(from {told['origin']}): " in told["message"]
    return told


SETTINGS = [
    ("nodes=-1", "cluster.nodes"),
    ("nodes=0", "cluster.nodes"),
    ("nodes=1000000", "cluster.nodes"),
    ("nodes=99999999999999999999999999999", "cluster.nodes"),
    ("nodes=nan", "cluster.nodes"),
    ("nodes=two", "cluster.nodes"),
    ("nodes=[1, 2]", "cluster.nodes"),
    ("preset=dgx-h10", "cluster.preset"),
    ("gpu=H1000", "cluster.gpu"),
    ("fabric=string", "cluster.fabric"),
    ("host_class=ddr9", "cluster.host_class"),
    ("oversubscription=0", "cluster.oversubscription"),
    ("oversubscription=1e308", "cluster.oversubscription"),
    ("global_batch_size=0", "training.global_batch_size"),
    ("global_batch_size=1e3", "training.global_batch_size"),
    ("sequence_length=-4096", "training.sequence_length"),
    ("sequence_length=999999999999", "training.sequence_length"),
    ("optimizer=lyon", "training.optimizer"),
    ("total_tokens=1e400", "training.total_tokens"),
    ("trainable=lora(0)", "training.trainable"),
    ("tensor_parallel=8..1", "choose.tensor_parallel"),
    ("tensor_parallel=[]", "choose.tensor_parallel"),
    ("tensor_parallel=1.5", "choose.tensor_parallel"),
    ("zero_stage=4", "choose.zero_stage"),
    ("precision=int3", "choose.precision"),
    ("backend=deepsped", "choose.backend"),
    ("memory_margin=nan", "limits.memory_margin"),
    ("memory_margin=1", "limits.memory_margin"),
    ("max_step_seconds=-1", "limits.max_step_seconds"),
    ("host_memory_bytes=lots", "limits.host_memory_bytes"),
    ("max_usd_per_hour=free", "limits.max_usd_per_hour"),
    ("tensor_paralel=4", "--set"),
    ("no-equals-sign", "--set"),
    (f"cluster.{'x' * 10_000}=1", "--set"),
]


@pytest.mark.parametrize(("setting", "field"), SETTINGS)
def test_bad_settings(setting: str, field: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad --set names its field and itself as the origin, and leaves no file."""
    told = refused(["plan", "job.toml", "--set", setting, "-o", "out"], capsys)
    assert told["field"] == field
    assert told["origin"].startswith("--set")
    assert not (folder / "out").exists()


FLAG_CASES = [
    (["--nodes", "-4"], "cluster.nodes", "--nodes"),
    (["--nodes", "2", "--gpus", "16"], "cluster.gpus", "--gpus"),
    (["--gpus", "13"], "cluster.gpus", "--gpus"),
    (["--cluster", ""], "cluster.preset", "--cluster"),
    (["--global-batch-size", "many"], "training.global_batch_size", "--global-batch-size"),
    (["--total-tokens", "1Q"], "training.total_tokens", "--total-tokens"),
    (["--time-limit", "0"], "time_limit", "--time-limit"),
    (["--time-limit", "soon"], "time_limit", "--time-limit"),
    (["--top", "-1"], "top", "--top"),
    (["--top", "9" * 5000], "top", "--top"),
    (["--emit", "deepsped"], "target", "--emit"),
    (["-o", ""], "output", "-o"),
]


@pytest.mark.parametrize(("flags", "field", "origin"), FLAG_CASES)
def test_bad_flags(
    flags: list[str], field: str, origin: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad flag is named as the origin."""
    told = refused(["plan", "job.toml", "-o", "out", *flags], capsys)
    assert (told["field"], told["origin"]) == (field, origin)
    assert not (folder / "out").exists()


FILES: list[tuple[str, bytes]] = [
    ("empty.toml", b""),
    ("blank.json", b" \n\t"),
    ("binary.toml", b"\x00\x01\x02"),
    ("latin.toml", "model = 'é'".encode("latin-1")),
    ("broken.toml", b"model = [1,"),
    ("broken.json", b'{"model": '),
    ("list.json", b"[1, 2]"),
    ("twice.toml", b'model = "a"\nmodel = "b"'),
    ("twice.json", b'{"model": "a", "model": "b", "cluster": {}}'),
    ("deep.json", b'{"model": ' + b"[" * 50000 + b"]" * 50000 + b"}"),
    ("deep.toml", b"model = " + b"[" * 5000 + b"]" * 5000),
    ("dotted.toml", b"a." * 20000 + b"b = 1"),
    ("long.toml", b"#" * 100000),
    ("digits.toml", b"model = " + b"9" * 5000),
    ("nan.json", b'{"model": "llama-3.1-8b", "limits": {"memory_margin": NaN}}'),
    ("table.toml", JOB.replace("[training]", "[trainings]").encode()),
    ("key.toml", JOB.replace("nodes", "nodse").encode()),
    ("type.toml", JOB.replace("nodes = 1", 'nodes = "one"').encode()),
    ("number.toml", b"cluster = 3\n" + JOB.split("[cluster]")[0].encode()),
    ("both.toml", JOB.replace("nodes = 1", "nodes = 1\ngpus = 8").encode()),
    ("batch.toml", JOB.replace("[training]", "[training]\nglobal_batch_tokens = 4096").encode()),
    ("tokens.toml", JOB.replace("global_batch_size = 64", "global_batch_tokens = 5000").encode()),
    ("file.toml", JOB.replace('preset = "dgx-h100"', 'file = "topo.txt"').encode()),
    ("nomodel.toml", JOB.replace('model = "llama-3.1-8b"', "").encode()),
    ("nobatch.toml", JOB.replace("global_batch_size = 64", "").encode()),
    ("nopath.toml", JOB.replace("llama-3.1-8b", "./nowhere/config.json").encode()),
]


@pytest.mark.parametrize(("name", "content"), FILES, ids=[name for name, _ in FILES])
def test_bad_files(name: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad request file is named, with the line where a key is at fault."""
    (folder / name).write_bytes(content)
    told = refused(["plan", name, "-o", "out"], capsys)
    assert name in told["origin"] or told["code"] in ("missing", "no-file")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    "source", ["nope.toml", "nope.json", ".", "llama-3.1-8", "", "a\0b", "/dev/null", "x" * 9999]
)
def test_bad_sources(source: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is neither a request, a model nor a file is refused; so is a folder without config.json."""
    (folder / "config.json").unlink()
    refused(["plan", source, *FLAGS], capsys)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": -64},
        {"hidden_size": 0},
        {"hidden_size": "64"},
        {"hidden_size": None},
        {"num_hidden_layers": 10**9},
        {"num_attention_heads": 5},
        {"num_key_value_heads": 3},
        {"vocab_size": 1e300},
        {"vocab_size": True},
        {"model_type": "no_such_family", "architectures": ["NoSuchModel"]},
        {"model_type": 7},
    ],
)
def test_bad_configs(change: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config.json that makes no model is refused, naming the key."""
    (folder / "config.json").write_text(json.dumps({**CONFIG, **change}))
    told = refused(["plan", "config.json", *FLAGS], capsys)
    assert "config.json" in told["origin"] or told["origin"] == "MODEL"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["plam"], "command"),
        (["plan", "job.toml", "--nodez", "2"], "--nodez"),
        (["plan"], "REQUEST|MODEL"),
        (["plan", "job.toml", "--nodes"], "--nodes"),
        (["plan", "job.toml", "extra"], "command line"),
        (["emit", "plan.json"], "--to"),
        (["list", "model"], "kind"),
        (["show", "modle", "x"], "what"),
        (["show", "model", "llama-3.1-8"], "model"),
        (["show", "cluster", "dgx-h1000"], "cluster.preset"),
        (["show", "cluster", "dgx-h100", "--nodes", "0"], "cluster.nodes"),
        (["ledger", "70X", "--gpus", "8"], "size"),
        (["ledger", "-5", "--gpus", "8"], "-5"),
        (["ledger", "30e9", "--gpus", "0"], "gpus"),
        (["ledger", "30e9", "--gpus", "8", "--card", "80XB"], "card"),
        (["ledger", "30e9", "--gpus", "8", "--card", "-80GB"], "card"),
        (["ledger", "30e9", "--gpus", "8", "--recipe", "nope"], "recipe"),
        (["ledger", "30e9", "--gpus", "8", "--micro-batches", "0"], "micro_batches"),
        (["ledger", "30e9"], "--gpus"),
        (["check", "job.toml"], "strategy"),
        (["check", "job.toml", "--strategy", "nope.json"], "strategy"),
        (["check", "job.toml", "--strategy", "a.json", "--plan", "b.json"], "strategy"),
        (["emit", "nope.json", "--to", "deepspeed"], "plan"),
        (["emit", "job.toml", "--to", "deepspeed"], "plan"),
        (["emit", "config.json", "--to", "deepspeed"], "plan.schema_version"),
        (["curve", "job.toml", "--gpus", "²"], "gpus"),
        (["curve", "job.toml", "--gpus", "1..999999999:1"], "gpus"),
        (["curve", "job.toml", "--gpus", "8..1"], "gpus"),
        (["plan", "job.toml", "x" * 10_000], "command line"),
    ],
)
def test_bad_command_lines(
    words: list[str], field: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown commands, options and names, missing and surplus arguments: one line and exit 2."""
    assert refused(words, capsys)["field"] == field


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({}, "strategy.backend"),
        ({"backend": "jax"}, "strategy.backend"),
        ({"zero_stag": 2}, "strategy.zero_stag"),
        ({"backen": "fsdp"}, "strategy.backen"),
        ({"backend": "fsdp", "tensor_parallel": -1}, "strategy.tensor_parallel"),
        ({"backend": "fsdp", "tensor_paralel": 1}, "strategy.tensor_paralel"),
        ({"backend": "fsdp", "stages": [{"layers": 3}]}, "strategy.stages"),
        ({"backend": "fsdp", "data_parallel": 7}, "strategy.data_parallel"),
        ({"backend": "fsdp", "loss_kernel": "fussed"}, "strategy.loss_kernel"),
        ({"backend": "fsdp", "software_stack": "fdsp"}, "strategy.software_stack"),
    ],
)
def test_bad_strategies(
    written: dict[str, Any], field: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A strategy file that is none is refused, naming file and field."""
    (folder / "s.json").write_text(json.dumps(written))
    told = refused(["check", "job.toml", "--strategy", "s.json"], capsys)
    assert told["field"] == field
    assert told["origin"] in (
        ("s.json:1",) if field.rpartition(".")[2] in written else ("s.json", "strategy")
    )


def test_a_plan_of_another_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its stages hold other layers than the request's model: told, not priced."""
    job = JOB.replace("llama-3.1-8b", "qwen2.5-0.5b").replace("4096", "2048")
    (folder / "small.toml").write_text(job + '[choose]\nbackend = "fsdp"\n')
    assert main(["plan", "small.toml", "-q", "-o", "plan.json"]) == 0
    capsys.readouterr()
    told = refused(["check", "job.toml", "--plan", "plan.json"], capsys)
    assert (told["field"], told["code"]) == ("strategy.stages", "contradiction")


@pytest.mark.parametrize(
    ("settings", "blamed"),
    [
        (["max_step_seconds=1e-6"], "limits.max_step_seconds"),
        (["data_parallel=3"], "choose.data_parallel"),
        (['rules=["tensor_parallel < data_parallel", "data_parallel < tensor_parallel"]'], "choose.rules"),
        (["zero_stage=0", "offload_optimizer=none", "tensor_parallel=1", "pipeline_parallel=1"], "choose"),
    ],
)
def test_limits_that_contradict_are_no_input_error(
    settings: list[str], blamed: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A well-formed request without an answer is exit 1 with the limits that clash; nothing is written."""
    words = ["plan", "job.toml", "-o", "out", "--json"]
    for setting in settings:
        words += ["--set", setting]
    assert main(words) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "infeasible"
    assert any(part["limit"].startswith(blamed) for part in told["conflict"]), told["conflict"]
    assert not (folder / "out").exists()


def test_near_names_are_offered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Did you mean: commands, options, fields and names."""
    assert refused(["plam"], capsys)["legal"][0] == "plan"
    assert refused(["plan", "job.toml", "--nodez", "2"], capsys)["legal"] == ["--nodes"]
    assert refused(["plan", "job.toml", "--set", "zero_stag=1"], capsys)["legal"][0] == "zero_stage"
    assert refused(["show", "cluster", "dgx-h1000"], capsys)["legal"][0] == "dgx-h100"
    assert refused(["plan", "llama-3.1-8b", *FLAGS[2:], "--cluster", "p5"], capsys)["legal"][0].startswith(
        "p5."
    )


def test_a_word_that_cards_begin_with_offers_all_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card has forms and sizes: which one is the question, so none is left out for a nearer spelling."""
    told = refused(["plan", "job.toml", "--set", "gpu=H100"], capsys)
    assert set(told["legal"]) == {name for name in gpu_names() if name.startswith("H100-")}
    assert refused(["ledger", "8e9", "--gpus", "8", "--card", "A100"], capsys)["legal"][1:] == [
        "A100-PCIe-40GB", "A100-PCIe-80GB", "A100-SXM-40GB", "A100-SXM-80GB",
    ]  # fmt: skip


@pytest.mark.parametrize(("option", "field"), [("--tp", "tp"), ("--zero-stage", "zero_stage")])
def test_a_field_given_as_an_option_is_told_as_a_setting(
    option: str, field: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the command takes --set; elsewhere no such thing is offered."""
    told = refused(["plan", "job.toml", option, "4"], capsys)
    assert (told["field"], told["legal"]) == (option, [f"--set {field}=VALUE"])
    assert "--set" not in refused(["list", "gpus", option, "4"], capsys)["message"]


@pytest.mark.parametrize("words", [["why", "job.json", "zero_stage=3"], ["emit", "job.json", "--to", "fsdp"]])
def test_a_request_in_place_of_a_plan_says_how_to_make_one(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that makes a plan of it stands in the message."""
    (folder / "job.json").write_text('{"model": "llama-3.1-8b", "cluster": {"preset": "dgx-h100"}}')
    assert "shardwise plan job.json -o plan.json" in refused(words, capsys)["message"]


def test_a_strategy_may_stand_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The object that --help shows, in place of a file; errors name the flag."""
    spelled = '{"backend": "fsdp", "zero_stage": %d, "recompute": "full"}'
    assert main(["check", "job.toml", "--strategy", spelled % 3]) == 0
    assert "fsdp   zero 3" in capsys.readouterr().out
    told = refused(["check", "job.toml", "--strategy", spelled % 9], capsys)
    assert (told["field"], told["origin"]) == ("strategy.zero_stage", "--strategy:1")


def test_standard_input_is_refused_alike(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty or broken request on standard input is told as one."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert refused(["plan", "-"], capsys)["origin"] == "stdin"
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert refused(["emit", "-", "--to", "deepspeed"], capsys)["origin"] == "stdin"


@pytest.mark.parametrize("taken", ["a file", "a full folder"])
def test_nothing_is_overwritten(taken: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands at -o stays as it is, and is told before any search."""
    place = folder / "out"
    if taken == "a file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    told = refused(["plan", "job.toml", "-o", "out"], capsys)
    assert (told["field"], told["origin"]) == ("output", "-o")
    kept = place if taken == "a file" else place / "mine"
    assert kept.read_text() == "mine"


@pytest.mark.parametrize(
    "place", ["job.toml/out", "loop/out", "\0", "/proc/out", "x" * 300, "x" * 5000, f"{'x' * 300}/out.json"]
)
def test_a_place_that_takes_no_files(place: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below a file, round in a loop, too long a name: one message before anything is shown."""
    (folder / "loop").symlink_to("loop")
    told = refused(["plan", "job.toml", "-o", place, "--force"], capsys)
    assert (told["field"], told["origin"]) == ("output", "-o")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "job.toml", "loop"]


def test_a_page_needs_a_count_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no count of columns is as if nothing were asked."""
    monkeypatch.setenv("COLUMNS", "²")
    assert main(["list", "models"]) == 0


def test_a_defect_is_told_as_ours(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of ours is one line that says so, exit 70, and never passes for bad input."""

    def broken(kind: str) -> None:
        raise KeyError(kind)

    monkeypatch.setattr("shardwise.cli.listing.listing", broken)
    monkeypatch.delenv("SHARDWISE_TRACEBACK", raising=False)
    assert main(["list", "models"]) == 70
    told = capsys.readouterr().err
    assert "defect" in told and told.count("\n") == 1
    monkeypatch.setenv("SHARDWISE_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main(["list", "models"])


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("list models -q >&-", 0, ""),
        ("list models >/dev/full", 2, "output = - (from standard output): cannot be written"),
        ("list models --json >/dev/full", 2, "output = - (from standard output): cannot be written"),
        ("--help >/dev/full", 2, "output = - (from standard output): cannot be written"),
        ("list nosuch --json >/dev/full", 2, "kind = nosuch (from argument)"),
        ("list nosuch 2>&-", 2, ""),
        ("emit - --to deepspeed <&-", 2, "plan = - (from stdin): is empty"),
    ],
)
def test_streams_that_are_closed_or_full(line: str, code: int, told: str, tmp_path: Path) -> None:
    """What no stream takes is one message, or none where none can be heard; never a traceback."""
    program = f'"{sys.executable}" -c "import sys; from shardwise.cli import main; sys.exit(main())" {line}'
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == code, ran.stderr
    assert told in ran.stderr
    assert ran.stderr.count("\n") == bool(told)


@pytest.mark.parametrize("line", ["list models", "list models --json", "explain", "--help"])
def test_a_reader_that_goes_away(line: str) -> None:
    """Exit 141 and silence: neither an answer of ours nor a traceback."""
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, "-c", "import sys; from shardwise.cli import main; sys.exit(main())"]
    ran = subprocess.run(
        [*program, *line.split()], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_interruption_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C exits 130 without a traceback."""

    def interrupted(kind: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shardwise.cli.listing.listing", interrupted)
    assert main(["list", "models"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_plan_to_colour_needs_a_drawing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that would change nothing is refused, not passed over."""
    told = refused(["show", "cluster", "dgx-h100", "--plan", "plan.json"], capsys)
    assert (told["field"], told["legal"]) == ("plan", ["-o cluster.svg"])


@pytest.mark.parametrize(
    ("setting", "legal"),
    [
        ("memory_margin=8%", ["0.08"]),
        ("max_comm_fraction=20%", ["0.2"]),
        ("max_step_seconds=30s", ["30"]),
        ("max_usd_per_hour=$20", ["20"]),
        ("sequence_length=8k", ["8192", "8000"]),
        ("global_batch_size=4M", ["4194304", "4000000"]),
        ("nodes=1.5", ["1", "2"]),
        ("zero_stage=3.0", ["3"]),
        ("trainable=8%", ["0.08", "all", "lora(16)", "qlora(16)", "0.3"]),
        ("oversubscription=8%", ["1"]),
        ("usd_per_hour=free", ["0"]),
        ("sync_each_batch=no", ["false", "true"]),
        ("frozen=5", ["attention", "feed_forward", "experts", "embedding", "head", "towers"]),
        ("recompute=5", ["none", "selective", "full"]),
    ],
)
def test_a_value_of_the_wrong_type_is_told_what_it_may_be(
    setting: str, legal: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What somebody who wrote it so most likely meant, else an example."""
    assert refused(["plan", "job.toml", "--set", setting], capsys)["legal"] == legal
