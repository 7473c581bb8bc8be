"""The arithmetic of expressions: evaluates operators and functions within bounds, or says why it can't."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ExpressionValue = bool | int | float | str
"""What expressions are about. True and false count as 1 and 0 in arithmetic."""

MAX_INTEGER = 2**63 - 1
"""Largest whole number."""
MAX_RESULT = 1024
"""Longest text, in characters."""
_MAX_DIGITS = 300


class ExpressionError(ValueError):
    """An expression can't be read, or has no value for what it is given; the text says why."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of numbers, and how many it takes."""

    call: Callable[..., ExpressionValue]
    least: int = 1
    most: int = 1


def _round(number: Any, digits: Any = None) -> ExpressionValue:
    if digits is not None and (type(digits) is not int or abs(digits) > _MAX_DIGITS):
        remedy = f"give a whole number from -{_MAX_DIGITS} to {_MAX_DIGITS}"
        raise ExpressionError(f"round to {digits!r} digits isn't possible; {remedy}")
    return round(number, digits)  # type: ignore[no-any-return]


FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(abs),
    "ceil": Function(math.ceil),
    "exp": Function(math.exp),
    "float": Function(float),
    "floor": Function(math.floor),
    "int": Function(int),
    "isfinite": Function(math.isfinite),
    "isnan": Function(math.isnan),
    "log": Function(math.log, most=2),
    "max": Function(max, least=2, most=64),
    "min": Function(min, least=2, most=64),
    "round": Function(_round, most=2),
    "sqrt": Function(math.sqrt),
}


def _raise_to_power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 64:
        raise OverflowError  # before it takes long
    result = base**exponent
    if isinstance(result, complex):
        raise ExpressionError(f"{base!r} ** {exponent!r} is not a real number")
    return result


OPERATORS: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", _raise_to_power),
}
_ORDER: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


def combine(op: ast.operator, left: ExpressionValue, right: ExpressionValue) -> ExpressionValue:
    """What an operator comes to; + puts texts together, too.

    Raises:
        ExpressionError: Nothing that can be worked with.
    """
    symbol, function = OPERATORS[type(op)]
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > MAX_RESULT:
            raise ExpressionError(f"the result is a string of more than {MAX_RESULT} characters")
        return left + right
    numbers = [_require_number(left, symbol), _require_number(right, symbol)]
    return _compute(function, numbers, f"{left!r} {symbol} {right!r}")


def call(name: str, arguments: Sequence[ExpressionValue]) -> ExpressionValue:
    """What a function comes to.

    Raises:
        ExpressionError: Nothing that can be worked with.
    """
    numbers = [_require_number(argument, name) for argument in arguments]
    return _compute(FUNCTIONS[name].call, numbers, f"{name}({', '.join(map(repr, numbers))})")


def negate(value: ExpressionValue) -> ExpressionValue:
    """The number with the other sign.

    Raises:
        ExpressionError: It is a text.
    """
    return -_require_number(value, "-")


def compare(op: ast.cmpop, left: ExpressionValue, right: ExpressionValue) -> bool:
    """Whether a comparison is true; a text and a number are never equal.

    Raises:
        ExpressionError: A text and a number have no order.
    """
    if isinstance(op, ast.Eq | ast.NotEq):
        return (left == right) == isinstance(op, ast.Eq)
    symbol, function = _ORDER[type(op)]
    if isinstance(left, str) != isinstance(right, str):
        raise ExpressionError(f"{left!r:.80} {symbol} {right!r:.80} compares a string with a number")
    return function(left, right)


def is_true(value: ExpressionValue) -> bool:
    """Whether a value is true, or a number other than 0.

    Raises:
        ExpressionError: It is a text.
    """
    if isinstance(value, str):
        raise ExpressionError(f"{value!r:.80} is a string, neither true nor false")
    return bool(value)


def check_bounds(value: ExpressionValue) -> ExpressionValue:
    """The value itself.

    Raises:
        ExpressionError: It is larger than what is worked with.
    """
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ExpressionError("a whole number beyond 2^63 - 1 is too large")
    if isinstance(value, str) and len(value) > MAX_RESULT:
        raise ExpressionError(f"a string of {len(value)} characters is too long")
    return value


def _require_number(value: ExpressionValue, where: str) -> bool | int | float:
    if isinstance(value, str):
        raise ExpressionError(f"{where} needs a number; {value!r:.80} is a string")
    return value


def _compute(
    function: Callable[..., ExpressionValue], numbers: Sequence[ExpressionValue], written: str
) -> ExpressionValue:
    try:
        return check_bounds(function(*numbers))
    except ZeroDivisionError as error:
        raise ExpressionError(f"{written} divides by zero") from error
    except OverflowError as error:
        raise ExpressionError(f"{written} is too large a number") from error
    except ExpressionError:
        raise
    except ValueError as error:
        raise ExpressionError(f"{written} has no value") from error
