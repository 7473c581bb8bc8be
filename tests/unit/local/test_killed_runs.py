"""`podtune run` killed with SIGKILL at twenty points, and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.api.names import TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.cli.client.resources import TrialView
from podtune.local.directory import RunDirectory
from podtune.local.local_run import LocalRun
from podtune.local.objects import LocalObjects
from podtune.local.starting import resume_run
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Trial
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from tests.unit.local.experiments import COUNT, STORE, follow, make_manifest, make_run

TRIALS = 6
POINTS = range(1, 21)
"""Lines of what the command prints, after which it is killed: from the first Trials to the last decisions."""
ASHA = {"asha": {"timeAttribute": "step", "maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
Command = Callable[[int], "subprocess.Popen[str]"]


def _make(concurrent: int) -> dict[str, Any]:
    return make_manifest(COUNT % ":", trials=TRIALS, concurrent=concurrent, checkpoints=STORE, scheduler=ASHA)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Command]:
    """Starts `podtune run`, of trials that count to four, so many at a time."""
    started: list[subprocess.Popen[str]] = []

    def call(concurrent: int) -> subprocess.Popen[str]:
        (tmp_path / "experiment.yaml").write_text(json.dumps(_make(concurrent)))
        words = ["-m", "podtune.cli.main", "run", "experiment.yaml", "--directory", "run"]
        process = subprocess.Popen([sys.executable, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield call
    for process in started:
        with process:
            process.kill()


def _kill_after(process: subprocess.Popen[str], lines: int) -> None:
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, TrialView]:
    """The trials of a run that nobody has killed, one at a time."""
    run = make_run(_make(1), tmp_path_factory.mktemp("undisturbed"))
    follow(run)
    return run.progress.trials


def _list_decisions(status: TrialStatus) -> list[tuple[str, int, dict[str, Any]]]:
    """The ledger without the moments and attempts, which differ."""
    return [(entry.action, entry.step, dict(entry.inputs)) for entry in status.ledger]


def _finish(path: Path) -> LocalRun:
    run = resume_run(path, environ=os.environ)
    follow(run)
    assert run.progress.outcome == (0, f"all {TRIALS} trials are done")
    trials = run.progress.trials.values()
    assert {trial.state for trial in trials} == {TrialState.TERMINATED}
    assert sum(trial.status.failures + trial.status.disruptions for trial in trials) == 0
    return run


@pytest.mark.parametrize(
    "lines", [pytest.param(lines, marks=[] if lines == 7 else pytest.mark.long) for lines in POINTS]
)
def test_one_trial_at_a_time_comes_to_the_same_decisions(
    start: Command, tmp_path: Path, lines: int, undisturbed: Mapping[str, TrialView]
) -> None:
    _kill_after(start(1), lines)
    resumed = _finish(tmp_path / "run").progress.trials
    assert resumed.keys() == undisturbed.keys()
    for name, trial in resumed.items():
        known = undisturbed[name]
        assert trial.proposed == known.proposed
        assert trial.status.reason == known.status.reason
        assert _list_decisions(trial.status) == _list_decisions(known.status)


def _replay(objects: LocalObjects, trials: list[Trial], now: float) -> dict[Any, str]:
    """What a machine asks for that is made of the trials in this order."""
    machine = ExperimentMachine(objects.experiment, RunnerSettings())
    do_all(machine.restore(trials, [pod.record for pod in objects.pods.values()]))
    return {action.key: repr(action) for action in machine.decide(now).actions}


@pytest.mark.long
@pytest.mark.parametrize("lines", POINTS)
def test_of_several_at_a_time_all_that_was_decided_stands(start: Command, tmp_path: Path, lines: int) -> None:
    _kill_after(start(3), lines)
    objects = LocalObjects(RunDirectory(tmp_path / "run"), lambda *_: None)
    decided = dict(objects.trials)
    known = list(decided.values())
    now = 4e9  # whatever waits for a time is due
    assert _replay(objects, known, now) == _replay(objects, known[::-1], now), "the order of records matters"
    for name, trial in _finish(tmp_path / "run").progress.trials.items():
        if name not in decided:
            continue
        before = decided[name]
        assert trial.proposed == before.spec.parameters
        recorded = before.status.ledger
        assert trial.status.ledger[: len(recorded)] == recorded
        if before.status.state is not None and before.status.state.is_finished:
            assert trial.status.reason == before.status.reason
