"""Trials that the scheduler pauses: what they give up meanwhile, how they go on, and how they end if they never do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from podtune.api.names import DesiredState, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.api.tuning.search_space import Parameter
from podtune.protocol.messages import Reply, Report, Result
from podtune.runner.actions import CreatePod, DeletePod, Propose, WriteTrialStatus
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.schedulers.base import SchedulerAction, SchedulerDecision, StartDecision, StopPaused
from podtune.tuning.searchers.random import RandomSearcher
from tests.entry_points import install
from tests.unit.runner.world.scripted_scheduler import Dictated, dictated
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, spec

PAUSE = SchedulerDecision(
    SchedulerAction.PAUSE, "paused at rung 2: 0.4 ranks 2 of 3", {"rung": 2, "rank": 2}, recorded=True
)
GOES_ON = "goes on: 0.4 is among the best 1/2 of 3"


def simulated(
    scheduler: Dictated, program: Program, /, trials: int = 1, concurrent: int = 1, **fields: Any
) -> Simulation:
    defaults = {
        "search": {"algorithm": "random", "maxTrials": trials, "seed": 7},
        "maxConcurrentTrials": concurrent,
        "checkpoints": {"store": STORE},
        "failures": {"backoff": {"initial": "1s", "max": "1s"}},
    }
    return Simulation(spec(**{**defaults, **fields}), program, make_scheduler=dictated(scheduler))


def new_ones_first(scheduler: Dictated, waiting: Sequence[int]) -> StartDecision | None:
    """Starts trials that have not run yet; of the others, none."""
    fresh = [trial for trial in waiting if (trial, 1) not in scheduler.results]
    return StartDecision(fresh[0]) if fresh else None


def paused_first(scheduler: Dictated, waiting: Sequence[int]) -> StartDecision:
    ran = [trial for trial in waiting if (trial, 1) in scheduler.results]
    return StartDecision(ran[0], GOES_ON, {"best": "1/2"}, recorded=True) if ran else StartDecision(waiting[0])


def one_paused(program: Program, **fields: Any) -> tuple[Simulation, Dictated]:
    """A trial that is paused at iteration 2 and not started again until `pick` says so."""
    scheduler = Dictated({(0, 2): PAUSE})
    scheduler.pick = new_ones_first
    simulation = simulated(scheduler, program, **{"trials": 2, **fields})
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.PAUSED)
    return simulation, scheduler


def ledger(simulation: Simulation, index: int = 0) -> list[tuple[str, int, str]]:
    return [(entry.action, entry.step, entry.message) for entry in simulation.status(index).ledger]


def test_a_paused_trial_gives_its_place_back_once_its_checkpoint_is_committed() -> None:
    simulation, _ = one_paused(Program(steps=6, checkpoint_every=2, upload=3.0))
    status = simulation.status()
    assert (status.reason, status.message) == (TrialReason.PAUSED_BY_SCHEDULER, PAUSE.message)
    assert status.checkpoint.step == 2
    simulation.run(until=lambda: "e-1-1" in simulation.pods)
    assert simulation.api.max_alive == 1
    assert simulation.status().state is TrialState.PAUSED
    assert ledger(simulation) == [("PAUSE", 2, PAUSE.message)]
    assert simulation.status().ledger[0].inputs == {"rung": "2", "rank": "2"}


def test_a_paused_trial_goes_on_from_its_checkpoint_and_no_result_is_shown_twice_or_never() -> None:
    """It has trained on to iteration 5 or so until the checkpoint of iteration 2 was committed."""
    simulation, scheduler = one_paused(Program(steps=6, checkpoint_every=2, upload=3.0))
    trained = simulation.pods["e-0-1"].final_iteration
    assert trained > 3
    scheduler.pick = paused_first
    simulation.run()
    resumed = next(pod for pod in simulation.created_pods() if pod.name == "e-0-2")
    assert resumed.restore[0].step == 2
    assert [step for trial, step in scheduler.results if trial == 0] == [1, 2, 3, 4, 5, 6]
    status = simulation.status()
    assert (status.state, status.reason, status.iteration) == (TrialState.TERMINATED, TrialReason.COMPLETED, 6)
    assert ledger(simulation) == [("PAUSE", 2, PAUSE.message), ("PROMOTE", 2, GOES_ON)]


def test_results_up_to_a_later_checkpoint_count_without_being_judged() -> None:
    """The pause asks for a checkpoint, and the program takes it with its next result: that one won't come again."""
    simulation, scheduler = one_paused(Program(steps=6, metric=lambda trial, step: step / 10))
    status = simulation.status()
    reached = status.checkpoint.step
    assert reached > 2
    assert (status.iteration, status.progress) == (reached, repr(float(reached)))
    assert status.best["accuracy"] == repr(reached / 10)
    scheduler.pick = paused_first
    simulation.run()
    assert [step for trial, step in scheduler.results if trial == 0] == [1, 2, *range(reached + 1, 7)]


