"""What is known of a Trial and of the best result, in Python's types: the same as the commands print."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.errors import CliError
from podtune.cli.views import tables
from podtune.cli.views.troubles import find_trial_trouble
from podtune.client.errors import NoResult
from podtune.client.page import draw_best, draw_trial


@dataclass(frozen=True, slots=True)
class FrontTrial:
    """A trial that no other beats in all objectives.

    Attributes:
        trial: Its name.
        values: Its objectives, by metric.
    """

    trial: str
    values: Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Best:
    """The best result so far, as `kubectl podtune best` prints it.

    Attributes:
        trial: Name of its trial.
        metric: Name of the objective's metric.
        value: The best value; with repeats their mean.
        parameters: The trial's configuration.
        checkpoint_uri: Where its best checkpoint is; None where none is stored.
        exported_uri: Where the exported copy is (`checkpoints.export`); None where there is none.
        spread: Standard deviation of the repeats' values; None without repeats.
        repeats: How many repeats there are; 0 without.
        pareto_front: With several objectives, the trials of their front.
    """

    trial: str
    metric: str
    value: float
    parameters: Mapping[str, Any]
    checkpoint_uri: str | None
    exported_uri: str | None
    spread: float | None
    repeats: int
    pareto_front: tuple[FrontTrial, ...]

    def _repr_html_(self) -> str:
        return draw_best(self)


def read_best(view: ExperimentView) -> Best:
    """Reads the best result of an Experiment.

    Raises:
        NoResult: There is none yet.
    """
    try:
        facts = tables.collect_best(view)
    except CliError as error:
        raise NoResult(str(error)) from error
    return Best(
        trial=facts["trial"],
        metric=facts["metric"],
        value=_read_float(facts["value"]),
        parameters=facts["parameters"],
        checkpoint_uri=facts["checkpoint"],
        exported_uri=facts.get("exported"),
        spread=_read_float(facts["spread"]) if "spread" in facts else None,
        repeats=facts.get("repeats", 0),
        pareto_front=tuple(FrontTrial(point["trial"], point["values"]) for point in facts.get("paretoFront", ())),
    )


def _read_float(value: float | str) -> float:
    """A number; NaN where a newer operator has written something else."""
    return value if isinstance(value, float) else math.nan


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a learning curve.

    Attributes:
        iteration: Training iteration.
        seconds: Training time until then; NaN where it is not known.
        values: The objectives, by metric; NaN where one was missing.
    """

    iteration: int
    seconds: float
    values: Mapping[str, float]


class TrialFacts:
    """A Trial as it was when it was read; what it does later changes nothing here."""

    def __init__(self, view: TrialView, experiment: ExperimentView) -> None:
        """Shows a Trial.

        Args:
            view: The Trial.
            experiment: Its Experiment, which says of which types its parameters are.
        """
        self._view = view
        self._experiment = experiment

    @property
    def name(self) -> str:
        """Its name."""
        return self._view.name

    @property
    def display_name(self) -> str:
        """Its name for people; empty where it has none."""
        return self._view.display_name

    @property
    def experiment(self) -> str:
        """Name of its Experiment."""
        return self._view.experiment

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._experiment.namespace

    @property
    def index(self) -> int:
        """Its number in the Experiment."""
        return self._view.index

    @property
    def state(self) -> str:
        """PENDING, RUNNING, PAUSED, TERMINATED or ERROR."""
        return self._view.state

    @property
    def reason(self) -> str:
        """Why it is in this state, in one word."""
        return self._view.status.reason

    @property
    def message(self) -> str:
        """The state, in a sentence."""
        return self._view.status.message

    @property
    def trouble(self) -> str:
        """What somebody should look at; empty where nothing is."""
        return find_trial_trouble(self._view)

    @property
    def has_ended(self) -> bool:
        """Whether it has come to a good or a bad end."""
        return self._view.has_ended

    @property
    def attempt(self) -> int:
        """Number of the current or last attempt, from 1; 0 before the first."""
        return self._view.status.attempt

    @property
    def failures(self) -> int:
        """How many of its attempts have failed."""
        return self._view.status.failures

    @property
    def node(self) -> str:
        """Node of its current or last pod; empty where there is none."""
        return self._view.node

    @property
    def parameters(self) -> dict[str, Any]:
        """Its configuration, in the types of the search space."""
        return tables.convert_configuration(self._experiment.spec.get("parameters", ()), self._view.parameters)

    @property
    def last_result(self) -> dict[str, float | str]:
        """The last result that it has reported; empty before the first."""
        return tables.read_numbers(self._view.status.last_result)

    @property
    def best_value(self) -> float | None:
        """The best value of the objective that it has reported; None where there is none."""
        text = self._view.status.best_value
        return _read_float(tables.read_numbers({"": text})[""]) if text else None

    @property
    def curve(self) -> list[CurvePoint]:
        """Its learning curve, in at most 64 points; `results` of the Experiment gives all there are."""
        curve, metrics = self._view.status.curve, self._experiment.curve_metrics
        if curve is None:
            return []
        return [
            CurvePoint(int(step), seconds, dict(zip(metrics, values, strict=False)))
            for step, seconds, *values in curve.list_points()
        ]

    def _repr_html_(self) -> str:
        return draw_trial(self)

    def __repr__(self) -> str:
        return f"<Trial {self.name}: {self.state}, {self.parameters}>"
