"""What every stopper has to hold; a test class inherits it and says how one is made.

from podtune.testing.stoppers import ObservationStopperConformance, StopperConformance

class TestPatience(StopperConformance):
    def make(self, *, mode="max"):
        return Patience(Objective(metric="accuracy", mode=mode), {"results": 3})

class TestStagnation(ObservationStopperConformance):
    def make(self, *, mode="max"):
        return Stagnation(Objective(metric="accuracy", mode=mode), {"trials": 3})
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.resources.trial import TrialStatus
from podtune.tuning.schedulers.base import MetricMissing, Metrics
from podtune.tuning.searchers.base import Configuration, Observation
from podtune.tuning.stoppers.base import Finding, ObservationStopper, Stopper
from podtune.tuning.stoppers.plugin_stoppers import encode_memory

_INHERITED = [HealthCheck.differing_executors]
"""Each class that inherits a property checks it for its own stopper."""
_RESULTS = 80
MAX_CLAUSE = 400
"""Longest reason that a Trial's status has room for, with the rule's name around it."""


class StopperConformance:
    """The promises of `podtune.tuning.stoppers.base.Stopper`."""

    def make(self, *, mode: Literal["max", "min"] = "max") -> Stopper:
        """Makes a stopper that has seen nothing.

        Args:
            mode: Whether more or less of the metric `accuracy` is better.
        """
        raise NotImplementedError

    def build_result(self, step: int, value: float) -> Metrics:
        """A result of a trial. Override it if your stopper looks at other metrics."""
        return {"training_iteration": step, "time_total_s": 2.5 * step, "accuracy": value, "note": "none"}

    @given(seed=st.integers(0, 10**6), cut=st.integers(0, _RESULTS), mode=st.sampled_from(["max", "min"]))
    @settings(max_examples=100, deadline=None, suppress_health_check=_INHERITED)
    def test_a_restored_stopper_goes_on_as_the_uncut_one(
        self, seed: int, cut: int, mode: Literal["max", "min"]
    ) -> None:
        """At any cut: a restarted operator stops trials at the same results."""
        uncut, results = self.make(mode=mode), self._draw_results(seed)
        for metrics in results[:cut]:
            show_result(uncut, metrics)
        rebuilt, record = self.make(mode=mode), json.loads(json.dumps(dict(uncut.record())))
        if record:
            rebuilt.restore(record)
        assert rebuilt.record() == uncut.record()
        for metrics in results[cut:]:
            assert repr(show_result(rebuilt, metrics)) == repr(show_result(uncut, metrics))  # NaN equals nothing
            assert rebuilt.record() == uncut.record()

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_a_record_fits_into_the_status_of_a_trial(self, seed: int) -> None:
        """It is texts by name, together of a bounded length."""
        stopper = self.make()
        for metrics in self._draw_results(seed):
            finding = show_result(stopper, metrics)
            memory = {"plugins": {"stopper": encode_memory(stopper.record(), finding)}}
            assert TrialStatus.model_validate({"stopper": memory}, strict=True).stopper == memory

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_whatever_stops_a_trial_has_a_reason_with_numbers(self, seed: int) -> None:
        """A clause for people, and the numbers by name."""
        stopper = self.make()
        for metrics in self._draw_results(seed):
            finding = show_result(stopper, metrics)
            if finding is not None:
                assert any(character.isdigit() for character in finding.clause)
                assert finding.inputs
                assert len(finding.clause) <= MAX_CLAUSE

    def test_a_result_without_its_metrics_is_skipped(self) -> None:
        """A program may report something else now and then."""
        assert show_result(self.make(), {"note": "none"}) is None

    def _draw_results(self, seed: int) -> Sequence[Metrics]:
        draw, step, results = random.Random(seed), 0, list[Metrics]()
        for _ in range(_RESULTS):
            step += draw.choice([1, 1, 1, 1, 2, 7])
            value = math.nan if draw.random() < 0.05 else round(draw.random(), 2)
            results.append({"note": "none"} if draw.random() < 0.05 else self.build_result(step, value))
        return results


class ObservationStopperConformance:
    """The promises of `podtune.tuning.stoppers.base.ObservationStopper`."""

    def make(self, *, mode: Literal["max", "min"] = "max") -> ObservationStopper:
        """Makes a stopper that has been told nothing.

        Args:
            mode: Whether more or less of the metric `accuracy` is better.
        """
        raise NotImplementedError

    def build_configuration(self, value: float) -> Configuration:
        """A configuration that was tried. Override it if your stopper looks at parameters of other names."""
        return {"learning_rate": value, "layers": 3, "kind": "tanh"}

    @given(seed=st.integers(0, 10**6), cut=st.integers(0, _RESULTS), mode=st.sampled_from(["max", "min"]))
    @settings(max_examples=50, deadline=None, suppress_health_check=_INHERITED)
    def test_one_made_anew_finds_the_same(self, seed: int, cut: int, mode: Literal["max", "min"]) -> None:
        """At any cut: a restarted operator, which tells it everything once more, ends the experiment where it would."""
        uncut, observations = self.make(mode=mode), self._draw_observations(seed)
        found = [uncut.on_observation(observation) for observation in observations[:cut]]
        rebuilt = self.make(mode=mode)
        assert repr([rebuilt.on_observation(observation) for observation in observations[:cut]]) == repr(found)
        for observation in observations[cut:]:
            assert repr(rebuilt.on_observation(observation)) == repr(uncut.on_observation(observation))
        assert repr(observations) == repr(self._draw_observations(seed)), "what it is told is not its own to change"

    @given(seed=st.integers(0, 10**6))
    @settings(max_examples=30, deadline=None, suppress_health_check=_INHERITED)
    def test_whatever_ends_an_experiment_has_a_reason_with_numbers(self, seed: int) -> None:
        """A clause for people, and the numbers by name."""
        stopper = self.make()
        for observation in self._draw_observations(seed):
            finding = stopper.on_observation(observation)
            if finding is not None:
                assert any(character.isdigit() for character in finding.clause)
                assert finding.inputs
                assert len(finding.clause) <= MAX_CLAUSE

    def test_trials_without_a_value_do_not_break_it(self) -> None:
        """They have failed, report NaN, or have come only to a rung."""
        stopper = self.make()
        for number, value in enumerate((None, math.nan, None, math.inf, -math.inf) * 4):
            finding = stopper.on_observation(Observation(number, self.build_configuration(0.5), value, number))
            assert finding is None or isinstance(finding, Finding)

    def _draw_observations(self, seed: int) -> Sequence[Observation]:
        draw = random.Random(seed)
        observations = list[Observation]()
        for number in range(_RESULTS):
            value = draw.choice([None, math.nan]) if draw.random() < 0.1 else round(draw.random(), 2)
            configuration = self.build_configuration(round(draw.random(), 2))
            step, is_final = draw.choice([1, 3, 9]), draw.random() < 0.8
            observations.append(Observation(number, configuration, value, step, final=is_final))
        return observations


def show_result(stopper: Stopper, metrics: Metrics) -> Finding | None:
    """Shows a result as the operator does, which skips those that lack a metric."""
    try:
        return stopper.on_result(metrics)
    except MetricMissing:
        return None
