"""What screens look like: at 80 and 120 columns, with and without colour; flags and shapes that stay."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from shardwise.cli.answers_text import compare_text, curve_text, why_text
from shardwise.cli.app import make_app
from shardwise.cli.cards import cluster_card
from shardwise.cli.no_plan_text import cure_hints, no_plan_text
from shardwise.cli.plan_text import plan_text
from shardwise.cli.show_cluster import cluster_text
from shardwise.cli.voice import Voice
from shardwise.cli.words import job
from shardwise.inputs import InputError, nearest
from shardwise.models import Strategy
from shardwise.plans import Cure, NoPlan, Plan, Request, Why, as_json, read_request, read_strategy
from shardwise.plans.row import BreakEven, Compare, CompareRow, Curve, CurveRow, TermChange
from shardwise.plans.schema import TYPES
from shardwise.solver import plan

FLAGS = Path(__file__).parent / "data" / "flags.json"


@pytest.fixture
def request_() -> Request:
    """Some request."""
    flags = {"cluster.preset": "dgx-h100", "training.global_batch_size": 64, "training.sequence_length": 8192}
    return read_request("llama-3.1-8b", flags)


@pytest.fixture
def strategy(request_: Request) -> Strategy:
    """Some strategy for it."""
    data = {"backend": "deepspeed", "data_parallel": 8, "zero_stage": 3, "recompute": "full"}
    return read_strategy(data, request_.model, "test", request_.training)


@pytest.fixture
def no_plan() -> NoPlan:
    """A proof with two reasons and a cure."""
    cure = Cure.model_validate(
        {"change": "take more nodes", "set": "cluster.nodes=2", "from": "1", "to": "2", "new_gpus": 8,
         "resulting_step_seconds": 3.25}
    )  # fmt: skip
    reasons = (
        "Because offload_optimizer is none (job.toml:9) and there are 8 cards (--cluster), the leanest "
        "layout (fsdp, zero 3, tp 8) needs 155.5 GiB a card: optimizer 65.7, weights 32.9",
        "And because one H100-SXM-80GB offers 79.1 GiB (--cluster), no layout fits",
    )
    return NoPlan(
        inputs_hash="0", versions={}, reasons=reasons, conflict=(), cures=(cure,), rows_considered=1984,
        rows_excluded_by={},
    )  # fmt: skip


def point(strategy: Strategy, **fields: Any) -> dict[str, Any]:
    """Numbers of a case."""
    base = {
        "status": "optimal", "gpus": 8, "nodes": 1, "gpus_per_node": 8, "global_batch_size": 64,
        "strategy": strategy, "step_seconds": 2.0, "low_seconds": 1.6, "high_seconds": 2.4,
        "tokens_per_second": 262144.0, "mfu": 0.5, "comm_fraction": 0.12, "memory_bytes": 60 * 2**30,
        "headroom_bytes": 19 * 2**30, "verdict": "fits", "host_bytes_per_node": 0, "usd_per_hour": None,
        "usd_per_million_tokens": None, "gpu_hours_per_billion_tokens": 8.5,
    }  # fmt: skip
    return base | fields


NO_PLAN_80 = """\
  × No plan fits llama-3.1-8b on 1 x dgx-h100 (8 cards), 64 sequences of 8,192
    tokens
  ├─▶ Because offload_optimizer is none (job.toml:9) and there are 8 cards
  │   (--cluster), the leanest layout (fsdp, zero 3, tp 8) needs 155.5 GiB a
  │   card: optimizer 65.7, weights 32.9
  ╰─▶ And because one H100-SXM-80GB offers 79.1 GiB (--cluster), no layout fits
    (1,984 layouts considered, none fits)"""
NO_PLAN_120 = """\
  × No plan fits llama-3.1-8b on 1 x dgx-h100 (8 cards), 64 sequences of 8,192 tokens
  ├─▶ Because offload_optimizer is none (job.toml:9) and there are 8 cards (--cluster), the leanest layout (fsdp, zero
  │   3, tp 8) needs 155.5 GiB a card: optimizer 65.7, weights 32.9
  ╰─▶ And because one H100-SXM-80GB offers 79.1 GiB (--cluster), no layout fits
    (1,984 layouts considered, none fits)"""  # noqa: E501


@pytest.mark.parametrize(("columns", "expected"), [("80", NO_PLAN_80), ("120", NO_PLAN_120)])
def test_why_none_at_two_widths(
    columns: str, expected: str, no_plan: NoPlan, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences wrap at the terminal's width, at 80 in a pipe, never above 120."""
    monkeypatch.setenv("COLUMNS", columns)

    assert no_plan_text(no_plan, request_) == expected
    assert cure_hints(no_plan) == [
        "this is enough:\n  --set 'cluster.nodes=2'\n"
        "      take more nodes (1 to 2): step 3.25 s, 8 more cards"
    ]  # fmt: skip


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


