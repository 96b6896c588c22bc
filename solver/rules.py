"""Rules on knobs: arithmetic comparisons, parsed by a small grammar and never run as code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from ..costs.columns import FLAGS, NAMES, WORDS, Bools, Ints
from ..inputs import InputError, nearest
from ..inputs.record import dataclass

KNOBS: tuple[str, ...] = tuple(name for name in NAMES if name not in WORDS)
"""Knobs a rule may name: integers, and flags as 0 or 1."""

MAX_LENGTH = 500
MAX_NUMBER = 2**31
LARGEST = 2**62

Range = tuple[int, int]

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


@dataclass(frozen=True)
class Rule:
    """One comparison or a combination of them by and, or, not; over whole numbers and knobs."""

    text: str
    origin: str

    @cached_property
    def tree(self) -> ast.expr:
        """The parsed rule; raises `InputError` for anything outside the grammar."""
        if len(self.text) > MAX_LENGTH:
            raise self._bad(f"is longer than {MAX_LENGTH} characters")
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._bad("is not a comparison of knobs, such as tensor_parallel * 2 <= 16") from None
        self._check_truth(tree)
        return tree

    def _bad(self, reason: str, legal: list[str] | None = None) -> InputError:
        return InputError("choose.rules", self.text, self.origin, reason, legal=legal or [], code="bad-rule")

    def _check_truth(self, node: ast.expr) -> None:
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self._check_truth(value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._check_truth(node.operand)
        elif isinstance(node, ast.Compare):
            for op in node.ops:
                if type(op) not in _COMPARISONS:
                    raise self._bad("compares with something other than < <= > >= == !=")
            for value in (node.left, *node.comparators):
                self._check_number(value)
        else:
            raise self._bad("must be a comparison, or comparisons joined by and, or, not")

    def _check_number(self, node: ast.expr) -> None:
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            self._check_number(node.left)
            self._check_number(node.right)
            if isinstance(node.op, ast.FloorDiv | ast.Mod) and not _positive(node.right):
                raise self._bad("divides by something other than a knob or a positive number")
        elif isinstance(node, ast.Name):
            if node.id not in KNOBS:
                raise self._bad(f"names {node.id}, which is no knob", nearest(node.id, KNOBS))
        elif not (isinstance(node, ast.Constant) and type(node.value) is int and node.value < MAX_NUMBER):
            raise self._bad("may hold whole numbers below 2^31, knobs and + - * // % only")

    def holds(self, columns: Mapping[str, Ints]) -> Bools:
        """Which rows of `columns` obey the rule; raises `InputError` where numbers may leave 64 bits."""
        rows = len(next(iter(columns.values())))
        if not rows:
            return np.zeros(0, dtype=np.bool_)
        ranges = {name: (int(values.min()), int(values.max())) for name, values in columns.items()}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.BinOp):
                self.reach(node, ranges)
        return np.broadcast_to(np.asarray(_truth(self.tree, columns), dtype=np.bool_), (rows,))

    def reach(self, node: ast.expr, ranges: Mapping[str, Range]) -> Range:
        """Least and largest value of an arithmetic node for knobs in `ranges`."""
        if isinstance(node, ast.Name):
            return ranges[node.id]
        if isinstance(node, ast.Constant):
            return int(node.value), int(node.value)  # type: ignore[arg-type]
        assert isinstance(node, ast.BinOp)
        left, right = self.reach(node.left, ranges), self.reach(node.right, ranges)
        return self.within(reached(operator_of(node), left, right))

    def within(self, found: Range) -> Range:
        """`found`, or an `InputError` where it leaves the numbers a model can hold."""
        if max(abs(found[0]), abs(found[1])) >= LARGEST:
            raise self._bad("may reach numbers beyond 2^62")
        return found


def reached(sign: str, left: Range, right: Range) -> Range:
    """Least and largest result of an operation on whole numbers of two ranges; divisors are positive.

    >>> reached("*", (-2, 3), (4, 5)), reached("%", (0, 9), (1, 4))
    ((-10, 15), (0, 3))
    """
    if sign == "+":
        return left[0] + right[0], left[1] + right[1]
    if sign == "-":
        return left[0] - right[1], left[1] - right[0]
    if sign == "%":
        return 0, right[1] - 1
    corners = [a * b if sign == "*" else a // b for a in left for b in right]
    return min(corners), max(corners)


def _positive(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value > 0
    return isinstance(node, ast.Name) and node.id not in ("zero_stage", *FLAGS)


_NUMBERS: dict[str, Callable[[Ints, Ints], Ints]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.mod,
}
_TRUTHS: dict[str, Callable[[Ints, Ints], Bools]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def operator_of(node: ast.BinOp) -> str:
    """The sign of an arithmetic node."""
    return _ARITHMETIC[type(node.op)]


def comparison_of(op: ast.cmpop) -> str:
    """The sign of a comparison."""
    return _COMPARISONS[type(op)]


def _number(node: ast.expr, columns: Mapping[str, Ints]) -> Ints:
    if isinstance(node, ast.BinOp):
        return _NUMBERS[operator_of(node)](_number(node.left, columns), _number(node.right, columns))
    if isinstance(node, ast.Name):
        return columns[node.id]
    assert isinstance(node, ast.Constant)
    return np.asarray(node.value, dtype=np.int64)


def _truth(node: ast.expr, columns: Mapping[str, Ints]) -> Bools:
    if isinstance(node, ast.BoolOp):
        parts = [_truth(value, columns) for value in node.values]
        joined = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        found = parts[0]
        for part in parts[1:]:
            found = joined(found, part)
        return found
    if isinstance(node, ast.UnaryOp):
        return np.logical_not(_truth(node.operand, columns))
    assert isinstance(node, ast.Compare)
    values = [_number(value, columns) for value in (node.left, *node.comparators)]
    found = np.asarray(True)
    for op, left, right in zip(node.ops, values, values[1:], strict=False):
        found = np.logical_and(found, _TRUTHS[comparison_of(op)](left, right))
    return found
