"""Calibration: what a site's own runs teach, what they cannot, and what is refused."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from shardwise import Cluster, Plan, Request, Strategy, Training, plan, price
from shardwise.calibration import MeasuredStep, calibrate
from shardwise.calibration.logs import logged_steps
from shardwise.calibration.measured import MeasuredSteps, trial_site
from shardwise.cli.app import run
from shardwise.hardware import Site
from shardwise.inputs import InputError
from shardwise.models import Transformer
from shardwise.models.strategy import Stage
from shardwise.plans import read_request

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "benchmarks" / "data" / "published_runs.csv"
H100, STACK = "H100-SXM-80GB", "megatron-bridge-2025"
TRUTH = {f"stacks/{STACK}/gemm_factor": 1.25, f"links/{H100}/network": 1.6}


def layout(tensor: int, pipeline: int, data: int, micro: int, recompute: bool = False) -> Strategy:
    """A Megatron layout of 32 layers and 64 sequences."""
    layers = 32 // pipeline
    stage = Stage(layers=layers, recompute_full_layers=layers if recompute else 0)
    return Strategy(
        backend="megatron", software_stack=STACK, data_parallel=data, tensor_parallel=tensor,
        pipeline_parallel=pipeline, zero_stage=1, shard_group_size=data, micro_batch_size=micro,
        gradient_accumulation_steps=64 // (data * micro), sequence_parallel=tensor > 1, gradient_dtype="fp32",
        loss_kernel="megatron", stages=(stage,) * pipeline,
    )  # fmt: skip


LAYOUTS = [
    layout(1, 1, 32, 1),
    layout(1, 1, 32, 2),
    layout(2, 1, 16, 1),
    layout(4, 1, 8, 2),
    layout(8, 1, 4, 1),
    layout(4, 2, 4, 1),
    layout(2, 4, 4, 2),
    layout(8, 2, 2, 2, recompute=True),
]


def steps(constants: dict[str, float]) -> list[MeasuredStep]:
    """Steps of the layouts on a site with `constants`, without noise."""
    model, training = Transformer.preset("llama-3.1-8b"), Training(global_batch_size=64, sequence_length=4096)
    cluster = Cluster.preset("dgx-h100", nodes=4)
    made = [
        MeasuredStep(f"run-{i}", "made", model, training, cluster, strategy, 1.0)
        for i, strategy in enumerate(LAYOUTS)
    ]
    seconds = MeasuredSteps(tuple(made)).seconds(constants)
    return [replace(step, seconds=float(value)) for step, value in zip(made, seconds, strict=True)]


@pytest.fixture(scope="module")
def found() -> Site:
    """The site of the made runs."""
    return calibrate(steps(TRUTH), "here", "2026-11-29").site


def test_it_finds_what_the_runs_were_made_with(found: Site) -> None:
    """Slower products and a slower network come out near the truth, and inside their intervals."""
    told = {constant.name: constant for constant in found.constants}
    products = told[f"stacks/{STACK}/gemm_factor"]
    assert products.value == pytest.approx(1.25, rel=0.08)
    assert products.low <= 1.25 <= products.high
    assert found.median_error_before > 5.0 > 2.0 > found.median_error


def test_it_says_what_the_runs_cannot_tell(found: Site) -> None:
    """No run was made in 8 bits: that factor is listed as unknown and has no value."""
    assert f"cards/{H100}/eight_bit" in found.unidentified
    assert found.value(f"cards/{H100}/eight_bit", 7.0) == 7.0


def test_the_same_runs_give_the_same_bytes(found: Site) -> None:
    """Nothing in it depends on time or chance."""
    again = calibrate(steps(TRUTH), "here", "2026-11-29").site
    assert again.model_dump_json() == found.model_dump_json()
    assert Site.model_validate_json(found.model_dump_json()) == found


def test_runs_by_the_catalogue_leave_it_as_it_is() -> None:
    """Runs that the catalogue predicts exactly move no constant by a percent."""
    site = calibrate(steps({}), "here", "2026-11-29").site
    assert site.median_error_before == 0.0
    assert all(c.value == pytest.approx(c.catalogue, rel=0.01) for c in site.constants)


def test_runs_that_teach_nothing_leave_the_catalogue() -> None:
    """Times that scatter without a cause: what some teach tells the others worse, so nothing is learnt."""
    scatter = (1.15, 0.87, 0.87, 1.15, 1.15, 0.87, 0.87, 1.15)
    made = [replace(s, seconds=s.seconds * times) for s, times in zip(steps({}), scatter, strict=True)]
    site = calibrate(made, "here", "2026-11-29").site

    assert site.constants == ()
    assert site.median_error == site.median_error_before > 5.0
    assert f"stacks/{STACK}/gemm_factor" in site.unidentified


def test_a_site_speaks_of_what_was_measured(found: Site) -> None:
    """The software and the card of its runs; of another stack or card its interval says nothing."""
    assert found.measured == (f"{STACK}/{H100}",)
    assert found.knows(STACK, H100)
    assert not found.knows(STACK, "A100-SXM-80GB") and not found.knows("fsdp-eager-2023", H100)


def test_the_interval_of_a_site_goes_with_its_runs(found: Site) -> None:
    """A plan by the measured software takes it, one by other software the published runs' interval."""
    cluster = Cluster.preset("dgx-h100", nodes=2).model_copy(update={"site": found})
    training = Training(global_batch_size=128, sequence_length=8192)
    asked = Request(model="llama-3.1-8b", cluster=cluster, training=training)
    told = {}
    for stack in (STACK, "megatron-core-2025"):
        answer = plan(asked.changed({"choose.backend": "megatron", "choose.software_stack": stack}))
        assert isinstance(answer, Plan)
        told[stack] = answer.time.uncertainty.basis

    assert "runs of the site" in told[STACK]
    assert "published runs" in told["megatron-core-2025"]


