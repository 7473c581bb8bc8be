"""A small language of expressions over named values: a parameter that follows from others, a constraint, a stop rule.

It is a subset of Python's syntax, so there is nothing new to learn: `batch * workers <= 1024`, `64 if size == 'big'
else 32`, `optimizer in ['sgd', 'lion']`. Anything not listed here is refused, and every expression takes little time
and memory: texts are short, integers stay below 2^63, there are no loops, and only a few numeric functions can be
called. Python parses the text; nothing is ever compiled or executed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from podtune.api.expressions import arithmetic
from podtune.api.expressions.arithmetic import (
    FUNCTIONS,
    OPERATORS,
    ExpressionError,
    ExpressionValue,
    check_bounds,
    is_true,
)

__all__ = ["MAX_EXPRESSION", "Expression", "ExpressionError", "ExpressionText", "ExpressionValue", "UnknownName"]

MAX_EXPRESSION = 512
"""Longest expression, in characters."""
_MAX_DEPTH = 64
"""How deep an expression may nest."""

_TOKEN = re.compile(
    r"""\s+
    | (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])
    | [A-Za-z_]\w*(?!['"\w])
    | '[^'\\\r\n]*' | "[^"\\\r\n]*"
    | \*\*|//|==|!=|<=|>=|[-+*/%()\[\],<>]
    """,
    re.VERBOSE | re.ASCII,
)
_LAMBDA = re.compile(r"\blambda\b[^'\"]*$")
_LAST_NAME = re.compile(r"[A-Za-z_]\w*$", re.ASCII)
_DOTTED = re.compile(r"(\.[A-Za-z_]\w*)+", re.ASCII)
_LITERALS: Mapping[str, bool] = {"true": True, "false": False}
"""As in YAML; Python's own True and False do as well."""
_NAMED = "value"
"""`value("val/loss")` is the value of a name that isn't written like one."""
_KINDS: Mapping[type[ast.expr], str] = {
    ast.Attribute: "an attribute",
    ast.Constant: "not a number, string, true or false",
    ast.GeneratorExp: "a loop",
    ast.ListComp: "a loop",
    ast.Starred: "an unpacking",
    ast.Subscript: "a subscript",
    ast.Tuple: "several values",
}


class UnknownName(ExpressionError):
    """An expression needs a name that it is given no value for."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"there is no {name!r} here; known names: {', '.join(known) or 'none'}")
        self.name = name


class Expression:
    """A valid expression.

    Attributes:
        names: The names that it uses, in order of appearance.
    """

    def __init__(self, text: str) -> None:
        """Reads an expression.

        Raises:
            ExpressionError: It isn't one, or uses what isn't allowed; the text names it.
        """
        self.text = text
        self._body = _parse(text)
        _check(self._body)
        self.names = tuple(dict.fromkeys(_list_names(self._body)))

    def evaluate(self, values: Mapping[str, ExpressionValue]) -> ExpressionValue:
        """The value of the expression. Only the parts that the value depends on are evaluated: of an `if`, one side.

        Args:
            values: The value of each name; other names may be included.

        Raises:
            UnknownName: A name has no value.
            ExpressionError: There is no value, such as for a division by zero, or text where a number is needed.
        """
        return _evaluate(self._body, values)

    def holds(self, values: Mapping[str, ExpressionValue]) -> bool:
        """Whether the expression is true, or a number other than 0.

        Raises:
            UnknownName: A name has no value.
            ExpressionError: There is no value, or it is a text.
        """
        return is_true(self.evaluate(values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _check_readable(text: str) -> str:
    Expression(text)
    return text


ExpressionText = Annotated[str, Field(min_length=1, max_length=MAX_EXPRESSION), AfterValidator(_check_readable)]
"""A field that holds an expression."""


# Reading


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_EXPRESSION:
        raise ExpressionError(f"it has {len(text)} characters; shorten it to {MAX_EXPRESSION}")
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            _refuse_function(text[:position], text[position:])
            raise ExpressionError(f"{text[position : position + 16]!r} isn't allowed, at character {position + 1}")
        position = token.end()
    try:
        return ast.parse(text.strip().replace("\n", " ").replace("\r", " "), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{text!r} is not an expression: {error.msg}") from error
    except (MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r:.80} nests too deeply; make it simpler") from error


def _refuse_function(before: str, rest: str) -> None:
    """Says what to write instead of a lambda, or of a call of a library such as random.uniform(0, 1).

    Args:
        before: The text up to what isn't allowed.
        rest: The text from there on.
    """
    if _LAMBDA.search(before):
        raise ExpressionError(
            f"{before + rest!r:.80} is a function; write what it returns: 2 * x instead of lambda x: 2 * x"
        )
    name, more = _LAST_NAME.search(before), _DOTTED.match(rest)
    if name and more:
        raise ExpressionError(
            f"{name[0] + more[0]!r:.80} isn't allowed: names have no dots, and there are no libraries such as random; "
            "write x for spec.config.x, or compute it in the program"
        )


def _check(node: ast.expr, depth: int = 1) -> None:
    """Refuses whatever isn't expressly allowed."""
    if depth > _MAX_DEPTH:
        raise ExpressionError(f"it nests more than {_MAX_DEPTH} deep; make it simpler")
    for child in _list_operands(node):
        _check(child, depth + 1)


def _list_operands(node: ast.expr) -> Sequence[ast.expr]:
    """The parts of a node that are expressions again; refuses a node that isn't allowed."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            check_bounds(value)
            if isinstance(value, float) and math.isinf(value):
                raise ExpressionError("a number beyond 1.8e308 is too large")
            return ()
        case ast.Name():
            return ()
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return left, right
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            return (operand,)
        case ast.BoolOp(values=values):
            return values
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return test, body, orelse
        case ast.Compare(left=left, ops=ops, comparators=right):
            return _list_compared(left, ops, right)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _list_arguments(name, arguments)
        case ast.List():
            raise ExpressionError(f"{_show(node)} isn't allowed: a list can only stand after `in`")
        case _:
            raise ExpressionError(f"{_show(node)} isn't allowed: it is {_KINDS.get(type(node), 'something else')}")


def _list_compared(left: ast.expr, ops: Sequence[ast.cmpop], right: Sequence[ast.expr]) -> Sequence[ast.expr]:
    operands = [left]
    for op, operand in zip(ops, right, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(operand, ast.List):
                raise ExpressionError(f"after `in` a list is needed, such as [1, 2]; {_show(operand)} isn't one")
            operands += operand.elts
        elif isinstance(op, ast.Is | ast.IsNot):
            raise ExpressionError("`is` isn't allowed; write == or !=")
        else:
            operands.append(operand)
    return operands


def _list_arguments(name: str, arguments: Sequence[ast.expr]) -> Sequence[ast.expr]:
    if name == _NAMED:
        match arguments:
            case [ast.Constant(value=str())]:
                return arguments
        raise ExpressionError(f'{_NAMED} takes one name in quotes, such as {_NAMED}("val/loss")')
    function = FUNCTIONS.get(name)
    if function is None:
        raise ExpressionError(f"there is no function {name!r}; use one of {', '.join([*FUNCTIONS, _NAMED])}")
    if not function.least <= len(arguments) <= function.most:
        wanted = f"{function.least} to {function.most} arguments" if function.most > 1 else "1 argument"
        raise ExpressionError(f"{name} takes {wanted}, not {len(arguments)}")
    return arguments


def _show(node: ast.expr) -> str:
    written = ast.unparse(node)
    return written if len(written) <= 40 else f"{written[:39]}…"


def _list_names(node: ast.expr) -> Sequence[str]:
    match node:
        case ast.Name(id=name):
            return () if name in _LITERALS else (name,)
        case ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str(name))]) if function == _NAMED:
            return (name,)
        case _:
            return [name for operand in _list_operands(node) for name in _list_names(operand)]


# Evaluating


def _evaluate(node: ast.expr, values: Mapping[str, ExpressionValue]) -> ExpressionValue:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            return _LITERALS[name] if name in _LITERALS else _get_value(name, values)
        case ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str(name))]) if function == _NAMED:
            return _get_value(name, values)
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return arithmetic.call(function, [_evaluate(argument, values) for argument in arguments])
        case ast.BinOp(left=left, op=op, right=right):
            return arithmetic.combine(op, _evaluate(left, values), _evaluate(right, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not is_true(_evaluate(operand, values))
        case ast.UnaryOp(op=op, operand=operand):
            negative = arithmetic.negate(_evaluate(operand, values))
            return negative if isinstance(op, ast.USub) else arithmetic.negate(negative)
        case ast.BoolOp(op=op, values=parts):
            truths = (is_true(_evaluate(part, values)) for part in parts)
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if is_true(_evaluate(test, values)) else orelse, values)
        case ast.Compare(left=first, ops=ops, comparators=rest):
            return _compare(_evaluate(first, values), ops, rest, values)
        case _:
            raise AssertionError(f"{node!r} was not refused")


def _get_value(name: str, values: Mapping[str, ExpressionValue]) -> ExpressionValue:
    if name not in values:
        raise UnknownName(name, list(values))
    return check_bounds(values[name])


def _compare(
    left: ExpressionValue, ops: Sequence[ast.cmpop], operands: Sequence[ast.expr], values: Mapping[str, ExpressionValue]
) -> bool:
    """A chain such as `1 <= x < y`: true if all its links are."""
    for op, operand in zip(ops, operands, strict=True):
        if isinstance(operand, ast.List):
            is_in = any(left == _evaluate(element, values) for element in operand.elts)
            if is_in != isinstance(op, ast.In):
                return False
            continue
        right = _evaluate(operand, values)
        if not arithmetic.compare(op, left, right):
            return False
        left = right
    return True
