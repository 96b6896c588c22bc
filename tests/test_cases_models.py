"""Cases of users about model shapes, as predicates in data: nine of ten hold, each miss is explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardwise.costs.columns import even_stages
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.models import count, divisors, explain_config, legal_degrees, parse_config, read_config
from shardwise.models.divisors import misaligned, padded, padded_vocabulary

DATA = Path(__file__).parent / "data"
CASES = json.loads((DATA / "cases_models.json").read_text(encoding="utf-8"))
MODELS = [case for case in CASES["cases"] if case["side"] == "models"]


def near(found: float, wanted: float, within: float) -> bool:
    """Whether a number lies within a share of another."""
    return abs(found - wanted) <= within * wanted


def parameters(check: dict[str, Any]) -> bool:
    """The count of a config, 1e9."""
    total = count(read_config(DATA / "hf_configs" / check["config"])).total
    return near(total / 1e9, check["billion"], check["within"])


def parameters_or_refusal(check: dict[str, Any]) -> bool:
    """The count, or a refusal with a reason."""
    try:
        return parameters(check)
    except InputError as error:
        return bool(error.reason)


def predictor(check: dict[str, Any]) -> bool:
    """Main model, active parameters, and what the file holds with the further-token layer."""
    model = read_config(DATA / "hf_configs" / check["config"])
    counted = count(model)
    copies = 2 * model.vocab_size * model.hidden_size
    return (
        near(counted.total / 1e9, check["billion"], check["within"])
        and near(counted.active / 1e9, check["active_billion"], check["active_within"])
        and near(
            (counted.total + counted.predictor + copies) / 1e9, check["file_billion"], check["file_within"]
        )
    )


def noted(check: dict[str, Any]) -> bool:
    """The count, and a note on a key that is ignored."""
    report = explain_config(DATA / "hf_configs" / check["config"])
    said = [note for note in report.notes if note.startswith(check["key"])]
    return (
        parameters(check)
        and check["key"] in report.ignored
        and any(all(word in note for word in check["words"]) for note in said)
    )


def preset(check: dict[str, Any]) -> bool:
    """Cards of a machine of the catalogue and of its NVLink domain."""
    node = Cluster.preset(check["cluster"], nodes=1).node
    return (node.gpus, node.domain_size) == (check["gpus"], check["domain"])


def degrees(check: dict[str, Any]) -> bool:
    """The largest degree of tensor parallel, and those that are none."""
    legal = legal_degrees(parse_config(check["keys"], "case"), "tensor_parallel")
    return bool(max(legal) == check["most"] and not set(legal) & set(check["refuses"]))


def suggestion(check: dict[str, Any]) -> bool:
    """The legal degree nearest to one that is none."""
    legal = legal_degrees(parse_config(check["keys"], "case"), "tensor_parallel")
    best = min(legal, key=lambda degree: (abs(degree - check["asked"]), degree))
    return bool(check["asked"] not in legal and best == check["suggested"])


def stages(check: dict[str, Any]) -> bool:
    """Stages that hold every layer, and a divisor that says they cannot be equal."""
    layers, parts = check["layers"], check["pipeline_parallel"]
    shares = even_stages(layers, parts, "none", False)
    keys = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": layers, "num_attention_heads": 4}
    model = parse_config(keys | {"intermediate_size": 96, "vocab_size": 96}, "case")
    told = [d for d in divisors(model) if d.axis == "pipeline_parallel" and d.number % parts and d.reason]
    held = sum(stage.layers for stage in shares)
    return bool(held == layers and len(shares) == parts and told)


def rounded(check: dict[str, Any]) -> bool:
    """A length rounded up."""
    return bool(padded(check["number"], check["unit"]) == check["padded"])


def vocabulary(check: dict[str, Any]) -> bool:
    """A padded vocabulary, and the parameters of embedding and head that are added."""
    found = padded_vocabulary(check["vocab_size"], check["tensor_parallel"])
    added = 2 * (found - check["vocab_size"]) * check["hidden_size"]
    return (found, added) == (check["padded"], check["added_parameters"])


def eight_bit(check: dict[str, Any]) -> bool:
    """Widths that 8-bit products refuse."""
    keys = {"model_type": "llama", "hidden_size": check["hidden_size"], "num_hidden_layers": 1}
    keys |= {"num_attention_heads": 7, "intermediate_size": check["width"], "vocab_size": 96}
    named = {found.number for found in misaligned(parse_config(keys, "case"), 1)}
    return set(check["misaligned"]) <= named and not named & set(check["aligned"])


CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "parameters": parameters,
    "parameters_or_refusal": parameters_or_refusal,
    "predictor": predictor,
    "noted": noted,
    "preset": preset,
    "degrees": degrees,
    "suggestion": suggestion,
    "stages": stages,
    "padded": rounded,
    "vocabulary": vocabulary,
    "eight_bit": eight_bit,
}


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case["id"])
def test_a_case_holds_or_its_miss_is_explained(case: dict[str, Any]) -> None:
    """Each predicate holds, unless the file says why it does not."""
    assert CHECKS[case["check"]["kind"]](case["check"]) != (case["id"] in CASES["misses"])


def test_nine_of_ten_cases_hold() -> None:
    """Of those about models and presets; the reader of topologies answers the rest."""
    ids = [case["id"] for case in MODELS]

    assert len(ids) == 16
    assert set(CASES["misses"]) <= set(ids)
    assert len(CASES["misses"]) <= 0.1 * len(ids)
    assert all(len(reason.split()) > 5 for reason in CASES["misses"].values())
