"""The master: CP-SAT over the knobs of a batch of rows, with rules and cuts."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ..costs.columns import Strategies
from ..inputs.record import dataclass
from .engine import cp_model, new_model, new_solver
from .rules import KNOBS, Range, Rule, comparison_of, operator_of, reached

LONGEST_NS = 2**60
"""No step bound of a row is longer: 36 years."""


@dataclass(frozen=True)
class Number:
    """A whole-number expression of the model with its least and largest value."""

    expression: Any
    low: int
    high: int


class Master:
    """Chooses the row of least bound whose knobs obey the rules.

    Each knob that a rule names is an integer variable tied to the chosen row; a rule is stated on knobs, so a
    row that breaks it can never be chosen; a cut raises the bound of one row, or forbids it.
    """

    def __init__(self, strategies: Strategies, bounds: Sequence[int], rules: Sequence[Rule]) -> None:
        self.model = new_model()
        self.rows = [self.model.new_bool_var(f"row{i}") for i in range(len(bounds))]
        self.model.add_exactly_one(self.rows)
        named = [name for name in KNOBS if any(name in rule.text for rule in rules)]
        self.knobs = {name: self._knob(name, getattr(strategies, name).tolist()) for name in named}
        self.bounds = list(bounds)
        self.step = self.model.new_int_var(0, LONGEST_NS, "step")
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

    def tell(self, bounds: Sequence[int]) -> None:
        """Sharper bounds of the rows; one beyond `LONGEST_NS` forbids its row."""
        for row, (before, bound) in enumerate(zip(self.bounds, bounds, strict=True)):
            if bound > LONGEST_NS:
                self.cut(row)
            elif bound > before:
                self.model.add(self.step >= bound).only_enforce_if(self.rows[row])
        self.bounds = list(bounds)

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

    def _fresh(self, span: Range) -> Any:
        low, high = self.rule.within(span)
        return self.model.new_int_var(low, high, "")

    def number(self, node: ast.expr) -> Number:
        """The expression of an arithmetic node."""
        if isinstance(node, ast.Name):
            return self.knobs[node.id]
        if isinstance(node, ast.Constant):
            return Number(int(node.value), int(node.value), int(node.value))  # type: ignore[arg-type]
        assert isinstance(node, ast.BinOp)
        left, right, sign = self.number(node.left), self.number(node.right), operator_of(node)
        span = reached(sign, (left.low, left.high), (right.low, right.high))
        result = self._fresh(span)
        if sign == "+":
            self.model.add(result == left.expression + right.expression)
        elif sign == "-":
            self.model.add(result == left.expression - right.expression)
        elif sign == "*":
            self.model.add_multiplication_equality(result, [left.expression, right.expression])
        else:
            self._divide(left, right, sign, result)
        return Number(result, *span)

    def _divide(self, left: Number, right: Number, sign: str, result: Any) -> None:
        """Floor division and its remainder by a positive number: left = q right + r, 0 <= r < right."""
        sides = (left.low, left.high), (right.low, right.high)
        whole = reached("//", *sides)
        quotient = result if sign == "//" else self._fresh(whole)
        rest = result if sign == "%" else self._fresh(reached("%", *sides))
        product = self._fresh(reached("*", whole, sides[1]))
        self.model.add_multiplication_equality(product, [quotient, right.expression])
        self.model.add(left.expression == product + rest)
        self.model.add(rest <= right.expression - 1)

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

    def _variable(self, number: Number) -> Any:
        """A variable equal to a number, so that comparisons of constants are statements too."""
        found = self.model.new_int_var(number.low, number.high, "")
        self.model.add(found == number.expression)
        return found

    def _compared(self, sign: str, left: Number, right: Number) -> Any:
        found = self.model.new_bool_var("")
        a, b = self._variable(left), self._variable(right)
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
