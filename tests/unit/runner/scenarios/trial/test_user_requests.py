"""What users ask of trials and experiments while these run."""

from __future__ import annotations

from dataclasses import replace

from podtune.api.names import DesiredState, ExperimentState, TrialReason, TrialState
from podtune.protocol.messages import Reply, Report
from podtune.runner.actions import CreatePod, CreateTrial, DeletePod, WriteTrialStatus
from podtune.simulation.curves.functions import compute_rising_value
from podtune.simulation.faults import Fault, ScheduledFault
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}, "checkpoints": {"store": STORE}}
THREE = {**ONE, "search": {"algorithm": "random", "maxTrials": 3, "seed": 7}, "maxConcurrentTrials": 1}
PAUSED, RUNNING, STOPPED = DesiredState.PAUSED, DesiredState.RUNNING, DesiredState.STOPPED
LONG = Program(steps=30)


def test_a_running_trial_is_paused_at_a_checkpoint_and_goes_on_from_it() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(20.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.PAUSED, TrialReason.PAUSED_BY_USER)
    assert simulation.api.pods == {}
    assert status.checkpoint.step == status.iteration, "the checkpoint that was asked for"
    simulation.run(1000.0)
    assert simulation.status().state is TrialState.PAUSED, "and it stays paused"
    simulation.api.edit_trial("e-0", desired_state=RUNNING)
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED
    assert simulation.status().iteration == 30
    assert simulation.pods["e-0-2"].restored.step == status.checkpoint.step
    assert simulation.status().failures == simulation.status().disruptions == 0


def test_a_pause_waits_for_its_checkpoint_before_the_kubelet_has_told_that_the_trial_runs() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=30, seen_after=100))
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().iteration > 0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    status = simulation.status()
    assert status.checkpoint.step >= status.decision.step


def test_the_agent_is_asked_for_a_checkpoint() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(1.0)
    reply = simulation.machine.report("e-0", "e-0-1", Report(simulation.pods["e-0-1"].uid), simulation.now)
    assert isinstance(reply, Reply)
    assert (reply.decision, reply.should_checkpoint) == ("PAUSE", True)


def test_a_pause_is_not_waited_for_longer_than_its_time() -> None:
    simulation = Simulation(spec(**ONE), Program(steps=10**6, silent=True)).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(30.0)
    simulation.restart()
    simulation.run(25.0)
    assert simulation.status().state is TrialState.RUNNING
    simulation.run(40.0)
    assert simulation.status().state is TrialState.PAUSED
    assert simulation.status().message == "spec.desiredState is Paused; it will start from scratch (no checkpoint)"


def test_how_long_a_program_has_to_report_its_checkpoint_can_be_said() -> None:
    fields = {**ONE, "checkpoints": {"store": STORE, "requestTimeout": "10m"}}
    simulation = Simulation(spec(**fields), Program(steps=100, seconds=300.0)).run(310.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(280.0)
    assert simulation.status().state is TrialState.RUNNING
    simulation.run(30.0)
    status = simulation.status()
    assert status.state is TrialState.PAUSED
    assert status.checkpoint.step == 2
    assert status.message == "spec.desiredState is Paused", "it will not start afresh"


def test_a_pause_without_a_store_is_refused_with_the_remedy() -> None:
    simulation = Simulation(spec(**{**ONE, "checkpoints": {}}), LONG).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(10.0)
    assert simulation.status().state is TrialState.RUNNING
    assert "can't be paused without checkpoints.store; add a store" in simulation.status().message
    assert simulation.status().observed_generation == 2


def test_a_trial_that_waits_is_paused_and_resumed_where_it_stands() -> None:
    simulation = Simulation(
        spec(**THREE, failures={"backoff": {"initial": "1m", "max": "1m"}}),
        Program(faults={0: (ScheduledFault(Fault.CRASH, 1),)}),
    )
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().failures == 1)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(500.0)
    assert simulation.status().state is TrialState.PAUSED
    assert [simulation.status(index).state for index in (1, 2)] == [TrialState.TERMINATED] * 2
    assert not simulation.is_over
    simulation.api.edit_trial("e-0", desired_state=RUNNING)
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED


def test_a_pod_that_does_not_train_yet_is_paused_at_once() -> None:
    simulation = Simulation(spec(**ONE), Program(faults={0: (ScheduledFault(Fault.STUCK),)})).run(5.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(5.0)
    assert simulation.status().state is TrialState.PAUSED


def test_a_running_trial_is_stopped_for_good() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", desired_state=STOPPED)
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason, status.message) == (
        TrialState.TERMINATED,
        TrialReason.STOPPED_BY_USER,
        "spec.desiredState is Stopped",
    )
    assert 8 <= status.iteration <= 10
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def test_a_paused_trial_is_stopped_without_a_pod() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run(20.0)
    simulation.api.edit_trial("e-0", desired_state=STOPPED)
    simulation.run()
    assert simulation.status().reason == TrialReason.STOPPED_BY_USER
    assert len(simulation.pods) == 1


