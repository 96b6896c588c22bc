"""`inputs.record.dataclass` does what the standard library's does, for the forms this package uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any

import pytest

from shardwise.inputs import record

Make = Callable[..., Any]


def classes(dataclass: Make) -> tuple[Any, Any, Any]:
    """A frozen class, a mutable one and one that is derived from it, by one of the two decorators."""

    @dataclass(frozen=True)
    class Fixed:
        """Frozen, with every form of field."""

        name: str
        size: int = 1
        notes: list[str] = dataclasses.field(default_factory=list)
        known: dict[str, int] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
        aside: int = dataclasses.field(default=0, kw_only=True, repr=False, compare=False)

        @cached_property
        def twice(self) -> int:
            return 2 * self.size

    @dataclass
    class Open:
        """Mutable, with a field that is set after."""

        count: int
        later: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.later = self.count + 1

    @dataclass
    class Derived(Open):
        """One more field."""

        more: int = 5

    return Fixed, Open, Derived


BOTH = pytest.mark.parametrize("dataclass", [record.dataclass, dataclasses.dataclass])


@BOTH
def test_objects_hold_what_they_are_given(dataclass: Make) -> None:
    """Values by place and by name, defaults, and what is made for each object."""
    fixed, free, derived = classes(dataclass)

    one, other = fixed("a", notes=["x"]), fixed("a", 2, aside=3)

    assert (one.name, one.size, one.notes, one.known, one.aside) == ("a", 1, ["x"], {}, 0)
    assert (other.size, other.notes, other.aside, other.twice) == (2, [], 3, 4)
    assert other.notes is not fixed("a").notes
    assert (free(1).later, derived(1).more, derived(1, 2).more, derived(count=3).later) == (2, 5, 2, 4)


@BOTH
def test_objects_compare_print_and_hash_by_their_fields(dataclass: Make) -> None:
    """Equal fields are equal objects; a field may stand aside; mutable objects have no hash."""
    fixed, free, derived = classes(dataclass)

    assert fixed("a", 1, aside=1) == fixed("a", 1, aside=2) != fixed("a", 2)
    assert free(1) != derived(1)
    assert repr(fixed("a")) == f"{fixed.__qualname__}(name='a', size=1, notes=[])"
    assert hash(fixed("a", 1, ())) == hash(fixed("a", 1, ()))
    assert deepcopy(fixed("a")) == fixed("a")
    assert dataclasses.replace(fixed("a", 2), name="b") == fixed("b", 2)
    assert [f.name for f in dataclasses.fields(derived)] == ["count", "later", "more"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(free(1))


@BOTH
def test_frozen_objects_refuse_and_others_do_not(dataclass: Make) -> None:
    """A frozen object takes no new value and loses none."""
    fixed, free, _ = classes(dataclass)
    one, other = fixed("a"), free(1)

    with pytest.raises(dataclasses.FrozenInstanceError):
        one.size = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    other.count = 7
    assert (one.size, other.count) == (1, 7)


@BOTH
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        (("a", 1, [], 4), {}),
        (("a",), {"name": "b"}),
        (("a",), {"other": 1}),
        ((), {"other": 1}),
        (("a",), {"known": {}}),
    ],
)
def test_wrong_arguments_are_type_errors(dataclass: Make, given: Any, named: Any) -> None:
    """Missing, too many, twice or unknown, for an object that is made at once and for a later one."""
    fixed = classes(dataclass)[0]

    for _ in range(2):
        with pytest.raises(TypeError):
            fixed(*given, **named)
        fixed("a")
