"""The text that programs expose to Prometheus: every sample of a right one, and no harm from any other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from podtune.agent.scraping.exposition import Sample, parse_exposition

EXPOSITION = r"""# HELP loss The loss, per "split".
# TYPE loss gauge
loss{split="train"} 0.5
loss{split="val",} 0.25 1395066363000
  # a comment
epoch 7
with_tabs	{ a = "b" , c="d" }	+Inf
escaped{path="C:\\DIR\\",quote="\"",line="a\nb",other="\t"} NaN
empty{label=""} -Inf
latency_bucket{le="0.1"} 8 # {trace_id="x} 1"} 0.05 1700000000.1
{"val.loss", "fold no"="1"} 1e-3
# EOF
"""


def test_samples_of_both_formats_are_read() -> None:
    samples = list(parse_exposition(EXPOSITION.replace("epoch 7", "epoch 7\r")))
    assert [(sample.name, dict(sample.labels), str(sample.value)) for sample in samples] == [
        ("loss", {"split": "train"}, "0.5"),
        ("loss", {"split": "val"}, "0.25"),
        ("epoch", {}, "7.0"),
        ("with_tabs", {"a": "b", "c": "d"}, "inf"),
        ("escaped", {"path": "C:\\DIR\\", "quote": '"', "line": "a\nb", "other": "t"}, "nan"),
        ("empty", {}, "-inf"),
        ("latency_bucket", {"le": "0.1"}, "8.0"),
        ("val.loss", {"fold no": "1"}, "0.001"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "loss",
        "loss x",
        '{a="b"} 1',
        'loss{a="b} 1',
        'loss{a="b"',
        'loss{a="b"}',
        "loss{a=b} 1",
        'loss{"b"} 1',
        "} 1",
        "{} 1",
    ],
)
def test_a_line_that_is_no_sample_costs_no_other(line: str) -> None:
    assert list(parse_exposition(f"{line}\nepoch 1")) == [Sample("epoch", (), 1.0)]


def test_a_long_line_takes_no_longer_than_its_length() -> None:
    for part in ('a{b="', "\\", '"', "{", ",", ' a="b"', "\t"):
        assert list(parse_exposition("loss{" + part * 300_000)) == []


@given(st.binary())
def test_no_answer_whatever_breaks_anything(data: bytes) -> None:
    for sample in parse_exposition(data.decode("utf-8", "replace")):
        assert sample.name


@given(st.text(alphabet='az_{}"\\,= \t\n#1.'))
def test_nor_does_one_that_looks_right(text: str) -> None:
    for sample in parse_exposition(text):
        assert sample.name


@pytest.mark.parametrize("length", range(len(EXPOSITION)))
def test_what_is_cut_off_changes_no_line_before(length: int) -> None:
    whole = list(parse_exposition(EXPOSITION[:length].rpartition("\n")[0]))
    assert repr(list(parse_exposition(EXPOSITION[:length]))[: len(whole)]) == repr(whole)


LABELS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.floats()


@given(st.dictionaries(LABELS, NUMBERS, max_size=5), NUMBERS, st.floats(min_value=0, allow_infinity=False))
def test_all_that_the_client_of_prometheus_writes_is_read_as_it_was(
    gauges: dict[str, float], plain: float, counted: float
) -> None:
    registry = CollectorRegistry()
    losses = Gauge("loss", 'With\n"all" \\ signs', ["split"], registry=registry)
    for label, value in gauges.items():
        losses.labels(label).set(value)
    Gauge("plain", "", registry=registry).set(plain)
    Counter("steps", "", registry=registry).inc(counted, {"exemplar": 'x"} 1'})
    Histogram("seconds", "", registry=registry).observe(0.3)
    for generate in (generate_latest, generate_openmetrics):
        samples = {
            (sample.name, sample.labels): sample.value for sample in parse_exposition(generate(registry).decode())
        }
        expected = {("loss", (("split", label),) if label else ()): value for label, value in gauges.items()}
        expected |= {("plain", ()): plain, ("steps_total", ()): counted, ("seconds_sum", ()): 0.3}
        for key, value in expected.items():
            found = samples[key]
            assert found == value or (math.isnan(found) and math.isnan(value))
        assert samples["seconds_bucket", (("le", "+Inf"),)] == 1
