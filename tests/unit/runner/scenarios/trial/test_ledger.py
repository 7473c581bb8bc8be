"""The decisions on a trial: what its status keeps of them, and what its agent hears for the bucket."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.resources.trial_curve import TrialCurve
from podtune.protocol.messages import Reply, Report, Result, encode_ledger, parse_ledger
from podtune.runner.actions import CreatePod, WriteTrialStatus
from podtune.runner.trial import ledger
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.schedulers.base import SchedulerAction, SchedulerDecision, StartDecision
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.scripted_scheduler import Dictated, dictated
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

ONE = {"search": {"algorithm": "random", "maxTrials": 1, "seed": 7}, "checkpoints": {"store": STORE}}
entries = st.tuples(
    st.text(max_size=600),
    st.dictionaries(
        st.text(min_size=1, max_size=100), st.floats() | st.integers() | st.text(max_size=200), max_size=30
    ),
)


@given(st.lists(entries, min_size=1, max_size=40))
@settings(max_examples=draw(60), deadline=None)
def test_a_status_keeps_the_latest_decisions_and_stays_small(
    made: list[tuple[str, dict[str, float | int | str]]],
) -> None:
    status = TrialStatus()
    for message, inputs in made:
        status = ledger.enter(status, DecisionKind.CONTINUE, message, inputs, now=1.7e9, attempt=1, step=3)
    numbers = [entry.number for entry in status.ledger]
    assert numbers == list(range(len(made) - len(numbers) + 1, len(made) + 1))
    assert len(numbers) <= ledger.MAX_ENTRIES
    read = TrialStatus.model_validate_json(status.model_dump_json(by_alias=True))
    assert read == status, "the API server takes it as it is"
    # The newest may be larger than there is room for; else it is bounded (bytes of JSON with all field names).
    size = len(json.dumps(read.model_dump(mode="json", by_alias=True)["ledger"], ensure_ascii=False))
    assert len(numbers) == 1 or size < 2 * ledger.MAX_SIZE


def test_many_small_decisions_are_all_kept_up_to_a_number() -> None:
    status = TrialStatus()
    for number in range(40):
        status = ledger.enter(status, DecisionKind.CONTINUE, f"rung {number}", {}, now=1.7e9, attempt=1, step=number)
    assert [entry.step for entry in status.ledger] == list(range(28, 40))


def simulated(program: Program) -> tuple[Simulation, Dictated]:
    scheduler = Dictated(
        {
            (0, step): SchedulerDecision(
                SchedulerAction.CONTINUE, f"continued at rung {step}", {"rung": step}, recorded=True
            )
            for step in (1, 3)
        }
    )
    return Simulation(spec(**ONE), program, make_scheduler=dictated(scheduler)), scheduler


def test_every_decision_with_a_reason_is_kept_with_its_numbers() -> None:
    simulation, scheduler = simulated(Program(steps=6))
    scheduler.decisions[0, 5] = SchedulerDecision(
        SchedulerAction.STOP, "stopped at rung 5: 0.1 is below 0.4", {"cutoff": 0.4}, recorded=True
    )
    simulation.run()
    told = [(e.number, e.attempt, e.step, e.action, e.message, e.inputs) for e in simulation.status().ledger]
    assert told == [
        (1, 1, 1, "CONTINUE", "continued at rung 1", {"rung": "1"}),
        (2, 1, 3, "CONTINUE", "continued at rung 3", {"rung": "3"}),
        (3, 1, 5, "STOP", "stopped at rung 5: 0.1 is below 0.4", {"cutoff": "0.4"}),
    ]


def test_retries_are_kept() -> None:
    program = Program(steps=4, checkpoint_every=1, faults={0: (ScheduledFault(Fault.CRASH, 3),)})
    simulation = Simulation(spec(**ONE), program).run()
    (entry,) = simulation.status().ledger
    assert (entry.action, entry.attempt, entry.step, entry.inputs) == ("RETRY", 1, 3, {"user": "1"})
    assert entry.message == ("container trial exited with code 1; will be retried from the checkpoint of iteration 3")


def picked(weather: Weather = FAIR) -> Simulation:
    """One trial, whose scheduler says why it starts, as it does of one that it has promoted before."""
    scheduler = Dictated()
    scheduler.pick = lambda scheduler, waiting: StartDecision(
        waiting[0], "runs for epoch 9: it was promoted", {"target": 9}
    )
    return Simulation(spec(**ONE), Program(steps=6), weather, make_scheduler=dictated(scheduler))


def starts(simulation: Simulation) -> list[tuple[str, dict[str, str]]]:
    return [(e.message, e.inputs) for e in simulation.status().ledger if e.action == DecisionKind.START]


ONE_START = [("runs for epoch 9: it was promoted", {"target": "9"})]


def test_why_a_trial_starts_outlives_an_operator_that_is_killed_when_it_has_made_the_pod() -> None:
    simulation = picked()
    simulation.run(until=lambda: "e-0-1" in simulation.api.pods)
    assert starts(simulation) == ONE_START, "on record before its pod is made"
    simulation.restart()
    simulation.run()
    assert simulation.status().iteration == 6
    assert starts(simulation) == ONE_START


def test_why_a_trial_starts_is_entered_once_where_the_operator_is_killed_before_it_has_made_the_pod() -> None:
    simulation = picked()
    simulation.fail(CreatePod)
    simulation.run(until=lambda: bool(simulation.created_pods()))
    assert starts(simulation) == ONE_START
    simulation.refuse = lambda action: None
    simulation.restart()
    simulation.run()
    assert simulation.status().iteration == 6
    assert starts(simulation) == ONE_START


@pytest.mark.parametrize("moment", [0.1 * n for n in range(1, 31)])
def test_why_a_trial_starts_is_entered_once_whenever_the_operator_is_killed(moment: float) -> None:
    simulation = picked(Weather(latency=0.5, watch_delay=0.5, restarts=(moment,))).run()
    assert starts(simulation) == ONE_START


def test_every_attempt_says_why_it_starts() -> None:
    simulation = picked()
    simulation.program = Program(steps=6, checkpoint_every=1, faults={0: (ScheduledFault(Fault.CRASH, 3),)})
    simulation.run()
    assert [e.action for e in simulation.status().ledger] == ["START", "RETRY", "START"]


def test_an_agent_hears_of_the_decisions_that_it_does_not_know_once_they_are_durable() -> None:
    simulation, _ = simulated(Program(steps=10**6, silent=True))
    simulation.run(5.0)
    assert simulation.machine is not None
    uid = simulation.pods["e-0-1"].uid
    results = tuple(Result(step, 0.0, {"training_iteration": step, "accuracy": 0.5}, step) for step in (1, 2, 3))
    simulation.fail(WriteTrialStatus)
    simulation.machine.report("e-0", "e-0-1", Report(uid, results=results), simulation.now)
    simulation.wake()
    simulation.run(1.0)

    def heard(known: int) -> list[int]:
        reply = simulation.machine.report("e-0", "e-0-1", Report(uid, ledger=known), simulation.now)
        assert isinstance(reply, Reply)
        return [entry.number for entry in reply.ledger]

    assert heard(0) == []
    simulation.refuse = lambda action: None
    simulation.run(20.0)
    assert heard(0) == [1, 2]
    assert heard(1) == [2]
    assert heard(2) == []


def exported(simulation: Simulation, trial: str = "e-0") -> list[int]:
    """What is in the bucket, of all attempts."""
    return sorted({number for pod in simulation.pods.values() if pod.trial == trial for number in pod.agent.decisions})


def left(simulation: Simulation) -> list[int]:
    return [entry.number for entry in ledger.list_unexported(simulation.status())]


def test_what_an_agent_has_put_into_the_bucket_is_not_left_to_anybody_else() -> None:
    simulation, _ = simulated(Program(steps=6))
    simulation.run()
    assert exported(simulation) == [1, 2]
    assert simulation.status().ledger_exported == 2
    assert simulation.status().ledger, "the latest are kept in the status all the same"
    assert left(simulation) == []


def test_what_no_agent_has_heard_of_is_left() -> None:
    """The decision to end a paused trial is taken when there is no pod any more."""
    scheduler = Dictated(
        {(0, 2): SchedulerDecision(SchedulerAction.PAUSE, "paused at rung 2", {"rung": 2}, recorded=True)}
    )
    simulation = Simulation(spec(**ONE), Program(steps=4, checkpoint_every=1), make_scheduler=dictated(scheduler))
    scheduler.pick = lambda _, waiting: None if (0, 2) in scheduler.results else StartDecision(waiting[0])
    simulation.run()
    assert simulation.status().reason == "NotPromoted"
    assert [(entry.number, entry.action) for entry in ledger.list_unexported(simulation.status())][-1] == (2, "STOP")
    assert sorted({*exported(simulation), *left(simulation)}) == [1, 2]


def test_what_was_decided_between_attempts_travels_with_the_next_one() -> None:
    program = Program(
        steps=9,
        checkpoint_every=1,
        faults={0: (ScheduledFault(Fault.CRASH, 3), ScheduledFault(Fault.VANISHED, 6))},
    )
    simulation, _ = simulated(program)
    simulation.run()
    entries = simulation.status().ledger
    assert [entry.action for entry in entries].count("RETRY") == 2
    assert sorted({*exported(simulation), *left(simulation)}) == [entry.number for entry in entries]
    assert entries[-1].number in exported(simulation)


def test_a_lost_attempt_leaves_what_only_its_agent_had_heard_of() -> None:
    status = TrialStatus()
    for number in range(3):
        status = ledger.enter(status, DecisionKind.CONTINUE, f"rung {number}", {}, now=1.7e9, attempt=1, step=number)
    status = ledger.mark_exported(status, 2)
    assert [entry.number for entry in ledger.list_unexported(status)] == [3]
    assert ledger.mark_exported(status, 1) == status, "what is in the bucket stays there"
    assert ledger.mark_exported(status, 99).ledger_exported == 3, "an agent can't know of what was never decided"
    lines = encode_ledger(ledger.list_unexported(status))
    assert parse_ledger(lines) == ledger.list_unexported(status)


def test_a_large_trial_keeps_only_what_is_not_exported_and_the_newest_of_each_kind() -> None:
    trial = TrialSpec(experiment="e", index=0, parameters={f"p{place}": "x" * 40 for place in range(50)})
    status = TrialStatus()
    for number in range(6):
        status = ledger.enter(status, DecisionKind.CONTINUE, f"rung {number}", {}, now=1.7e9, attempt=1, step=number)

    def kept(exported: int) -> list[int]:
        return [entry.number for entry in ledger.fit(trial, ledger.mark_exported(status, exported)).ledger]

    assert kept(0) == [1, 2, 3, 4, 5, 6]
    assert kept(6) == [2, 3, 4, 5, 6], "no more go than have to"
    large = trial.model_copy(update={"parameters": {f"p{place}": "x" * 400 for place in range(50)}})
    assert [entry.number for entry in ledger.fit(large, ledger.mark_exported(status, 4)).ledger] == [5, 6]
    assert [entry.number for entry in ledger.fit(large, ledger.mark_exported(status, 6)).ledger] == [6]
    small = trial.model_copy(update={"parameters": {}})
    assert ledger.fit(small, ledger.mark_exported(status, 6)).ledger == status.ledger


def test_a_learning_curve_takes_no_decisions_place() -> None:
    trial = TrialSpec(experiment="e", index=0, parameters={f"p{place}": "x" * 40 for place in range(45)})
    status, curve = TrialStatus(), TrialCurve(1)
    for number in range(6):
        status = ledger.enter(status, DecisionKind.CONTINUE, f"rung {number}", {}, now=1.7e9, attempt=1, step=number)
    for step in range(64):
        curve = curve.add(step, step * 1.5, [step / 7])
    bare = ledger.mark_exported(status, 6)
    curved = bare.model_copy(update={"curve": curve})
    assert ledger.fit(trial, curved).ledger == ledger.fit(trial, bare).ledger == status.ledger
    assert len(trial.model_dump_json(by_alias=True)) + len(curved.model_dump_json(by_alias=True)) > ledger.MAX_TRIAL


def test_a_large_trial_still_says_what_it_has_cloned() -> None:
    trial = TrialSpec(experiment="e", index=0, parameters={f"p{place}": "x" * 400 for place in range(50)})
    status = TrialStatus()
    for number, action in enumerate(
        (
            DecisionKind.EXPLOIT,
            DecisionKind.CONTINUE,
            DecisionKind.EXPLOIT,
            DecisionKind.CONTINUE,
            DecisionKind.CONTINUE,
        )
    ):
        status = ledger.enter(status, action, f"at {number}", {}, now=1.7e9, attempt=1, step=number)
    assert [entry.number for entry in ledger.fit(trial, ledger.mark_exported(status, 5)).ledger] == [3, 5]


def test_what_a_trial_has_cloned_outlives_many_long_decisions_that_come_later() -> None:
    status = TrialStatus()
    for number, action in enumerate((DecisionKind.START, DecisionKind.EXPLOIT, *[DecisionKind.CONTINUE] * 20)):
        status = ledger.enter(status, action, "x" * 300, {}, now=1.7e9, attempt=1, step=number)
        status = ledger.mark_exported(status, number + 1)
    assert [entry.number for entry in status.ledger] == [1, 2, 21, 22]


def test_what_is_not_in_the_bucket_is_kept_before_what_is() -> None:
    status = TrialStatus()
    for number, action in enumerate((DecisionKind.EXPLOIT, *[DecisionKind.CONTINUE] * 20)):
        status = ledger.enter(status, action, "x" * 300, {}, now=1.7e9, attempt=1, step=number)
        status = ledger.mark_exported(status, 1)
    assert [entry.number for entry in status.ledger] == [18, 19, 20, 21]


def actions(simulation: Simulation, index: int = 0) -> list[tuple[str, str]]:
    return [(entry.action, entry.message) for entry in simulation.status(index).ledger]


def test_the_failure_that_was_one_too_many_is_kept_with_its_number() -> None:
    program = Program(
        steps=9, checkpoint_every=1, faults={0: (ScheduledFault(Fault.CRASH, 3), ScheduledFault(Fault.CRASH, 5))}
    )
    simulation = Simulation(spec(**ONE, failures={"maxFailures": 1}), program).run()
    assert [action for action, _ in actions(simulation)] == ["RETRY", "FAIL"]
    assert simulation.status().ledger[-1].inputs == {"user": "2"}
    said = "container trial exited with code 1; not retried: failure 2, maxFailures is 1"
    assert actions(simulation)[-1][1] == said


def test_a_failure_that_is_not_retried_is_kept_once() -> None:
    program = Program(steps=9, faults={0: (ScheduledFault(Fault.CRASH, 3),)})
    simulation = Simulation(spec(**ONE, failures={"nonRetriableExitCodes": [1]}), program).run()
    assert [action for action, _ in actions(simulation)] == ["FAIL"]


def test_what_users_and_the_experiments_end_ask_of_a_trial_without_a_pod_is_kept() -> None:
    """One place, and the first trial takes it for long: the second is paused, then stopped with all others."""
    two = {**ONE, "search": {"algorithm": "random", "maxTrials": 2, "seed": 7}, "maxConcurrentTrials": 1}
    scheduler = Dictated(
        {(0, 2): SchedulerDecision(SchedulerAction.PAUSE, "paused at rung 2", {"rung": 2}, recorded=True)}
    )
    program = Program(steps=400, checkpoint_every=1)
    simulation = Simulation(spec(**two, stop={"totalTime": "2m"}), program, make_scheduler=dictated(scheduler))
    scheduler.pick = lambda _, waiting: next(
        (StartDecision(trial) for trial in waiting if (trial, 2) not in scheduler.results), None
    )
    simulation.run()
    assert [action for action, _ in actions(simulation)] == ["PAUSE", "STOP"]
    assert simulation.status().reason == "StoppedByExperiment"
    assert actions(simulation)[-1][1] == simulation.status().message