def test_nonsense_is_set_aside_with_the_reason() -> None:
    """Faster than the cards can be, or many times slower than they would: not learnt from."""
    good = steps(TRUTH)
    wrong = [replace(good[0], name="fast", seconds=1e-4), replace(good[1], name="slow", seconds=4000.0)]
    result = calibrate([*good, *wrong], "here", "2026-11-29")
    reasons = dict(result.set_aside)
    assert result.site.runs == len(good)
    assert "faster than the cards' peak" in reasons["fast"]
    assert "slower than expected" in reasons["slow"]
    with pytest.raises(InputError, match="no run that can be trusted"):
        calibrate(wrong, "here", "2026-11-29")


def test_where_no_run_is_left_each_is_named_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that cannot be read or have no time: the error says which, and what is wrong with each."""
    path = tmp_path / "runs.csv"
    head = "source,id,gpu,gpus,framework,layers,hidden,heads,ffn_hidden,seq_len,vocab,step_time_s"
    lines = [
        "s,s-1,H100,8,megatron,32,4096,32,11008,4096,32000,",
        "s,s-2,NoSuchCard,8,megatron,32,4096,32,11008,4096,32000,9",
    ]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    assert run(["calibrate", str(path)]) == 2
    told = capsys.readouterr().err
    assert "no run that can be trusted" in told
    assert "s-1: " in told and "s-2: " in told
    with pytest.raises(InputError, match="hold no run: a table needs a line for each"):
        calibrate([], "here", "2026-11-29")


def half_of(source: str, folder: Path, which: int) -> Path:
    """Every second line of a published source as a file."""
    with RUNS.open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["source"] == source]
    path = folder / f"half{which}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines[which::2])
    return path


JOB = Training(global_batch_size=512, sequence_length=4096)


@pytest.mark.parametrize(
    ("trainer", "line", "seconds"),
    [
        (
            "torchtitan",
            "\x1b[31mstep: 20  \x1b[32mloss: 7.1  memory: 30.0GiB(38%)  tps: 4,096  tflops: 200  mfu: 20%",
            8.0,
        ),
        (
            "megatron",
            " [2026-01-01] iteration 20/ 100 | elapsed time per iteration (ms): 2500.0 | lr: 1E-4 |",
            2.5,
        ),
        (
            "deepspeed",
            "epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=99.0, CurrSamplesPerSec=64.0, Mem",
            8.0,
        ),
    ],
)
def test_logs_of_three_trainers_give_steps(trainer: str, line: str, seconds: float) -> None:
    """Tokens a second and card, milliseconds, or sequences a second; the first steps do not count."""
    slow = (
        line.replace("4,096", "1,024")
        .replace("2500.0", "9999.0")
        .replace("SamplesPerSec=64", "SamplesPerSec=8")
    )
    logged = logged_steps("\n".join([slow] * 5 + [line] * 7), JOB, 64, "run.log")
    assert logged.trainer == trainer
    assert logged.steady == pytest.approx(seconds)


def test_a_log_without_steps_is_refused() -> None:
    """The trainers it knows are named."""
    with pytest.raises(InputError, match="torchtitan"):
        logged_steps("all is well", JOB, 64, "run.log")


def test_a_request_uses_its_site_and_only_its_site(tmp_path: Path, found: Site) -> None:
    """`cluster.site` changes the price; without it the catalogue holds."""
    path = tmp_path / "site.json"
    path.write_text(found.model_dump_json(), encoding="utf-8")
    flags = {"cluster.preset": "dgx-h100", "cluster.nodes": 4}
    job = {"training.global_batch_size": 64, "training.sequence_length": 4096}
    plain = read_request("llama-3.1-8b", {**flags, **job})
    here = read_request("llama-3.1-8b", {**flags, **job, "cluster.site": str(path)})
    assert here.cluster.site == found
    assert price(here, LAYOUTS[0]).step_ns > 1.1 * price(plain, LAYOUTS[0]).step_ns
    assert Request.model_validate_json(here.model_dump_json()) == here


def test_a_file_that_is_no_site_is_refused(tmp_path: Path) -> None:
    """The field is named."""
    path = tmp_path / "site.json"
    path.write_text('{"name": "x"}', encoding="utf-8")
    with pytest.raises(InputError, match=r"cluster\.site"):
        read_request("llama-3.1-8b", {"cluster.preset": "dgx-h100", "cluster.site": str(path)})


def test_a_trial_site_needs_something_to_hold() -> None:
    """No change is no site, so prices are the catalogue's."""
    assert trial_site({}) is None


