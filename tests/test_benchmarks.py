"""The benchmarks: how a published row is read, what is refused and why, and what the scores mean."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import accuracy, configs, efficiency, oracle, pricing, proof, regret, speed
from benchmarks.scores import by_source, spearman, summary
from shardwise.costs import price
from shardwise.inputs import InputError
from shardwise.models import count
from shardwise.models.recipe import losses
from shardwise.models.stack import stack, stack_names
from shardwise.runs.choices import choices_of
from shardwise.runs.facts import facts
from shardwise.runs.links import network_of
from shardwise.runs.machines import cluster_of
from shardwise.runs.record import COLUMNS, Record, read_records
from shardwise.runs.refusal import Refused
from shardwise.runs.rows import Job, read_row
from shardwise.runs.shapes import shapes
from shardwise.runs.software import rules, software_of
from shardwise.runs.stages import stage_layers, stages_of
from shardwise.runs.views import peak_gib, seen, view_of

ROOT = Path(__file__).parents[1]
DATA = ROOT / "benchmarks" / "data"
RUNS = DATA / "published_runs.csv"

WHOLE = {
    "id": "made-001",
    "source": "made",
    "year": "2023",
    "gpu": "A100-80GB-SXM",
    "gpus": "32",
    "gpus_per_node": "8",
    "inter_link": "8x200Gb HDR IB",
    "framework": "Megatron-LM",
    "layers": "24",
    "hidden": "2048",
    "heads": "16",
    "kv_heads": "16",
    "ffn_hidden": "8192",
    "ffn_type": "gelu",
    "vocab": "51200",
    "tied_embeddings": "1",
    "seq_len": "2048",
    "global_batch_seqs": "64",
    "micro_batch_seqs": "2",
    "tp": "2",
    "sp": "0",
    "pp": "4",
    "vpp": "1",
    "cp": "1",
    "ep": "1",
    "dp": "4",
    "zero_stage": "1",
    "recompute": "full",
    "offload": "none",
    "precision": "bf16",
    "optimizer": "adam fp32 states",
    "flash_attention": "1",
    "step_time_s": "2.5",
}
"""A row with everything that its price depends on."""


def record(**cells: str) -> Record:
    """The whole row with other cells."""
    return Record(dict.fromkeys(COLUMNS, "") | WHOLE | cells)


def published(name: str) -> Record:
    """A line of the published runs."""
    return next(line for line in read_records(RUNS) if line.name == name)


def refusal(**cells: str) -> Refused:
    """Why the whole row with other cells is refused."""
    with pytest.raises(Refused) as caught:
        read_row(record(**cells))
    return caught.value


def write_runs(path: Path, *records: Record) -> str:
    """A file of runs."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for line in records:
            writer.writerow({column: line.text(column) for column in COLUMNS})
    return str(path)


def test_a_row_without_blanks_is_complete_and_has_one_reading() -> None:
    """Nothing is imputed where the row says all."""
    job = read_row(record())

    assert job.complete and len(job.candidates) == 1
    strategy = job.candidates[0].strategy
    assert (strategy.world, strategy.gradient_accumulation_steps) == (32, 8)
    assert job.measured_seconds(job.candidates[0].training) == 2.5


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ({"gpus": "", "dp": ""}, "no-gpus"),
        ({"gpu": ""}, "no-gpu"),
        ({"gpu": "Abacus-9"}, "unknown-gpu"),
        ({"gpus": "30"}, "cluster"),
        ({"tp": "3"}, "degrees"),
        ({"dp": "8"}, "degrees"),
        ({"global_batch_seqs": "63"}, "batch"),
        ({"heads": ""}, "no-heads"),
        ({"precision": "int3"}, "precision"),
        ({"gpu": "V100-16GB-SXM2"}, "precision"),
        ({"recompute": "some"}, "unreadable"),
        ({"layers": "many"}, "unreadable"),
        ({"layers": "2.5"}, "unreadable"),
        ({"seq_len": "-1"}, "unreadable"),
        ({"zero_stage": "7"}, "unreadable"),
        ({"offload": "moon"}, "unreadable"),
        ({"kv_heads": "5"}, "shape"),
    ],
)
def test_what_no_rule_can_fill_is_refused_with_a_code(cells: dict[str, str], code: str) -> None:
    """A row that contradicts itself or lacks what no rule gives is refused, never guessed."""
    assert refusal(**cells).code == code


