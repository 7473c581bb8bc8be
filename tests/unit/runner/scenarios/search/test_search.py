"""The dialogue with the searcher: what it is told and asked, and which Trials come of it."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialState
from podtune.runner.actions import (
    Action,
    ActionResult,
    ActionStatus,
    CreateTrial,
    EmitEvent,
    LoadWarmStart,
    Propose,
    WriteExperimentStatus,
)
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.randomness import derive_trial_seed
from podtune.tuning.searchers.base import Observation
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import START, Simulation, spec

INTEGERS = [{"name": "units", "int": {"min": 1, "max": 4}}]
TPE = {"algorithm": "tpe", "maxTrials": 8, "seed": 7, "tpe": {"startupTrials": 2}}


def search(**fields: Any) -> dict[str, Any]:
    return {"algorithm": "random", "maxTrials": 4, "seed": 7, **fields}


def parameters(simulation: Simulation) -> list[dict[str, str]]:
    trials = sorted(simulation.api.trials.values(), key=lambda trial: trial.spec.index)
    return [trial.spec.parameters for trial in trials]


def condition(simulation: Simulation) -> tuple[str, str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.PROPOSALS_MADE)
    return (found.status, found.reason, found.message) if found is not None else ("", "", "")


def end(simulation: Simulation) -> tuple[ExperimentState | None, str]:
    status = simulation.api.experiment.status
    return status.state, status.message


def test_each_trial_has_a_display_name_of_its_parameters() -> None:
    template = {
        "displayName": "$(PODTUNE_PARAM_units) units",
        "spec": {"containers": [{"name": "trial", "image": "i"}]},
    }
    simulation = Simulation(spec(parameters=INTEGERS, search=search(), trialTemplate=template)).run()
    trials = [trial.spec for trial in simulation.api.trials.values()]
    assert len(trials) == 4
    assert all(trial.display_name == f"{trial.parameters['units']} units" for trial in trials)


# What it is asked, and when


@pytest.mark.parametrize("concurrent", [1, 3])
def test_what_is_to_be_asked_stands_in_the_status_before_it_is_asked(concurrent: int) -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=concurrent))

    def look(action: Action) -> None:
        recorded = simulation.api.experiment.status.proposal_request
        if isinstance(action, Propose):
            assert recorded.first <= action.first
            assert action.first + action.count - 1 <= recorded.last
            assert action.observed_seq == recorded.observed_seq

    simulation.refuse = look
    simulation.run()
    assert len(simulation.api.trials) == 8


def test_a_searcher_that_learns_nothing_costs_no_write() -> None:
    simulation = Simulation(spec(maxConcurrentTrials=3)).run()
    assert simulation.api.experiment.status.proposal_request is None


def test_with_one_trial_at_a_time_each_proposal_knows_all_that_came_before() -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=1)).run()
    assert [request.observed for request in simulation.actions(Propose)] == list(range(8))
    assert all(trial.spec.proposal.observed_seq == trial.spec.index for trial in simulation.api.trials.values())


def test_one_is_proposed_ahead_so_that_a_slow_searcher_holds_nothing_up() -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=2), Program(steps=20)).run(10.0)
    assert (len(simulation.api.trials), len(simulation.proposed)) == (2, 3)
    simulation.fail(Propose, "slow")
    simulation.run(20.0)
    assert len(simulation.api.trials) == 3, "what was proposed ahead is there when a place becomes free"


def test_no_more_is_asked_for_than_there_may_be() -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=40)).run()
    assert sum(request.count for request in simulation.actions(Propose)) == 8


def test_what_was_proposed_ahead_is_dropped_when_the_limit_is_lowered() -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=2), Program(steps=20)).run(10.0)
    lower = simulation.api.experiment.spec.search.model_copy(update={"max_trials": 2})
    simulation.edit_spec(search=lower)
    simulation.run()
    assert len(simulation.api.trials) == 2
    assert end(simulation) == (ExperimentState.COMPLETE, "all 2 trials are done")


def test_a_restarted_operator_asks_the_same_again() -> None:
    """Though more results have come since it was asked first."""
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=3), Program(steps=5))
    simulation.fail(CreateTrial, when=lambda action: action.name == "e-5")
    simulation.run(until=lambda: 5 in simulation.proposed)
    first, before = simulation.actions(Propose)[-1], simulation.proposed[5]
    simulation.run(20.0)
    assert not any(trial.status.observation_seq is None for trial in simulation.api.trials.values())
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run(until=lambda: simulation.status_exists(5))
    again = simulation.actions(Propose)[-1]
    assert again.first == 5
    assert again.observed == first.observed < 5
    assert simulation.proposed[5] == before
    simulation.run()
    assert len(simulation.api.trials) == 8


# What goes wrong


def test_a_searcher_that_is_slow_is_told_of_in_a_condition_until_it_answers() -> None:
    simulation = Simulation(spec())
    slow = ActionResult(
        ActionStatus.FAILED, "the searcher is slow: no proposal within 120 s", ExperimentReason.SEARCH_SLOW
    )
    simulation.refuse = lambda action: slow if isinstance(action, Propose) else None
    simulation.run(30.0)
    assert condition(simulation) == ("False", ExperimentReason.SEARCH_SLOW, slow.message)
    assert simulation.api.experiment.status.message == f"0 of 4 trials done, 0 running; {slow.message}"
    simulation.refuse = lambda action: None
    simulation.run()
    assert condition(simulation) == ("True", ExperimentReason.PROPOSING, "")
    assert end(simulation)[0] is ExperimentState.COMPLETE


def test_where_nothing_goes_wrong_there_is_no_such_condition() -> None:
    assert condition(Simulation(spec()).run()) == ("", "", "")


def test_a_failure_to_propose_ahead_hinders_nothing_before_a_place_is_free() -> None:
    simulation = Simulation(spec(search=TPE, maxConcurrentTrials=2), Program(steps=30))
    simulation.fail(Propose, "boom", when=lambda action: action.first >= 2)
    simulation.run(until=lambda: len(simulation.api.trials) == 2)
    simulation.run(10.0)
    assert "boom" not in simulation.api.experiment.status.message
    simulation.run(60.0)
    assert condition(simulation)[:2] == ("False", ExperimentReason.SEARCH_FAILED)


# Configurations to begin with


def test_initial_configurations_come_first_and_the_others_as_without_them() -> None:
    plain = Simulation(spec()).run()
    initial = [{"parameters": {"learning_rate": 0.01}}, {"parameters": {"learning_rate": 0.1}}]
    simulation = Simulation(spec(search=search(initial=initial, maxTrials=6))).run()
    assert parameters(simulation)[:2] == [{"learning_rate": "0.01"}, {"learning_rate": "0.1"}]
    assert parameters(simulation)[2:] == parameters(plain)


def test_what_is_known_is_not_run_but_told() -> None:
    known = [{"parameters": {"learning_rate": 0.001 * n}, "results": {"accuracy": 0.1 * n}} for n in range(1, 9)]
    without = Simulation(spec(search=TPE, maxConcurrentTrials=1)).run()
    simulation = Simulation(spec(search={**TPE, "initial": known}, maxConcurrentTrials=1)).run()
    assert len(simulation.api.trials) == 8
    assert parameters(simulation)[0] != parameters(without)[0], "it starts from what is known"
    assert not {p["learning_rate"] for p in parameters(simulation)} & {"0.001", "0.002"}


def test_a_grid_leaves_out_what_is_known_and_what_was_tried_first() -> None:
    initial = [{"parameters": {"units": 3}}, {"parameters": {"units": 1}, "results": {"accuracy": 0.5}}]
    fields = {"parameters": INTEGERS, "search": {"algorithm": "grid", "maxTrials": 10, "initial": initial}}
    simulation = Simulation(spec(**fields)).run()
    assert [p["units"] for p in parameters(simulation)] == ["3", "2", "4"]
    assert end(simulation) == (ExperimentState.COMPLETE, "all 3 configurations of the space were tried")


def test_a_space_of_which_all_is_known_is_exhausted_at_once() -> None:
    initial = [{"parameters": {"units": n}, "results": {"accuracy": 0.5}} for n in range(1, 5)]
    fields = {"parameters": INTEGERS, "search": {"algorithm": "grid", "maxTrials": 10, "initial": initial}}
    simulation = Simulation(spec(**fields)).run()
    assert end(simulation) == (
        ExperimentState.COMPLETE,
        "nothing is left to try: the results of the whole space are known",
    )


# An earlier experiment

WARM = {**TPE, "warmStart": {"experiment": "old"}}
WAITING = ActionResult(ActionStatus.FAILED, "waits for experiment old", ExperimentReason.WAITING_FOR_EXPERIMENT)
FOUND = tuple(Observation(n - 20, {"learning_rate": 0.0005 * (n + 1)}, value=1 - n / 20, step=3) for n in range(20))


def test_what_an_earlier_experiment_has_found_is_told_first() -> None:
    simulation = Simulation(spec(search=WARM))
    simulation.earlier = ActionResult(
        ActionStatus.DONE, "20 results of experiment old are known", prior_observations=FOUND
    )
    simulation.run()
    requests = simulation.actions(Propose)
    assert tuple(requests[0].observations[:20]) == FOUND
    assert requests[0].observed == 20
    assert [event.message for event in simulation.events if event.reason == "WarmStarted"] == [
        simulation.earlier.message
    ]
    trials = simulation.api.trials.values()
    assert all(trial.spec.proposal is not None and trial.spec.proposal.observed_seq <= 8 for trial in trials)


def test_it_is_looked_up_again_after_a_restart_and_the_basis_stays_the_same() -> None:
    simulation = Simulation(spec(search=WARM, maxConcurrentTrials=1), Program(steps=3))
    simulation.earlier = ActionResult(ActionStatus.DONE, prior_observations=FOUND)
    simulation.run(until=lambda: len(simulation.api.trials) == 4)
    simulation.restart()
    simulation.run()
    assert len(simulation.actions(LoadWarmStart)) == 2
    assert [request.observed for request in simulation.actions(Propose)][-1] == 20 + 7
    uncut = Simulation(spec(search=WARM, maxConcurrentTrials=1), Program(steps=3))
    uncut.earlier = simulation.earlier
    assert parameters(uncut.run()) == parameters(simulation)


def test_one_that_has_not_ended_is_waited_for_without_time_running() -> None:
    simulation = Simulation(spec(search=WARM, stop={"totalTime": "1m"}))
    simulation.earlier = WAITING
    simulation.run(600.0)
    status = simulation.api.experiment.status
    assert status.start_time is None
    assert status.message == f"0 of 8 trials done, 0 running; {WAITING.message}"
    assert condition(simulation) == ("False", ExperimentReason.WAITING_FOR_EXPERIMENT, WAITING.message)
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    assert stalled.status == "False"
    assert len(simulation.actions(LoadWarmStart)) < 30, "with a growing backoff"
    simulation.earlier = ActionResult(ActionStatus.DONE, prior_observations=FOUND)
    simulation.run()
    assert len(simulation.api.trials) == 8
    assert simulation.now - START > 600


def test_machines_made_anew_know_it_still() -> None:
    simulation = Simulation(spec(search=WARM))
    simulation.earlier = ActionResult(ActionStatus.DONE, prior_observations=FOUND)
    simulation.run(until=lambda: len(simulation.api.trials) == 4)
    simulation.delete_trial("e-0")
    simulation.run()
    assert len(simulation.actions(LoadWarmStart)) == 1
    assert all(tuple(request.observations[:20]) == FOUND for request in simulation.actions(Propose))


# Repeats


def repeated(algorithm: str = "tpe", **fields: Any) -> Simulation:
    """Three configurations, three times each; trial n reaches n / 10."""
    chosen = {"algorithm": algorithm, "maxTrials": 9, "seed": 7, "repeats": 3}
    program = fields.pop("program", Program(metric=lambda trial, step: trial / 10))
    return Simulation(spec(**{"search": chosen, "maxConcurrentTrials": 3, **fields}), program)


def test_each_configuration_runs_several_times_with_seeds_of_their_own() -> None:
    simulation = repeated().run()
    trials = sorted(simulation.api.trials.values(), key=lambda trial: trial.spec.index)
    assert len({tuple(p.values()) for p in parameters(simulation)}) == 3
    for trial in trials:
        proposal = trial.spec.proposal
        assert proposal.number == trial.spec.index // 3
        assert trial.spec.seed == derive_trial_seed(7, trial.spec.index % 3)
    assert end(simulation) == (ExperimentState.COMPLETE, "all 9 trials are done")


def test_the_searcher_is_told_the_mean_once() -> None:
    simulation = repeated(maxConcurrentTrials=1).run()
    told = simulation.actions(Propose)[-1]
    assert [(observation.number, observation.value) for observation in told.observations] == [
        (0, pytest.approx(0.1)),
        (1, pytest.approx(0.4)),
        (2, pytest.approx(0.7)),
    ]
    assert [request.observed for request in simulation.actions(Propose)] == [0, 1, 2]


def test_the_best_is_the_mean_with_its_spread() -> None:
    best = repeated().run().api.experiment.status.best
    assert (best.trial, float(best.value), float(best.spread), best.repeats) == (
        "e-8",
        pytest.approx(0.7),
        pytest.approx(0.1),
        3,
    )
    assert best.text == "0.7 ± 0.1"


def test_a_lucky_repeat_is_not_the_best() -> None:
    lucky = {0: 0.9, 1: 0.0, 2: 0.0, 3: 0.5, 4: 0.5, 5: 0.5}
    simulation = repeated(program=Program(metric=lambda trial, step: lucky.get(trial, 0.1)))
    simulation.run(until=lambda: simulation.status_exists(6))
    assert simulation.status(0).best_value == "0.9"
    best = simulation.run().api.experiment.status.best
    assert (best.trial, best.value, best.spread) == ("e-3", "0.5", "0.0")


def test_a_repeat_that_fails_is_left_out_of_the_mean() -> None:
    program = Program(metric=lambda trial, step: trial / 10, faults={4: (ScheduledFault(Fault.CRASH, 2),)})
    simulation = repeated(program=program, failures={"maxFailures": 0}, maxConcurrentTrials=1).run()
    values = {observation.number: observation.value for observation in simulation.actions(Propose)[-1].observations}
    assert values[1] == pytest.approx((0.3 + 0.5) / 2)
    assert simulation.status(4).state is TrialState.ERROR


def test_a_configuration_whose_repeats_all_fail_has_failed() -> None:
    faults = {index: (ScheduledFault(Fault.CRASH, 2),) for index in (3, 4, 5)}
    program = Program(metric=lambda trial, step: trial / 10, faults=faults)
    simulation = repeated(program=program, failures={"maxFailures": 0}, maxConcurrentTrials=1).run()
    values = {observation.number: observation.value for observation in simulation.actions(Propose)[-1].observations}
    assert (values[0], values[1]) == (pytest.approx(0.1), None)
    best = simulation.api.experiment.status.best
    assert best.trial == "e-8"


def test_a_repeat_that_was_stopped_early_counts_with_what_it_had_reached() -> None:
    asha = {"asha": {"maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}}
    program = Program(metric=lambda trial, step: (9 - trial) / 10 + step / 100)
    simulation = repeated(program=program, scheduler=asha, maxConcurrentTrials=1).run()
    assert simulation.api.experiment.status.trials.stopped_early > 0
    observations = simulation.actions(Propose)[-1].observations
    for observation in observations:
        repeats = [simulation.status(3 * observation.number + repeat) for repeat in range(3)]
        assert observation.value == pytest.approx(sum(float(r.last_result["accuracy"]) for r in repeats) / 3)
        assert observation.step == min(repeat.iteration for repeat in repeats)


def test_a_space_that_is_exhausted_with_repeats_is_said_to_be() -> None:
    fields = {"parameters": INTEGERS, "search": {"algorithm": "grid", "maxTrials": 20, "repeats": 2}}
    simulation = Simulation(spec(**fields)).run()
    assert [p["units"] for p in parameters(simulation)] == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert end(simulation) == (ExperimentState.COMPLETE, "all 4 configurations of the space were tried 2 times each")


def test_initial_configurations_are_repeated_too() -> None:
    initial = [{"parameters": {"learning_rate": 0.01}}]
    simulation = Simulation(spec(search=search(initial=initial, repeats=2))).run()
    assert [p["learning_rate"] for p in parameters(simulation)[:2]] == ["0.01", "0.01"]


def test_a_repeat_that_is_deleted_is_made_again_from_the_others() -> None:
    simulation = repeated()
    simulation.run(until=lambda: simulation.status_exists(5))
    before = simulation.api.trials["e-4"].spec
    asked = len(simulation.actions(Propose))
    simulation.delete_trial("e-4")
    simulation.run(until=lambda: simulation.status_exists(4) and simulation.api.trials["e-4"].uid != "")
    simulation.run(1.0)
    again = simulation.api.trials["e-4"].spec
    assert (again.parameters, again.seed, again.proposal) == (before.parameters, before.seed, before.proposal)
    assert all(request.first > 1 for request in simulation.actions(Propose)[asked:])
    simulation.run()
    assert len(simulation.api.trials) == 9


def test_repeats_that_were_not_made_before_a_crash_are_made_after_it() -> None:
    simulation = repeated()
    simulation.fail(CreateTrial, when=lambda action: action.name == "e-1")
    simulation.run(until=lambda: simulation.status_exists(2))
    simulation.restart()
    simulation.refuse = lambda action: None
    simulation.run()
    assert len({tuple(p.values()) for p in parameters(simulation)[:3]}) == 1
    assert len(simulation.api.trials) == 9


# A search without a limit


def test_a_search_without_a_limit_goes_on_until_its_budget_is_spent() -> None:
    simulation = Simulation(spec(search=search(maxTrials="unlimited"), stop={"totalTime": "100s"})).run()
    assert len(simulation.api.trials) > 20
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.COMPLETE)
    assert (found.status, found.reason) == ("True", ExperimentReason.TIME_LIMIT)


def test_nothing_is_asked_for_once_the_end_has_come() -> None:
    simulation = Simulation(spec(search={**TPE, "maxTrials": "unlimited"}, stop={"totalTime": "30s"}))
    simulation.run(until=lambda: simulation.now - START > 31)
    asked = len(simulation.actions(Propose))
    simulation.run()
    assert len(simulation.actions(Propose)) == asked
    assert not [event for event in simulation.events if isinstance(event, EmitEvent) and event.warning]
    assert len(simulation.actions(WriteExperimentStatus)) < 120


# A space that nothing can come of


def no_configuration(simulation: Simulation, asked: int = 0) -> None:
    """The searcher finds none from its so-manieth answer on."""
    words = "no configuration was found in 1,000 tries: in 1,000 of them x > 2 does not hold; relax it"
    nothing = ActionResult(ActionStatus.REFUSED, words, ExperimentReason.NO_CONFIGURATION)
    simulation.refuse = lambda action: (
        nothing if isinstance(action, Propose) and len(simulation.actions(Propose)) > asked else None
    )


def test_a_space_without_a_configuration_is_stalled_until_one_is_found() -> None:
    simulation = Simulation(spec())
    no_configuration(simulation)
    simulation.run(600.0)
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.STALLED
    assert status.message.startswith("no configuration was found in 1,000 tries")
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", "NoConfiguration")
    simulation.refuse = lambda action: None
    simulation.run()
    status = simulation.api.experiment.status
    assert status.state is ExperimentState.COMPLETE
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    assert stalled.status == "False"


def test_a_space_that_has_yielded_trials_is_not_stalled_when_no_more_is_found() -> None:
    simulation = Simulation(spec(search={"algorithm": "tpe", "maxTrials": 4, "seed": 7}, maxConcurrentTrials=1))
    no_configuration(simulation, asked=2)
    simulation.run(600.0)
    status = simulation.api.experiment.status
    assert len(simulation.api.trials) == 2
    assert status.state is ExperimentState.RUNNING
    assert condition(simulation)[1] == ExperimentReason.NO_CONFIGURATION
