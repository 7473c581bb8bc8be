"""The page about traces names what is in them, and its values are what the operator takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from podtune.tracing.collector import Collector, parse_collector, parse_headers
from podtune.tracing.spans import TraceSpan, build_attempt_spans, build_experiment_span, build_trial_span
from tests.unit.tracing.traced import attempt_end, end_experiment, end_trial

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "trace-experiments.md").read_text(encoding="utf-8")


def find_documents() -> list[dict[str, Any]]:
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]


def list_spans() -> list[TraceSpan]:
    """Spans with everything that they can have."""
    failed: dict[str, Any] = {"class": "user", "reason": "Error", "exitCode": 3}
    ledger = [{"number": 1, "time": "2026-01-01T12:00:03Z", "action": "PAUSE"}]
    best = {"trial": "digits-0", "value": "0.9", "parameters": {}}
    experiment = end_experiment(state="Failed", best=best)
    trial = end_trial(state="ERROR", bestValue="0.9", ledger=ledger, lastAttempt=attempt_end(**failed))
    whole = [build_experiment_span(experiment), build_trial_span(experiment, trial)]
    return [*filter(None, whole), *build_attempt_spans(experiment, trial)]


def test_the_collector_is_one_that_the_operator_takes() -> None:
    (values,) = (document["tracing"] for document in find_documents() if "tracing" in document)
    assert parse_collector(json.dumps(values)) is not None
    rows = set(re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE))
    assert set(Collector.model_fields) - {"secrets"} | {"secret"} <= rows


def test_the_headers_are_headers() -> None:
    (secret,) = (document["stringData"] for document in find_documents() if "stringData" in document)
    assert parse_headers(secret["headers"]) == {"api-key": "a-long-random-word"}


def test_each_span_and_each_attribute_has_its_row_and_no_other_has() -> None:
    spans = list_spans()
    names = {re.sub(r"(?<=podtune\.parameter\.).*", "NAME", name) for span in spans for name in span.attributes}
    table = PAGE.partition("| attribute | on |")[2].partition("An attempt that")[0]
    assert {word for row in table.splitlines() for word in re.findall(r"`([a-z0-9_.]*\.[a-zA-Z_.]+)`", row)} == names
    rows = re.findall(r"^\| `(experiment|trial|attempt|start)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(span.name for span in spans)