@pytest.mark.parametrize(
    ("column", "readings"),
    [("micro_batch_seqs", {1, 2, 4}), ("recompute", {"none", "selective", "full"}), ("vpp", {1, 2, 3, 6})],
)
def test_a_blank_that_authors_tune_has_several_readings(column: str, readings: set[object]) -> None:
    """Micro-batch, recompute and interleaving left blank are priced at their candidates, and imputed."""
    job = read_row(record(flash_attention="0", **{column: ""}))
    strategies = [candidate.strategy for candidate in job.candidates]
    met: set[object] = {
        {"micro_batch_seqs": s.micro_batch_size, "recompute": s.recompute, "vpp": s.virtual_pipeline}[column]
        for s in strategies
    }

    assert job.imputed == (column,)
    assert met == readings


def test_blank_recompute_of_nvidia_recipes_is_none() -> None:
    """NVIDIA's tables leave recompute blank and use none; elsewhere it is one of the candidates."""
    job = read_row(record(framework="NeMo/Megatron-Core", year="2024", recompute=""))

    assert {candidate.strategy.recompute for candidate in job.candidates} == {"none"}


def test_blank_sequence_parallel_follows_the_year() -> None:
    """Blank `sp` is off before 2023 and on from then."""
    flags = [
        read_row(record(sp="", year=year)).candidates[0].strategy.sequence_parallel
        for year in ("2022", "2023")
    ]

    assert flags == [False, True]


def test_the_measured_time_is_that_of_the_rate_where_no_step_time_is_published() -> None:
    """tokens / (tokens/s/card * cards)."""
    job = read_row(record(step_time_s="", tokens_per_s_per_gpu="1024"))

    assert job.measured_seconds(job.candidates[0].training) == 64 * 2048 / (1024 * 32)


def test_every_framework_finds_a_rule_and_known_words() -> None:
    """The last rule holds for any row, and each rule's last stack and loss are in the catalogue."""
    unknown = software_of(record(framework="Nobody's trainer", year="2019", pp="1"))

    assert unknown.rule == rules()[-1].name == "any"
    for rule in rules():
        assert set(rule.stacks) & set(stack_names()) and set(rule.losses) & set(losses())


def test_words_that_rules_share_stand_once() -> None:
    """Longer lists of a framework's words have a name where several rules want them, and each is of use."""
    told = facts("frameworks")
    named = [entry["framework"] for entry in told["rules"] if isinstance(entry.get("framework"), str)]
    spelled = [words for rule in told["rules"] if isinstance(words := rule.get("framework"), list)]
    longer = [*map(tuple, told["words"].values()), *(tuple(words) for words in spelled if len(words) > 3)]

    assert set(named) == set(told["words"]) and min(map(named.count, named)) > 1
    assert len(longer) == len(set(longer))
    assert all(isinstance(rule.framework, tuple) for rule in rules())


