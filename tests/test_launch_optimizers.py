"""Which optimizers are planned and written: one table, held to what the writers do."""

from __future__ import annotations

import json
from itertools import product
from typing import get_args

import pytest
from plans_by_hand import deepspeed, fsdp, megatron, plan

from shardwise.cli import main
from shardwise.launch import emit
from shardwise.launch.optimizers import optimizers_of, writers_of
from shardwise.launch.refused import Refused
from shardwise.launch.target import TARGETS
from shardwise.models import Strategy, Transformer
from shardwise.models.backend import backend
from shardwise.models.strategy import BACKENDS
from shardwise.models.training import Optimizer

STRATEGIES: dict[str, Strategy] = {
    "deepspeed": deepspeed(1, 8), "fsdp": fsdp(3, 8), "megatron": megatron(0, 8),
}  # fmt: skip
"""A plan by hand that the files of the backend's own client hold."""

OTHERS: dict[str, Strategy] = {
    "accelerate": fsdp(3, 8, gradient_dtype="bf16"),
    "transformers": fsdp(3, 8, gradient_dtype="bf16"),
}
PAIRS = [(target.name, name) for target in TARGETS.values() for name in target.backends]
NAMES = {"deepspeed": {"adamw": "AdamW", "lion": "Lion", "sgd": "SGD", "sgd-no-momentum": "SGD"}}


@pytest.mark.parametrize(("target", "name"), PAIRS)
@pytest.mark.parametrize("optimizer", get_args(Optimizer))
def test_files_come_out_for_the_optimizers_of_the_table(target: str, name: str, optimizer: Optimizer) -> None:
    """Every client, backend and optimizer: written where the table says so, else refused by that name."""
    strategy = OTHERS.get(target, STRATEGIES[name]) if name == "fsdp" else STRATEGIES[name]
    model = Transformer.preset("llama-3.1-8b") if target == "torchtitan" else None
    if model is not None:
        layers = strategy.stages[0].model_copy(update={"layers": model.layers})
        strategy = strategy.model_copy(update={"stages": (layers,)})
    asked = plan(strategy, optimizer=optimizer, model=model)
    if optimizer in optimizers_of(target, backend(name).name):
        files = emit(asked, target)
        if name == "deepspeed":
            configs = [json.loads(text) for file, text in files.items() if file.startswith("ds_config")]
            assert {config["optimizer"]["type"] for config in configs} == {NAMES["deepspeed"][optimizer]}
        return
    with pytest.raises(Refused, match="alone") as refused:
        emit(asked, target)
    assert (refused.value.field, refused.value.value) == ("training.optimizer", optimizer)


def test_no_client_names_what_its_backend_does_not_run() -> None:
    """Each row of the table is part of the backend's own list, which the search obeys."""
    for target, name in PAIRS:
        assert set(optimizers_of(target, backend(name).name)) <= set(backend(name).optimizers)
    for optimizer, name in product(get_args(Optimizer), BACKENDS):
        assert bool(writers_of(optimizer, name)) == (optimizer in backend(name).optimizers)


def test_the_list_tells_what_is_priced_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """`list optimizers`: every optimizer with its backends; none for those that no plan is made with."""
    assert main(["list", "optimizers", "--json"]) == 0
    entries = {one["name"]: one["facts"] for one in json.loads(capsys.readouterr().out)["entries"]}

    assert tuple(entries) == get_args(Optimizer)
    for optimizer, facts in entries.items():
        planned = [name for name in BACKENDS if optimizer in backend(name).optimizers]
        assert facts["backends"] == (", ".join(planned) or "none")
        assert (facts["files"] == "none") == (not planned)