def test_a_trial_that_never_ran_is_stopped_without_a_pod() -> None:
    simulation = Simulation(spec(**THREE), LONG)
    simulation.fail(CreatePod, "quota", when=lambda action: action.trial == "e-0")
    simulation.run(5.0)
    simulation.api.edit_trial("e-0", desired_state=STOPPED)
    simulation.run(simulation.settings.creation_timeout + 5.0)
    assert simulation.status().reason == TrialReason.STOPPED_BY_USER
    assert simulation.status().last_attempt is None


def test_a_stop_while_the_answer_to_a_creation_is_outstanding_leaves_no_pod() -> None:
    """The pod was made, its creation reported as failed, and the news of it is late."""
    simulation = Simulation(spec(**ONE), LONG, Weather(watch_delay=20.0), seed=5)
    simulation.loses_reply = lambda action: isinstance(action, CreatePod)
    simulation.run(until=lambda: "e-0-1" in simulation.pods)
    simulation.api.edit_trial("e-0", desired_state=STOPPED)
    simulation.run()
    assert simulation.status().reason == TrialReason.STOPPED_BY_USER
    assert simulation.api.pods == {}
    assert simulation.status().last_attempt is not None, "its attempt was seen and counted"


def test_no_pod_is_deleted_while_a_request_may_make_it_once_more() -> None:
    """The answer to its creation is lost, the watch tells of it late, and the second request is long on its way."""
    simulation = Simulation(spec(**ONE), LONG, Weather(watch_delay=3.0), seed=2)
    simulation.loses_reply = lambda action: isinstance(action, CreatePod) and len(simulation.created_pods()) == 1
    simulation.delay = lambda action: 20.0 if isinstance(action, CreatePod) and simulation.pods else 0.0
    simulation.run(until=lambda: len(simulation.created_pods()) == 2)
    simulation.api.edit_trial("e-0", desired_state=STOPPED)
    simulation.run()
    assert [action.name for action in simulation.created_pods()] == ["e-0-1", "e-0-1"]
    assert simulation.api.writes["create-pod"] == 1
    assert simulation.status().reason == TrialReason.STOPPED_BY_USER
    assert simulation.api.pods == {}


def test_a_trial_to_be_paused_may_still_be_stopped_by_its_results() -> None:
    simulation = Simulation(spec(**ONE, stop={"metrics": {"training_iteration": 12}}), Program(steps=30, upload=1000.0))
    simulation.run(10.0)
    simulation.api.edit_trial("e-0", desired_state=PAUSED)
    simulation.run()
    assert simulation.status().reason == TrialReason.STOPPED_BY_CRITERION
    assert simulation.status().iteration == 12


# Trials that are deleted


def test_a_deleted_trial_is_made_again() -> None:
    """As a Job makes its pods again: so a trial with this number is there in the end, also after a restart."""
    simulation = Simulation(spec(**THREE), LONG).run(40.0)
    assert simulation.status(0).state is TrialState.TERMINATED
    before = simulation.api.trials["e-0"]
    simulation.delete_trial("e-0")
    simulation.run()
    again = simulation.api.trials["e-0"]
    assert again.uid != before.uid
    assert (again.spec.parameters, again.status.iteration) == (before.spec.parameters, 30)
    assert simulation.api.experiment.status.trials.terminated == 3
    assert len(simulation.actions(CreateTrial)) == 4


def test_the_result_of_an_experiment_outlives_its_trials() -> None:
    simulation = Simulation(spec(**THREE), Program()).run()
    before = simulation.api.experiment.status
    for name in list(simulation.api.trials):
        simulation.delete_trial(name)
    simulation.run(10.0)
    simulation.restart()
    simulation.run(10.0)
    assert simulation.api.experiment.status == before
    assert simulation.api.trials == {}


def test_the_best_is_found_anew_when_its_trial_is_deleted() -> None:
    values = {0: 0.9, 1: 0.5, 2: 0.7}
    simulation = Simulation(spec(**THREE), Program(steps=5, metric=lambda trial, step: values[trial]))
    simulation.run(until=lambda: simulation.status_exists(2) and simulation.status(2).iteration > 2)
    assert simulation.api.experiment.status.best.trial == "e-0"
    values[0] = 0.1
    simulation.delete_trial("e-0")
    simulation.run(2.0)
    assert simulation.api.experiment.status.best.trial == "e-2"
    simulation.run()
    assert simulation.api.experiment.status.best.trial == "e-2"


def test_a_trial_that_is_deleted_while_it_runs_gives_its_place_back() -> None:
    simulation = Simulation(spec(**THREE), LONG).run(10.0)
    simulation.delete_trial("e-0")
    simulation.run()
    assert simulation.api.max_alive <= 2, "the pod in its grace period, and the next"
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def test_late_news_of_a_deleted_trial_does_not_bring_it_back() -> None:
    simulation = Simulation(spec(**THREE), LONG).run(10.0)
    old = simulation.api.trials["e-0"]
    simulation.delete_trial("e-0")
    simulation.run(0.5)
    simulation.machine.observe_trial(old)
    simulation.wake()
    simulation.run()
    assert simulation.api.trials["e-0"].uid != old.uid
    assert simulation.api.experiment.status.trials.total == 3