@pytest.mark.parametrize(
    ("cells", "rule"),
    [
        ({"framework": "torchtitan", "notes": "no compile; per-op"}, "fsdp-eager"),
        ({"framework": "torchtitan", "notes": "torch.compile; per-op"}, "fsdp-compiled"),
        ({"framework": "torchtitan", "notes": "torch.compile", "year": "2025"}, "fsdp-compiled-loss"),
        ({"framework": "DeepSpeed ZeRO-3", "year": "2021"}, "zero3-of-2021"),
        ({"framework": "Megatron-DeepSpeed", "year": "2022"}, "megatron-deepspeed"),
        ({"framework": "Megatron-DeepSpeed (BigScience)", "year": "2021"}, "megatron-deepspeed-bigscience"),
        ({"framework": "DeepSpeed 0.19 + Liger", "year": "2026"}, "liger"),
        (
            {"framework": "flash-attention", "notes": "FlashAttention-2", "flash_attention": "1"},
            "flash-attention-2",
        ),
        (
            {"framework": "flash-attention", "notes": "FlashAttention; 8k", "flash_attention": "1"},
            "flash-attention",
        ),
        ({"framework": "TinyLlama (Fabric)", "notes": ""}, "flash-attention-2"),
        ({"framework": "AA-Scaling", "notes": "fused RMSNorm"}, "three-dimensions-flash"),
        ({"framework": "AA-Scaling", "notes": "FlashAttention-2"}, "aa-scaling-eager"),
        ({"framework": "nanotron", "year": "2024"}, "nanotron-gathered"),
        ({"framework": "nanotron", "year": "2025"}, "nanotron"),
        ({"framework": "Megatron-LM", "year": "2024"}, "megatron-lm-flash"),
        ({"framework": "Megatron-LM", "year": "2024", "notes": "tp-comm-overlap"}, "megatron-lm-overlap"),
        ({"framework": "Megatron-LM", "year": "2025"}, "megatron-lm-core"),
        ({"framework": "NeMo 1.11", "year": "2022"}, "nemo-early"),
        ({"framework": "NeMo 24.09", "year": "2024"}, "nemo"),
        ({"framework": "LitGPT", "notes": "torch.compile"}, "litgpt-compiled"),
        ({"framework": "LitGPT", "notes": "no torch.compile"}, "litgpt"),
        ({"framework": "llm.c", "year": "2024", "pp": "1"}, "written-in-cuda"),
        ({"framework": "FSDP2 (AutoModel)", "year": "2025", "pp": "1"}, "automodel"),
    ],
)
def test_framework_year_and_notes_choose_the_software(cells: dict[str, str], rule: str) -> None:
    """The rules are data, tried in order."""
    assert software_of(record(**cells)).rule == rule


@pytest.mark.parametrize(
    ("framework", "notes", "chunks"),
    [
        ("Megatron-LM", "", {1, 2, 3, 6}),
        ("Megatron-LM", "interleaved", {2, 3, 6}),
        ("Megatron-DeepSpeed", "", {1}),
        ("Megatron-SWIFT", "", {1}),
        ("InternEvo", "interleaved", {2, 3, 6}),
    ],
)
def test_blank_interleaving_is_what_the_software_does_untold(
    framework: str, notes: str, chunks: set[int]
) -> None:
    """Six layers a stage: any whole number of chunks where the software may, one where it must be told."""
    line = record(framework=framework, notes=notes, vpp="", pp="4")

    assert {found for _, found, _ in choices_of(line, None, 24, 4, 2)} == chunks


def test_a_stand_in_is_named_where_the_catalogue_lacks_something() -> None:
    """What was priced in place of the row's own software, attention or precision is on the job."""
    job = read_row(record(flash_attention="0", framework="Composer/FSDP1", tp="1", pp="1", dp="32"))

    assert "attention unfused -> fused" in job.stand_ins
    assert all(" -> " in note for note in job.stand_ins)


def test_the_network_of_a_row() -> None:
    """Cards and rate of each, a rate per card, a rate per machine, and none."""
    assert network_of("8x200Gb HDR IB", 8) == (8, 25e9)
    assert network_of("400Gb/s RDMA per GPU", 8) == (8, 50e9)
    assert network_of("3.2Tb/s per node IB or RoCE", 8) == (1, 400e9)
    assert network_of("RoCE RDMA", 8) is None


def test_a_link_domain_of_several_machines_is_used_in_powers_of_two() -> None:
    """Of an NVL72's 72 cards a published run uses 64, so that no group straddles two domains."""
    cluster, imputed, _ = cluster_of(
        record(gpu="GB200-192GB", gpus="256", gpus_per_node="4", inter_link="", tp="4", dp="16")
    )

    assert (cluster.gpus, cluster.island_gpus) == (256, 64)
    assert imputed == ("inter_link",)


def test_part_of_a_machine_is_part_of_a_machine() -> None:
    """Two cards of an 8-card machine."""
    cluster, _, _ = cluster_of(record(gpus="2", gpus_per_node="2"))

    assert (cluster.gpus, cluster.nodes, cluster.cards) == (2, 1, 2)


