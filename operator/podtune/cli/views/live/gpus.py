"""How many GPUs trials ask for, as their manifest and the limits on record say it."""

from __future__ import annotations

from collections.abc import Mapping

from podtune.api.names import TrialReason
from podtune.api.pods.gpus import count_requested_gpus
from podtune.api.pods.limit_names import select_limits
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.search_space import parse_configuration
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.runner.resources import compose_limits
from podtune.simulation.cluster import set_limits


class GpuDemand:
    """Counts the GPUs of an experiment's trials; none where the manifest is a newer operator's and can't be read."""

    def __init__(self, view: ExperimentView) -> None:
        """Reads the manifest once; counting is cheap then."""
        self._spec = _read_spec(view)
        self._usual: float | None = None
        if self._spec is not None and not self._spec.scheduler.resources:
            template = self._spec.trial_template
            self._usual = None if template.has_computed_limits else self._count_training(self._spec, {}, 0, {})

    @property
    def pods(self) -> int:
        """How many pods a trial has."""
        return self._spec.trial_template.pod_count if self._spec is not None else 1

    def count(self, trial: TrialView) -> float:
        """How many a trial holds while it runs, or asks for while it waits."""
        if self._spec is None:
            return 0.0
        if trial.status.reason == TrialReason.EVALUATING and self._spec.evaluation is not None:
            return count_requested_gpus(self._spec.evaluation.template.spec)
        if self._usual is not None and not trial.status.limits:
            return self._usual
        passed = len(trial.status.scheduler.get("rungs", {}))
        return self._count_training(self._spec, trial.parameters, passed, trial.status.limits)

    def _count_training(
        self, spec: ExperimentSpec, parameters: Mapping[str, str], passed: int, own: Mapping[str, str]
    ) -> float:
        limits = compose_limits(spec, parse_configuration(spec.parameters, parameters), passed, own).limits
        return sum(
            role.replicas * count_requested_gpus(set_limits(role.template.spec, select_limits(limits, role.name)))
            for role in spec.trial_template.ranked_roles
        )


def _read_spec(view: ExperimentView) -> ExperimentSpec | None:
    try:
        return parse_experiment({"metadata": {"name": view.name}, "spec": view.spec}, UNKNOWN_POLICY)
    except InvalidSpec:
        return None


def format_gpus(count: float) -> str:
    """A number of GPUs; parts of one, which MIG devices are, with two digits."""
    return f"{count:.0f}" if count == round(count) else f"{count:.2f}"