def test_a_status_that_somebody_else_wrote_is_not_overwritten() -> None:
    """An operator that was frozen and wakes: another one has gone on meanwhile."""
    simulation = Simulation(spec(**ONE, failures={"maxFailures": 5}), LONG).run(10.0)
    trial = simulation.api.trials["e-0"]
    other = trial.status.model_copy(update={"failures": 0, "message": "another operator was here", "iteration": 25})
    simulation.api.write_trial_status("e-0", trial.version, other)
    simulation.run()
    assert simulation.status().state is TrialState.TERMINATED
    writes = [action.status.iteration for action in simulation.writes_of("e-0") if action.version > trial.version]
    assert min(writes) >= 25


def test_the_pod_of_a_later_attempt_that_somebody_else_made_is_left_alone() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    pod = simulation.api.pods["e-0-1"]
    simulation.machine.observe_pod(replace(pod, name="e-0-3", uid="other", attempt=3, version=pod.version + 1000))
    simulation.wake()
    simulation.run(15.0)
    assert simulation.status().state is TrialState.RUNNING
    assert list(simulation.actions(DeletePod)) == [], "what is left over goes only after the trial's end"


def test_what_was_not_recorded_of_a_vanished_pod_is_not_forgotten_when_a_machine_makes_itself_anew() -> None:
    """The news that a pod is gone comes together with the news that another operator wrote a status."""
    simulation = Simulation(spec(**ONE), LONG)
    simulation.fail(WriteTrialStatus)
    simulation.run(5.0)
    trial = simulation.api.trials["e-0"]
    simulation.api.remove_pod("e-0-1")
    simulation.api.write_trial_status("e-0", trial.version, trial.status.model_copy(update={"message": "hello"}))
    simulation.refuse = lambda action: None
    simulation.run()
    assert simulation.api.attempts["e-0"] == ["disruption", "complete"]


# Experiments


def test_nothing_is_done_about_an_experiment_that_is_being_deleted() -> None:
    simulation = Simulation(spec(**THREE), LONG).run(10.0)
    asked = len(simulation.log)
    simulation.api.edit_experiment(deleting=True)
    for pod in list(simulation.pods.values()):
        pod.delete()
    simulation.run(100.0)
    assert len(simulation.log) == asked


def test_more_trials_at_a_time_are_started_when_the_limit_is_raised() -> None:
    simulation = Simulation(spec(**THREE), LONG).run(10.0)
    assert len(simulation.api.pods) == 1
    simulation.api.allowed_alive = 3
    simulation.edit_spec(max_concurrent_trials=3)
    simulation.run(5.0)
    assert len(simulation.api.pods) == 3


def test_running_trials_go_on_when_the_limit_is_lowered() -> None:
    simulation = Simulation(spec(**{**THREE, "maxConcurrentTrials": 2}), LONG).run(10.0)
    simulation.edit_spec(max_concurrent_trials=1)
    simulation.run(20.0)
    assert [action for action in simulation.actions(DeletePod) if action.trial] == []
    assert len(simulation.created_pods()) == 2
    simulation.run()
    assert simulation.status(2).state is TrialState.TERMINATED


def test_more_trials_are_made_when_there_may_be_more() -> None:
    simulation = Simulation(spec(**ONE), LONG).run(10.0)
    search = simulation.api.experiment.spec.search.model_copy(update={"max_trials": 2})
    simulation.edit_spec(search=search)
    simulation.run()
    assert simulation.api.experiment.status.trials.terminated == 2


def test_no_more_trials_are_made_when_there_may_be_fewer() -> None:
    simulation = Simulation(spec(**THREE), LONG).run(10.0)
    search = simulation.api.experiment.spec.search.model_copy(update={"max_trials": 1})
    simulation.edit_spec(search=search)
    simulation.run()
    assert simulation.api.experiment.status.trials.total == 1
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE


def test_an_invalid_spec_starts_nothing_new_but_running_trials_go_on() -> None:
    simulation = Simulation(spec(**THREE), Program(steps=10)).run(6.0)
    valid = simulation.api.experiment.spec
    simulation.api.edit_experiment(spec=None, problem="maxConcurrentTrials: 0 is too small; write at least 1")
    simulation.run(100.0)
    assert simulation.status(0).state is TrialState.TERMINATED
    assert simulation.status(0).last_result["accuracy"] == repr(compute_rising_value(0, 10))
    status = simulation.api.experiment.status
    assert (status.state, status.message) == (
        ExperimentState.STALLED,
        "maxConcurrentTrials: 0 is too small; write at least 1",
    )
    assert {c.type: c.status for c in status.conditions}["Stalled"] == "True"
    assert len(simulation.api.trials) == 1
    assert len(simulation.pods) == 1
    simulation.api.edit_experiment(spec=valid, problem="")
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert {c.type: c.status for c in simulation.api.experiment.status.conditions}["Stalled"] == "False"
    assert simulation.api.experiment.status.trials.terminated == 3
