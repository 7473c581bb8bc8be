"""Input that nobody would write: JSON of any shape, and good documents with something wrong in them."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

fuzzed = settings(max_examples=60, deadline=20_000, derandomize=True, suppress_health_check=list(HealthCheck))
"""An example takes milliseconds. What takes seconds can be used to hold up the operator, or the machine is busy."""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 80), 1 << 80),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(["", "\0", "\ud800", "1e999", "NaN", "../..", "a" * 5000, "${}", "%s", "2024-01-01T00:00:00Z"]),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
deep_texts = st.sampled_from(["[" * 6_000, "[" * 900 + "]" * 900, '{"a":' * 6_000, '{"a":' * 400 + "1" + "}" * 400])
texts = st.one_of(st.text(), values.map(json.dumps), deep_texts)
data = st.one_of(st.binary(), texts.map(lambda text: text.encode("utf-8", "surrogatepass")))


@st.composite
def spoilt(draw: st.DrawFn, good: Any) -> Any:
    """A good document in which one to three things were replaced, added or removed."""
    document = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        places = _places(document)
        if not places:
            break  # all that it held was removed
        holder, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                holder[key] = draw(values)
            case "remove":
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(st.text(max_size=8))] = draw(values)
            case _:
                holder.append(draw(values))
    return document


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found.append((document, key))
        found += _places(value)
    return found


def assert_one_sentence(error: Exception) -> None:
    """A message that can be shown: there is one, it is short, and it can be encoded."""
    assert str(error)
    assert len(str(error)) < 4000
    str(error).encode("utf-8", "backslashreplace")