@pytest.mark.parametrize(
    ("layers", "stages", "chunks"),
    [(24, 4, 1), (22, 8, 3), (126, 16, 4), (61, 16, 4), (70, 12, 1), (94, 8, 4)],
)
def test_stages_hold_all_layers(layers: int, stages: int, chunks: int) -> None:
    """Whatever the division, every stage has a layer and none is lost."""
    held = stage_layers(layers, stages, chunks)
    each = [sum(sizes) for sizes in held]

    assert sum(each) == layers and len(held) == stages and min(each) >= 1
    assert {len(sizes) for sizes in held} == {chunks} and max(each) % chunks == 0


def test_selective_means_what_the_source_means_by_it() -> None:
    """Layer AC is every second layer whole, every n-th block a share from HFU over MFU, else operators."""
    eager = stack("fsdp-eager-2023")
    layer = stages_of(record(notes="selective layer AC"), "selective", eager, ((80,),), False)[0]
    share = stages_of(
        record(notes="HFU 60%; every n-th block", mfu_pct="50"), "selective", eager, ((40,),), False
    )[0]
    operators = stages_of(record(notes="per-op"), "selective", eager, ((40,),), False)[0]

    assert (layer.recompute_full_layers, layer.recompute_selective_layers) == (40, 0)
    assert share.recompute_full_layers == 24
    assert (operators.recompute_full_layers, operators.recompute_selective_layers) == (0, 40)


def test_views_of_memory_are_ordered() -> None:
    """Allocated is at most reserved, and reserved at most what the whole process holds."""
    job = read_row(record())
    choice = job.candidates[0]
    ledger = price(job.transformer, choice.training, job.cluster, [choice.strategy])[0]

    assert peak_gib(ledger, "allocated") < peak_gib(ledger, "reserved") < peak_gib(ledger, "process")
    assert view_of(record(mem_kind="allocated")) == "allocated"
    assert view_of(record(mem_kind="reserved", notes="memory = nvidia-smi")) == "process"


def test_memory_read_on_one_machine_is_that_of_the_first_stage() -> None:
    """Where `mem_stage` says so: there the last stage, which has the loss, does not count."""
    job = read_row(record())
    choice = job.candidates[0]
    ledger = price(job.transformer, choice.training, job.cluster, [choice.strategy])[0]
    first, third = (seen(ledger, record(mem_stage=word)) for word in ("0", "2"))

    assert seen(ledger, record(notes="memory of the first stage")) == seen(ledger, job.record) == ledger
    assert [[stage.stage for stage in found.stages] for found in (first, third)] == [[0], [2]]
    assert peak_gib(first, "reserved") <= peak_gib(ledger, "reserved")


@pytest.mark.parametrize("word", ["4", "-1", "last", "0.5"])
def test_a_stage_that_no_layout_has_is_refused(word: str) -> None:
    """Of four stages the last is 3; a row that names another, or no number, is refused when it is read."""
    assert read_row(record(mem_stage="3")).candidates
    with pytest.raises(Refused, match="mem_stage"):
        read_row(record(mem_stage=word))


def test_published_dimensions_give_the_published_parameters() -> None:
    """Models built from the columns have the published parameters, to 2 % (8 % of a one-digit figure)."""
    seen: dict[tuple[str, ...], Job] = {}
    for line in read_records(RUNS):
        try:
            seen.setdefault(tuple(line.text(c) for c in ("params_b", "layers", "hidden")), read_row(line))
        except Refused:
            continue
    for job in seen.values():
        size = job.record.number("params_b") or 0.0
        room = 0.02 if len(job.record.text("params_b").replace(".", "")) > 2 else 0.08
        assert abs(count(job.transformer).total / 1e9 / size - 1) < room, job.record.name


def test_shapes_are_used_by_published_rows() -> None:
    """No entry of shapes.json is dead: a row of some file of runs has it."""
    lines = [line for path in RUNS.parent.glob("*_runs.csv") for line in read_records(path)]
    met = {tuple(line.integer(c) for c in ("layers", "hidden", "vocab")) for line in lines}

    assert set(shapes()) <= met


