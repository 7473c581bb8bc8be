"""The best result so far, of a trial or of a configuration that ran several times."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from podtune.api.resources.trial_numbers import count_repeats, find_number
from podtune.api.tuning.objective import Objective
from podtune.runner.search.observation_log import compute_mean, spread
from podtune.runner.trial import results
from podtune.runner.trial.machine import TrialMachine


@dataclass(frozen=True, slots=True)
class BestResult:
    """A result, and where it comes from.

    Attributes:
        value: The best value of the trial, or the mean of the best values of a configuration's repeats.
        trial: The trial; of several repeats the one with the best value of its own.
        values: The repeats' values, one or more.
    """

    value: float
    trial: TrialMachine
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Standard deviation of the repeats' values."""
        return spread(self.values)


class BestIndex:
    """Remembers the best recorded result; among equals, that of the trial with the lowest index.

    A configuration with repeats counts once all of them have ended: before that, its mean would be that of the luckier
    ones. Repeats without a value are left out.
    """

    def __init__(self, objective: Objective, repeats: int) -> None:
        self._objective = objective
        self._repeats = repeats
        self._ended: defaultdict[int, dict[int, TrialMachine]] = defaultdict(dict)
        self.result: BestResult | None = None

    def update(self, trial: TrialMachine) -> None:
        """Takes in what a trial has recorded."""
        if self._repeats == 1:
            self._compare([trial])
        elif trial.saved.state is not None and trial.saved.state.is_finished:
            ended = self._ended[find_number(trial.index, self._repeats)]
            ended[trial.index] = trial
            if len(ended) == count_repeats(trial.index, self._repeats):
                self._compare([ended[index] for index in sorted(ended)])

    def _compare(self, repeats: list[TrialMachine]) -> None:
        metric = self._objective.metric
        valued = [
            (value, trial) for trial in repeats if (value := results.find_best_value(trial.saved, metric)) is not None
        ]
        if not valued:
            return
        values = tuple(value for value, _ in valued)
        value = compute_mean(values)
        best_of_them, holder = valued[0]
        for own, trial in valued[1:]:
            if self._objective.is_better(own, best_of_them):
                best_of_them, holder = own, trial
        if self._is_best(value, holder):
            self.result = BestResult(value, holder, values)

    def _is_best(self, value: float, trial: TrialMachine) -> bool:
        if self.result is None:
            return self._objective.is_better(value, None)
        best, holder = self.result.value, self.result.trial
        return self._objective.is_better(value, best) or (value == best and trial.index < holder.index)
