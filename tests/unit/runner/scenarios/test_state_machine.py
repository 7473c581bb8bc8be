"""Anything may happen in any order: users, nodes, the network and the operator's own death, against a small model.

The simulated cluster watches over each write (an attempt is counted once, a pod is made once, none is deleted before
that is on record). The model knows what was done to the trials, and so what they may say of themselves.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podtune.api.names import DesiredState, ExperimentState, TrialReason, TrialState
from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_numbers import FIRST_ADDED
from podtune.api.tuning.prior_knowledge import InitialConfiguration
from podtune.runner.actions import Action, ActionResult, ActionStatus
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.records import Experiment, Pod, Trial
from podtune.runner.settings import RunnerSettings
from podtune.simulation.faults import Fault
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_api import Thing
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

TRIALS = 4
CONCURRENT = 2
STEPS = 6
SECONDS = st.sampled_from([0.1, 0.6, 1.0, 2.5, 7.0])
INDICES = st.integers(0, TRIALS - 1)
OWN_FAULT = (Fault.CRASH, Fault.OOM, Fault.DISK)
OTHERS_FAULT = (Fault.EVICTED, Fault.TRAPPED, Fault.DELETED, Fault.VANISHED)
BUSY = ActionResult(ActionStatus.FAILED, "the API server is busy")
PLENTY = 50
"""Failures that a trial survives: so many are never inflicted."""


def make_container(image: str) -> dict[str, Any]:
    """The training container of a template, whose memory may be raised."""
    return {"name": "trial", "image": image, "resources": {"limits": {"memory": "2Gi"}}}


class RunnerMachine(RuleBasedStateMachine):
    """The rules: what may happen. The invariants: what holds at every moment."""

    def __init__(self) -> None:
        super().__init__()
        experiment = spec(
            search={"algorithm": "random", "maxTrials": TRIALS, "seed": 7},
            maxConcurrentTrials=CONCURRENT,
            checkpoints={"store": STORE},
            snapshot={"period": "5s"},
            failures={
                "backoff": {"initial": "1s", "max": "4s"},
                "maxFailures": PLENTY,
                "maxDisruptions": PLENTY,
                "outOfMemory": {"raiseMemoryBy": 1.5, "upTo": "8Gi"},
            },
            trialTemplate={"spec": {"containers": [make_container("example")]}},
        )
        weather = Weather(latency=0.1, watch_delay=0.4)
        program = Program(steps=STEPS, checkpoint_every=1)
        self.simulation = Simulation(experiment, program, weather, settings=RunnerSettings(log_tries=100))
        self.own_faults: dict[str, int] = {}
        self.others_faults: dict[str, int] = {}
        self.stopped: set[str] = set()
        self.before: dict[str, TrialStatus] = {}
        self.old_news: list[Thing] = []

    # What may happen

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.simulation.run(seconds)

    @rule()
    def the_operator_dies(self) -> None:
        self.simulation.restart()

    @rule(index=INDICES, kind=st.sampled_from(OWN_FAULT + OTHERS_FAULT))
    def a_fault_strikes_an_attempt(self, index: int, kind: Fault) -> None:
        trial = f"e-{index}"
        for pod in [pod for pod in self.simulation.pods.values() if pod.trial == trial]:
            if pod.strike(kind):
                counters = self.own_faults if kind in OWN_FAULT else self.others_faults
                counters[trial] = counters.get(trial, 0) + 1

    @rule(index=INDICES, desired=st.sampled_from([DesiredState.PAUSED, DesiredState.RUNNING]))
    def a_user_pauses_or_resumes(self, index: int, desired: DesiredState) -> None:
        trial = f"e-{index}"
        if trial in self.simulation.api.trials and trial not in self.stopped:
            self.simulation.api.edit_trial(trial, desired_state=desired)

    @rule(index=INDICES)
    def a_user_stops(self, index: int) -> None:
        trial = f"e-{index}"
        if trial in self.simulation.api.trials:
            self.simulation.api.edit_trial(trial, desired_state=DesiredState.STOPPED)
            self.stopped.add(trial)

    @rule(index=INDICES)
    def a_user_has_a_trial_retried(self, index: int) -> None:
        trial = f"e-{index}"
        if trial in self.simulation.api.trials:
            self.simulation.retry_trial(trial)

    @rule(index=INDICES)
    def a_user_takes_a_trial_back(self, index: int) -> None:
        trial = f"e-{index}"
        if trial in self.simulation.api.trials:
            self.simulation.take_back(trial)

    @rule(index=INDICES)
    def a_user_asks_for_a_checkpoint(self, index: int) -> None:
        trial = f"e-{index}"
        if trial in self.simulation.api.trials:
            self.simulation.ask_for_checkpoint(trial)

    @rule(suspend=st.booleans())
    def a_user_suspends_or_resumes_all(self, suspend: bool) -> None:
        if not self.simulation.is_over:
            self.simulation.edit_spec(suspend=suspend)

    @rule(number=st.integers(100_000, 100_002), rate=st.sampled_from(["0.01", "0.05", "7"]))
    def a_user_adds_a_trial(self, number: int, rate: str) -> None:
        api = self.simulation.api
        if f"e-{number}" not in api.trials and not self.simulation.is_over:
            api.add_trial(f"e-{number}", parameters={"learning_rate": rate})

    @rule(rate=st.sampled_from([0.01, 0.02, 0.03]))
    def a_user_appends_a_configuration(self, rate: float) -> None:
        search = self.simulation.api.experiment.spec.search
        entry = InitialConfiguration(parameters={"learning_rate": rate})
        if not self.simulation.is_over and entry not in search.initial:
            self.simulation.edit_spec(search=search.model_copy(update={"initial": [*search.initial, entry]}))

    @rule(image=st.sampled_from(["example", "mended"]))
    def a_user_changes_the_template(self, image: str) -> None:
        if not self.simulation.is_over:
            self.simulation.edit_template(containers=[make_container(image)])

    @rule(index=INDICES, limits=st.sampled_from([{}, {"memory": "3Gi"}, {"memory": "4Gi", "cpu": "1"}]))
    def a_user_sets_the_limits_of_a_trial(self, index: int, limits: dict[str, str]) -> None:
        if f"e-{index}" in self.simulation.api.trials:
            self.simulation.api.edit_trial(f"e-{index}", limits=limits)

    @rule(away=st.booleans())
    def agents_lose_or_find_the_operator(self, away: bool) -> None:
        self.simulation.unreachable = away

    @rule(count=st.integers(1, 4))
    def replies_are_lost(self, count: int) -> None:
        left = count

        def loses(_: Action) -> bool:
            nonlocal left
            left -= 1
            return left >= 0

        self.simulation.loses_reply = loses

    @rule(count=st.integers(1, 4))
    def requests_are_refused(self, count: int) -> None:
        left = count

        def refuse(_: Action) -> ActionResult | None:
            nonlocal left
            left -= 1
            return BUSY if left >= 0 else None

        self.simulation.refuse = refuse

    @precondition(lambda self: self.old_news and self.simulation.machine is not None)
    @rule(data=st.data())
    def old_news_comes_again(self, data: st.DataObject) -> None:
        """A watch that was stale, or began anew from an old version."""
        self._tell(data.draw(st.sampled_from(self.old_news)))

    def _tell(self, thing: Thing) -> None:
        machine = self.simulation.machine
        assert machine is not None
        match thing:
            case Experiment() if thing.version >= self.simulation.api.experiment.version:
                machine.observe_experiment(thing)
            case Trial() if (known := self.simulation.api.trials.get(thing.name)) and thing.version >= known.version:
                machine.observe_trial(thing)
            case Pod() if thing.name in self.simulation.api.pods:
                machine.observe_pod(thing)
        self.simulation.wake()

    # What holds at every moment

    @invariant()
    def trials_only_go_forward(self) -> None:
        for name, trial in self.simulation.api.trials.items():
            before, after = self.before.get(name, TrialStatus()), trial.status
            assert after.iteration >= before.iteration
            assert after.attempt >= before.attempt
            assert after.failures >= before.failures
            assert after.disruptions >= before.disruptions
            assert (after.checkpoint.step if after.checkpoint else 0) >= (
                before.checkpoint.step if before.checkpoint else 0
            ), f"{name} has lost a checkpoint"
            if before.state is not None and before.state.is_finished:
                assert after.state is before.state, f"{name} had ended as {before.state}"
            self.before[name] = after
        api = self.simulation.api
        self.old_news = [api.experiment, *api.trials.values(), *api.pods.values(), *self.old_news][:40]

    @invariant()
    def failures_are_those_that_were_inflicted(self) -> None:
        for name, trial in self.simulation.api.trials.items():
            assert trial.status.failures <= self.own_faults.get(name, 0), "a failure was counted that nobody has seen"
            recorded = self.simulation.api.attempts.get(name, [])
            assert trial.status.failures == recorded.count(FailureClass.USER)

    @invariant()
    def attempts_go_on_from_what_was_accepted(self) -> None:
        for pod in self.simulation.pods.values():
            accepted = self.accepted.get(pod.name, 0)
            assert pod.restored.step >= accepted, f"{pod.name} began at {pod.restored.step}, not at {accepted}"

    @property
    def accepted(self) -> dict[str, int]:
        """By name of a pod, the latest step that was on record when it was asked for."""
        return {
            action.name: max((checkpoint.step for checkpoint in action.restore), default=0)
            for action in self.simulation.created_pods()
        }

    # What holds at the end

    def teardown(self) -> None:
        """Everything is mended; then everything ends, and a machine made anew has nothing to add."""
        simulation = self.simulation
        simulation.unreachable = False
        simulation.refuse = lambda _: None
        simulation.loses_reply = lambda _: False
        if not simulation.is_over:
            simulation.edit_spec(suspend=False)
        for _ in range(TRIALS + 1):  # a trial that is made later may be paused only then
            for name, trial in list(simulation.api.trials.items()):
                if name not in self.stopped and trial.spec.desired_state is not DesiredState.RUNNING:
                    simulation.api.edit_trial(name, desired_state=DesiredState.RUNNING)
            simulation.run(300.0)
        simulation.run()
        assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
        for name, trial in simulation.api.trials.items():
            if trial.status.reason in (TrialReason.REFUSED, TrialReason.STOPPED_BY_EXPERIMENT):
                assert trial.spec.index >= FIRST_ADDED, f"{name}: {trial.status.message}"
                continue
            assert trial.status.state is TrialState.TERMINATED, f"{name}: {trial.status.message}"
            if name not in self.stopped:
                assert trial.status.iteration == STEPS
        assert simulation.run(1000.0).api.pods == {}
        self.trials_only_go_forward()
        self.failures_are_those_that_were_inflicted()
        assert_made_anew_agrees(simulation)


TestRunnerStateMachine = RunnerMachine.TestCase
TestRunnerStateMachine.settings = settings(
    max_examples=draw(60),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