def test_a_pause_without_a_checkpoint_falls_back_to_the_last_one() -> None:
    simulation, scheduler = one_paused(Program(steps=6, upload=math.inf))
    assert simulation.status().checkpoints == []
    assert simulation.status().progress == "2.0"
    scheduler.pick = paused_first
    simulation.run()
    assert simulation.created_pods()[-1].restore == ()
    assert [step for trial, step in scheduler.results if trial == 0] == [1, 2, 3, 4, 5, 6]


def test_an_operator_that_dies_after_the_start_was_written_starts_the_trial() -> None:
    simulation, scheduler = one_paused(Program(steps=6, checkpoint_every=2))
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).state is TrialState.TERMINATED)
    simulation.fail(CreatePod)
    scheduler.pick = paused_first
    simulation.wake()
    simulation.run(until=lambda: simulation.status().state is TrialState.PENDING)
    simulation.refuse = lambda action: None
    simulation.restart()
    simulation.run()
    assert simulation.status().reason == TrialReason.COMPLETED
    assert simulation.created_pods()[-1].restore[0].step == 2


@pytest.mark.parametrize("kind", [Fault.CRASH, Fault.EVICTED, Fault.VANISHED])
def test_a_pause_stands_although_the_attempt_ends_by_itself_before_its_checkpoint(kind: Fault) -> None:
    """Nothing that was taken in is lost, and no failure is spent: a program that is broken fails again."""
    program = Program(steps=6, checkpoint_every=2, upload=30.0, faults={0: (ScheduledFault(kind, 3),)})
    scheduler = Dictated({(0, 2): PAUSE})
    scheduler.pick = paused_first
    simulation = simulated(scheduler, program)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().state is TrialState.PAUSED)
    status = simulation.status()
    assert (status.reason, status.failures, status.disruptions) == (TrialReason.PAUSED_BY_SCHEDULER, 0, 0)
    if kind is Fault.CRASH:
        assert status.message == f"{PAUSE.message}; container trial had already exited with code 1"
    simulation.run()
    assert [step for _, step in scheduler.results] == [1, 2, 3, 4, 5, 6]
    assert simulation.status().reason == TrialReason.COMPLETED


def test_a_pause_stands_although_the_operator_dies() -> None:
    scheduler = Dictated({(0, 2): PAUSE})
    scheduler.pick = new_ones_first
    simulation = simulated(scheduler, Program(steps=9, checkpoint_every=2, upload=5.0), trials=2)
    simulation.run(until=lambda: simulation.status_exists() and simulation.status().decision is not None)
    simulation.restart()
    simulation.run(until=lambda: simulation.status().state is TrialState.PAUSED)
    assert simulation.status().checkpoint.step == 2
    assert simulation.status().progress == "2.0"


