"""`podtune top`: who uses GPUs, and who waits for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.client.resources import read_experiment, read_trial
from podtune.cli.views.gpu_use import collect_use, render_use
from podtune.cli.views.live.gpus import GpuDemand
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.cli.shown_cluster import (
    ENDED,
    UNSCHEDULABLE,
    ShownApi,
    make_cluster,
    make_experiment,
    make_running,
    make_trial,
    make_waiting,
)

NOW = datetime(2026, 1, 1, 10, 12, tzinfo=UTC)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ShownApi:
    made = make_cluster()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (made, namespace or NAMESPACE))
    return made


@pytest.fixture
def podtune(api: ShownApi, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def run(line: str, code: int = 0) -> list[str]:
        assert cli.main(line.split()) == code
        written = capsys.readouterr()
        return (written.err if code else written.out).splitlines()

    return run


def test_it_says_who_waits_since_when_and_why_and_what_runs_on_which_node() -> None:
    trials = [
        make_trial(2, **ENDED),
        make_trial(3, **make_running("2026-01-01T10:02:00Z")),
        make_trial(4, **make_running("2026-01-01T10:04:00Z", "gpu-node-2")),
        make_trial(5, **make_waiting("2026-01-01T10:07:00Z")),
        make_trial(6, **make_waiting("2026-01-01T10:05:00Z"), limits={"nvidia.com/gpu": "4"}),
    ]
    use = collect_use(read_experiment(make_experiment()), map(read_trial, trials))
    lines = [line.split() for line in render_use([use], NOW, None)]
    why = ["Unschedulable:", *UNSCHEDULABLE.split()]
    assert lines == [
        ["EXPERIMENT", "RUNNING", "GPUS", "WAITING", "ASKED", "LONGEST", "GPU-HOURS"],
        ["digits", "2", "4", "2", "6", "7m", "12.4"],
        [],
        ["TRIAL", "STATE", "GPUS", "SINCE", "NODE", "WHY"],
        ["digits-6", "PENDING", "4", "7m", "-", *why],
        ["digits-5", "PENDING", "2", "5m", "-", *why],
        ["digits-3", "RUNNING", "2", "10m", "gpu-node-1"],
        ["digits-4", "RUNNING", "2", "8m", "gpu-node-2"],
        [],
        ["NODE", "TRIALS", "GPUS"],
        ["gpu-node-1", "1", "2"],
        ["gpu-node-2", "1", "2"],
    ]


def test_programs_get_the_same(podtune: Callable[..., list[str]]) -> None:
    facts = json.loads("\n".join(podtune("top -o json")))
    (item,) = facts["items"]
    assert {name: item[name] for name in ("experiment", "running", "gpus", "waiting", "gpusAsked", "gpuHours")} == {
        "experiment": "digits", "running": 2, "gpus": 4, "waiting": 1, "gpusAsked": 2, "gpuHours": 12.4321
    }  # fmt: skip
    assert item["trials"][0]["message"] == UNSCHEDULABLE
    assert facts["nodes"][0] == {"node": "gpu-node-1", "trials": 1, "gpus": 2}
    assert podtune("top digits -o name") == [f"trial.podtune.dev/digits-{number}" for number in (5, 3, 4)]


def test_what_has_ended_is_left_out_unless_it_is_named(api: ShownApi, podtune: Callable[..., list[str]]) -> None:
    ended = make_experiment("audio")
    ended["status"]["completionTime"] = "2026-01-01T10:08:00Z"
    api.add_experiment(ended)
    assert [line.split()[0] for line in podtune("top")[:2]] == ["EXPERIMENT", "digits"]
    assert podtune("top audio")[1].split()[:3] == ["audio", "0", "0"]
    assert podtune("top -A")[0].split()[:2] == ["NAMESPACE", "EXPERIMENT"]
    assert "leave out -A, or EXPERIMENT" in podtune("top digits -A", 1)[0]
    assert podtune("top -n empty") == []


GPU = {"limits": {"nvidia.com/gpu": 1}}


def make_template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "t", "image": "i", "resources": GPU}]}} | fields


@pytest.mark.parametrize(
    ("changes", "status", "gpus"),
    [
        ({"trialTemplate": make_template()}, {}, 1),
        ({"trialTemplate": make_template(replicas=3)}, {}, 3),
        (
            {"trialTemplate": {"roles": [
                {"name": "driver", "template": {"spec": {"containers": [{"name": "t", "image": "i"}]}}},
                {"name": "worker", "replicas": 2, "template": make_template()},
            ]}},
            {"limits": {"worker:nvidia.com/gpu": "4"}},
            8,
        ),
        ({"trialTemplate": make_template(limits={"nvidia.com/gpu": {"expression": "hidden_units"}})}, {}, 64),
        ({"trialTemplate": {"of": "a newer operator"}}, {}, 0),
    ],
)  # fmt: skip
def test_a_trials_gpus_are_those_of_all_its_pods(changes: dict[str, Any], status: dict[str, Any], gpus: int) -> None:
    item = make_experiment()
    item["spec"] |= changes
    demand = GpuDemand(read_experiment(item))
    assert demand.count(read_trial(make_trial(3, **make_running(), **status))) == gpus