@pytest.mark.parametrize(
    ("no_color", "environment", "terminal", "coloured"),
    [
        (False, False, True, True),
        (True, False, True, False),
        (False, True, True, False),
        (False, False, False, False),
    ],
)
def test_colour_only_on_a_terminal_that_wants_it(
    no_color: bool, environment: bool, terminal: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--no-color, NO_COLOR and pipes switch it off; the words stay the same."""
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if environment:
        monkeypatch.setenv("NO_COLOR", "1")
    Voice(no_color=no_color).warn("the card is full", "take more")
    told = stream.getvalue()

    assert ("\x1b[" in told) == coloured
    plain = told.replace("\x1b[33m", "").replace("\x1b[36m", "").replace("\x1b[0m", "")
    assert plain == "warning: the card is full\nhint: take more\n"


def test_a_comparison_in_80_columns(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranking, interval, cost, verdict and break-even; a case without a plan tells why."""
    monkeypatch.setenv("COLUMNS", "80")
    rows = (
        CompareRow(name="slow", case={}, rank=2, **point(strategy, step_seconds=2.5)),
        CompareRow(name="fast", case={}, rank=1, pareto=True, **point(strategy)),
        CompareRow(
            name="none", case={}, status="infeasible", gpus=1, nodes=1, gpus_per_node=1, global_batch_size=64,
            reason="Because x, nothing fits",
        ),
    )  # fmt: skip
    found = Compare(
        inputs_hash="0", versions={}, objective="step_seconds", rows=rows, ranking=("fast", "slow"),
        margin_percent=25.0, settled=False,
        settles_percent=30.0, verdict="fast before slow by 25.0 %: measure: ratios",
        break_even=BreakEven(
            field="cluster.node.nic_bytes_per_s", low=1e9, high=1e11, value=5e10, below="fast", above="slow"
        ),
    )  # fmt: skip
    told = compare_text(found).splitlines()

    assert told[:4] == [
        "   case  cards    step  interval     tokens/s   GiB  comm %",
        "1  fast      8  2.00 s  1.60-2.40 s   262,144  60.0      12  *",
        "2  slow      8  2.50 s  1.60-2.40 s   262,144  60.0      12",
        "-  none      1       -  -                   -     -       -",
    ]
    assert "  none: no plan. Because x, nothing fits" in told
    assert "  fast before slow by 25.0 %: measure: ratios" in told
    assert told[-1] == "  slow wins from cluster.node.nic_bytes_per_s = 50 GB/s, fast below that"
    assert max(map(len, told)) <= 80


def test_a_forced_change_in_80_columns(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms with their change, which add up to the step's."""
    monkeypatch.setenv("COLUMNS", "80")
    terms = (
        TermChange(name="recompute", planned_seconds=0.0, forced_seconds=1.5, delta_seconds=1.5),
        TermChange(name="tensor_comm", planned_seconds=0.5, forced_seconds=0.0, delta_seconds=-0.5),
    )
    found = Why(
        inputs_hash="0", versions={}, set="choose.tensor_parallel=1", status="optimal", planned=strategy,
        planned_step_seconds=2.0, forced=strategy, forced_step_seconds=3.0, loss_percent=50.0, terms=terms,
        planned_memory_bytes=2**30, forced_memory_bytes=2**31,
    )  # fmt: skip
    told = why_text(found, "")

    assert "  step 3.00 s against 2.00 s: 50.0 % slower\n" in told
    assert "  recompute    0.00    1.50   +1.50\n" in told
    assert "  step         2.00    3.00   +1.00\n" in told
    assert "  memory 1.0 to 2.0 GiB a card\n" in told


def test_a_curve_in_80_columns(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row a count, with what divides and what must be converted."""
    monkeypatch.setenv("COLUMNS", "80")
    row = CurveRow(
        global_batch_exact=False, nearest_exact_batches=(504, 528), delta_batch_percent=-1.6,
        needs_reshard=True, pareto=True, micro_batch_size=1, gradient_accumulation_steps=8, **point(strategy),
    )  # fmt: skip
    told = curve_text(Curve(inputs_hash="0", versions={}, rows=(row,))).splitlines()

    assert told[1] == "   8  1x8    deepspeed z3 1x1x1x8  2.00 s   262,144  60.0  504/528  reshard *"
    assert max(map(len, told)) <= 80


def test_flags_stay() -> None:
    """A flag or a command is only ever added on purpose: the list is frozen in tests/data/flags.json."""
    group = get_command(make_app())
    found = {
        name: sorted(word for parameter in command.params for word in parameter.opts if word.startswith("-"))
        for name, command in group.commands.items()  # type: ignore[attr-defined]
    }

    assert found == json.loads(FLAGS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TYPES)
def test_a_schema_names_every_field(name: str) -> None:
    """The published shape of an answer lists its fields, closed against others."""
    schema = TYPES[name].model_json_schema(mode="serialization")
    properties = set(schema["properties"])
    aliases = {info.alias or field for field, info in TYPES[name].model_fields.items()}

    assert properties == aliases
    assert schema.get("additionalProperties") is False


def test_json_of_a_proof_reads_back(no_plan: NoPlan) -> None:
    """What is printed is the type's own JSON: it validates and round-trips."""
    assert NoPlan.model_validate_json(as_json(no_plan)) == no_plan


def test_a_cut_list_says_so() -> None:
    """Where more values are legal than are listed, the message says that there are others."""
    cut = InputError("x", "modle", "--x", "is not known", legal=nearest("modle", ["a", "b", "c", "d"], 3))
    whole = InputError("x", "modle", "--x", "is not known", legal=nearest("modle", ["a", "b"], 3))

    assert cut.message.endswith("legal: a, b, c and others")
    assert whole.message.endswith("legal: a, b")


BENCH = ("cluster.gpu=TITAN-RTX", "cluster.gpus_per_node=2")
JOB = ("global_batch_size=16", "sequence_length=1024")


def test_a_machine_of_no_known_type_is_called_by_its_cards() -> None:
    """Nobody reads "1 x 2x"; what nobody gave of the machine is said, not made up."""
    one = read_request("qwen2.5-0.5b", {}, [*BENCH, *JOB])
    four = read_request("qwen2.5-0.5b", {}, [*BENCH, *JOB, "nodes=4", "nic_gbit_per_s=100"])

    assert job(one) == "qwen2.5-0.5b on 2x TITAN-RTX (2 cards), 16 sequences of 1,024 tokens"
    assert "on 4 machines of 2x TITAN-RTX (8 cards)" in job(four)
    assert "network not given   host memory not given" in cluster_text(cluster_card(one.cluster), False)
    assert "network 1 x 12.5 GB/s (tcp)" in cluster_text(cluster_card(four.cluster), False)
    assert any(note.startswith("host memory not known") for note in one.cluster.notes)


def test_a_card_that_was_set_is_the_origin_of_its_memory() -> None:
    """The origin of a limit is where the user put the card, the machine, or the number itself."""
    card, memory = "cluster.node.gpu.memory_usable_bytes", "cluster.node.gpu.memory_usable_bytes=9e9"
    preset = {"cluster.preset": "dgx-h100"}

    assert read_request("qwen2.5-0.5b", {}, [*BENCH, *JOB]).machine_origin(card) == f"--set {BENCH[0]}"
    assert read_request("qwen2.5-0.5b", preset, JOB).machine_origin(card) == "--cluster"
    narrowed = read_request("qwen2.5-0.5b", preset, [*JOB, memory.replace("9e9", "9000000000")])
    assert narrowed.machine_origin(card).startswith("--set cluster.node.gpu")


def test_backends_that_cannot_are_told_beside_one_that_is_too_large() -> None:
    """A proof over some backends says why the others are no way out."""
    card = ("cluster.gpu=A10", "cluster.gpus_per_node=1", "trainable=qlora(16)")
    told = plan(read_request("mixtral-8x7b", {}, [*card, *JOB]))

    assert isinstance(told, NoPlan)
    assert any("no other backend is a way out: megatron does not run" in reason for reason in told.reasons)


def test_stages_tell_their_pool_and_a_missing_ladder_why() -> None:
    """On pools each stage says which it stands on, and -v says why no ladder leads there."""
    pools = [{"machine": "dgx-h100"}, {"machine": "dgx-a100-80gb"}]
    request = Request.model_validate(
        {
            "model": "llama-3.2-1b",
            "cluster": {"pool": pools},
            "training": {"global_batch_size": 64, "sequence_length": 2048},
            "choose": {"pipeline_parallel": 2},
        }
    )
    found = plan(request)
    assert isinstance(found, Plan)
    told = plan_text(found, 0, True)

    assert re.search(r"^ +0 .* (dgx-h100|dgx-a100-80gb)$", told, re.MULTILINE)
    assert "no ladder: it starts from one data-parallel group over equal cards" in told
