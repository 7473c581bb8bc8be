"""The Pareto front of an experiment with several objectives, as its status shows it."""

from __future__ import annotations

from podtune.api.resources.experiment import MAX_FRONT, ExperimentSpec, ParetoTrial
from podtune.api.resources.trial_numbers import find_first_index
from podtune.runner.search.session import Search
from podtune.runner.trial.results import show
from podtune.tuning.pareto import ParetoFront, ParetoPoint
from podtune.tuning.searchers.base import Observation


class Front:
    """Takes in what the searcher is told, in the same order and once, and so it is the same after a restart."""

    def __init__(self, spec: ExperimentSpec, experiment: str) -> None:
        self._metrics = [criterion.metric for criterion in spec.objective.criteria]
        self._front = ParetoFront(spec.objective.criteria)
        self._repeats = spec.search.repeats
        self._experiment = experiment
        self._shown: list[ParetoTrial] = []
        self._seen = 0

    def take_in(self, search: Search) -> None:
        """Takes in what the searcher may be told since the last time."""
        if len(self._metrics) < 2:
            return
        new = search.list_own_observations(self._seen)
        self._seen += len(new)
        changes = [self._add(observation) for observation in new]
        if any(changes):
            self._shown = [self._build_entry(point) for point in self._front.spread(MAX_FRONT)]

    @property
    def trials(self) -> list[ParetoTrial]:
        """The front, best by the objective's own metric first; empty with a single objective."""
        return self._shown

    def _add(self, observation: Observation) -> bool:
        if not observation.final or observation.value is None:
            return False
        return self._front.add(ParetoPoint(observation.number, (observation.value, *observation.others)))

    def _build_entry(self, point: ParetoPoint) -> ParetoTrial:
        values = zip(self._metrics, point.values, strict=True)
        name = f"{self._experiment}-{find_first_index(point.trial, self._repeats)}"
        return ParetoTrial(trial=name, values={metric: show(value) for metric, value in values})
