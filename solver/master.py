"""The master: CP-SAT over the knobs of a batch of rows, with rules and cuts."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..costs.columns import Strategies
from ..inputs import InputError
from .engine import cp_model, new_solver
from .rules import KNOBS, Rule, comparison_of, operator_of

LARGEST = 2**62


@dataclass(frozen=True)
class Number:
    """A whole-number expression of the model with its least and largest value."""

    expression: Any
    low: int
    high: int


class Master:
    """Chooses the row of least bound whose knobs obey the rules.

    Each knob is an integer variable tied to the chosen row; a rule is stated on knobs, so a row that
    breaks it can never be chosen; a cut raises the bound of one row, or forbids it.
    """

    def __init__(self, strategies: Strategies, bounds: Sequence[int], rules: Sequence[Rule]) -> None:
        self.model = cp_model().CpModel()
        self.rows = [self.model.new_bool_var(f"row{i}") for i in range(len(bounds))]
        self.model.add_exactly_one(self.rows)
        self.knobs = {name: self._knob(name, getattr(strategies, name).tolist()) for name in KNOBS}
        self.bounds = list(bounds)
        self.step = self.model.new_int_var(0, max(self.bounds), "step")
        for row, bound in zip(self.rows, bounds, strict=True):
            self.model.add(self.step >= bound).only_enforce_if(row)
        self.model.minimize(self.step)
        for rule in rules:
            self.model.add(_Stated(self.model, self.knobs, rule).truth(rule.tree) == 1)

    def _knob(self, name: str, values: Sequence[int]) -> Number:
        """A knob equals the value of the chosen row."""
        low, high = min(values), max(values)
        variable = self.model.new_int_var(low, high, name)
        self.model.add(variable == sum(v * row for v, row in zip(values, self.rows, strict=True)))
        return Number(variable, low, high)

    def cut(self, row: int) -> None:
        """What a leaf proved of `row`: it holds nothing more below the best step found."""
        self.model.add(self.rows[row] == 0)

    def solve(self) -> tuple[int, int, float] | None:
        """(row, its bound, deterministic time) of the least bound; None if no row is left."""
        solver = new_solver(None)
        status = solver.solve(self.model)
        if status == cp_model().INFEASIBLE:
            return None
        if status != cp_model().OPTIMAL:
            raise RuntimeError(f"the master ended {solver.status_name(status)}")
        spent = float(solver.response_proto.deterministic_time)
        chosen = next(i for i, row in enumerate(self.rows) if solver.boolean_value(row))
        return chosen, self.bounds[chosen], spent


class _Stated:
    """States one rule in the model: numbers with their ranges, truths as booleans."""

    def __init__(self, model: Any, knobs: Mapping[str, Number], rule: Rule) -> None:
        self.model, self.knobs, self.rule = model, knobs, rule

    def _fresh(self, low: int, high: int) -> Any:
        if max(abs(low), abs(high)) >= LARGEST:
            raise InputError(
                "choose.rules",
                self.rule.text,
                self.rule.origin,
                "may reach numbers beyond 2^62",
                code="bad-rule",
            )
        return self.model.new_int_var(low, high, "")

    def number(self, node: ast.expr) -> Number:
        """The expression of an arithmetic node."""
        if isinstance(node, ast.Name):
            return self.knobs[node.id]
        if isinstance(node, ast.Constant):
            return Number(int(node.value), int(node.value), int(node.value))  # type: ignore[arg-type]
        assert isinstance(node, ast.BinOp)
        left, right = self.number(node.left), self.number(node.right)
        sign = operator_of(node)
        if sign in ("+", "-"):
            return self._sum(left, right, 1 if sign == "+" else -1)
        if sign == "*":
            corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            product = self._fresh(min(corners), max(corners))
            self.model.add_multiplication_equality(product, [left.expression, right.expression])
            return Number(product, min(corners), max(corners))
        return self._divided(left, right, sign)

    def _sum(self, left: Number, right: Number, sign: int) -> Number:
        low = left.low + (right.low if sign > 0 else -right.high)
        high = left.high + (right.high if sign > 0 else -right.low)
        total = self._fresh(low, high)
        self.model.add(total == left.expression + sign * right.expression)
        return Number(total, low, high)

    def _divided(self, left: Number, right: Number, sign: str) -> Number:
        """Floor division and its remainder by a positive number: left = q right + r, 0 <= r < right."""
        low = min(left.low // right.low, left.low // right.high)
        high = max(left.high // right.low, left.high // right.high)
        quotient, rest = self._fresh(low, high), self._fresh(0, right.high - 1)
        corners = [a * b for a in (low, high) for b in (right.low, right.high)]
        product = self._fresh(min(corners), max(corners))
        self.model.add_multiplication_equality(product, [quotient, right.expression])
        self.model.add(left.expression == product + rest)
        self.model.add(rest <= right.expression - 1)
        return Number(quotient, low, high) if sign == "//" else Number(rest, 0, right.high - 1)

    def truth(self, node: ast.expr) -> Any:
        """A boolean that is true exactly when `node` holds."""
        if isinstance(node, ast.UnaryOp):
            return 1 - self.truth(node.operand)
        if isinstance(node, ast.BoolOp):
            parts = [self.truth(value) for value in node.values]
            every = isinstance(node.op, ast.And)
            return self._joined(parts, every)
        assert isinstance(node, ast.Compare)
        values = [self.number(value) for value in (node.left, *node.comparators)]
        signs = [comparison_of(op) for op in node.ops]
        pairs = zip(signs, values, values[1:], strict=False)
        return self._joined([self._compared(s, a, b) for s, a, b in pairs], True)

    def _joined(self, parts: list[Any], every: bool) -> Any:
        found = self.model.new_bool_var("")
        total, count = sum(parts), len(parts)
        if every:
            self.model.add(total == count).only_enforce_if(found)
            self.model.add(total <= count - 1).only_enforce_if(~found)
        else:
            self.model.add(total >= 1).only_enforce_if(found)
            self.model.add(total == 0).only_enforce_if(~found)
        return found

    def _compared(self, sign: str, left: Number, right: Number) -> Any:
        found = self.model.new_bool_var("")
        a = self._sum(left, Number(0, 0, 0), 1).expression
        b = self._sum(right, Number(0, 0, 0), 1).expression
        yes, no = {
            "<": (a < b, a >= b),
            "<=": (a <= b, a > b),
            ">": (a > b, a <= b),
            ">=": (a >= b, a < b),
            "==": (a == b, a != b),
            "!=": (a != b, a == b),
        }[sign]
        self.model.add(yes).only_enforce_if(found)
        self.model.add(no).only_enforce_if(~found)
        return found