def test_results_after_a_pause_are_sent_again_to_an_operator_that_has_forgotten_them() -> None:
    """They are acknowledged, and not durable: an operator that knows only the Trial has the agent repeat them."""
    scheduler = Dictated({(0, 2): PAUSE})
    simulation = simulated(scheduler, Program(steps=10**6, silent=True)).run(5.0)
    uid = simulation.pods["e-0-1"].uid
    batch = tuple(Result(seq, 0.0, {"training_iteration": seq, "accuracy": 0.1}, seq) for seq in range(1, 6))
    reply = simulation.machine.report("e-0", "e-0-1", Report(uid, results=batch), simulation.now)
    assert isinstance(reply, Reply)
    assert reply.acked_seq == 5
    simulation.wake()
    simulation.run(1.0)
    assert simulation.status().durable_seq == 2
    answer = simulation.rebuilt().report("e-0", "e-0-1", Report(uid), simulation.now)
    assert isinstance(answer, Reply)
    assert (answer.acked_seq, answer.durable_seq) == (2, 2)


# Slots


def test_a_scheduler_that_holds_new_trials_back_gets_no_more_of_them_than_there_are_places() -> None:
    scheduler = Dictated()
    scheduler.pick = lambda scheduler, waiting: None
    simulation = simulated(scheduler, Program(), trials=9, concurrent=2).run(100.0)
    assert len(simulation.api.trials) == 2
    assert scheduler.offered[-1] == [0, 1]


# Ends


def test_paused_trials_that_nothing_can_promote_any_more_end_with_the_experiment() -> None:
    simulation, _ = one_paused(Program(steps=3, checkpoint_every=2))
    simulation.run()
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.NOT_PROMOTED)
    assert status.message.startswith("paused at iteration 2 and never promoted")
    assert status.observation_seq is not None
    experiment = simulation.api.experiment.status
    assert (experiment.state, experiment.trials.stopped_early) == (ExperimentState.COMPLETE, 1)


def test_a_paused_trial_that_the_scheduler_gives_up_is_stopped_where_it_is() -> None:
    simulation, scheduler = one_paused(Program(steps=9, checkpoint_every=2))
    scheduler.gives_up = [StopPaused(0, "not among the best 1 of 3 at rung 2", {"rank": 2})]
    simulation.wake()
    simulation.run(1.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.STOPPED_BY_SCHEDULER)
    assert status.message == "not among the best 1 of 3 at rung 2"
    assert scheduler.told.count("remove 0") == 1
    assert ledger(simulation)[-1] == ("STOP", 2, status.message)


def test_a_paused_trial_that_had_all_its_time_was_not_stopped_early() -> None:
    simulation, scheduler = one_paused(Program(steps=9, checkpoint_every=2))
    scheduler.gives_up = [StopPaused(0, "has had all 9 epochs", {"epoch": 9}, full=True)]
    simulation.wake()
    simulation.run(1.0)
    status = simulation.status()
    assert (status.state, status.reason) == (TrialState.TERMINATED, TrialReason.MAX_TIME_REACHED)
    assert status.message == "has had all 9 epochs"
    assert scheduler.told.count("remove 0") == 1
    assert ledger(simulation)[-1] == ("STOP", 2, status.message)


def test_a_dismissal_waits_until_what_it_rests_on_is_durable() -> None:
    """e-1's value is what dismisses e-0, and can't be written down for a while."""
    simulation, scheduler = one_paused(Program(steps=9, checkpoint_every=2))
    scheduler.decisions[1, 3] = SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)
    blocked = True
    simulation.fail(WriteTrialStatus, when=lambda action: blocked and action.name == "e-1" and action.status.scheduler)
    simulation.run(until=lambda: (1, 3) in scheduler.results)
    scheduler.gives_up = [StopPaused(0, "worse than e-1", {"rank": 2})]
    simulation.wake()
    simulation.run(2.0)
    assert simulation.status().state is TrialState.PAUSED
    blocked = False
    simulation.run(until=lambda: simulation.status().state is TrialState.TERMINATED)
    assert simulation.status(1).scheduler == {"said": {"3": ""}}


