"""The pods that a namespace may have: never more than that, and shared fairly by those who want them."""

from __future__ import annotations

from collections import Counter
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, TrialState
from podtune.runner.scheduling.namespace_cap import NamespaceCap
from tests.unit.runner.scenarios.attempts.test_gangs import gangs
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.made_anew import assert_made_anew_agrees
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather, spec
from tests.unit.runner.world.weather import any_weather, seeds

STEPS = 5
REUSE = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}


class Namespace:
    """Experiments that always want another trial, each with so many pods."""

    def __init__(self, limit: int, **sizes: int) -> None:
        self.cap = NamespaceCap("team", limit)
        self.sizes = sizes
        self.trials: dict[str, list[list[str]]] = {name: [] for name in sizes}
        self._uids = count()

    def want(self, name: str) -> None:
        """An experiment takes what it gets."""
        while not self.cap.claim(name, self.sizes[name]):
            uids = [str(next(self._uids)) for _ in range(self.sizes[name])]
            for uid in uids:
                self.cap.add_pod(uid, name)
            self.trials[name].append(uids)
            self.cap.update(name, promised=0, waits=True)
        self.cap.update(name, promised=0, waits=True)

    def end(self, name: str) -> None:
        """The oldest trial of an experiment ends; whoever is next is given what is free."""
        for uid in self.trials[name].pop(0):
            self.cap.remove_pod(uid)
        while (following := self.cap.next) is not None:
            self.want(following)

    @property
    def shares(self) -> dict[str, int]:
        """By experiment, how many trials run."""
        return {name: len(trials) for name, trials in self.trials.items()}


def test_one_that_comes_late_gets_its_share_before_the_giant_gets_more() -> None:
    namespace = Namespace(6, giant=1, small=1)
    namespace.want("giant")
    namespace.want("small")
    assert namespace.shares == {"giant": 6, "small": 0}
    for _ in range(3):
        namespace.end("giant")
    assert namespace.shares == {"giant": 3, "small": 3}
    for _ in range(10):
        namespace.end("giant")
        namespace.end("small")
    assert namespace.shares == {"giant": 3, "small": 3}


def test_warm_pods_go_back_until_each_has_its_share_and_not_to_take_turns() -> None:
    namespace = Namespace(5, warm=1, late=1)
    namespace.want("warm")
    namespace.want("late")
    given_back = 0
    while namespace.cap.wants_back("warm"):
        namespace.end("warm")
        given_back += 1
    assert (given_back, namespace.shares) == (2, {"warm": 3, "late": 2})
    assert not namespace.cap.wants_back("late")


def test_a_single_warm_pod_goes_back_to_one_that_has_none() -> None:
    namespace = Namespace(1, warm=1, late=1)
    namespace.want("warm")
    assert not namespace.cap.wants_back("warm")
    namespace.want("late")
    assert namespace.cap.wants_back("warm")


def test_a_trial_that_a_pod_waits_for_needs_no_room() -> None:
    search = {"algorithm": "random", "maxTrials": 8, "seed": 7}
    experiment = spec(maxConcurrentTrials=4, search=search, trialTemplate=REUSE)
    simulation = Simulation(experiment, Program(steps=1, seconds=0.1), pods_allowed=2).run()
    assert Counter(t.status.state for t in simulation.api.trials.values()) == {TrialState.TERMINATED: 8}
    assert len(simulation.pods) == 2
    simulation.run()
    assert simulation.machine.promised_pods == 0


def test_a_warm_pod_is_given_up_for_an_experiment_that_has_none() -> None:
    search = {"algorithm": "random", "maxTrials": 50, "seed": 7}
    experiment = spec(maxConcurrentTrials=1, search=search, trialTemplate=REUSE)
    simulation = Simulation(experiment, Program(steps=2, seconds=1.0), pods_allowed=1).run(8)
    assert simulation._cap.claim("other", 1), "there is no room for it now"
    simulation.run(until=lambda: not simulation._cap.claim("other", 1))
    assert all(pod.is_over for pod in simulation.api.pods.values())
    assert [t.status.failures + t.status.disruptions for t in simulation.api.trials.values()] == [0] * len(
        simulation.api.trials
    )


def test_equals_take_turns() -> None:
    namespace = Namespace(1, a=1, b=1, c=1)
    turns = []
    for name in "abc":
        namespace.want(name)
    for _ in range(6):
        (running,) = (name for name, share in namespace.shares.items() if share)
        turns.append(running)
        namespace.end(running)
    assert turns == ["a", *"abcab"]  # it was in line for its second before anyone else was


