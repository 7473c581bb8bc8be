from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Change
from podtune.cli.client.resources import get_experiment, list_trials, read_experiment
from podtune.cli.errors import KubeconfigError
from podtune.cli.views.tables import render_description, render_list
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    return fake


class Command:
    """Runs a command and keeps what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.error = ""

    def __call__(self, line: str, expect: int = 0) -> list[str]:
        code = cli.main(line.split())
        written = self._capsys.readouterr()
        self.error = written.err
        assert code == expect, written.err
        return written.out.splitlines()


@pytest.fixture
def podtune(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_list_shows_how_far_each_experiment_is(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    api.add_experiment(experiment("audio"))
    header, audio, digits = (line.split() for line in podtune("list"))
    assert header == ["NAME", "STATE", "TRIALS", "RUNNING", "PAUSED", "DONE", "FAILED", "BEST", "AGE"]
    assert audio[:7] == ["audio", "-", "0/24", "0", "0", "0", "0"]
    assert digits[:-1] == ["digits", "Running", "9/24", "2", "1", "4", "1", "accuracy", "0.9722"]


def test_list_of_all_namespaces_says_which(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", "vision"))
    api.add_experiment(experiment("digits", "audio"))
    assert [line.split()[0] for line in podtune("list -A")] == ["NAMESPACE", "audio", "vision"]


@pytest.mark.parametrize("width", [60, 200])
def test_a_list_fits_the_terminal_and_names_what_has_no_room(width: int) -> None:
    views = [read_experiment(experiment("digits", **RUNNING)), read_experiment(experiment("a-name-of-some-length"))]
    lines = render_list(views, datetime(2026, 1, 1, 11, tzinfo=UTC), width, with_namespace=False)
    assert max(map(len, lines)) <= width
    assert lines[1].split()[:2] == ["digits", "Running"]
    if width == 60:
        assert lines[0].split() == ["NAME", "STATE", "TRIALS", "BEST"]
        assert " ".join(lines[3:]) == "(no room for RUNNING, PAUSED, DONE, FAILED, AGE; -o wide shows all)"
    else:
        assert len(lines) == 3


def test_what_was_found_can_be_had_by_name_for_kubectl(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    assert podtune("list -o name") == podtune("describe digits -o name") == ["experiment.podtune.dev/digits"]
    assert podtune("best digits -o name") == ["trial.podtune.dev/digits-4"]
    assert podtune("list -n empty -o name") == []
    api.add_trial(trial(7, **TRAINING))
    assert podtune("why trial.podtune.dev/digits-7")[0].startswith("digits-7 is RUNNING")
    assert podtune("best experiment.podtune.dev/digits -o name") == podtune("best digits -o name")


def test_a_wide_list_says_who_is_best_and_what_the_operator_says(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING | {"usage": {"gpuHours": 3.25, "podHours": 4}}))
    header, row = podtune("list -o wide")
    assert header.split()[-3:] == ["BEST-TRIAL", "GPU-HOURS", "MESSAGE"]
    assert row.endswith("digits-4           3.2   5 of 24 trials done, 2 running")


def test_list_of_nothing_says_so_on_standard_error(podtune: Command) -> None:
    assert podtune("list -n empty") == []
    assert podtune.error == "No Experiments in namespace empty.\n"


def test_describe_shows_what_was_asked_and_every_trial(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    api.add_trial(trial(7, **TRAINING))
    api.add_trial(trial(10))
    lines = podtune("describe digits")
    assert "Objective:   max accuracy" in lines
    assert "Scheduler:   asha (timeAttribute epoch, maxTime 27)" in lines
    assert "Best:        accuracy 0.9722 by digits-4" in lines
    assert "  learning_rate: float from 0.0001 to 0.1, log scale" in lines
    assert "  hidden_units:  int from 16 to 256, in steps of 16" in lines
    assert "  activation:    one of relu, tanh, true, 3" in lines
    table = [line.split() for line in lines[-3:]]
    assert table[0][5:] == ["learning_rate", "hidden_units", "activation", "ACCURACY", "BEST", "MESSAGE"]
    assert table[1][:10] == ["digits-7", "RUNNING", "Training", "2", "1", "0.01235", "64", "tanh", "0.9611", "0.964"]
    assert lines[-2].endswith(f"0.964   {TRAINING['message']}")
    assert table[2] == ["digits-10", "PENDING", "-", "0", "0", "0.01235", "64", "tanh", "-", "-"]
    assert (paths.trials(NAMESPACE), {"labelSelector": "podtune.dev/experiment=digits"}) in api.asked


LOST = {
    "type": "CheckpointsStored",
    "status": "False",
    "reason": "NoSuchBucket",
    "message": "the bucket podtune is missing; make it",
}
REFUSED = {
    "state": "PENDING",
    "reason": "InvalidOverrides",
    "message": "spec.overrides.hidden_units: 7 is below min 16; raise it",
    "conditions": [
        {
            "type": "OverridesAccepted",
            "status": "False",
            "reason": "InvalidOverrides",
            "message": "spec.overrides.hidden_units: 7 is below min 16; raise it",
        }
    ],
}
BROKEN: dict[str, Any] = {
    "state": "ERROR",
    "reason": "MaxFailuresExceeded",
    "message": "container trial exited with code 1; not retried: failure 2, maxFailures is 1",
    "lastAttempt": {"attempt": 2, "logTail": "Traceback (most recent call last):\n  ModuleNotFoundError: torch"},
}
TROUBLED: list[dict[str, Any]] = [TRAINING | {"conditions": [LOST]}, REFUSED, BROKEN]


def _add_troubled(api: FakeApi) -> None:
    lost = {"type": "CheckpointsKept", "status": "False", "reason": "CheckpointsLost", "message": "1 of 2 was lost"}
    ordinary = [
        {"type": "Complete", "status": "False", "reason": "InProgress", "message": ""},
        {"type": "Exported", "status": "False", "reason": "StorageWorkPending", "message": "waits for the end"},
    ]
    api.add_experiment(experiment("digits", **RUNNING | {"conditions": [lost, *ordinary]}))
    for index, status in enumerate(TROUBLED, start=7):
        api.add_trial(trial(index, **status))
    api.add_trial(trial(10, state="PAUSED", reason="PausedByUser", message="spec.desiredState is Paused"))


def test_describe_shows_what_is_wrong_with_whom_and_how_it_ended(api: FakeApi, podtune: Command) -> None:
    _add_troubled(api)
    lines = podtune("describe digits")
    attention = "CheckpointsKept is False (CheckpointsLost): 1 of 2 was lost; look at digits-7, digits-8"
    assert f"Attention:   {attention}" in lines
    table = {line.split()[0]: line for line in lines if line.startswith("digits-")}
    assert table["digits-7"].endswith(
        f"{TRAINING['message']}; CheckpointsStored is False (NoSuchBucket): the bucket podtune is missing; make it"
    )
    assert table["digits-8"].count("7 is below min 16; raise it") == 1
    assert table["digits-9"].endswith("not retried: failure 2, maxFailures is 1")
    assert lines[-3:] == [
        "Last lines of attempt 2 of digits-9:",
        "    Traceback (most recent call last):",
        "      ModuleNotFoundError: torch",
    ]


def test_describe_says_who_runs_an_earlier_template(api: FakeApi, podtune: Command) -> None:
    revisions = [{"name": "1111", "number": 1}, {"name": "2222", "number": 2}]
    status = RUNNING | {"template": {"first": "1111", "revisions": revisions}}
    api.add_experiment(experiment("digits", **status))
    api.add_trial(trial(0, **TRAINING))
    api.add_trial(trial(1, **TRAINING | {"revision": "2222"}))
    api.add_trial(trial(2, state="PENDING", reason="Queued"))
    template = next(line for line in podtune("describe digits") if line.startswith("Template:"))
    assert template.split(None, 1)[1] == "revision 2 (2222); digits-0 runs revision 1 (1111)"
    items = json.loads("\n".join(podtune("describe digits -o json")))["items"]
    assert [item["template"] for item in items] == ["1111", "2222", "1111"]


def test_describe_says_nothing_of_a_template_that_never_changed(api: FakeApi, podtune: Command) -> None:
    kept = {"first": "1111", "revisions": [{"name": "1111", "number": 1}]}
    api.add_experiment(experiment("digits", **RUNNING | {"template": kept}))
    assert not [line for line in podtune("describe digits") if line.startswith("Template:")]


def test_describe_prints_the_logs_of_a_few_failed_trials_only(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    for index in range(5):
        api.add_trial(trial(index, **BROKEN))
    lines = podtune("describe digits")
    shown = [line.split()[-1] for line in lines if line.startswith("Last lines")]
    assert shown == ["digits-2:", "digits-3:", "digits-4:"]
    assert lines[-1] == "2 more trials have failed: `podtune logs TRIAL` prints their lines."


@pytest.mark.parametrize("width", [60, 80, 200])
def test_describe_fits_the_terminal(api: FakeApi, width: int) -> None:
    _add_troubled(api)
    view, trials = get_experiment(api, NAMESPACE, "digits"), list_trials(api, NAMESPACE, "digits")
    lines = render_description(view, trials, datetime(2026, 1, 1, 11, tzinfo=UTC), width)
    assert max(map(len, lines)) <= width
    said = " ".join(line.strip() for line in lines)
    if width < 200:  # there, what has no column of its own is in a sentence below the row
        assert "attempt 2, failures 1, learning_rate 0.01235, hidden_units 64, activation tanh; epoch 9" in said
        assert "the bucket podtune is missing; make it" in said
    else:
        assert any(line.startswith("TRIAL") and line.endswith("MESSAGE") for line in lines)
        assert "learning_rate 0.01235" not in said


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_list_and_describe_answer_programs(api: FakeApi, podtune: Command, output: str, read: Any) -> None:
    _add_troubled(api)
    written = podtune(f"list -o {output}")
    assert written[0] == {"json": "{", "yaml": "items:"}[output]
    (listed,) = read("\n".join(written))["items"]
    described = read("\n".join(podtune(f"describe digits -o {output}")))
    assert listed.items() <= described.items()
    assert (listed["experiment"], listed["namespace"], listed["state"]) == ("digits", NAMESPACE, "Running")
    assert listed["trials"] | {"total": 9, "running": 2, "failed": 1, "stoppedEarly": 3} == listed["trials"]
    assert listed["best"]["value"] == 0.9722222222222222
    assert listed["troubles"] == ["CheckpointsKept is False (CheckpointsLost): 1 of 2 was lost"]
    assert described["spec"]["search"]["maxTrials"] == 24
    training, refused, broken, paused = described["items"]
    assert training["parameters"] == {"learning_rate": 0.0123456789, "hidden_units": 64, "activation": "tanh"}
    assert training["lastResult"]["accuracy"] == 0.9611111111
    assert training["bestValue"] == 0.964
    assert refused["trouble"] == "InvalidOverrides: spec.overrides.hidden_units: 7 is below min 16; raise it"
    assert broken["logTail"] == ["Traceback (most recent call last):", "  ModuleNotFoundError: torch"]
    assert (paused["trouble"], paused["bestValue"], paused["logTail"]) == (None, None, [])


def test_a_trial_that_has_diverged_is_described_in_json(api: FakeApi, podtune: Command) -> None:
    def refuse(word: str) -> object:
        raise AssertionError(f"{word} is no JSON")

    api.add_experiment(experiment("digits", **RUNNING | {"best": {"trial": "digits-4", "value": "inf"}}))
    curve = {"results": 2, "every": 1, "steps": [1, 2], "seconds": [1.5, 3], "values": [[0.25, None]]}
    diverged = {"lastResult": {"accuracy": "nan", "loss": "inf"}, "bestValue": "-inf", "curve": curve}
    api.add_trial(trial(7, **TRAINING | diverged))
    described = json.loads("\n".join(podtune("describe digits -o json")), parse_constant=refuse)
    (shown,) = described["items"]
    assert (shown["lastResult"], shown["bestValue"]) == ({"accuracy": None, "loss": None}, None)
    assert shown["curve"] == curve
    (listed,) = json.loads("\n".join(podtune("list -o json")), parse_constant=refuse)["items"]
    assert listed["best"]["value"] is None


WAITING = [
    "InvalidOverrides", "CannotStart", "PullingImage", "CheckpointUnavailable", "NodeAvoidanceExpired", "BackingOff",
    "PodRejected",
]  # fmt: skip


@pytest.mark.parametrize("reason", WAITING)
def test_a_trial_that_does_not_run_for_a_reason_is_named_at_the_top(
    api: FakeApi, podtune: Command, reason: str
) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    api.add_trial(trial(7, state="PENDING", reason=reason, message="somebody has to do something"))
    api.add_trial(trial(8, state="PENDING", reason="Queued", message="waits for a place"))
    assert "Attention:   look at digits-7" in podtune("describe digits")
    described = json.loads("\n".join(podtune("describe digits -o json")))
    assert described["items"][0]["trouble"] == f"{reason}: somebody has to do something"
    assert described["items"][1]["trouble"] is None


def test_programs_are_answered_where_there_is_nothing(podtune: Command, api: FakeApi) -> None:
    assert json.loads("\n".join(podtune("list -o json"))) == {"items": []}
    api.add_experiment(experiment("digits"))
    described = json.loads("\n".join(podtune("describe digits -o json")))
    assert (described["state"], described["best"], described["items"]) == (None, None, [])


def test_the_best_of_repeats_comes_with_its_spread(api: FakeApi, podtune: Command) -> None:
    best = {"trial": "digits-4", "value": "0.7", "spread": "0.125", "repeats": 3, "parameters": {"hidden_units": "64"}}
    api.add_experiment(experiment("digits", **RUNNING | {"best": best}))
    assert podtune("best digits")[0] == "accuracy 0.7 ± 0.125 by digits-4 and 2 more repeats"
    facts = json.loads("\n".join(podtune("best digits -o json")))
    assert (facts["value"], facts["spread"], facts["repeats"]) == (0.7, 0.125, 3)
    assert "Best:        accuracy 0.7 ± 0.125 by digits-4 and 2 more repeats" in podtune("describe digits")


def test_what_the_search_begins_with_and_a_missing_limit_are_shown(api: FakeApi, podtune: Command) -> None:
    item = experiment("digits", **RUNNING)
    item["spec"]["search"] = {
        "algorithm": "tpe",
        "maxTrials": "unlimited",
        "initial": [{"parameters": {"hidden_units": 64}}],
        "warmStart": {"experiment": "coarse"},
    }
    api.add_experiment(item)
    lines = podtune("describe digits")
    assert "Search:      algorithm tpe, maxTrials unlimited, initial configurations 1, warm start from coarse" in lines
    assert any(line.startswith("Trials:      9 without a limit: ") for line in lines)
    assert "9/unlimited" in "\n".join(podtune("list"))


def test_best_is_readable(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    assert podtune("best digits") == [
        "accuracy 0.9722 by digits-4",
        "  learning_rate  0.004212345678",
        "  hidden_units   128",
        "  activation     relu",
        "checkpoint: s3://podtune/demo/uid/digits-4/attempt/9",
    ]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_best_for_programs_has_the_types_of_the_search_space(
    api: FakeApi, podtune: Command, output: str, read: Any
) -> None:
    api.add_experiment(experiment("digits", **RUNNING))
    assert read("\n".join(podtune(f"best digits -o {output}"))) == {
        "experiment": "digits",
        "namespace": NAMESPACE,
        "trial": "digits-4",
        "metric": "accuracy",
        "value": 0.9722222222222222,
        "parameters": {"learning_rate": 0.004212345678, "hidden_units": 128, "activation": "relu"},
        "checkpoint": "s3://podtune/demo/uid/digits-4/attempt/9",
    }


@pytest.mark.parametrize(("written", "value"), [("relu", "relu"), ("true", True), ("3", 3)])
def test_a_choice_comes_back_as_it_was_written(api: FakeApi, podtune: Command, written: str, value: object) -> None:
    status = RUNNING | {"best": {"trial": "digits-4", "value": "1", "parameters": {"activation": written}}}
    api.add_experiment(experiment("digits", **status))
    found = json.loads("\n".join(podtune("best digits -o json")))
    assert found["parameters"] == {"activation": value}
    assert type(found["parameters"]["activation"]) is type(value)
    assert found["checkpoint"] is None


FRONT = [
    {"trial": "digits-4", "values": {"accuracy": "0.97", "latency": "12.5"}},
    {"trial": "digits-11", "values": {"accuracy": "0.9", "latency": "3"}},
]
OTHERS = [{"metric": "latency", "mode": "min"}]


def test_best_of_several_objectives_is_the_pareto_front(api: FakeApi, podtune: Command) -> None:
    made = experiment("digits", **RUNNING, paretoFront=FRONT)
    made["spec"]["objective"]["others"] = OTHERS
    api.add_experiment(made)
    assert podtune("best digits")[:6] == [
        "no other trial beats these in all objectives:",
        "TRIAL       accuracy   latency",
        "digits-4    0.97       12.5",
        "digits-11   0.9        3.0",
        "",
        "accuracy 0.9722 by digits-4",
    ]
    assert json.loads("\n".join(podtune("best digits -o json")))["paretoFront"] == [
        {"trial": "digits-4", "values": {"accuracy": 0.97, "latency": 12.5}},
        {"trial": "digits-11", "values": {"accuracy": 0.9, "latency": 3.0}},
    ]
    assert "Objective:   max accuracy, min latency" in podtune("describe digits")


def test_best_of_several_objectives_before_a_trial_has_finished(api: FakeApi, podtune: Command) -> None:
    made = experiment("digits", **RUNNING)
    made["spec"]["objective"]["others"] = OTHERS
    api.add_experiment(made)
    assert podtune("best digits")[0].startswith("no trial has finished yet, so there is no Pareto front")


TYPES = [
    ({"normal": {"mean": 1, "stddev": 1}}, "0.5", 0.5),
    ({"logNormal": {"mean": 1, "stddev": 1}}, "2.0", 2.0),
    ({"fixed": {"value": 3}}, "3", 3),
    ({"fixed": {"value": True}}, "true", True),
    ({"fixed": {"value": "adam"}}, "adam", "adam"),
    ({"fixed": {"value": "1"}}, "1", "1"),
    ({"expression": "x * 2"}, "0.25", 0.25),
    ({"expression": "x * 2"}, "8", 8),
    ({"expression": "'deep' if x > 1 else 'flat'"}, "deep", "deep"),
    ({"float": {"min": 0, "max": 1}}, "1e-05", 0.00001),
]


@pytest.mark.parametrize(("domain", "written", "value"), TYPES)
def test_best_for_programs_gives_each_kind_of_parameter_its_type(
    api: FakeApi, podtune: Command, domain: dict[str, Any], written: str, value: object
) -> None:
    made = experiment("digits", **RUNNING | {"best": {"trial": "digits-4", "value": "1", "parameters": {"y": written}}})
    made["spec"]["parameters"] = [{"name": "y", **domain}]
    api.add_experiment(made)
    found = json.loads("\n".join(podtune("best digits -o json")))["parameters"]["y"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("written", ["nan", "inf", "-inf"])
def test_json_has_no_word_for_what_is_not_finite(api: FakeApi, podtune: Command, written: str) -> None:
    def refuse(word: str) -> object:
        raise AssertionError(f"{word} is no JSON")

    best = {"trial": "digits-4", "value": written, "spread": "nan", "repeats": 3, "parameters": {}}
    api.add_experiment(experiment("digits", **RUNNING | {"best": best}))
    facts = json.loads("\n".join(podtune("best digits -o json")), parse_constant=refuse)
    assert (facts["value"], facts["spread"]) == (None, None)


def test_best_of_an_ended_experiment_without_a_result_does_not_send_one_waiting(api: FakeApi, podtune: Command) -> None:
    message = "all 2 trials are done; none has reported a finite number for accuracy"
    api.add_experiment(experiment("digits", state="Failed", message=message))
    podtune("best digits", expect=1)
    assert message in podtune.error
    assert "watch" not in podtune.error
    assert "`podtune describe digits`" in podtune.error


def test_best_before_any_result_is_an_error(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits"))
    assert podtune("best digits", expect=1) == []
    assert podtune.error == "error: no trial of digits has reported accuracy yet; `podtune watch digits` waits\n"


def _add_running_trial(api: FakeApi, containers: list[str]) -> str:
    api.add_trial(trial(7, **TRAINING))
    pod = f"/api/v1/namespaces/{NAMESPACE}/pods/digits-7-2"
    api.objects[pod] = {"spec": {"containers": [{"name": name} for name in containers]}}
    return pod


def test_logs_are_those_of_the_training_program(api: FakeApi, podtune: Command) -> None:
    pod = _add_running_trial(api, ["proxy", "trial"])
    api.logs[f"{pod}/log"] = ["epoch 1", "epoch 2"]
    assert podtune("logs digits-7") == ["epoch 1", "epoch 2"]
    assert api.asked[-1] == (f"{pod}/log", {"container": "trial"})
    podtune("logs digits-7 -f --agent")
    assert api.asked[-1] == (f"{pod}/log", {"container": "podtune-agent", "follow": "true"})


def test_logs_of_a_gang_are_those_of_rank_0_unless_another_is_asked_for(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, **{**TRAINING, "pod": {"name": "digits-7-2-0", "uid": "u"}}))
    for rank in (0, 3):
        pod = f"/api/v1/namespaces/{NAMESPACE}/pods/digits-7-2-{rank}"
        api.objects[pod] = {"spec": {"containers": [{"name": "trial"}]}}
        api.logs[f"{pod}/log"] = [f"rank {rank}"]
    assert podtune("logs digits-7") == ["rank 0"]
    assert podtune("logs digits-7 --rank 3") == ["rank 3"]


def test_logs_of_a_trial_in_a_pod_that_is_reused_are_those_of_that_pod(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, **{**TRAINING, "pod": {"name": "digits-0-1", "uid": "u/7.1"}}))
    pod = f"/api/v1/namespaces/{NAMESPACE}/pods/digits-0-1"
    api.objects[pod] = {"spec": {"containers": [{"name": "trial"}]}}
    api.logs[f"{pod}/log"] = ["epoch 1"]
    assert podtune("logs digits-7") == ["epoch 1"]


def test_a_trial_of_one_pod_has_no_other_ranks(api: FakeApi, podtune: Command) -> None:
    _add_running_trial(api, ["trial"])
    podtune("logs digits-7 --rank 1", expect=1)
    assert podtune.error == "error: digits-7 has only one pod, without ranks; leave out --rank\n"


def test_logs_of_a_trial_that_has_not_started_say_why(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, state="PENDING", message="0/2 nodes are available: 2 Insufficient nvidia.com/gpu"))
    podtune("logs digits-7", expect=1)
    assert podtune.error == "error: digits-7 has no pod yet: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu\n"
    pod = _add_running_trial(api, ["trial"])
    api.logs[f"{pod}/log"] = ApiRefusal(400, "BadRequest", 'container "trial" is waiting to start: PodInitializing')
    podtune("logs digits-7", expect=1)
    assert podtune.error.startswith("error: digits-7 has no log yet: epoch 9")


FAILED_BEFORE = TRAINING | {"lastAttempt": {"attempt": 1, "logTail": "Traceback\nValueError: boom"}}


def test_logs_of_a_pod_that_is_gone_are_the_lines_that_were_kept(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, **FAILED_BEFORE))
    assert podtune("logs digits-7") == ["Traceback", "ValueError: boom"]
    assert podtune.error == (
        "the pod digits-7-2 of digits-7 is gone (spec.podRetention says which are kept, and for how long); "
        "the last lines of attempt 1 are in the trial's status:\n"
    )


def test_logs_of_a_pod_that_is_gone_are_an_error_where_nothing_was_kept(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, **TRAINING))
    assert podtune("logs digits-7", expect=1) == []
    assert podtune.error.startswith("error: the pod digits-7-2 of digits-7 is gone")
    api.add_trial(trial(7, **FAILED_BEFORE))
    assert podtune("logs digits-7 --agent", expect=1) == []  # what was kept is the program's


def test_logs_of_a_pod_that_is_gone_are_said_to_be_in_the_store(api: FakeApi, podtune: Command) -> None:
    made = experiment()
    made["spec"]["logs"] = {"keep": "8Mi"}
    api.add_experiment(made)
    api.add_trial(trial(7, **TRAINING))
    assert podtune("logs digits-7", expect=1) == []
    assert podtune.error.endswith("and for how long); --stored reads what is kept of it\n")


def test_logs_of_a_trial_that_ended_without_a_pod_do_not_say_yet(api: FakeApi, podtune: Command) -> None:
    api.add_trial(trial(7, state="TERMINATED", reason="Completed", message="ended by itself"))
    podtune("logs digits-7", expect=1)
    assert podtune.error == "error: digits-7 has no pod any more: ended by itself\n"


COMPLETE = RUNNING | {
    "state": "Complete",
    "conditions": [{"type": "Complete", "status": "True", "reason": "TrialsComplete", "message": "24 trials ended"}],
}
FAILED = RUNNING | {
    "state": "Failed",
    "conditions": [
        {"type": "Complete", "status": "False", "reason": "AllTrialsFailed"},
        {"type": "Failed", "status": "True", "reason": "AllTrialsFailed", "message": "all 24 trials failed"},
    ],
}
STALLED = {"conditions": [{"type": "Stalled", "status": "True", "reason": "InvalidSpec", "message": "spec.stop: no"}]}


@pytest.mark.parametrize(
    ("ended", "code", "words"),
    [(COMPLETE, 0, "24 trials ended"), (FAILED, 1, "all 24"), (STALLED, 1, "spec.stop: no")],
)
def test_watch_ends_with_the_experiment(
    api: FakeApi, podtune: Command, ended: dict[str, Any], code: int, words: str
) -> None:
    api.scripts[paths.experiments(NAMESPACE)] = [
        Change("RELISTED", {}),
        Change("ADDED", experiment("digits", **ended)),
        Change("SYNCED", {}),
    ]
    api.scripts[paths.trials(NAMESPACE)] = [
        Change("RELISTED", {}),
        Change("ADDED", trial(7, **TRAINING)),
        Change("SYNCED", {}),
    ]
    lines = podtune("watch digits", expect=code)
    assert any("digits-7 RUNNING Training: epoch 9" in line for line in lines)
    assert words in (lines[-1] if code == 0 else podtune.error)


@pytest.mark.parametrize("command", ["describe digits", "best digits", "watch digits"])
def test_an_unknown_experiment_is_one_line_with_a_remedy(api: FakeApi, podtune: Command, command: str) -> None:
    nothing: list[Change | Exception] = [Change("RELISTED", {}), Change("SYNCED", {})]
    api.scripts = {paths.experiments(NAMESPACE): nothing, paths.trials(NAMESPACE): nothing}
    podtune(command, expect=1)
    assert podtune.error == "error: no Experiment 'digits' in namespace 'vision'; `podtune list -A` shows all\n"


def test_an_unknown_trial_is_one_line_with_a_remedy(podtune: Command) -> None:
    podtune("logs digits-7 -n audio", expect=1)
    assert podtune.error.startswith("error: no Trial 'digits-7' in namespace 'audio'; `podtune describe")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("best digits -o toml", "'toml' is not one of 'json', 'yaml'"),
        ("describe", "Missing argument 'EXPERIMENT'"),
        ("lst", "No such command 'lst'"),
        ("list --al", "No such option: --al"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(podtune: Command, line: str, said: str) -> None:
    podtune(line, expect=2)
    assert said in podtune.error
    assert podtune.error.count("\n") == 1


def test_without_arguments_there_is_help(podtune: Command) -> None:
    assert any("watch" in line for line in podtune(""))


def test_the_flags_of_kubectl_reach_the_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(kubeconfig: object, context: object, namespace: object) -> object:
        raise KubeconfigError(f"{kubeconfig} {context} {namespace}")

    monkeypatch.setattr(api_client, "open_api", refuse)
    assert cli.main(["list", "--kubeconfig", "/k", "--context", "c", "-n", "n"]) == 1
    assert capsys.readouterr().err == "error: /k c n\n"


@pytest.mark.parametrize(
    ("program", "name"), [("/bin/kubectl-podtune", "kubectl podtune"), ("/bin/podtune", "podtune")]
)
def test_help_speaks_of_the_program_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, podtune: Command, program: str, name: str
) -> None:
    monkeypatch.setattr("sys.argv", [program])
    assert any(f"Usage: {name} list" in line for line in podtune("list --help"))


def test_what_a_newer_operator_says_is_shown_too(api: FakeApi, podtune: Command) -> None:
    api.add_experiment(experiment("digits", **RUNNING | {"state": "Hibernating", "mood": "good"}))
    api.add_trial(trial(7, **TRAINING | {"state": "DREAMING"}))
    assert podtune("list")[1].split()[:2] == ["digits", "Hibernating"]
    assert any(line.split()[:3] == ["digits-7", "DREAMING", "Training"] for line in podtune("describe digits"))
