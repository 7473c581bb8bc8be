"""Stoppers of other packages that end the experiment: told of each observation, and what happens if one fails."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.plugin import Plugin
from podtune.tuning.plugins import PluginFailure, describe_failure, make_plugin
from podtune.tuning.searchers.base import Observation
from podtune.tuning.stoppers.base import ExperimentProgress, Finding, ObservationStopper, StopCriterion

OBSERVATION_STOPPER_PLUGINS = "podtune.experiment_stoppers"
"""The group of entry points by which other packages offer stoppers of the whole experiment."""


class ObservationRule(StopCriterion[ExperimentProgress]):
    """Holds once a stopper of another package has found so.

    Example:
        stop: {experiment: [{plugin: {name: stagnation}}]}

    What it has found stays: how many observations are told at a time, and when it is looked at, changes nothing.
    """

    def __init__(self, field: str, plugin: Plugin, objective: Objective) -> None:
        """Makes the stopper.

        Args:
            field: Where it stands in the Experiment, such as stop.experiment[0].plugin.
            plugin: The stopper, with its settings.
            objective: Of the experiment.

        Raises:
            PluginError: It can't be used.
        """
        self._field = field
        self._plugin = plugin
        self._stopper: ObservationStopper = make_plugin(
            OBSERVATION_STOPPER_PLUGINS,
            plugin,
            ObservationStopper,  # type: ignore[type-abstract]
            objective=objective,
        )
        self._told = 0
        self._finding: Finding | None = None
        self.failure: PluginFailure | None = None
        """What has failed and what to do about it; None where all works. One that has failed is told no more."""

    def tell(self, observation: Observation) -> None:
        """Tells it of the next observation."""
        if self._finding is not None or self.failure:
            return
        self._told += 1
        try:
            self._finding = _check(self._stopper.on_observation(observation))
        except Exception as error:  # noqa: BLE001 - it may be anyone's code; its failure is the experiment's alone
            follows = (
                "install a corrected version, or change or remove the rule; until then no trial starts, and the "
                "experiment continues without it"
            )
            failed_at = f"on observation {self._told}"
            self.failure = describe_failure(self._field, self._plugin, failed_at, error, follows)

    @override
    def check(self, progress: ExperimentProgress) -> Finding | None:
        return self._finding


def _check(found: object) -> Finding | None:
    """Checks what somebody else's code has returned.

    Raises:
        TypeError: It is no finding.
    """
    if found is None:
        return None
    if isinstance(found, Finding) and isinstance(found.clause, str) and isinstance(found.inputs, Mapping):
        return found
    raise TypeError(f"on_observation() returned {found!r:.80}; return a Finding or None")
