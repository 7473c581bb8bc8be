"""Experiments in virtual time."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from typing_extensions import override

from podtune.api.resources.experiment import ExperimentSpec
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.horizon import find_iteration_limit
from podtune.simulation.plan import make_plan
from podtune.simulation.simulation import Simulation, SimulationError
from podtune.simulation.trace import SimulationResult
from podtune.tuning.schedulers.base import Metrics, SchedulerDecision
from podtune.tuning.schedulers.fifo import Fifo
from tests.entry_points import install
from tests.unit.tuning.manifests import experiment

STORE = {"store": {"bucket": "bucket"}}
ASHA = {"asha": {"maxTime": 9, "reductionFactor": 3}}
ASHA_BY_TIME = {"asha": {"timeAttribute": "time_total_s", "gracePeriod": 60, "maxTime": 540, "reductionFactor": 3}}
STEADY = ClusterModel(pod_start=20, pod_stop=5, checkpoint=5)


def spec(**fields: Any) -> ExperimentSpec:
    return experiment(**{"maxConcurrentTrials": 4, **fields})


def simulation(
    manifest: ExperimentSpec, model: ClusterModel = STEADY, *, iterations: int = 9, seed: int = 0
) -> Simulation:
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["sphere"], manifest.parameters, manifest.objective, iterations=iterations, seconds=60, seed=seed
    )
    return Simulation(manifest, curves, model, seed=seed)


def run(manifest: ExperimentSpec, model: ClusterModel = STEADY, **options: int) -> SimulationResult:
    return simulation(manifest, model, **options).run()


def test_every_trial_of_fifo_runs_to_its_end() -> None:
    outcome = run(spec())
    assert outcome.status.state == "Complete"
    assert [trial.status.reason for trial in outcome.trials] == ["Completed"] * 24
    assert outcome.results == 24 * 9
    rounds = 24 / 4 * (9 * 60 + 20)
    assert outcome.seconds == pytest.approx(rounds, rel=0.05)
    assert outcome.gpu_hours == pytest.approx(4 * rounds / 3600, rel=0.05)


def test_asha_stops_most_trials_early_and_uses_less_gpu_time() -> None:
    outcome = run(spec(scheduler=ASHA))
    assert outcome.status.trials.stopped_early > 12
    assert outcome.gpu_hours < 0.6 * run(spec()).gpu_hours
    stops = [decided.entry.message for decided in outcome.decisions if decided.entry.action == "STOP"]
    early = [message for message in stops if "is below the cutoff" in message]
    assert len(early) == outcome.status.trials.stopped_early
    assert len(stops) == 24


def test_results_have_the_times_of_training_over_all_attempts() -> None:
    model = replace(STEADY, disruptions_per_hour=3.0)
    outcome = run(spec(checkpoints=STORE), model)
    assert max(trial.status.attempt for trial in outcome.trials) > 1
    for trial in outcome.trials:
        last = trial.status.last_result
        assert last["time_total_s"] == repr(60.0 * trial.status.iteration)
        assert "time_this_iter_s" not in last, "a status is to stay small"


def test_a_scheduler_can_go_by_training_time() -> None:
    by_iterations, by_time = spec(scheduler=ASHA), spec(scheduler=ASHA_BY_TIME)
    assert find_iteration_limit(by_time, seconds=60) == find_iteration_limit(by_iterations, seconds=60) == 9
    one, other = run(by_iterations), run(by_time)
    assert other.status.trials.stopped_early == one.status.trials.stopped_early > 0
    assert [trial.status.iteration for trial in other.trials] == [trial.status.iteration for trial in one.trials]


def test_a_plan_counts_rungs_of_training_time_in_seconds() -> None:
    model = ClusterModel()
    one, other = (make_plan(spec(scheduler=scheduler), model, seconds=60) for scheduler in (ASHA, ASHA_BY_TIME))
    assert [rung.time for rung in one.rungs] == [1, 3, 9]
    assert [rung.time for rung in other.rungs] == [60, 180, 540]
    assert [rung.trials for rung in other.rungs] == pytest.approx([rung.trials for rung in one.rungs])
    assert [rung.gpu_hours for rung in other.rungs] == pytest.approx([rung.gpu_hours for rung in one.rungs])


def test_the_same_seeds_decide_the_same() -> None:
    manifest = spec(scheduler=ASHA, checkpoints=STORE)
    rough = ClusterModel(crashes_per_hour=3, disruptions_per_hour=3)
    first, again, other = run(manifest, rough), run(manifest, rough), run(manifest, rough, seed=1)
    assert first == again
    assert first.fingerprint == again.fingerprint
    assert other.fingerprint != first.fingerprint


def test_the_best_result_only_gets_better_and_regret_says_how_far_it_is() -> None:
    outcome = run(spec(scheduler=ASHA))
    values = [improvement.value for improvement in outcome.improvements]
    assert values == sorted(set(values))
    assert outcome.status.best is not None
    assert outcome.best is not None
    assert (outcome.best.trial, repr(outcome.best.value)) == (outcome.status.best.trial, outcome.status.best.value)
    assert outcome.optimum == 0
    assert outcome.compute_regret(outcome.best) == -outcome.best.value


def test_trials_wait_for_gpus() -> None:
    two = {"spec": {"containers": [{"name": "trial", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}
    manifest = spec(trialTemplate=two)
    plenty, scarce = run(manifest), run(manifest, ClusterModel(gpus=4))
    assert scarce.seconds > 1.9 * plenty.seconds
    assert scarce.gpu_hours == pytest.approx(plenty.gpu_hours, rel=0.05)
    with pytest.raises(SimulationError, match="a trial needs 2 GPUs, the cluster has 1; give it more"):
        run(manifest, ClusterModel(gpus=1))


def test_a_crash_spends_a_failure_and_the_retry_goes_on_from_the_checkpoint() -> None:
    outcome = run(spec(checkpoints=STORE, failures={"maxFailures": 100}), ClusterModel(crashes_per_hour=4))
    crashed = [trial.status for trial in outcome.trials if trial.status.failures]
    assert crashed
    assert {status.state for status in crashed} == {"TERMINATED"}
    assert outcome.results < 24 * 9 + sum(status.failures for status in crashed) * 2  # little is trained again
    afresh = run(spec(failures={"maxFailures": 100}), ClusterModel(crashes_per_hour=4))
    assert afresh.results > outcome.results


def test_trials_that_crash_too_often_end_in_error() -> None:
    outcome = run(spec(failures={"maxFailures": 0}), ClusterModel(crashes_per_hour=6))
    assert outcome.status.trials.error > 0
    assert {t.status.reason for t in outcome.trials if t.status.state == "ERROR"} == {"MaxFailuresExceeded"}


def test_disruptions_spend_no_failures() -> None:
    outcome = run(spec(checkpoints=STORE, failures={"maxFailures": 0}), ClusterModel(disruptions_per_hour=4))
    assert outcome.status.trials.error == 0
    assert sum(trial.status.disruptions for trial in outcome.trials) > 0
    assert sum(trial.status.failures for trial in outcome.trials) == 0


def test_only_what_may_be_needed_again_is_kept() -> None:
    running = simulation(spec(checkpoints=STORE, search={"algorithm": "random", "maxTrials": 1, "seed": 7}))
    held = 0
    while not running.is_over:
        running.step()
        held = max(held, len(running.bucket))
    assert held == 3  # two are kept, a third is being recorded


def test_a_total_time_ends_the_experiment() -> None:
    outcome = run(spec(stop={"totalTime": "30m"}))
    assert outcome.seconds == pytest.approx(1800, abs=30)
    assert "30m" in outcome.status.message or "1800" in outcome.status.message


def test_an_operator_that_is_restarted_decides_as_if_it_had_not_been() -> None:
    manifest = spec(scheduler=ASHA, checkpoints=STORE)
    undisturbed = run(manifest, ClusterModel(checkpoint=0, crashes_per_hour=2))
    disturbed = simulation(manifest, ClusterModel(checkpoint=0, crashes_per_hour=2))
    while not disturbed.is_over:
        disturbed.step()
        if disturbed.events % 10 == 0:
            disturbed.restart()
    assert disturbed.outcome.fingerprint == undisturbed.fingerprint


def test_thousands_of_events_take_a_second() -> None:
    """So that nothing slips in that looks at all trials on each event: 1000 trials take 1.3 s."""
    outcome = run(spec(scheduler=ASHA, search={"algorithm": "random", "maxTrials": 300, "seed": 7}))
    assert outcome.status.trials.terminated == 300


def test_an_export_takes_no_time_and_holds_up_no_end() -> None:
    stored = run(spec(checkpoints=STORE))
    exporting = run(spec(checkpoints={**STORE, "export": {}, "deletionPolicy": "Delete"}))
    assert exporting.status.state == "Complete"
    assert exporting.seconds == pytest.approx(stored.seconds, abs=2.0)
    assert {job.state for job in exporting.status.storage.jobs} == {"Done"}


class Failing(Fifo):
    def __init__(self, **arguments: object) -> None:
        """Takes whatever it is given."""

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        raise RuntimeError("out of order")


def test_a_plugin_that_fails_ends_the_simulation_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EntryPoint("failing", f"{__name__}:Failing", "podtune.schedulers"))
    manifest = spec(scheduler={"plugin": {"name": "failing"}}, checkpoints=STORE)
    with pytest.raises(SimulationError, match=r"'failing' failed in on_result\(\) .*RuntimeError: out of order"):
        run(manifest)
