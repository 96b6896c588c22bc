"""Sequences that are made when they are first looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast, overload

Item = TypeVar("Item")


class Later(Sequence[Item]):
    """A tuple that is made once, when someone first looks into it; equal to that tuple, and copied as it.

    >>> values = Later(lambda: (1, 2))
    >>> values == (1, 2), len(values), repr(values)
    (True, 2, '(1, 2)')
    """

    def __init__(self, make: Callable[[], tuple[Item, ...]]) -> None:
        self._make: Callable[[], tuple[Item, ...]] | None = make
        self._values: tuple[Item, ...] = ()

    def values(self) -> tuple[Item, ...]:
        """The tuple itself. Two threads may both make it: it is the same."""
        make = self._make
        if make is not None:
            self._values = make()
            self._make = None
        return self._values

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self.values()[index]

    def __len__(self) -> int:
        return len(self.values())

    def __iter__(self) -> Iterator[Item]:
        return iter(self.values())

    def __add__(self, other: Sequence[Item]) -> tuple[Item, ...]:
        return (*self.values(), *other)

    def __radd__(self, other: Sequence[Item]) -> tuple[Item, ...]:
        return (*other, *self.values())

    def __eq__(self, other: object) -> bool:
        return self.values() == (other.values() if isinstance(other, Later) else other)

    def __hash__(self) -> int:
        return hash(self.values())

    def __repr__(self) -> str:
        return repr(self.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.values(),)


def later(make: Callable[[], tuple[Item, ...]]) -> tuple[Item, ...]:
    """What `make` returns, made when it is first looked at."""
    return cast("tuple[Item, ...]", Later(make))