def test_few_measured_rows_are_refused() -> None:
    """Of rows with a time and a card count at most 5 % are refused, and at most 20 % of any source."""
    asked: dict[str, int] = {}
    lost: dict[str, int] = {}
    for line in read_records(RUNS):
        if line.text("gpus") and (line.number("step_time_s") or line.number("tokens_per_s_per_gpu")):
            source = line.text("source")
            asked[source] = asked.get(source, 0) + 1
            try:
                read_row(line)
            except Refused:
                lost[source] = lost.get(source, 0) + 1

    assert sum(lost.values()) <= 0.05 * sum(asked.values())
    assert all(lost.get(source, 0) <= 0.2 * rows for source, rows in asked.items())


def test_accuracy_reports_every_row_once(tmp_path: Path) -> None:
    """Priced and refused rows add up; complete ones come first, worst first, under the documented keys."""
    file = write_runs(
        tmp_path / "runs.csv",
        record(),
        record(id="made-002", step_time_s="40", peak_mem_gib="30", mem_kind="reserved"),
        record(id="made-003", micro_batch_seqs=""),
        record(id="made-004", gpus="", dp=""),
        record(id="made-005", step_time_s=""),
    )
    found = accuracy.measure([file])

    assert (found["rows"]["priced"], found["rows"]["refused"]) == (3, 2)
    assert (found["rows"]["complete"], found["rows"]["imputed"]) == (2, 1)
    assert [line["complete"] for line in found["lines"]] == [True, True, False]
    assert found["lines"][0]["id"] == "made-002"
    assert {r["id"]: r["code"] for r in found["refusals"]} == {"made-004": "no-gpus", "made-005": "no-time"}
    assert (found["memory"]["priced"], found["memory"]["refused"]) == (1, 0)
    step = found["step"]
    assert step["by_source"]["made"]["rows"] == 3
    assert {"mape", "median_ape", "bias", "spearman"} <= step["by_source"]["made"].keys()
    assert step["mape_by_source_mean"] == pytest.approx(step["by_source"]["made"]["mape"])
    assert "made-002" in accuracy.text(found)


def test_a_doubled_measurement_halves_the_prediction_beside_it(tmp_path: Path) -> None:
    """The error is predicted / measured - 1, in percent."""
    file = write_runs(tmp_path / "runs.csv", record(), record(id="made-002", step_time_s="5.0"))
    errors = {line["id"]: line["step_error"] for line in accuracy.measure([file])["lines"]}

    assert 1 + errors["made-002"] / 100 == pytest.approx((1 + errors["made-001"] / 100) / 2)


