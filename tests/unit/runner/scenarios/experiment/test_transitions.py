"""Changes of state are put on record in writes that happen anyway, each under one number for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.names import ExperimentState, TrialState
from podtune.api.transitions import Transition
from podtune.runner.records import Experiment, Trial
from podtune.runner.settings import RunnerSettings
from podtune.webhooks.events import Subject
from podtune.webhooks.outbox import ReceiverOutbox
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver
from tests.unit.runner.world.simulated_api import Thing
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import any_weather, seeds

RECORDING = RunnerSettings(records_transitions=True)
RECEIVER = Receiver(name="tracker", url="http://127.0.0.1/")
HYPERBAND: dict[str, Any] = {"checkpoints": {"store": STORE}, "maxConcurrentTrials": 2}


class Recorded:
    """A simulation, and what a receiver hears that is away now and then, while operators come and go."""

    def __init__(self, weather: Weather = FAIR, seed: int = 0, away: int = 0, **fields: Any) -> None:
        self.simulation = Simulation(spec(**fields), Program(steps=6), weather, seed=seed, settings=RECORDING)
        self.entries: dict[tuple[str, int], Transition] = {}
        self.heard: dict[str, dict[str, Any]] = {}
        self._kept: dict[str, str] = {}
        self._away = away
        self._writes = 0
        self._outbox = ReceiverOutbox(RECEIVER, Positions({}))
        self._told = self.simulation.api.changed
        self.simulation.api.changed = self._observe

    def _observe(self, thing: Thing) -> None:
        if isinstance(thing, Trial | Experiment):
            self._note(thing)
            self._pass_on(thing)
        self._told(thing)

    def _note(self, thing: Trial | Experiment) -> None:
        entries = thing.status.transitions or []
        for entry in entries:
            assert self.entries.setdefault((thing.uid, entry.number), entry) == entry
        if entries:
            assert entries[-1].state == thing.status.state
            assert [entry.number for entry in entries] == list(range(entries[0].number, entries[-1].number + 1))

    def _pass_on(self, thing: Trial | Experiment) -> None:
        experiment = self.simulation.api.experiment
        self._writes += 1
        self._outbox.observe(Subject(experiment, thing if isinstance(thing, Trial) else None))
        if self._writes % 7 == 0:
            self._kept = self._outbox.positions.encode()
        if self._writes % 11 == 0:  # the operator is killed, and another one begins with what is there
            self._outbox = ReceiverOutbox(RECEIVER, Positions(self._kept))
            for subject in (
                Subject(experiment),
                *(Subject(experiment, t) for t in self.simulation.api.trials.values()),
            ):
                self._outbox.observe(subject)
            self._outbox.positions.end_loading()
        if self._writes % 20 >= self._away:
            self.deliver()

    def deliver(self) -> None:
        while len(self._outbox):
            batch = self._outbox.take(5)
            for event in batch.events:
                known = self.heard.setdefault(event["id"], event)
                assert known["data"]["experiment"] == event["data"]["experiment"]
            self._outbox.confirm(batch)

    def states(self, uid: str) -> list[str]:
        return [entry.state for (of, _), entry in sorted(self.entries.items()) if of == uid]


def test_a_trial_records_its_states_and_an_experiment_its_own() -> None:
    recorded = Recorded()
    recorded.simulation.run()
    uids = [trial.uid for trial in recorded.simulation.api.trials.values()]
    assert all(recorded.states(uid) == [TrialState.RUNNING, TrialState.TERMINATED] for uid in uids)
    assert recorded.states("e-uid")[-2:] == [ExperimentState.RUNNING, ExperimentState.COMPLETE]
    last = (recorded.simulation.api.experiment.status.transitions or [])[-1]
    assert last.reason == "TrialsComplete"


def test_records_cost_no_write() -> None:
    recording = Recorded().simulation.run().api.writes
    plain = Simulation(spec(), Program(steps=6)).run().api.writes
    assert recording == plain


def test_what_had_ended_before_there_were_webhooks_is_no_change() -> None:
    simulation = Simulation(spec(), Program(steps=6)).run()
    simulation.settings = RECORDING
    simulation.restart()
    simulation.run(100.0)
    assert not simulation.api.experiment.status.transitions
    assert not any(trial.status.transitions for trial in simulation.api.trials.values())


def test_who_has_no_webhooks_records_nothing() -> None:
    api = Simulation(spec(), Program(steps=6)).run().api
    assert not api.experiment.status.transitions
    assert not any(trial.status.transitions for trial in api.trials.values())


@settings(max_examples=25)
@given(any_weather(lives=40.0), seeds, st.integers(0, 19))
def test_in_any_weather_nothing_is_lost_or_told_under_two_ids(weather: Weather, seed: int, away: int) -> None:
    recorded = Recorded(weather, seed, away, **HYPERBAND)
    recorded.simulation.run()
    recorded.deliver()
    for (uid, number), entry in recorded.entries.items():
        event = recorded.heard.get(f"{uid}-transition-{number}")
        assert event is not None, f"{uid} {entry} was not told"
        assert event["data"]["state"] == entry.state
    told = [(e["type"], e["subject"], e["data"].get("number"), e["data"].get("uri")) for e in recorded.heard.values()]
    assert len(told) == len(set(told)), "each fact has one id"
