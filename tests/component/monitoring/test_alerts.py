"""Each alert fires at what it is for and stays silent otherwise, as Prometheus' own promtool evaluates it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from docs.reference_pages.metrics import list_metrics
from e2e.tests.monitoring.prometheus_server import shrink_durations
from tests.component.monitoring.monitoring_tools import ALERTS, list_alerts, run_promtool

CASES = Path(__file__).parent / "alert_cases.yaml"
ALERT = re.compile(r'alertname="(?P<name>\w+)"')
SUFFIXES = ("", "_bucket", "_count", "_sum")
OF_THE_PROCESS = {"up", "process_start_time_seconds"}


def list_cases() -> Iterator[tuple[str, bool]]:
    """Each alert that a case looks at, and whether it fires there."""
    for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]:
        for looked in case["promql_expr_test"]:
            found = ALERT.search(looked["expr"])
            assert found is not None, looked
            yield found["name"], bool(looked["exp_samples"])


def test_prometheus_takes_the_rules() -> None:
    checked = run_promtool("check", "rules", str(ALERTS))
    assert checked.returncode == 0, checked.stderr
    assert f"{len(list_alerts())} rules found" in checked.stdout


def test_alerts_fire_when_they_must_and_only_then(tmp_path: Path) -> None:
    for path in (ALERTS, CASES):
        shutil.copy(path, tmp_path)
    tested = run_promtool("test", "rules", CASES.name, folder=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("fires", [True, False], ids=["fires", "stays silent"])
def test_each_alert_has_a_case_in_which_it(fires: bool) -> None:
    assert {name for name, fired in list_cases() if fired is fires} == set(list_alerts())


def test_a_case_that_comes_out_otherwise_is_noticed(tmp_path: Path) -> None:
    rules = ALERTS.read_text(encoding="utf-8")
    (tmp_path / ALERTS.name).write_text(rules.replace("> 1800", "> 5000"), encoding="utf-8")
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))
    cases["tests"] = [case for case in cases["tests"] if "logs" in case["name"]]
    (tmp_path / CASES.name).write_text(yaml.safe_dump(cases), encoding="utf-8")
    tested = run_promtool("test", "rules", CASES.name, folder=tmp_path)
    assert tested.returncode != 0
    assert "PodtuneLogRelaysFull" in tested.stderr


def test_alerts_ask_for_metrics_that_the_operator_has() -> None:
    known = OF_THE_PROCESS | {metric.name + suffix for metric in list_metrics() for suffix in SUFFIXES}
    asked = {name for rule in list_alerts().values() for name in re.findall(r"(\w+){", rule["expr"])}
    assert asked - known == set()
    assert len(asked) > 10


def test_each_alert_says_what_whoever_is_woken_needs() -> None:
    for name, rule in list_alerts().items():
        assert name.startswith("Podtune")
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), name
        assert rule["for"], name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        assert rule["annotations"]["summary"].endswith("."), name
        assert "{{" not in rule["annotations"]["summary"], f"{name}: summaries are grouped by"


def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    list_metrics()  # has them registered
    served = generate_latest().decode()
    own = "".join(block for block in re.split(r"(?=^# HELP )", served, flags=re.MULTILINE) if "podtune_" in block)
    checked = run_promtool("check", "metrics", given=own)
    said = [line for line in (checked.stdout + checked.stderr).splitlines() if "_created" not in line]
    assert said == []


def test_every_duration_is_shrunk_where_faults_are_real() -> None:
    shrunk = list_alerts(shrink_durations(ALERTS.read_text(encoding="utf-8")))
    for name, rule in list_alerts().items():
        assert shrunk[name]["for"] == rule["for"].replace("m", "s")
        assert not re.search(r"\d[mhd]\b", shrunk[name]["expr"]), name
        assert len(re.findall(r"\ds\b", shrunk[name]["expr"])) == len(re.findall(r"\d[mhd]\b", rule["expr"]))
