"""Byte recipes of rows: which recipe a row's parameters follow, and its bytes a parameter."""

from __future__ import annotations

import numpy as np

from ..models.backend import backend
from ..models.recipe import Recipe, recipe
from ..models.stack import stack, stack_names
from ..models.strategy import BACKENDS, GRADIENT_DTYPES, PRECISIONS
from .columns import Floats, Ints, numbered
from .layout import Layout
from .once import once
from .portion import Portion


def recipe_of(layout: Layout, row: int) -> Recipe | None:
    """The byte recipe of one row, None where the backend has none; some stacks have their own."""
    s = layout.strategies
    precision = PRECISIONS[s.precision[row]]
    own = stack(stack_names()[s.software_stack[row]]).recipes.get(precision)
    known = backend(BACKENDS[s.backend[row]])
    dtype = GRADIENT_DTYPES[s.gradient_dtype[row]]
    found = recipe(own) if own else known.recipe(precision, dtype, layout.training)
    return found and found.held_by(layout.reads_transposed)


def fixed_recipe_of(layout: Layout, row: int, quantised: bool) -> Recipe | None:
    """The byte recipe of one row's frozen weights, None where the backend has none."""
    s = layout.strategies
    precision = PRECISIONS[s.precision[row]]
    own = stack(stack_names()[s.software_stack[row]]).frozen_recipes.get(precision)
    known = backend(BACKENDS[s.backend[row]])
    found = recipe(own) if own and not quantised else known.fixed_recipe(precision, quantised)
    return found and found.held_by(layout.reads_transposed)


@once
def _recipes(layout: Layout, portion: str) -> tuple[list[Recipe | None], Ints]:
    """The byte recipes of a portion of parameters that rows have, and which of them each row's is."""
    s = layout.strategies
    words = (s.software_stack * len(BACKENDS) + s.backend) * len(PRECISIONS) + s.precision
    words = words * len(GRADIENT_DTYPES) + s.gradient_dtype
    _, first, place = numbered(words)
    if portion == "trained":
        return [recipe_of(layout, row) for row in first.tolist()], place
    quantised = portion == "quantised"
    return [fixed_recipe_of(layout, row, quantised) for row in first.tolist()], place


def _each(layout: Layout, portion: str, field: str) -> Floats:
    known, place = _recipes(layout, portion)
    found: Floats = np.array([float(getattr(one, field)) if one else 0.0 for one in known])[place]
    return found


@once
def per_parameter(layout: Layout, field: str) -> Floats:
    """`field` of the byte recipe of each row's trained parameters, bytes each; 0 where there is none."""
    return _each(layout, "trained", field)


def portion_bytes(layout: Layout, portion: Portion, field: str) -> Floats:
    """`per_parameter` for the parameters of any portion."""
    return per_parameter(layout, field) if portion.name == "trained" else _each(layout, portion.name, field)
