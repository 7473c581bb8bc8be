from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podtune.api.expressions.arithmetic import MAX_INTEGER, MAX_RESULT
from podtune.api.expressions.expression import MAX_EXPRESSION, Expression, ExpressionError, UnknownName
from tests.unit.runner.world.examples import draw

VALUES: dict[str, Any] = {
    "batch": 64,
    "lr": 0.01,
    "optimizer": "sgd",
    "nesterov": True,
    "val/loss": 0.5,
    "bad": math.nan,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch * 4", 256),
        ("batch / 128", 0.5),
        ("batch // 10 + batch % 10", 10),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("-batch + +1", -63),
        ("batch <= 64 < 65", True),
        ("1 < batch < 32", False),
        ("batch == 64 and lr != 1", True),
        ("not nesterov or batch > 1000", False),
        ("nesterov == true and not false and True", True),
        ("32 if optimizer == 'sgd' else 64", 32),
        ('optimizer in ["sgd", "lion"]', True),
        ("batch not in [1, 2 * 32]", False),
        ("optimizer + '-' + 'fast'", "sgd-fast"),
        ("min(batch, 10, 20) + max(1, 2)", 12),
        ("abs(-2.5)", 2.5),
        ("round(2.567, 2)", 2.57),
        ("round(2.5)", 2),
        ("int(2.9) + int(nesterov)", 3),
        ("float(batch)", 64.0),
        ("floor(2.9) + ceil(2.1)", 5),
        ("log(8, 2)", 3.0),
        ("exp(log(2.5))", 2.5),
        ("sqrt(batch)", 8.0),
        ('value("val/loss") < 0.7', True),
        ("  batch\n  + 1 ", 65),
        ("'two  words'", "two  words"),
        (".5 + 5. + 1e-1", 5.6),
    ],
)
def test_values(text: str, expected: Any) -> None:
    found = Expression(text).evaluate(VALUES)
    assert found == pytest.approx(expected)
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not an expression"),
        ("batch +", "is not an expression"),
        ("batch) + (lr", "is not an expression"),
        ("(batch", "is not an expression"),
        ("batch batch", "is not an expression"),
        ("lambda", "is not an expression"),
        ("batch; lr", "';"),
        ("(batch := 2)", "':="),
        ("batch & 1", "'&"),
        ("f'{batch}'", "f'{batch}'"),
        ("b'x'", "b'x'"),
        ("'\\x41'", "'\\\\x41"),
        ("0x10", "'0x10'"),
        ("1_000", "'1_000'"),
        ("1j", "'1j'"),
        ("1if batch else 2", "'1if batch"),
        ("batch.real", "isn't allowed"),
        ("батч", "isn't allowed"),
        ("lr is 1", "write == or !="),
        ("None", "None isn't allowed: it is not a number, string, true or false"),
        ("batch[0]", "batch[0] isn't allowed: it is a subscript"),
        ("[1, 2]", "can only stand after `in`"),
        ("(1, 2)", "(1, 2) isn't allowed: it is several values"),
        ("1 in batch", "after `in` a list is needed"),
        ("optimizer in 'sgd'", "after `in` a list is needed"),
        ("[x for x in [1]]", "can only stand after|a loop"),
        ("1 in [x for x in [1]]", "after `in` a list is needed"),
        ("max(*[1, 2])", "takes 2 to 64 arguments|an unpacking"),
        ("max(1, 2, key=abs)", "'="),
        ("max(1)", "max takes 2 to 64 arguments, not 1"),
        ("eval('1')", "there is no function 'eval'; use one of abs, ceil"),
        ("__import__('os')", "there is no function '__import__'"),
        ("(abs)(1)(2)", "isn't allowed"),
        ("value(lr)", "takes one name in quotes"),
        ("await lr", "is not an expression|isn't allowed"),
        ("1e999", "a number beyond 1.8e308"),
        ("9223372036854775808", "too large"),
        ("-" * 100 + "1", "nests more than 64 deep"),
        ("(" * 250 + "1" + ")" * 250, "is not an expression"),
        ("1" * 600, "it has 600 characters; shorten it to 512"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        Expression(text)
    assert any(part in str(refused.value) for part in problem.split("|")), str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("batch / 0", "64 / 0 divides by zero"),
        ("batch % 0", "64 % 0 divides by zero"),
        ("log(0)", "log(0) has no value"),
        ("sqrt(-1)", "sqrt(-1) has no value"),
        ("(-8) ** 0.5", "-8 ** 0.5 is not a real number"),
        ("exp(1000)", "exp(1000) is too large a number"),
        ("int(bad)", "int(nan) has no value"),
        ("10.0 ** 1000", "10.0 ** 1000 is too large a number"),
        ("2 ** 2 ** 2 ** 2 ** 2 ** 2", "too large"),
        ("9223372036854775807 + 1", "too large"),
        ("3 ** 64", "too large"),
        ("round(1.5, 2.5)", "round to 2.5 digits isn't possible"),
        ("optimizer * 2", "* needs a number; 'sgd' is a string"),
        ("optimizer + 2", "+ needs a number; 'sgd' is a string"),
        ("-optimizer", "- needs a number"),
        ("min(optimizer, 1)", "min needs a number"),
        ("optimizer < 2", "'sgd' < 2 compares a string with a number"),
        ("optimizer and true", "'sgd' is a string, neither true nor false"),
        ("momentum + 1", "there is no 'momentum' here; known names: batch, lr"),
    ],
)
def test_what_has_no_value_says_why(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        Expression(text).evaluate(VALUES)
    assert problem in str(raised.value)


def test_only_what_the_value_depends_on_is_looked_at() -> None:
    assert Expression("momentum if optimizer == 'sgd' else 0").evaluate({"optimizer": "adam"}) == 0
    assert Expression("optimizer == 'adam' or momentum > 0.5").holds({"optimizer": "adam"})
    with pytest.raises(UnknownName) as missing:
        Expression("momentum if optimizer == 'sgd' else 0").evaluate({"optimizer": "sgd"})
    assert missing.value.name == "momentum"


def test_names_are_those_that_may_be_looked_at() -> None:
    expression = Expression("min(lr, 1) + batch * lr if value('val/loss') in [a, true] else 'text'")
    assert expression.names == ("val/loss", "a", "lr", "batch")


def test_nan_is_a_number_like_any_other() -> None:
    assert not Expression("bad < 1").holds(VALUES)
    assert Expression("isnan(bad) and not isfinite(bad)").holds(VALUES)
    assert math.isnan(Expression("bad + 1").evaluate(VALUES))  # type: ignore[arg-type]


def test_a_text_cant_grow_without_end() -> None:
    most = "x" * (MAX_RESULT // 2)
    assert Expression("a + a").evaluate({"a": most}) == most + most
    with pytest.raises(ExpressionError, match="more than 1024 characters"):
        Expression("a + a").evaluate({"a": most + "x"})
    with pytest.raises(ExpressionError, match="a string of 2000 characters is too long"):
        Expression("a").evaluate({"a": "x" * 2000})


def test_expressions_of_the_same_text_are_equal() -> None:
    assert Expression("a + 1") == Expression("a + 1")
    assert len({Expression("a"), Expression("a"), Expression("b")}) == 2


PIECES = [
    *("batch", "lr", "optimizer", "nesterov", "bad", "unknown", "true", "0", "1", "64", "0.5", "1e308", "'sgd'", '""'),
    *("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ",", "(", ")", "[", "]", " in ", " not in ", " is "),
    *(" if ", " else ", " and ", " or ", " not ", "min(", "max(", "round(", "log(", "exp(", "int(", "sqrt(", "value("),
    *(" for ", "lambda", ".", ":", "{", "}", "=", "\\", "'", '"', "\n", "\0", "#", "x", "é", "9223372036854775807"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=draw(1500), deadline=None)
@example("(" * MAX_EXPRESSION)
@example("-" * (MAX_EXPRESSION - 1) + "1")
@example("not " * 120 + "1")
@example("1<" * 200 + "1")
@example("9**" * 100 + "9")
@example("\ud800")
def test_whatever_is_written_comes_to_a_value_or_one_clear_error(text: str) -> None:
    check_value_or_error(text)


@given(st.text(max_size=40))
@settings(max_examples=500, deadline=None)
def test_so_does_any_text(text: str) -> None:
    check_value_or_error(text)


def numbers() -> st.SearchStrategy[str]:
    leaves = st.one_of(
        st.sampled_from(["batch", "lr", "bad", "nesterov"]),
        st.integers(0, MAX_INTEGER).map(str),
        st.floats(0, allow_infinity=False).map(repr),
    )

    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", "==", "and", "or"])
        functions = st.sampled_from(["abs", "ceil", "exp", "float", "floor", "int", "log", "round", "sqrt"])
        return st.one_of(
            st.tuples(inner, operators, inner).map(lambda parts: f"({' '.join(parts)})"),
            st.tuples(functions, inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
            st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        )

    return st.recursive(leaves, deeper, max_leaves=12)


@given(numbers())
@settings(max_examples=draw(1500), deadline=None)
def test_arithmetic_never_explodes(text: str) -> None:
    if len(text) <= MAX_EXPRESSION:
        Expression(text)  # every one of these is an expression
        check_value_or_error(text)


def check_value_or_error(text: str) -> None:
    try:
        value = Expression(text).evaluate(VALUES)
    except ExpressionError as error:
        said = str(error)
    else:
        said = repr(value)
        assert isinstance(value, bool | int | float | str)
        assert not isinstance(value, int) or abs(value) <= MAX_INTEGER
    assert 0 < len(said) < 2 * MAX_EXPRESSION
