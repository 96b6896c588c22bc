"""Public types made by hand: what is wrong is told as the one input error, at no cost to what nests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import shardwise
from shardwise import Cluster, InputError, Request, Strategy, Training
from shardwise.inputs import Frozen
from shardwise.models import Attention, Block, FeedForward

JOB: dict[str, Any] = {"global_batch_size": 8, "sequence_length": 64}
HOST: dict[str, Any] = {"preset": "dgx-h100"}
WRONG: tuple[tuple[Callable[[], object], str, str, str], ...] = (
    (lambda: Training(global_batch_size=0, sequence_length=64), "global_batch_size", "0", "1"),
    (lambda: Training(sequence_length=64), "global_batch_size", "nothing", ""),  # type: ignore[call-arg]
    (lambda: Training(**JOB, optimizer="adam"), "optimizer", "adam", "adamw"),
    (lambda: Strategy(backend="deepsped"), "backend", "deepsped", "deepspeed"),  # type: ignore[call-arg,arg-type]
    (lambda: Cluster.preset("dgx-h10"), "cluster.preset", "dgx-h10", "dgx-h100"),
    (lambda: request(model="nope"), "model", "nope", ""),
    (lambda: request(chose=3), "chose", "3", "choose"),
    (lambda: request(training={**JOB, "optimizr": "x"}), "training.optimizr", "x", "optimizer"),
    (lambda: request(limits={"memory_margin": 2}), "limits.memory_margin", "2", "0.9"),
    (lambda: request(choose={"tensor_parallel": "a"}), "choose.tensor_parallel", "a", "[1, 2]"),
)


def request(**changes: Any) -> Request:
    """A request made by its constructor."""
    return Request(**{"model": "llama-3.1-8b", "cluster": HOST, "training": JOB, **changes})


@pytest.mark.parametrize(("make", "field", "value", "legal"), WRONG)
def test_a_constructor_tells_field_value_and_what_is_legal(
    make: Callable[[], object], field: str, value: str, legal: str
) -> None:
    """One line, as on the command line; never pydantic's list of findings."""
    with pytest.raises(InputError) as caught:
        make()

    error = caught.value
    assert (error.field, error.value) == (field, value)
    assert not legal or legal in error.legal
    assert "\n" not in error.message


def test_every_public_type_is_one_of_them() -> None:
    """What the package exports as data refuses in the one way."""
    nouns = [getattr(shardwise, name) for name in shardwise.__all__]
    types = [noun for noun in nouns if isinstance(noun, type) and hasattr(noun, "model_fields")]

    assert len(types) >= 8
    assert all(issubclass(kind, Frozen) for kind in types)
    for kind in types:
        with pytest.raises(InputError, match=r"no_such_field = 1 \(from \w+\(\.\.\.\)\)|is required"):
            kind(no_such_field=1)


def test_pydantics_own_face_stays() -> None:
    """`model_validate` raises pydantic's error, which readers of files place at their lines."""
    with pytest.raises(ValidationError):
        Training.model_validate({"global_batch_size": 0, "sequence_length": 64})


def test_what_nests_is_validated_without_a_call_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block read from JSON calls no constructor of its parts: files are read at pydantic's own speed."""
    block = Block(attention=Attention(heads=4, kv_heads=2, head_dim=16), feed_forward=FeedForward(width=128))
    text = block.model_dump_json()

    def refused(self: Frozen, /, **data: Any) -> None:
        raise AssertionError("a constructor was called")

    refused.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    monkeypatch.setattr(Frozen, "__init__", refused)
    assert Block.model_validate_json(text) == block