def test_trials_that_never_run_again_are_told_of_again_after_a_restart() -> None:
    """Not those that came to a good end: what the scheduler knows of these is in its records."""
    program = Program(steps=4, checkpoint_every=2, faults={2: (ScheduledFault(Fault.CRASH, 1),)})
    simulation, scheduler = one_paused(program, trials=4, failures={"maxFailures": 0})
    scheduler.gives_up = [StopPaused(0, "not among the best 1 of 3", {"rank": 2})]
    simulation.run(until=lambda: simulation.status_exists(3) and simulation.status(3).state is TrialState.RUNNING)
    assert {"remove 0", "complete 1", "remove 2"} <= set(scheduler.told)
    assert "complete 0" not in scheduler.told
    scheduler.told.clear()
    simulation.restart()
    simulation.run(until=lambda: simulation.machine is not None)
    assert scheduler.told[-2:] == ["remove 0", "remove 2"]


def test_the_scheduler_hears_that_no_trial_will_be_added_and_after_a_restart_again() -> None:
    scheduler = Dictated()
    simulation = simulated(scheduler, Program(steps=20), trials=2, concurrent=2).run(10.0)
    assert scheduler.told == ["add 0", "add 1", "search over"]
    scheduler.told.clear()
    simulation.restart()
    simulation.run(5.0)
    assert scheduler.told[-1] == "search over"


def test_a_search_that_goes_on_after_all_has_the_scheduler_made_anew() -> None:
    scheduler = Dictated()
    simulation = simulated(scheduler, Program(steps=20), trials=2, concurrent=3).run(10.0)
    assert scheduler.told[-1] == "search over"
    spec_ = simulation.api.experiment.spec
    simulation.edit_spec(search=spec_.search.model_copy(update={"max_trials": 3}))
    simulation.run(5.0)
    assert scheduler.told[3:] == ["add 0", "add 1", "add 2", "search over"]


def test_a_paused_trial_outlives_its_users_requests() -> None:
    """What its user pauses is not offered; when it is resumed, the scheduler's pause is still there."""
    simulation, scheduler = one_paused(Program(steps=6, checkpoint_every=2), trials=1)
    scheduler.pick = paused_first
    simulation.api.edit_trial("e-0", desired_state=DesiredState.PAUSED)
    simulation.run(50.0)
    assert (simulation.status().state, simulation.is_over) == (TrialState.PAUSED, False)
    simulation.api.edit_trial("e-0", desired_state=DesiredState.RUNNING)
    simulation.run()
    assert simulation.status().reason == TrialReason.COMPLETED


def test_an_experiment_that_ends_takes_its_paused_trials_with_it() -> None:
    simulation, _ = one_paused(Program(steps=10**6, checkpoint_every=2), stop={"totalTime": "60s"})
    simulation.run()
    assert simulation.status().reason == TrialReason.STOPPED_BY_EXPERIMENT
    assert ExperimentReason.TIME_LIMIT in {
        condition.reason for condition in simulation.api.experiment.status.conditions
    }


# Records


def test_a_decision_waits_for_the_results_that_others_have_only_in_memory() -> None:
    """e-1 is stopped by a comparison with e-0's curve, which the next write of e-0's status holds."""
    scheduler = Dictated(
        {(0, step): SchedulerDecision(SchedulerAction.CONTINUE, recorded=True) for step in range(1, 40)}
    )
    scheduler.every_result = True
    scheduler.decisions[1, 2] = SchedulerDecision(
        SchedulerAction.STOP, "stopped: 0.1 is below 0.4", {"median": 0.4}, recorded=True
    )
    simulation = simulated(scheduler, Program(steps=40), trials=2, concurrent=2)
    simulation.run(until=lambda: bool(simulation.actions(DeletePod)))
    curves = [len(action.status.scheduler.get("curve", {})) for action in simulation.writes_of("e-0")]
    assert max(curves) >= 2, "e-0's first two results were durable"


# What it costs


def test_a_trial_that_is_never_paused_writes_nothing_new() -> None:
    """FIFO: the fields for pauses, clones and decisions stay away."""
    simulation = Simulation(spec(), Program(steps=3)).run()
    written = simulation.status().model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert not {"ledger", "clone", "parameters", "bestParameters", "rungObservations", "scheduler"} & written.keys()
    assert not {action.first for action in simulation.actions(Propose)} - set(range(4))


# What rungs bring


