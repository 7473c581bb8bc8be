"""The results of all trials, as a `Tuner` returns them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

from podtune.client.checkpoint import TrialCheckpoint
from podtune.client.errors import InvalidArgument, MissingPackage, NoResult, PodtuneError
from podtune.client.experiment import Experiment
from podtune.client.snapshot import ExperimentSnapshot
from podtune.client.trial import Trial

_ERROR, _TERMINATED = "ERROR", "TERMINATED"


class TrialFailed(PodtuneError):
    """A trial has ended in an error; the text says which."""


class TrialResult:
    """What one trial has come to."""

    def __init__(self, trial: Trial) -> None:
        """Is made by a `ResultGrid`."""
        self.trial = trial
        """The trial itself, with its state and curve."""

    @property
    def config(self) -> dict[str, Any]:
        """Its parameters."""
        return self.trial.parameters

    @property
    def metrics(self) -> dict[str, float | str]:
        """Its last result; empty where it has reported none."""
        return self.trial.last_result

    @property
    def error(self) -> TrialFailed | None:
        """Why it has failed; None where it has not."""
        if self.trial.state != _ERROR:
            return None
        return TrialFailed(f"{self.trial.name}: {self.trial.message}")

    @property
    def checkpoint(self) -> TrialCheckpoint | None:
        """Its latest checkpoint, which can be downloaded; None where it has stored none."""
        return self.trial.checkpoint

    def __repr__(self) -> str:
        failed = ", failed" if self.error else ""
        return f"<TrialResult {self.trial.name}: {self.config}, {self.metrics}{failed}>"


class ResultGrid(Sequence[TrialResult]):
    """The results of all trials, in the order in which the trials were made."""

    def __init__(self, experiment: Experiment, snapshot: ExperimentSnapshot[Trial]) -> None:
        """Is made by a `Tuner`."""
        self.experiment = experiment
        """The Experiment in the cluster."""
        self._snapshot = snapshot
        self._results = [TrialResult(trial) for trial in snapshot.trials]

    @property
    def errors(self) -> list[TrialFailed]:
        """Why trials have failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return len(self.errors)

    @property
    def num_terminated(self) -> int:
        """How many trials have ended without an error."""
        return sum(result.trial.state == _TERMINATED for result in self._results)

    def get_best_result(self, metric: str | None = None, mode: Literal["max", "min"] | None = None) -> TrialResult:
        """The trial with the best value: of the objective at any time, or of another metric in its last result.

        Args:
            metric: The other metric.
            mode: Whether more of it is better (max) or less (min).

        Raises:
            NoResult: No trial has reported it.
            InvalidArgument: Only one of the two is given, or the mode is neither max nor min.
        """
        if (metric is None) != (mode is None):
            raise InvalidArgument("metric and mode go together: give both, or neither for the objective")
        if metric is None:
            best = self._snapshot.best
            if best is None:
                raise NoResult(f"no trial of experiment {self._snapshot.name} has reported the objective")
            return next(result for result in self._results if result.trial.name == best.trial)
        if mode not in ("max", "min"):
            raise InvalidArgument(f"mode: {mode!r} is neither max nor min; write one of the two")
        values = {result: result.metrics.get(metric) for result in self._results}
        numbers = {result: value for result, value in values.items() if _is_number(value)}
        if not numbers:
            seen = ", ".join(sorted({name for result in self._results for name in result.metrics})) or "none at all"
            raise NoResult(f"no trial has reported a number as {metric!r}; metrics in last results: {seen}")
        return (max if mode == "max" else min)(numbers, key=lambda result: float(numbers[result] or 0))

    def get_dataframe(self) -> Any:
        """A table with a row for each trial: its name, its state, its last result, and its parameters as `config/NAME`.

        Raises:
            MissingPackage: pandas is not installed.
        """
        pandas = _import_pandas()
        rows = [
            {
                "trial": result.trial.name,
                "state": result.trial.state,
                **result.metrics,
                **{f"config/{name}": value for name, value in result.config.items()},
            }
            for result in self._results
        ]
        return pandas.DataFrame(rows)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> TrialResult: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TrialResult]: ...

    def __getitem__(self, index: int | slice) -> TrialResult | Sequence[TrialResult]:
        return self._results[index]

    def __iter__(self) -> Iterator[TrialResult]:
        return iter(self._results)

    def __repr__(self) -> str:
        return f"<ResultGrid {self._snapshot.name}: {len(self)} trials, {self.num_errors} of them failed>"


def _import_pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise MissingPackage(
            "get_dataframe makes a table of pandas, which is not installed: pip install pandas"
        ) from error


def _is_number(value: float | str | None) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