def layouts() -> list[Record]:
    """Four layouts of one job; measured times rise with the pipeline."""
    return [
        record(id=f"made-{pp}", pp=str(pp), dp=str(16 // pp), step_time_s=str(1.0 + 0.1 * pp))
        for pp in (1, 2, 4, 8)
    ]


def test_regret_is_what_the_chosen_layout_loses(tmp_path: Path) -> None:
    """Layouts of one job form a group of at least four; regret is measured, never predicted."""
    files = [write_runs(tmp_path / "a.csv", *layouts()), write_runs(tmp_path / "b.csv", record())]
    found = regret.measure(files)
    group = found["groups"][0]

    assert found["regret"]["groups"] == 1 and group["layouts"] == 4
    times = {line.name: line.number("step_time_s") or 0.0 for line in layouts()}
    assert group["best"] == "made-1"
    assert group["regret"] == pytest.approx((times[group["chosen"]] / times["made-1"] - 1) * 100)
    assert found["oom"]["ran"] == 4 and 0 <= found["oom"]["false_rate"] <= 1
    mine = {"groups": 1, "regret": group["regret"], "spearman": group["spearman"]}
    assert found["by_source"] == {"fitted": {"made": mine}, "left_out": {"made": mine}}


def test_repeated_lines_bound_what_a_ledger_can_rank(tmp_path: Path) -> None:
    """Lines of one layout 20 % apart: layouts 10 % apart cannot be told apart surely."""
    again = record(id="made-9", pp="1", dp="16", step_time_s="1.32")
    runs = write_runs(tmp_path / "a.csv", *layouts(), again)
    noise = regret.measure([runs, write_runs(tmp_path / "b.csv", record())])["noise"]["made"]

    assert noise["percent"] == pytest.approx(100 * abs(math.log(1.1 / 1.32)) / 2**0.5)
    assert 0.5 < noise["spearman"] < 0.95
    assert regret.measure([write_runs(tmp_path / "c.csv", *layouts()), runs])["noise"] == {}


def test_three_layouts_or_another_model_are_no_group(tmp_path: Path) -> None:
    """Groups below four layouts, and lines of other models, do not count."""
    other = write_runs(tmp_path / "b.csv", record())
    few = write_runs(tmp_path / "a.csv", *layouts()[:3], record(id="made-9", layers="12", pp="4"))

    assert regret.measure([few, other])["regret"] == {"groups": 0, "mean": None, "max": None}


def test_a_run_far_beyond_the_card_is_caught(tmp_path: Path) -> None:
    """A failed run that cannot fit counts as recalled; one that fits easily as missed."""
    big = {"layers": "96", "hidden": "12288", "heads": "96", "kv_heads": "96", "ffn_hidden": "49152"}
    failed = write_runs(tmp_path / "b.csv", record(**big), record(id="made-002"))
    found = regret.measure([write_runs(tmp_path / "a.csv", *layouts()), failed])

    assert found["oom"]["recall"] == 0.5 and found["oom"]["missed"] == ["made-002"]


def test_oracle_compares_four_parts() -> None:
    """Every line of the oracle is priced; sharded 8B totals without selective recompute are within 3 %."""
    found = oracle.measure([str(DATA / "fsdp_mem_oracle.csv")])

    assert found["rows"] == 24 and {"total", "params", "optimizer", "activations"} <= found.keys()
    sharded = [
        line
        for line in found["lines"]
        if line["name"].startswith(("llama3-8b x8", "llama3-8b x64")) and "selective" not in line["name"]
    ]
    assert len(sharded) == 8 and all(abs(line["total"]["error"]) < 3 for line in sharded)


def test_efficiency_predicts_points_it_has_not_seen() -> None:
    """By shape or source; each card against the bars, of which one misses: a power-bound card."""
    found = efficiency.measure([str(DATA / "efficiency.csv")])
    groups = found["groups"]
    sources = [line for line in groups["collectives"]["cards"] if line["held_out_by"] == "source"]

    assert groups["products"]["all"]["rows"] == 596 and groups["collectives"]["all"]["rows"] == 423
    assert sum(line["rows"] for line in sources) == 23
    assert all(line["mape"] > 0 for line in groups["attention"]["cards"])
    missed = [
        (bar["group"], line["card"])
        for bar in found["bars"]
        for line in bar["cards"]
        if line["mape"] > bar["most"]
    ]
    assert not missed


def test_no_shape_of_the_benchmark_is_in_the_fit() -> None:
    """products.csv and efficiency.csv share no shape."""

    def of(row: dict[str, str]) -> tuple[int, ...]:
        return tuple(int(row[side]) for side in "mnk")

    with (DATA / "products.csv").open(encoding="utf-8") as file:
        fitted = {of(row) for row in csv.DictReader(file)}
    with (DATA / "efficiency.csv").open(encoding="utf-8") as file:
        words = [row["shape_or_bytes"].split()[0] for row in csv.DictReader(file) if row["what"] == "gemm"]
    asked = {tuple(int(side) for side in word.split("x")) for word in words}

    assert len(fitted) == 516 and len(asked) == 20 and not fitted & asked


def test_configs_counts_right_refused_and_wrong(tmp_path: Path) -> None:
    """A count beyond the last printed digit and half a percent is wrong; an unknown family is refused."""
    llama = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
    }
    (tmp_path / "a.json").write_text(json.dumps(llama), encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps({"model_type": "abacus"}), encoding="utf-8")
    lines = "file,params_billion_published\na.json,0.0002\na.json,0.9\nb.json,1.0\n"
    (tmp_path / "index.csv").write_text(lines, encoding="utf-8")
    found = configs.measure([str(tmp_path)])

    assert (found["files"], found["right"], found["refused"], found["wrong"]) == (3, 1, 1, 1)
    assert found["lines"][0]["verdict"] == "wrong"


def test_the_reader_is_never_wrong_about_public_files() -> None:
    """Of the public config files some are refused, none is counted wrong."""
    found = configs.measure([str(Path(__file__).parent / "data" / "hf_configs")])

    assert found["wrong"] == 0 and found["right"] >= 11


def test_speed_measures_fresh_processes() -> None:
    """`--help` costs less than importing OR-Tools, by processor time of processes that share nothing."""
    found = speed.measure(["help"])
    line = found["lines"][0]

    assert line["exit_code"] == 0 and 0 < line["imports"] < 1
    assert line["imports"] == pytest.approx(line["cpu_seconds"] / found["import_seconds"])


def test_proof_of_a_few_requests() -> None:
    """The search equals the exhaustive one; four routes agree on rows with stages, some of them feasible."""
    found = proof.measure(10, 40)

    assert found["differ"] == 0 and found["routes_apart"] == {}
    assert found["rows_by_four_routes"] == 40 and found["feasible_rows"] >= 3
    assert "coverage: 10 requests" in found["coverage"]


def test_an_unknown_case_of_speed_is_bad_input() -> None:
    """The nearest names are told."""
    with pytest.raises(InputError) as caught:
        speed.measure(["hlep"])
    assert "help" in caught.value.legal


def test_scores() -> None:
    """Mean over sources weighs sources alike; the median is over rows; bias is signed."""
    found = by_source([("a", 110.0, 100.0), ("a", 90.0, 100.0), ("b", 140.0, 100.0)])

    assert found["mape_by_source_mean"] == pytest.approx(25.0)
    assert found["median_ape"] == pytest.approx(10.0)
    assert found["by_source"]["a"]["bias"] == pytest.approx(0.0)
    assert by_source([])["rows"] == 0


def test_spearman_shares_ranks_of_equals_and_needs_three() -> None:
    """Equal values share the mean of their ranks; two pairs have no rank correlation."""
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.948683, abs=1e-6)
    assert spearman([1, 2], [1, 2]) is None and spearman([1, 1, 1], [1, 2, 3]) is None
    assert summary([(1.0, 1.0)])["mape"] == 0