def test_a_gang_waits_for_all_its_places_and_small_trials_do_not_take_them_away() -> None:
    namespace = Namespace(4, small=1, gang=4, other=1)
    for name in ("small", "gang", "other"):
        namespace.want(name)
    for ended in range(3):
        assert namespace.shares == {"small": 4 - ended, "gang": 0, "other": 0}
        namespace.end("small")
    namespace.end("small")
    assert namespace.shares == {"small": 1, "gang": 0, "other": 0}  # it was in line first, and now is last
    namespace.end("small")
    assert namespace.shares == {"small": 0, "gang": 1, "other": 0}


def test_a_gang_that_can_never_start_holds_up_nobody_and_is_told() -> None:
    cap = NamespaceCap("team", 2)
    assert cap.claim("gang", 4) == (
        "a trial needs 4 pods, but namespace team may have only 2 at a time; lower trialTemplate.replicas, or ask your "
        "administrator for a higher limit"
    )
    assert cap.claim("small", 1) == ""


def test_who_no_longer_wants_a_place_holds_up_nobody() -> None:
    cap = NamespaceCap("team", 1)
    assert cap.claim("a", 1) == ""
    assert cap.claim("b", 1) == ("namespace team uses 1 of its 1 allowed pods; trials wait until some of them end")
    assert cap.claim("c", 1)
    cap.update("b", promised=0, waits=False)
    cap.update("a", promised=0, waits=False)
    assert cap.next == "c"


def test_a_lowered_limit_ends_nothing_and_lets_nothing_start() -> None:
    cap = NamespaceCap("team", 2)
    for uid in range(4):
        cap.add_pod(str(uid), "a")
    assert "4 of its 2" in cap.claim("b", 1)
    for uid in range(3):
        assert cap.next is None
        cap.remove_pod(str(uid))
    assert cap.next == "b"


def test_an_experiment_says_what_its_trials_wait_for_and_comes_to_its_end() -> None:
    simulation = Simulation(spec(maxConcurrentTrials=4), Program(steps=STEPS), pods_allowed=1)
    simulation.run(until=lambda: bool(simulation.api.pods))
    simulation.run(3.0)
    capped = find_condition(simulation.api.experiment.status.conditions, ConditionType.POD_LIMIT_REACHED)
    assert (capped.status, capped.reason) == ("True", ExperimentReason.NAMESPACE_CAP_REACHED)
    assert capped.message == "namespace ns uses 1 of its 1 allowed pods; trials wait until some of them end"
    assert simulation.api.experiment.status.message.endswith(capped.message)
    assert simulation.api.experiment.status.trials.pending == 3
    simulation.run()
    assert Counter(t.status.state for t in simulation.api.trials.values()) == {TrialState.TERMINATED: 4}
    capped = find_condition(simulation.api.experiment.status.conditions, ConditionType.POD_LIMIT_REACHED)
    assert (capped.status, capped.reason) == ("False", ExperimentReason.WITHIN_NAMESPACE_CAP)


def test_without_a_cap_there_is_no_word_of_it() -> None:
    simulation = Simulation(spec(), Program(steps=STEPS)).run()
    assert find_condition(simulation.api.experiment.status.conditions, ConditionType.POD_LIMIT_REACHED) is None


@settings(max_examples=draw(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    weather=any_weather(lives=60.0),
    replicas=st.sampled_from([1, 1, 3]),
    allowed=st.integers(3, 7),
    moment=st.floats(0.0, 120.0),
    seed=seeds,
)
def test_there_are_never_more_pods_and_all_trials_end(
    weather: Weather, replicas: int, allowed: int, moment: float, seed: int
) -> None:
    """The simulation's API server refuses to have more; a machine made anew goes on with the same."""
    experiment = gangs(replicas, trials=6, maxConcurrentTrials=6)
    whole = Simulation(experiment, Program(steps=STEPS), weather, seed=seed, pods_allowed=allowed).run()
    assert Counter(t.status.state for t in whole.api.trials.values()) == {TrialState.TERMINATED: 6}
    broken_off = Simulation(experiment, Program(steps=STEPS), weather, seed=seed, pods_allowed=allowed).run(moment)
    assert_made_anew_agrees(broken_off)


@settings(max_examples=draw(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(weather=any_weather(lives=60.0), allowed=st.integers(1, 3), moment=st.floats(0.0, 60.0), seed=seeds)
def test_there_are_never_more_warm_pods_and_all_trials_end(
    weather: Weather, allowed: int, moment: float, seed: int
) -> None:
    search = {"algorithm": "random", "maxTrials": 6, "seed": 7}
    experiment = spec(maxConcurrentTrials=4, search=search, trialTemplate=REUSE)
    whole = Simulation(experiment, Program(steps=STEPS), weather, seed=seed, pods_allowed=allowed).run()
    assert Counter(t.status.state for t in whole.api.trials.values()) == {TrialState.TERMINATED: 6}
    broken_off = Simulation(experiment, Program(steps=STEPS), weather, seed=seed, pods_allowed=allowed).run(moment)
    assert_made_anew_agrees(broken_off)
