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

from podtune.api.names import DecisionKind, TrialState
from podtune.api.resources.trial import LedgerEntry
from podtune.cli.client.resources import get_experiment, list_trials
from podtune.cli.client.run_directory import LOCAL_NAMESPACE, RunDirectoryApi
from podtune.cli.client.store_access import StoreOptions, open_experiment_store
from podtune.cli.client.stored_decisions import read_stored_decisions
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
Decision = tuple[str, int, dict[str, Any]]
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
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that nobody has killed, one trial at a time."""
    path = tmp_path_factory.mktemp("undisturbed")
    follow(make_run(_make(1), path))
    return path / "run"


def _note(entry: LedgerEntry) -> Decision:
    """A decision without its moment and attempt."""
    return entry.action, entry.step, dict(entry.inputs)


def _read_decisions(path: Path) -> dict[str, dict[int, Decision]]:
    """All decisions of a run by their numbers, by trial: those in the store, and those in the status alone."""
    run = RunDirectoryApi(path)
    view, trials = (get_experiment(run, LOCAL_NAMESPACE, "tiny"), list_trials(run, LOCAL_NAMESPACE, "tiny"))
    with open_experiment_store(run, view, StoreOptions()) as opened:
        prefix = opened.address.experiment_prefix(view.uid)
        stored = read_stored_decisions(opened.store, prefix, [trial.name for trial in trials])
    return {
        trial.name: {
            entry.number: _note(entry)
            for entry in (*map(LedgerEntry.model_validate, stored.get(trial.name, ())), *trial.status.ledger)
        }
        for trial in trials
    }


def _list_own(decisions: Mapping[int, Decision]) -> list[Decision]:
    """Decisions in order, without the pause of the whole run, behind which are no numbers."""
    ordered = [decision for _, decision in sorted(decisions.items())]
    return [decision for decision in ordered if decision[0] != DecisionKind.PAUSE or decision[2]]


def _finish(path: Path) -> LocalRun:
    run = resume_run(path, environ=os.environ)
    follow(run)
    assert run.progress.outcome == (0, f"all {TRIALS} trials are done")
    trials = run.progress.trials.values()
    assert {trial.state for trial in trials} == {TrialState.TERMINATED}
    assert sum(trial.status.failures + trial.status.disruptions for trial in trials) == 0
    return run


@pytest.mark.long
@pytest.mark.parametrize("lines", POINTS)
def test_one_trial_at_a_time_comes_to_the_same_decisions(
    start: Command, tmp_path: Path, lines: int, undisturbed: Path
) -> None:
    _kill_after(start(1), lines)
    _finish(tmp_path / "run")
    resumed, known = _read_decisions(tmp_path / "run"), _read_decisions(undisturbed)
    assert {name: _list_own(found) for name, found in resumed.items()} == {
        name: _list_own(found) for name, found in known.items()
    }
    ends = [
        [(trial.proposed, trial.status.reason) for trial in list_trials(RunDirectoryApi(path), LOCAL_NAMESPACE, "tiny")]
        for path in (tmp_path / "run", undisturbed)
    ]
    assert ends[0] == ends[1]


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
    ended = _finish(tmp_path / "run").progress.trials
    decisions = _read_decisions(tmp_path / "run")
    for name, trial in ended.items():
        if name not in decided:
            continue
        before = decided[name]
        assert trial.proposed == before.spec.parameters
        assert {entry.number: _note(entry) for entry in before.status.ledger}.items() <= decisions[name].items()
        if before.status.state is not None and before.status.state.is_finished:
            assert trial.status.reason == before.status.reason
