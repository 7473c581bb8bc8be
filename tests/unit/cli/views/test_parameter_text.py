from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.tuning.search_space import PARAMETER_KINDS, Parameter
from podtune.cli.views.parameter_text import describe_parameter, describe_parameters
from podtune.testing.spaces import SAMPLED


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({"float": {"min": 0.0001, "max": 0.1, "scale": "log"}}, "float from 0.0001 to 0.1, log scale"),
        ({"float": {"min": 0, "max": 1, "scale": "linear"}}, "float from 0 to 1"),
        ({"float": {"min": 0, "max": 10, "step": 1}}, "float from 0 to 10, in steps of 1"),
        ({"int": {"min": 16, "max": 256, "step": 16, "scale": "linear"}}, "int from 16 to 256, in steps of 16"),
        ({"int": {"min": 1, "max": 512, "step": 1, "scale": "log"}}, "int from 1 to 512, log scale"),
        ({"choice": {"values": ["relu", "tanh", True, 3]}}, "one of relu, tanh, true, 3"),
        ({"choice": {"values": ["", "two words", "a,b"]}}, 'one of "", "two words", "a,b"'),
        ({"choice": {"values": list(range(40))}}, "one of 40 values: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …, 39"),
        ({"normal": {"mean": 1, "stddev": 1}}, "normal with mean 1, stddev 1"),
        (
            {"normal": {"mean": 0, "stddev": 30, "min": -45, "max": 90, "step": 15}},
            "normal with mean 0, stddev 30, cut off below -45 and above 90, in multiples of 15",
        ),
        (
            {"logNormal": {"mean": -7, "stddev": 1.5, "max": 0.1}},
            "log-normal, its logarithm with mean -7, stddev 1.5, cut off above 0.1",
        ),
        ({"choice": {"values": [[64, 32], {"depth": 3}]}}, 'one of [64, 32], {"depth": 3}'),
        ({"fixed": {"value": 1}}, "always 1"),
        ({"fixed": {"value": True}}, "always true"),
        ({"fixed": {"value": "adam"}}, "always adam"),
        ({"expression": "x*2"}, "computed as x*2"),
        ({"expression": "x *\n  2"}, "computed as x * 2"),
        (
            {"float": {"min": 0, "max": 1}, "when": {"optimizer": ["sgd", "adam"], "depth": [3]}},
            "float from 0 to 1; only if optimizer is sgd or adam and depth is 3",
        ),
        ({"expression": "lr / 2", "when": {"warm": [True]}}, "computed as lr / 2; only if warm is true"),
        ({"lattice": {"levels": 3}}, "lattice (levels 3)"),
        ({"lattice": "hexagonal"}, "lattice hexagonal"),
    ],
)
def test_each_kind_of_parameter_is_a_sentence(manifest: dict[str, Any], sentence: str) -> None:
    assert describe_parameter({"name": "p", **manifest}) == sentence


def test_the_sentences_begin_in_one_column() -> None:
    lines = describe_parameters([{"name": "x", "fixed": {"value": 1}}, {"name": "width", "expression": "x * 2"}])
    assert lines == ["x:     always 1", "width: computed as x * 2"]


SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text("abc \n,'\"ü", max_size=5))
CONDITIONS = st.dictionaries(st.sampled_from(["a", "b"]), st.lists(SCALARS, min_size=1, max_size=20), max_size=2)


def _any_parameter() -> st.SearchStrategy[Parameter]:
    """A parameter of any kind that a manifest can hold."""
    fixed = SCALARS.map(lambda value: Parameter.model_validate({"name": "p", "fixed": {"value": value}}))
    computed = st.sampled_from(["x * 2", "max(x,\n y)", "'wide' if x > 1 else 'narrow'"]).map(
        lambda text: Parameter.model_validate({"name": "p", "expression": text})
    )
    return st.one_of(*(sampled("p") for sampled in SAMPLED), fixed, computed)


@given(parameter=_any_parameter(), when=CONDITIONS, with_defaults=st.booleans(), with_nulls=st.booleans())
def test_no_parameter_is_beyond_words(
    parameter: Parameter, when: dict[str, Any], *, with_defaults: bool, with_nulls: bool
) -> None:
    conditional = parameter.model_copy(update={"when": when})
    manifest = conditional.model_dump(
        mode="json", by_alias=True, exclude_unset=not with_defaults, exclude_none=not with_nulls
    )
    sentence = describe_parameter(manifest)
    assert "None" not in sentence
    assert "null" not in sentence
    assert "\n" not in sentence
    assert ("; only if " in sentence) == bool(when)


def test_every_kind_that_there_is_has_its_own_words() -> None:
    """A new kind must not be left to the words for what nobody knows."""
    words = {
        "float": {"min": 1, "max": 2},
        "int": {"min": 1, "max": 2},
        "choice": {"values": [1]},
        "normal": {"mean": 1, "stddev": 2},
        "logNormal": {"mean": 1, "stddev": 2},
        "fixed": {"value": 1},
        "expression": "x",
    }
    assert words.keys() == PARAMETER_KINDS.keys()
    for kind, domain in words.items():
        assert "(" not in describe_parameter({"name": "p", kind: domain})