@pytest.mark.parametrize("main", [accuracy.main, regret.main, oracle.main, efficiency.main])
def test_bad_files_give_one_line_and_code_two(
    main: Callable[[Sequence[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file or column is told in one line; with --json as an object too."""
    empty = tmp_path / "bad.csv"
    empty.write_text("id,source\na,b\n", encoding="utf-8")
    files = [str(empty)] * (2 if main is regret.main else 1)
    code, told = main(["--json", *files]), capsys.readouterr()

    assert code == 2 and len(told.err.splitlines()) == 1
    assert json.loads(told.out)["error"]["field"] == "column"


def test_json_is_one_object_and_stable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same file gives the same bytes."""
    file = write_runs(tmp_path / "runs.csv", record())
    outputs = []
    for _ in range(2):
        assert accuracy.main(["--json", file]) == 0
        outputs.append(capsys.readouterr().out)

    assert outputs[0] == outputs[1] and json.loads(outputs[0])["rows"]["priced"] == 1


def test_strategies_priced_at_once() -> None:
    """Every column of a strategy has a value; some of them fit."""
    prices = pricing.priced(1536)
    assert len(prices.peak_kib) == 1536 and prices.step.total.min() > 0
    assert (prices.peak_kib <= prices.book.layout.cluster.node.gpu.memory_usable_bytes // 1024).any()


def test_a_reader_who_stops_reading_ends_a_benchmark_without_a_word() -> None:
    """``| head -1``: the exit code of a closed pipe and no word, at the last flush neither."""
    code = "from benchmarks.face import tell; tell('line\\n' * 100_000)"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()

    assert (process.returncode, told) == (141, b"")
