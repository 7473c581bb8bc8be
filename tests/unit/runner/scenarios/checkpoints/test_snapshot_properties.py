"""Whatever the weather, a snapshot holds what was, is not stored too often, and is whole at the end."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.validation import parse_experiment
from podtune.protocol.snapshot import SnapshotRecord
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.backoff import Backoff
from podtune.runner.records import Experiment
from podtune.runner.settings import RunnerSettings
from podtune.runner.timestamps import parse_rfc3339
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Weather, spec
from tests.unit.runner.world.stored_simulation import StoredSimulation
from tests.unit.runner.world.weather import any_weather, seeds

PERIOD = 5.0
ASHA = {"asha": {"maxTime": 9, "gracePeriod": 1, "reductionFactor": 3}}
QUICK = RunnerSettings(log_tries=100, storage_backoff=Backoff(2.0, 8.0), storage_start_deadline=5.0)
weathers = any_weather(lives=12.0)
schedulers = st.sampled_from([{}, ASHA])
moves = st.lists(
    st.tuples(
        st.floats(0.5, 25.0),
        st.sampled_from(("Paused", "Running", "Stopped", "delete", "restart", "suspend", "go on")),
        st.integers(0, 4),
    ),
    max_size=6,
).map(sorted)
failures = st.dictionaries(st.integers(1, 4), st.sampled_from(["the store does not answer", None]), max_size=2)
"""What storage pods fail with, by their number."""
bounded = settings(max_examples=draw(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def start(weather: Weather, seed: int, scheduler: dict[str, Any], **fields: Any) -> StoredSimulation:
    experiment = spec(
        **{
            "checkpoints": {"store": STORE},
            "failures": {"backoff": {"initial": "1s", "max": "4s"}, "maxFailures": 3, "maxDisruptions": 8},
            "search": {"algorithm": "random", "maxTrials": 5, "seed": 7},
            "scheduler": scheduler,
            "snapshot": {"period": f"{PERIOD:.0f}s"},
            **fields,
        }
    )
    return StoredSimulation(experiment, Program(steps=7, checkpoint_every=1), weather, seed=seed, settings=QUICK)


def assert_was(simulation: StoredSimulation, record: SnapshotRecord) -> None:
    """A record is a version of its object that there was."""
    body = json.loads(record.body)
    was = simulation.versions[record.trial][record.version]
    if isinstance(was, Experiment):
        assert parse_experiment(body) == was.spec
        assert ExperimentStatus.model_validate(body["status"]) == was.status
        return
    assert TrialSpec.model_validate(body["spec"]) == was.spec
    assert TrialStatus.model_validate(body["status"]) == was.status


def assert_not_too_often(simulation: StoredSimulation) -> None:
    """At most once a period: no agent is given a record more often, and no storage pod is made."""
    for moments in simulation.given.values():
        assert all(later - earlier >= PERIOD for earlier, later in pairwise(moments))
    done = None
    begun = set()
    for _, experiment in sorted(simulation.versions[""].items()):
        storage = experiment.status.storage if isinstance(experiment, Experiment) else None
        job = storage.find_job(StoragePurpose.SNAPSHOT) if storage is not None else None
        if job is None:
            continue
        if done is not None and job.tries == 1 and job.pod not in begun:
            assert (parse_rfc3339(job.start_time) or 0.0) - done >= PERIOD - 1, "times are in whole seconds"
        begun.add(job.pod)
        done = parse_rfc3339(job.completion_time) or done


@bounded
@given(weathers, seeds, schedulers, failures, moves)
def test_a_snapshot_holds_what_was_and_is_whole_at_the_end(
    weather: Weather,
    seed: int,
    scheduler: dict[str, Any],
    failures: dict[int, str | None],
    moves: list[tuple[float, str, int]],
) -> None:
    simulation = start(weather, seed, scheduler)
    simulation.storage.failures = failures
    user_moves.assert_all_end(simulation, moves, trials=5)
    for record in simulation.stored.values():
        assert_was(simulation, record)
    assert_not_too_often(simulation)
    assert {name: simulation.stored[name].version for name in simulation.api.trials} == {
        name: trial.version for name, trial in simulation.api.trials.items()
    }
    assert json.loads(simulation.stored[""].body)["status"]["trials"]["terminated"] == 5


@bounded
@given(weathers, seeds, st.floats(0.0, 30.0), schedulers)
def test_a_machine_made_anew_stores_what_the_one_before_it_would(
    weather: Weather, seed: int, moment: float, scheduler: dict[str, Any]
) -> None:
    assert_made_anew_agrees(start(weather, seed, scheduler).run(moment))
