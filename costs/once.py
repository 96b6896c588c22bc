"""What a layout has once: functions of it that several terms ask for are evaluated once a layout."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from .layout import Layout

More = ParamSpec("More")
Found = TypeVar("Found")


def once(function: Callable[Concatenate[Layout, More], Found]) -> Callable[Concatenate[Layout, More], Found]:
    """`function`, whose result is kept with the layout for the same further arguments, which are words."""

    @wraps(function)
    def known(layout: Layout, /, *more: More.args, **named: More.kwargs) -> Found:
        key = (function, more, *named.items())
        kept = layout.known
        if key not in kept:
            kept[key] = function(layout, *more, **named)
        found: Found = kept[key]
        return found

    return cast("Callable[Concatenate[Layout, More], Found]", known)