@pytest.mark.tree
def test_the_command_writes_a_site_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file holds the evidence and the date; a second run does not overwrite it; bad input exits 2."""
    runs, site = half_of("megatron_sc21", tmp_path, 0), tmp_path / "site.json"
    words = ["calibrate", str(runs), "-o", str(site), "--date", "2026-11-29", "--json"]
    assert run(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(site.read_text(encoding="utf-8"))
    assert told["evidence"] == ["half0.csv"]
    assert told["date"] == "2026-11-29"
    assert run(words) == 2
    assert run(["calibrate"]) == 2
    log = tmp_path / "run.log"
    log.write_text("step: 1 tps: 100", encoding="utf-8")
    assert run(["calibrate", str(log)]) == 2
    assert "--plan" in capsys.readouterr().err


def test_one_run_is_not_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A single run has no other to be judged by: it is said, and no plan says "left out in turn" of it."""
    with RUNS.open(newline="") as file:
        rows = csv.DictReader(file)
        row = next(row for row in rows if row["gpu"].startswith("H100") and row["step_time_s"])
        head = list(rows.fieldnames or ())
    with (tmp_path / "one.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, head)
        written.writeheader()
        written.writerow(row)
    assert run(["calibrate", str(tmp_path / "one.csv"), "-o", str(tmp_path / "site.json")]) == 0
    told = capsys.readouterr().out

    assert told.startswith("1 run: off by ")
    assert "left out" not in told
    assert (
        Site.model_validate_json((tmp_path / "site.json").read_text("utf-8")).basis
        == "1 run of the site site"
    )
