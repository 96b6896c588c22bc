"""Small formulas of the family tables: whole numbers, words, lists; parsed as Python, never run as it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

Value = Any
"""A whole number, a switch, a word, None, or a tuple of those."""

Lookup = Callable[[str], Value]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


def _only(value: Value, wanted: Value) -> bool:
    """Whether a number, or each of a list, is `wanted`."""
    return set(value if isinstance(value, tuple) else (value,)) == {wanted}


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "len": len,
    "sum": sum,
    "int": int,
    "only": _only,
}


class NotWhole(ArithmeticError):
    """A division in a formula that leaves a rest; `names` are what its two sides are called."""

    def __init__(self, above: str, below: str) -> None:
        super().__init__(f"{below} does not divide {above}")
        self.names = (above, below)


def evaluate(formula: str, lookup: Lookup) -> Value:
    """The value of `formula` with names taken from `lookup`.

    Known are + - * // %, an exact / (NotWhole where it leaves a rest), comparisons, and, or, not, in,
    a if c else b, items of lists, min, max, len, sum, int, only(list, value).

    >>> evaluate("4 * width / heads", {"width": 96, "heads": 8}.__getitem__)
    48
    """
    return _value(_parsed(formula), lookup)


@cache
def names(formula: str) -> tuple[str, ...]:
    """Every name a formula looks up, in order.

    >>> names("vision.width * layer")
    ('vision.width', 'layer')
    """
    return tuple(dict.fromkeys(name for name in _named(_parsed(formula)) if name not in _FUNCTIONS))


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        yield _name(node)
        return
    for part in ast.iter_child_nodes(node):
        yield from _named(part)


@cache
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.expr, lookup: Lookup) -> Value:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name() | ast.Attribute():
            return lookup(_name(node))
        case ast.BinOp(left, ast.Div(), right):
            return _exact(left, right, lookup)
        case ast.BinOp(left, operation, right):
            return _ARITHMETIC[type(operation)](_value(left, lookup), _value(right, lookup))
        case ast.UnaryOp(ast.Not(), operand):
            return not _value(operand, lookup)
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, lookup)
        case ast.IfExp(test, body, orelse):
            return _value(body if _value(test, lookup) else orelse, lookup)
        case ast.Subscript(value, index):
            return _value(value, lookup)[_value(index, lookup)]
        case ast.Tuple(items) | ast.List(items):
            return tuple(_value(item, lookup) for item in items)
    return _choice(node, lookup)


def _choice(node: ast.expr, lookup: Lookup) -> Value:
    match node:
        case ast.BoolOp(sign, parts):
            value: Value = None
            for part in parts:
                value = _value(part, lookup)
                if bool(value) is isinstance(sign, ast.Or):
                    break
            return value
        case ast.Compare(left, operations, rights):
            values = [_value(side, lookup) for side in (left, *rights)]
            pairs = zip(values, operations, values[1:], strict=False)
            return all(_COMPARISONS[type(sign)](one, other) for one, sign, other in pairs)
        case ast.Call(ast.Name(word), arguments):
            return _FUNCTIONS[word](*(_value(argument, lookup) for argument in arguments))
    raise ValueError(f"a formula may not hold {ast.unparse(node)}")


def _exact(left: ast.expr, right: ast.expr, lookup: Lookup) -> int:
    above, below = _value(left, lookup), _value(right, lookup)
    if not below or above % below:
        raise NotWhole(ast.unparse(left), ast.unparse(right))
    return int(above // below)
