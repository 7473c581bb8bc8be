"""What agents report: which of it is taken in, once, and what is shown to the scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, TrialReason, TrialState
from podtune.protocol.messages import FinalCommit, Reply, Report, Result, encode_result
from podtune.runner.actions import ActionResult, ActionStatus, CreatePod, FetchLogs, Logs
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.records import ContainerEnd, PodPhase
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}}
SILENT = Program(steps=10**6, silent=True)
"""Pods whose agent is played by the test."""


def result(seq: int, step: int | None = None, accuracy: float = 0.5) -> Result:
    step = seq if step is None else step
    return Result(seq, 0.0, {"training_iteration": step, "accuracy": accuracy}, step)


def running(**fields: object) -> Simulation:
    simulation = Simulation(spec(**{**ONE, **fields}), SILENT)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.RUNNING)
    return simulation


def post(simulation: Simulation, *results: Result, pod: str = "e-0-1") -> Reply | Unaccepted:
    assert simulation.machine is not None
    report = Report(simulation.pods[pod].uid, results=results)
    return simulation.machine.report("e-0", pod, report, simulation.now)


def acked(reply: Reply | Unaccepted) -> int:
    assert isinstance(reply, Reply)
    return reply.acked_seq


def settle(simulation: Simulation) -> None:
    simulation.wake()
    simulation.run(10.0)


def test_results_are_acknowledged_in_order_and_gaps_are_not_passed_over() -> None:
    simulation = running()
    assert acked(post(simulation, result(1), result(2))) == 2
    assert acked(post(simulation, result(4))) == 2
    assert acked(post(simulation, result(2), result(3), result(4))) == 4


def test_a_result_that_comes_twice_counts_once() -> None:
    simulation = running()
    post(simulation, result(1, accuracy=0.5))
    post(simulation, result(1, accuracy=0.9))
    settle(simulation)
    assert simulation.status().best == {"training_iteration": "1", "accuracy": "0.5"}
    assert simulation.status().best_value == "0.5"


def test_a_result_is_durable_once_the_status_has_it() -> None:
    simulation = running()
    reply = post(simulation, result(1))
    assert isinstance(reply, Reply)
    assert (reply.acked_seq, reply.durable_seq) == (1, 0)
    settle(simulation)
    reply = post(simulation)
    assert isinstance(reply, Reply)
    assert (reply.acked_seq, reply.durable_seq) == (1, 1)


def test_a_new_operator_asks_for_what_was_not_durable() -> None:
    simulation = running()
    post(simulation, result(1))
    settle(simulation)
    post(simulation, result(2), result(3))
    simulation.restart()
    simulation.run(5.0)
    assert acked(post(simulation)) == 1


def test_reports_of_an_attempt_that_is_over_are_fenced() -> None:
    simulation = Simulation(spec(**ONE), Program(faults={0: (ScheduledFault(Fault.CRASH, 2),)}))
    simulation.run(until=lambda: "e-0-2" in simulation.pods)
    simulation.run(0.1)
    assert post(simulation, result(9)) is Unaccepted.FENCED
    assert isinstance(post(simulation, result(1), pod="e-0-2"), Reply)


def test_late_news_of_a_pod_that_was_made_twice_does_not_bring_the_first_one_back() -> None:
    """Its creation got no answer, it vanished, and the request that was sent again made another."""
    simulation = running()
    assert simulation.machine is not None
    second = simulation.api.pods["e-0-1"]
    simulation.machine.observe_pod(replace(second, uid="the-first", version=second.version - 3))
    assert isinstance(post(simulation, result(1)), Reply)


@pytest.mark.parametrize(
    ("trial", "pod", "answer"),
    [
        pytest.param("e-0", "e-0-1", Unaccepted.FENCED, id="a pod of the same name but another uid is fenced"),
        pytest.param("e-0", "e-0-2", Unaccepted.TOO_EARLY, id="one that overtakes the news of its pod is too early"),
        pytest.param("e-77", "e-77-1", Unaccepted.FENCED, id="a trial that never was is fenced"),
        pytest.param("e-0", "e-0-x", Unaccepted.FENCED, id="a pod that never was is fenced"),
    ],
)
def test_a_report_of_a_pod_that_is_not_known_is_not_taken_in(trial: str, pod: str, answer: Unaccepted) -> None:
    simulation = running()
    assert simulation.machine.report(trial, pod, Report("another-uid"), simulation.now) is answer


def test_a_report_is_too_early_where_the_creation_of_the_pod_got_no_answer() -> None:
    simulation = Simulation(spec(**ONE))
    simulation.fail(CreatePod, "no answer")
    simulation.run(5.0)
    assert simulation.machine.report("e-0", "e-0-1", Report("uid"), simulation.now) is Unaccepted.TOO_EARLY


def test_a_finished_trial_takes_no_more_reports() -> None:
    simulation = Simulation(spec(**ONE)).run()
    assert post(simulation, result(1)) is Unaccepted.FENCED


def test_a_stretch_that_is_run_again_is_hidden_from_the_scheduler_but_counts_for_the_best() -> None:
    simulation = running(scheduler={"asha": {"maxTime": 100, "gracePeriod": 1, "reductionFactor": 3}})
    post(simulation, result(1, step=3, accuracy=0.3))
    post(simulation, result(2, step=1, accuracy=0.1), result(3, step=2, accuracy=0.9))
    settle(simulation)
    status = simulation.status()
    assert status.scheduler == {"rungs": {"3": "0.3"}}
    assert (status.iteration, status.progress) == (3, "3.0")
    assert status.last_result["accuracy"] == "0.3"
    assert status.best["accuracy"] == "0.9"
    post(simulation, result(4, step=4, accuracy=0.4))
    settle(simulation)
    assert simulation.status().scheduler == {"rungs": {"1": "0.4", "3": "0.3"}}


def test_results_after_the_one_that_a_trial_was_stopped_at_change_nothing() -> None:
    simulation = running(stop={"metrics": {"accuracy": 0.8}})
    post(simulation, result(1, accuracy=0.8))
    assert acked(post(simulation, result(2, accuracy=0.99))) == 2
    simulation.wake()
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_CRITERION)
    assert (status.iteration, status.best["accuracy"], status.last_result["accuracy"]) == (1, "0.8", "0.8")


def test_results_that_were_never_acknowledged_are_read_from_the_log() -> None:
    program = Program(steps=4)
    simulation = Simulation(spec(**ONE), program)
    simulation.unreachable = True
    simulation.run()
    status = simulation.status()
    assert status.iteration == 4
    assert status.best["accuracy"] == repr(max(compute_rising_value(0, step) for step in range(1, 5)))
    assert find_condition(status.conditions, ConditionType.RESULTS_COMPLETE) is None


def test_results_that_are_lost_are_confessed() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=4))
    simulation.unreachable = True
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.DONE, logs=Logs()) if isinstance(action, FetchLogs) else None
    )
    simulation.run()
    status = simulation.status()
    condition = find_condition(status.conditions, ConditionType.RESULTS_COMPLETE)
    assert (condition.status, condition.reason) == ("False", "ResultsLost")
    assert status.state is TrialState.TERMINATED
    assert status.last_result["accuracy"] == repr(compute_rising_value(0, 4)), "the last one stands in the final commit"


def ended(simulation: Simulation, final: FinalCommit) -> None:
    """The pod ends well, with this final commit."""
    simulation.api.update_pod(
        "e-0-1", phase=PodPhase.SUCCEEDED, ends=(ContainerEnd("trial", 0),), agent_message=final.to_json()
    )
    simulation.run()


def test_nothing_is_lost_where_the_final_commit_holds_all_that_is_missing() -> None:
    simulation = running()
    simulation.refuse = lambda action: ActionResult(ActionStatus.DONE) if isinstance(action, FetchLogs) else None
    post(simulation, result(1), result(2))
    final = FinalCommit(simulation.pods["e-0-1"].uid, seq=3, acked_seq=2, last=result(3, accuracy=0.7), done=True)
    ended(simulation, final)
    assert simulation.status().last_result["accuracy"] == "0.7"
    assert find_condition(simulation.status().conditions, ConditionType.RESULTS_COMPLETE) is None


def test_a_final_commit_of_another_attempt_counts_for_nothing() -> None:
    simulation = running()
    ended(simulation, FinalCommit("another", seq=3, acked_seq=2, last=result(3, accuracy=0.7), done=True))
    assert simulation.status().last_result == {}


def test_lines_of_the_log_that_are_cut_off_are_passed_over() -> None:
    simulation = running()
    lines = (
        'podtune-result {"seq": 1, "ti',
        "something else",
        "podtune-result " + encode_result(result(1, accuracy=0.6)),
    )
    simulation.refuse = lambda action: (
        ActionResult(ActionStatus.DONE, logs=Logs(agent_lines=lines)) if isinstance(action, FetchLogs) else None
    )
    ended(simulation, FinalCommit(simulation.pods["e-0-1"].uid, seq=2, acked_seq=0, last=result(2, accuracy=0.7)))
    assert simulation.status().best["accuracy"] == "0.7"
    assert simulation.status().iteration == 2
    assert find_condition(simulation.status().conditions, ConditionType.RESULTS_COMPLETE) is None


def test_nan_is_never_the_best() -> None:
    simulation = running()
    post(simulation, result(1, accuracy=float("nan")), result(2, accuracy=0.1), result(3, accuracy=float("nan")))
    settle(simulation)
    assert simulation.status().best["accuracy"] == "0.1"
    assert simulation.api.experiment.status.best.value == "0.1"


def test_a_metric_that_the_scheduler_needs_and_that_is_missing_fails_the_trial_with_the_remedy() -> None:
    simulation = running(scheduler={"asha": {"maxTime": 9}})
    post(simulation, replace(result(1), metrics={"training_iteration": 1, "acc": 0.5}))
    simulation.wake()
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason, status.failures) == (TrialState.ERROR, TrialReason.METRIC_MISSING, 1)
    assert "metric 'accuracy' (objective.metric) is not in the result; seen: acc, training_iteration" in status.message


def test_a_program_that_never_reports_the_objective_is_told_so() -> None:
    simulation = Simulation(spec(**ONE), Program(metric=lambda trial, step: None)).run()
    assert (simulation.status().state, simulation.status().reason) == (TrialState.ERROR, TrialReason.NO_USABLE_RESULT)
    assert "accuracy was never reported; metrics seen: training_iteration" in simulation.status().message
    assert simulation.status().message.endswith("(last line of its log: ValueError: boom)"), "it may have printed why"
    assert "Traceback" in simulation.status().last_attempt.log_tail