def test_a_trial_gets_the_resources_of_the_rungs_that_it_has_passed() -> None:
    resources = [
        {"atRung": 1, "limits": {"nvidia.com/gpu": "2", "memory": "8Gi"}},
        {"atRung": 2, "limits": {"nvidia.com/gpu": "4"}},
    ]
    settings = {"ashaPromotion": {"maxTime": 27, "gracePeriod": 1, "reductionFactor": 3}, "resources": resources}
    scheduler = Dictated({(0, 2): PAUSE, (0, 4): PAUSE})
    scheduler.pick = lambda scheduler, waiting: StartDecision(waiting[0], recorded=True)
    simulation = simulated(scheduler, Program(steps=6, checkpoint_every=2), scheduler=settings)
    simulation.run(until=lambda: (0, 2) in scheduler.results)
    scheduler.rungs[0] = 1
    simulation.run(until=lambda: (0, 4) in scheduler.results)
    assert simulation.status().message.endswith("with nvidia.com/gpu 2, memory 8Gi")
    scheduler.rungs[0] = 2
    simulation.run()
    assert [pod.limits for pod in simulation.created_pods()] == [
        {},
        {"nvidia.com/gpu": "2", "memory": "8Gi"},
        {"nvidia.com/gpu": "4", "memory": "8Gi"},
    ]


class Foreign(RandomSearcher):
    """A searcher of another package; its settings say whether it learns from rungs."""

    def __init__(self, parameters: Sequence[Parameter], objective: object, settings: dict[str, Any], seed: int) -> None:
        super().__init__(parameters, seed)
        self.learns_from_rungs = settings["rungs"]


def foreign_search(*, rungs: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    install(monkeypatch, EntryPoint("foreign", f"{__name__}:Foreign", "podtune.searchers"))
    return {"algorithm": "plugin", "plugin": {"name": "foreign", "settings": {"rungs": rungs}}}


@pytest.mark.parametrize("algorithm", ["bohb", "plugin"])
def test_a_searcher_that_learns_from_rungs_is_told_of_their_values_in_their_order(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a place of its own, which the Trial records; so they are told again after a restart."""
    search = {"algorithm": algorithm} if algorithm == "bohb" else foreign_search(rungs=True, monkeypatch=monkeypatch)
    scheduler = Dictated(
        {
            (0, 1): SchedulerDecision(SchedulerAction.CONTINUE, "went on", milestone=1, recorded=True),
            (0, 3): SchedulerDecision(SchedulerAction.CONTINUE, "went on", milestone=3, recorded=True),
        }
    )
    fields: dict[str, Any] = {
        "search": {**search, "maxTrials": 3, "seed": 7},
        "scheduler": {"bohb": {"maxTime": 9, "reductionFactor": 3}},
    }
    program = Program(steps=4, metric=lambda trial, step: step / 10)
    simulation = simulated(scheduler, program, **fields)
    simulation.run(until=lambda: simulation.status_exists(1) and simulation.status(1).iteration > 1)
    simulation.restart()
    simulation.run()
    written = [
        (observation.seq, observation.step, observation.value) for observation in simulation.status().rung_observations
    ]
    assert written == [(0, 1, "0.1"), (1, 3, "0.3")]
    assert simulation.status().observation_seq == 2
    observations = simulation.actions(Propose)[-1].observations
    assert [
        (observation.number, observation.step, observation.value, observation.final) for observation in observations[:3]
    ] == [
        (0, 1, 0.1, False),
        (0, 3, 0.3, False),
        (0, 4, 0.4, True),
    ]


@pytest.mark.parametrize("algorithm", ["random", "plugin"])
def test_other_searchers_are_told_of_ends_alone(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = foreign_search(rungs=False, monkeypatch=monkeypatch)
    search = {"algorithm": algorithm} if algorithm == "random" else foreign
    scheduler = Dictated({(0, 1): SchedulerDecision(SchedulerAction.CONTINUE, "went on", milestone=1, recorded=True)})
    simulation = simulated(scheduler, Program(steps=2), search={**search, "maxTrials": 1, "seed": 7}).run()
    assert simulation.status().rung_observations == []
