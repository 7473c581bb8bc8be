"""A trial's second stage: one more pod evaluates the checkpoint that training has ended with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import DesiredState, ExperimentState, TrialReason, TrialState
from podtune.api.resources.resume import Resume
from podtune.runner.actions import CreatePod, CreateStoragePod, Propose
from podtune.runner.records import Waiting
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world import user_moves
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import MAY_REPEAT, assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec
from tests.unit.runner.world.weather import Faults, any_weather, seeds

EVALUATION: dict[str, Any] = {
    "template": {"spec": {"containers": [{"name": "trial", "image": "scorer"}]}},
    "trainingObjective": {"metric": "loss", "mode": "min"},
}
ASHA = {"asha": {"maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
CRASH = ScheduledFault(Fault.CRASH, 1)
STEPS = 4


def simulation(
    program: Program | None = None, *, trials: int = 1, weather: Weather = FAIR, seed: int = 0, **fields: Any
) -> Simulation:
    fields = {
        "search": {"algorithm": "random", "maxTrials": trials, "seed": 7},
        "checkpoints": {"store": STORE},
        "failures": {"backoff": {"initial": "1s", "max": "4s"}},
        "evaluation": EVALUATION,
        **fields,
    }
    return Simulation(spec(**fields), program or Program(steps=STEPS, checkpoint_every=1), weather, seed=seed)


def list_stages(run: Simulation, trial: str = "e-0") -> list[str]:
    """The attempts of a trial, by their stages."""
    made = {action.attempt: action.evaluates for action in run.created_pods() if action.trial == trial}
    return ["evaluate" if made[attempt] else "train" for attempt in sorted(made)]


def is_evaluating(run: Simulation) -> bool:
    return run.status_exists() and run.status().reason == TrialReason.EVALUATING


# The usual way


def test_the_evaluations_metric_is_the_trials_result() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, evaluation=lambda trial, step: 0.5 + step / 10)).run()
    status = run.status()
    assert list_stages(run) == ["train", "evaluate"]
    assert (status.state, status.reason, status.iteration) == (TrialState.TERMINATED, TrialReason.COMPLETED, STEPS)
    assert (status.best_value, status.last_result["accuracy"]) == ("0.9", "0.9")
    assert status.last_result["loss"] == repr(-compute_rising_value(0, STEPS))
    best = run.api.experiment.status.best
    assert (best.trial, best.value, best.checkpoint) == ("e-0", "0.9", status.evaluation.uri)
    assert [entry.action for entry in status.ledger] == ["EVALUATE"]


def test_the_evaluation_restores_the_last_checkpoint_or_fails() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=3)).run()
    evaluation = run.created_pods()[-1]
    assert evaluation.evaluates
    assert ([known.step for known in evaluation.restore], evaluation.restore_or_fail) == ([3], True)
    assert run.status().evaluation.step == 3


def test_the_best_checkpoint_is_evaluated_and_kept() -> None:
    program = Program(steps=STEPS, checkpoint_every=1, metric=lambda trial, step: 1.0 if step == 2 else 0.5)
    checkpoints = {"store": STORE, "keep": {"count": 2, "by": "best"}}
    run = simulation(program, evaluation={**EVALUATION, "checkpoint": "best"}, checkpoints=checkpoints).run()
    status = run.status()
    assert status.evaluation.step == 2
    assert status.evaluation.uri in [known.uri for known in status.checkpoints]
    assert run.api.experiment.status.best.checkpoint == status.evaluation.uri


def test_a_trial_that_is_evaluated_is_running_and_says_so() -> None:
    run = simulation().run(until=lambda: False, seconds=60.0)
    told = {(write.status.state, write.status.reason) for write in run.writes_of("e-0")}
    assert (TrialState.RUNNING, TrialReason.EVALUATING) in told or run.is_over
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=5.0))
    run.run(until=lambda: is_evaluating(run))
    assert run.status().state is TrialState.RUNNING
    assert run.status().message.startswith("evaluates the checkpoint of iteration 4")


def test_the_searcher_is_told_of_the_evaluation_alone() -> None:
    program = Program(steps=STEPS, checkpoint_every=1, evaluation=lambda trial, step: 10.0 + trial)
    run = simulation(program, trials=6, search={"algorithm": "tpe", "maxTrials": 6, "seed": 7}).run()
    told = run.actions(Propose)[-1].observations
    assert told
    assert {observation.value for observation in told} == {10.0 + trial for trial in range(len(told))}


# Who is evaluated


def test_a_scheduler_sees_the_trainings_metric_and_what_it_prunes_is_not_evaluated() -> None:
    run = simulation(trials=6, scheduler=ASHA).run()
    statuses = [run.status(index) for index in range(6)]
    pruned = [status for status in statuses if status.reason == TrialReason.STOPPED_BY_SCHEDULER]
    trained = [status for status in statuses if status.reason == TrialReason.MAX_TIME_REACHED]
    assert len(pruned) + len(trained) == 6
    assert pruned
    assert trained
    assert all(status.evaluation is None and not status.best_value for status in pruned)
    assert all(
        status.best_value == repr(compute_rising_value(i, 4)) for i, status in enumerate(statuses) if status.evaluation
    )
    assert all("loss" in status.message for status in pruned)


def test_a_trial_that_a_criterion_stops_is_evaluated() -> None:
    run = simulation(stop={"trial": [{"iterations": 2}]}).run()
    status = run.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_CRITERION)
    assert status.evaluation.step == 2
    assert status.best_value == repr(compute_rising_value(0, 2))


def test_a_trial_without_a_checkpoint_is_in_error() -> None:
    run = simulation(Program(steps=STEPS)).run()
    status = run.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NOTHING_TO_EVALUATE)
    assert "there is no checkpoint to evaluate; report one with the last result" in status.message
    assert list_stages(run) == ["train"]


def test_an_evaluation_that_reports_no_objective_is_an_error() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, evaluation=lambda trial, step: None)).run()
    status = run.status()
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    assert "accuracy was never reported; metrics seen: seen" in status.message
    assert (status.failures, status.evaluation.failures) == (0, 1)


# Failures


def test_a_failed_evaluation_is_retried_alone() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, faults={0: (None, CRASH, CRASH)})).run()
    status = run.status()
    assert list_stages(run) == ["train", "evaluate", "evaluate", "evaluate"]
    assert (status.state, status.failures, status.evaluation.failures) == (TrialState.TERMINATED, 0, 2)


def test_an_evaluation_whose_image_would_run_as_root_is_told_where_to_set_its_user() -> None:
    stuck = ScheduledFault(Fault.STUCK)
    run = simulation(Program(steps=STEPS, checkpoint_every=1, faults={0: (None, stuck)}))
    run.run(until=lambda: run.status_exists() and run.status().reason == TrialReason.PULLING_IMAGE)
    words = "container has runAsNonRoot and image will run as root"
    run.api.update_pod("e-0-2", waiting=Waiting("CreateContainerConfigError", words, hopeless=True))
    message = run.run(60.0).status().message
    assert f"{words}; set spec.evaluation.template.spec.securityContext.runAsUser to a user other than 0" in message


def test_evaluations_have_a_limit_of_their_own() -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults={0: (CRASH, None, CRASH, CRASH)})
    run = simulation(program, evaluation={**EVALUATION, "maxFailures": 1}).run()
    status = run.status()
    assert list_stages(run) == ["train", "train", "evaluate", "evaluate"]
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.MAX_FAILURES_EXCEEDED)
    assert (status.failures, status.evaluation.failures) == (1, 2)
    assert "failure of the evaluation 2, evaluation.maxFailures is 1" in status.message


def test_what_a_failed_evaluation_reported_counts_for_nothing() -> None:
    """The first attempt reports a value and fails; the second one reports none."""
    values = iter([0.9])
    crash_after = ScheduledFault(Fault.VANISHED, 1)
    program = Program(steps=STEPS, checkpoint_every=1, evaluation=lambda trial, step: next(values, None))
    run = simulation(program)
    run.run(until=lambda: is_evaluating(run) and "accuracy" in run.status().evaluation.result)
    run.pods["e-0-2"].strike(crash_after.kind)
    run.run()
    assert run.status().reason == TrialReason.NO_USABLE_RESULT
    assert run.status().best_value == ""


def test_a_checkpoint_that_can_not_be_restored_is_no_reason_to_evaluate_another() -> None:
    program = Program(steps=STEPS, checkpoint_every=1)
    run = simulation(program, failures={"maxInfrastructureFailures": 1, "backoff": {"initial": "1s", "max": "4s"}})
    run.run(until=lambda: run.status_exists() and run.status().evaluation is not None)
    run.bucket.damaged.add(run.status().evaluation.uri)
    run.run()
    assert run.status().reason == TrialReason.MAX_INFRASTRUCTURE_FAILURES_EXCEEDED
    assert run.status().evaluation.infrastructure_failures == 2


BRIEF = {"runDeadline": "110s", "backoff": {"initial": "1s", "max": "4s"}}
"""Training takes 100 s of it, and an evaluation 40 s."""


@pytest.mark.parametrize("restarts", [False, True])
def test_an_evaluation_has_the_run_deadline_for_itself(restarts: bool) -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=20.0), failures=BRIEF)
    run.run(until=lambda: is_evaluating(run))
    if restarts:
        run.restart()
    status = run.run().status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.COMPLETED)
    assert status.usage.training_seconds > 110


def test_an_evaluation_that_takes_too_long_over_all_its_attempts_ends_in_error() -> None:
    faults = {0: (None, ScheduledFault(Fault.CRASH, 1), ScheduledFault(Fault.HUNG, 1))}
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=20.0, faults=faults), failures=BRIEF).run()
    status = run.status()
    assert list_stages(run) == ["train", "evaluate", "evaluate"]
    assert (status.state, status.reason) == (TrialState.ERROR, TrialReason.RUN_DEADLINE_EXCEEDED)
    assert "failures.runDeadline, 110s, over all attempts of the evaluation" in status.message
    assert 108 <= status.usage.training_seconds - status.evaluation.training_seconds <= 115


# What users do


@pytest.mark.parametrize("by", ["trial", "experiment"])
def test_a_pause_ends_the_evaluation_at_once_and_it_starts_anew(by: str) -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=5.0))
    run.run(until=lambda: is_evaluating(run))
    before = run.now
    if by == "trial":
        run.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    else:
        run.edit_spec(suspend=True)
    run.run(until=lambda: run.status().state is TrialState.PAUSED)
    assert run.now - before < 5.0, "it has waited for a checkpoint"
    run.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    run.edit_spec(suspend=False)
    run.run()
    assert list_stages(run) == ["train", "evaluate", "evaluate"]
    assert (run.status().state, run.status().evaluation.failures) == (TrialState.TERMINATED, 0)


def test_a_trial_that_is_stopped_while_it_is_evaluated_has_no_value() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=5.0))
    run.run(until=lambda: is_evaluating(run))
    run.api.edit_trial("e-0", desired_state=DesiredState.STOPPED)
    run.run()
    status = run.status()
    assert (status.state, status.reason, status.best_value) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_USER, "")


def test_a_retry_by_request_evaluates_again() -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, seconds=5.0))
    run.run(until=lambda: is_evaluating(run))
    run.retry_trial("e-0")
    run.run()
    assert list_stages(run) == ["train", "evaluate", "evaluate"]
    assert run.status().state is TrialState.TERMINATED


# An experiment that goes on after its end


def test_an_errored_trial_is_evaluated_again_without_training() -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults={0: (None, CRASH)})
    run = simulation(program, evaluation={**EVALUATION, "maxFailures": 0}).run()
    assert run.status().state is TrialState.ERROR
    run.edit_spec(resume=Resume.model_validate({"id": "again", "errored": "Resume"}))
    run.run(until=lambda: not run.is_over)
    run.run()
    status = run.status()
    assert list_stages(run) == ["train", "evaluate", "evaluate"]
    assert (status.state, status.evaluation.failures) == (TrialState.TERMINATED, 0)
    assert status.best_value == repr(compute_rising_value(0, STEPS))


def test_a_finished_trial_that_starts_over_is_evaluated_once_more() -> None:
    run = simulation().run()
    run.edit_spec(resume=Resume.model_validate({"id": "again", "finished": "Restart"}))
    run.run(until=lambda: not run.is_over)
    run.run()
    assert list_stages(run) == ["train", "evaluate", "train", "evaluate"]
    assert run.status().state is TrialState.TERMINATED


# Slots and gangs


def test_an_evaluation_uses_a_slot_and_comes_before_other_trials() -> None:
    run = simulation(trials=3, maxConcurrentTrials=1).run()
    order = [(action.trial, action.evaluates) for action in run.actions(CreatePod)]
    assert order == [(f"e-{trial}", stage) for trial in range(3) for stage in (False, True)]


def test_a_gang_is_evaluated_by_a_single_pod() -> None:
    template = {"replicas": 2, "spec": {"containers": [{"name": "trial", "image": "example"}]}}
    run = simulation(trialTemplate=template, trials=2).run()
    assert [(action.replicas, action.evaluates) for action in run.created_pods() if action.trial == "e-0"] == [
        (2, False),
        (1, True),
    ]
    assert run.status().best_value == repr(compute_rising_value(0, STEPS))


# Whatever happens

COUNTED = (Fault.CRASH, Fault.EVICTED, Fault.DELETED, Fault.VANISHED, Fault.NOT_ADMITTED)
any_fault = st.builds(ScheduledFault, st.sampled_from(COUNTED), st.integers(0, STEPS - 1))
faults = st.dictionaries(st.integers(0, 2), st.lists(any_fault, max_size=3).map(tuple), max_size=3)
bounded = settings(max_examples=draw(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
moves = st.lists(
    st.tuples(
        st.floats(0.5, 25.0),
        st.sampled_from(
            (
                "Paused",
                "Running",
                "Stopped",
                "restart",
                "suspend",
                "go on",
                "template",
                "retry",
                "override",
                "back",
                "ask",
                "limits",
            )
        ),
        st.integers(0, 2),
    ),
    max_size=8,
).map(sorted)


@bounded
@given(any_weather(lives=12.0), faults, seeds, st.sampled_from([{}, ASHA]))
def test_every_trial_is_evaluated_as_if_nothing_had_happened(
    weather: Weather, faults: Faults, seed: int, scheduler: dict[str, Any]
) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    run = simulation(program, trials=3, weather=weather, seed=seed, scheduler=scheduler).run()
    assert run.api.experiment.status.state is ExperimentState.COMPLETE
    for index in range(3):
        status, stages = run.status(index), list_stages(run, f"e-{index}")
        assert status.state is TrialState.TERMINATED
        assert stages == sorted(stages, reverse=True), "it has trained after its training had ended"
        if status.evaluation is None:
            assert status.reason == TrialReason.STOPPED_BY_SCHEDULER
        else:
            assert status.best_value == repr(compute_rising_value(index, status.evaluation.step))
            assert "loss" not in status.best


@bounded
@given(any_weather(lives=12.0), faults, seeds, st.floats(0.0, 25.0), st.sampled_from([{}, ASHA]))
def test_a_machine_made_anew_agrees(
    weather: Weather, faults: Faults, seed: int, moment: float, scheduler: dict[str, Any]
) -> None:
    program = Program(steps=STEPS, checkpoint_every=1, faults=faults)
    run = simulation(program, trials=3, weather=weather, seed=seed, scheduler=scheduler).run(moment)
    assert_made_anew_agrees(run, may_repeat=(*MAY_REPEAT, CreateStoragePod))


@bounded
@given(any_weather(lives=12.0), faults, seeds, moves)
def test_every_trial_ends_whatever_users_do(
    weather: Weather, faults: Faults, seed: int, moves: list[tuple[float, str, int]]
) -> None:
    run = simulation(Program(steps=STEPS, checkpoint_every=1, faults=faults), trials=3, weather=weather, seed=seed)
    user_moves.assert_all_end(run, moves, trials=3)
