"""The page about the chart has each value with its default, and says what it does."""

from __future__ import annotations

from docs.reference_pages.chart_values import CHART, ChartValue, chart_values_page, read_values

VALUES = """\
# For readers of the file.
# -- How many there are,
# at least.
replicas: 1
image:
  # -- Its name.
  name: operator
  tag: ""
# -- Names.
names:
  - a
  - b
# -- What it gets.
resources:
  limits: {memory: 1Mi}
free: {}
"""


def test_values_are_read_with_their_comments() -> None:
    assert read_values(VALUES) == [
        ChartValue("replicas", "How many there are, at least.", 1),
        ChartValue("image.name", "Its name.", "operator"),
        ChartValue("image.tag", "", ""),
        ChartValue("names", "Names.", ["a", "b"]),
        ChartValue("resources", "What it gets.", {"limits": {"memory": "1Mi"}}),
        ChartValue("free", "", {}),
    ]


def test_every_value_of_the_chart_says_what_it_does() -> None:
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert [value.name for value in values if not value.meaning] == [], "put a comment above it that begins with # --"


def test_a_row_has_type_and_default() -> None:
    page = chart_values_page()
    assert "| `replicas` | integer, at least 0 | `1` | One leads," in page
    assert "| `logLevel` | one of `debug`, `info`, `warning`, `error` | `info` |" in page
    assert "| `podLimits.perNamespace` | integer, at least 0, at most 1,000,000 or `unlimited` | `unlimited` |" in page
