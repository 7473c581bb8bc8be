"""What an entry does with events while its machine is being made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.controllers.store import entry as entry_module
from podtune.controllers.store.entry import ExperimentEntry, StateEvent
from podtune.controllers.store.stalled import Stalled
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import BuildSteps
from tests.unit.cluster.objects import experiment_record

SETTINGS = RunnerSettings()


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> ExperimentEntry:
    """One of many Trials, by which a single step is done at a time."""
    monkeypatch.setattr(entry_module, "FEW_TRIALS", -1)
    monkeypatch.setattr(entry_module, "STEPS_AT_A_TIME", 1)
    return ExperimentEntry(experiment_record(), Stalled(SETTINGS.api_backoff))


def steps(done: list[str], *, fails: bool = False) -> BuildSteps:
    done.append("first")
    yield
    if fails:
        raise ValueError("second")
    done.append("second")
    yield


def event(heard: list[str], name: str) -> StateEvent:
    return lambda _: heard.append(name)


def fail(_: ExperimentMachine) -> None:
    raise ValueError("event")


def begin(entry: ExperimentEntry, made: BuildSteps) -> ExperimentMachine:
    machine = ExperimentMachine(entry.experiment, SETTINGS)
    entry.begin_build(machine, made)
    return machine


def test_events_wait_until_the_last_step_is_done_and_come_in_their_order(entry: ExperimentEntry) -> None:
    heard: list[str] = []
    machine = begin(entry, steps(heard))
    assert entry.apply(event(heard, "a"))
    entry.continue_build()
    assert entry.apply(event(heard, "b"))
    entry.continue_build()
    assert (entry.machine, heard) == (None, ["first", "second"])
    while entry.build is not None:
        entry.continue_build()
    assert (entry.machine, heard) == (machine, ["first", "second", "a", "b"])


def test_some_of_the_events_that_have_waited_are_heard_in_each_turn(
    entry: ExperimentEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_module, "STEPS_AT_A_TIME", 2)
    heard: list[str] = []
    begin(entry, iter(()))
    for name in "abcd":
        entry.apply(event(heard, name))
    entry.continue_build()
    assert (entry.machine, heard) == (None, ["a", "b"])
    entry.apply(event(heard, "between two turns"))
    entry.continue_build()
    assert (entry.machine, heard) == (None, ["a", "b", "c", "d"])
    entry.continue_build()
    assert entry.machine is not None
    assert heard == ["a", "b", "c", "d", "between two turns"]


def test_the_machine_of_few_trials_is_made_at_once(entry: ExperimentEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_module, "FEW_TRIALS", 0)
    assert begin(entry, steps([])) is entry.machine


def test_a_step_that_fails_leaves_no_machine(entry: ExperimentEntry) -> None:
    begin(entry, steps([], fails=True))
    entry.continue_build()
    with pytest.raises(ValueError, match="second"):
        entry.continue_build()
    assert (entry.machine, entry.build) == (None, None)


def test_an_event_that_has_waited_and_fails_leaves_no_machine(entry: ExperimentEntry) -> None:
    heard: list[str] = []
    begin(entry, iter(()))
    entry.apply(fail)
    entry.apply(event(heard, "after it"))
    with pytest.raises(ValueError, match="event"):
        entry.continue_build()
    assert (entry.machine, entry.build, heard) == (None, None, [])


def test_it_is_served_by_the_spec_of_the_machine_that_is_being_made(entry: ExperimentEntry) -> None:
    machine = begin(entry, steps([]))
    entry.experiment = replace(entry.experiment, spec=None, problem="no such algorithm")
    assert entry.served.spec == machine.spec
    entry.drop_machine()
    assert entry.served.spec is None
