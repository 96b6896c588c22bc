"""Byte recipes of rows: which recipe a row's parameters follow, and its bytes a parameter."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from ..models.backend import backend
from ..models.recipe import Recipe, recipe
from ..models.stack import stack, stack_names
from ..models.strategy import BACKENDS, GRADIENT_DTYPES, PRECISIONS
from ..models.training import Training
from .columns import Floats
from .layout import Layout
from .once import once
from .portion import Portion
from .stacks import of_stacks


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
def per_parameter(layout: Layout, field: str) -> Floats:
    """`field` of the byte recipe of each row's trained parameters, bytes each; 0 where there is none."""
    s, both_ways = layout.strategies, layout.reads_transposed
    usual = _recipes(layout.training, field, both_ways)[s.backend, s.precision, s.gradient_dtype]
    own = _own_recipes("recipes", field, both_ways)[s.software_stack, s.precision]
    return np.where(np.isnan(own), usual, own)


@cache
def _own_recipes(kind: str, field: str, both_ways: bool) -> Floats:
    """A field of the recipes that stacks have of their own, by precision; NaN where they have none."""
    recipes = of_stacks(kind)
    found = np.full((len(recipes), len(PRECISIONS)), np.nan)
    for place, names in enumerate(recipes):
        for precision, name in names.items():
            found[place, PRECISIONS.index(precision)] = getattr(recipe(name).held_by(both_ways), field)
    return found


@lru_cache(maxsize=256)
def _recipes(training: Training, field: str, both_ways: bool) -> Floats:
    """A field of every recipe, by backend, precision and gradient type."""
    found = np.zeros((len(BACKENDS), len(PRECISIONS), len(GRADIENT_DTYPES)))
    for i, name in enumerate(BACKENDS):
        for j, precision in enumerate(PRECISIONS):
            for k, dtype in enumerate(GRADIENT_DTYPES):
                known = backend(name).recipe(precision, dtype, training)
                found[i, j, k] = getattr(known.held_by(both_ways), field) if known else 0.0
    found.flags.writeable = False
    return found


def portion_bytes(layout: Layout, portion: Portion, field: str) -> Floats:
    """`per_parameter` for the parameters of any portion."""
    if portion.name == "trained":
        return per_parameter(layout, field)
    s, quantised = layout.strategies, portion.name == "quantised"
    found = np.zeros((len(BACKENDS), len(PRECISIONS)))
    for i, name in enumerate(BACKENDS):
        for j, precision in enumerate(PRECISIONS):
            known = backend(name).fixed_recipe(precision, quantised)
            found[i, j] = getattr(known, field) if known else 0.0
    values: Floats = found[s.backend, s.precision]
    if quantised:
        return values
    own = _own_recipes("frozen_recipes", field, layout.reads_transposed)[s.software_stack, s.precision]
    return np.where(np.isnan(own), values, own)
