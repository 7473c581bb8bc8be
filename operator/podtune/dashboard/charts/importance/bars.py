"""Which parameters matter, for an objective and for time: bars that the page and the picture draw."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING

from podtune.dashboard.charts.importance.cases import (
    TrialCase,
    collect_cells,
    count_all_cells,
    list_cases,
    list_losses,
)
from podtune.dashboard.charts.importance.times import correlate_times
from podtune.dashboard.keeping import keep_chart, keep_summary
from podtune.dashboard.search_axes import SearchAxis
from podtune.dashboard.trial_rows import ExperimentRows
from podtune.tuning.importance import (
    LEAST_ACTIVE,
    LEAST_TRIALS,
    RESAMPLES,
    Importance,
    ImportanceEstimate,
    estimate_importance,
)

if TYPE_CHECKING:
    from podtune.tuning.fanova import VarianceShares

SEED = 1
"""Of the draws that errors come from: the same trials always have the same numbers."""
FEW_BEST = 10
MOST_BARS = 24
FEW_LEARNED = 50
"""A forest that has learned from fewer trials knows little of the space."""
_one_at_a_time = threading.Lock()


class ImportanceMethod(StrEnum):
    """How importance is computed."""

    PED_ANOVA = "ped-anova"
    FANOVA = "fanova"


METHOD_WORDS = {ImportanceMethod.PED_ANOVA: "PED-ANOVA", ImportanceMethod.FANOVA: "fANOVA"}


@dataclass(frozen=True, slots=True)
class ImportanceBar:
    """One parameter.

    Attributes:
        share: Its part of all importance, from 0 to 1; None where too few of the best trials have it.
        low: The share less its error; the share itself where there is none.
        high: The share and its error.
        time: How its values go with the time that a result takes: from -1 to 1 for numbers, from 0 to 1 for choices;
            None where that is not known.
        is_signed: Whether more of it means more time or less of it.
        sentence: What it can be.
    """

    name: str
    share: float | None
    error: float | None
    low: float
    high: float
    time: float | None
    is_signed: bool
    sentence: str

    @property
    def time_text(self) -> str:
        """Its correlation with time; the sign of zero says nothing."""
        if self.time is None:
            return "–"
        text = f"{abs(self.time):.2f}"
        sign = "+" if self.time > 0 else "−"
        return f"{sign}{text}" if self.is_signed and float(text) else text


@dataclass(frozen=True, slots=True)
class ImportanceChart:
    """The bars for one objective.

    Attributes:
        bars: The most important first; none where nothing can be said.
        problem: Why nothing can be said.
        trials: From how many trials they were computed.
        best: How many of them were the best.
        top: The greatest number on the scale.
        decimals: Of shares in percent.
        seed: Of the draws that errors come from.
        resamples: How many draws that were; by fANOVA, how many trees.
        least_active: How many of the best trials must have a parameter.
        method: How the bars were computed.
        alone: By fANOVA, what part of the variance the parameters decide one by one.
    """

    metric: str
    bars: Sequence[ImportanceBar]
    problem: str = ""
    trials: int = 0
    best: int = 0
    top: float = 1.0
    decimals: int = 0
    seed: int = SEED
    resamples: int = RESAMPLES
    least_active: int = LEAST_ACTIVE
    method: ImportanceMethod = ImportanceMethod.PED_ANOVA
    alone: float = 0.0

    @property
    def shown(self) -> Sequence[ImportanceBar]:
        """The bars that there is room for."""
        return self.bars[:MOST_BARS]

    @property
    def left_out(self) -> Sequence[ImportanceBar]:
        """The bars that are listed as numbers alone."""
        return self.bars[MOST_BARS:]

    @property
    def has_times(self) -> bool:
        """Whether anything is known on time."""
        return any(bar.time is not None for bar in self.bars)

    @property
    def has_unknown(self) -> bool:
        """Whether too few of the best trials have some parameter."""
        return any(bar.share is None for bar in self.bars)

    @property
    def is_hint(self) -> bool:
        """Whether there are so few trials that the order of the bars may well be chance."""
        return self.best < FEW_BEST if self.method is ImportanceMethod.PED_ANOVA else self.trials < FEW_LEARNED

    @property
    def best_text(self) -> str:
        """Which trials were the best ones, for a sentence."""
        return f"the best {self.best:,} of them (top {100 * self.best / self.trials:.0f} %)"

    def format_share(self, share: float) -> str:
        """A share in percent, without the sign of percent."""
        return f"{100 * share:.{self.decimals}f}"

    def format_error(self, error: float) -> str:
        """An error in percent, rounded up."""
        unit = 10**self.decimals
        return f"{math.ceil(100 * error * unit) / unit:.{self.decimals}f}"


def has_forests() -> bool:
    """Whether scikit-learn is installed, which fANOVA takes."""
    return find_spec("sklearn") is not None


def measure_importance(
    experiment: ExperimentRows, place: int = 0, method: ImportanceMethod = ImportanceMethod.PED_ANOVA
) -> ImportanceChart:
    """The bars for an objective; they are computed anew when trials end, and not while they run.

    That takes a tenth of a second with 10,000 trials, and some seconds by fANOVA, so whoever answers others meanwhile
    calls it in a thread. It is computed once, however many ask for it at the same time.

    Args:
        experiment: Whose parameters.
        place: Which of its objectives, from 0.
        method: How; fANOVA only where `has_forests`.
    """
    with _one_at_a_time:
        return _measure(experiment, place, method)


@keep_chart
def _measure(experiment: ExperimentRows, place: int, method: ImportanceMethod) -> ImportanceChart:
    metric, sign = experiment.metrics[place], experiment.signs[place]
    axes, counts = experiment.axes, count_all_cells(experiment)
    blocks = list_cases.read_all(experiment, axes, counts)
    if method is ImportanceMethod.FANOVA:
        return _measure_variance(experiment, metric, *_estimate_with_forest(experiment, blocks, place, sign, axes))
    trials, estimate = _estimate(experiment, blocks, place, sign, axes, counts)
    if trials < LEAST_TRIALS:
        return ImportanceChart(metric, (), _explain_early(trials, metric), method=method)
    if estimate is None:
        return ImportanceChart(
            metric, (), f"The parameters of the trials with the best {metric} are those of all the others too."
        )
    bars = _make_bars(experiment, estimate.importances)
    return ImportanceChart(
        metric=metric,
        bars=bars,
        trials=estimate.trials,
        best=estimate.best,
        top=max(bar.high for bar in bars),
        decimals=_choose_decimals(bars),
    )


def _measure_variance(
    experiment: ExperimentRows, metric: str, trials: int, shares: VarianceShares | None
) -> ImportanceChart:
    method = ImportanceMethod.FANOVA
    if trials < LEAST_TRIALS:
        return ImportanceChart(metric, (), _explain_early(trials, metric), method=method)
    if shares is None:
        return ImportanceChart(metric, (), f"No parameter that all trials have changes {metric}.", method=method)
    bars = _make_bars(experiment, shares.importances)
    return ImportanceChart(
        metric=metric,
        bars=bars,
        trials=shares.trials,
        top=max(bar.high for bar in bars),
        decimals=_choose_decimals(bars),
        resamples=shares.trees,
        method=method,
        alone=shares.alone,
    )


def _choose_decimals(bars: Sequence[ImportanceBar]) -> int:
    return 1 if max(bar.error or 0.0 for bar in bars) < 0.02 else 0


@keep_summary
def _estimate(
    blocks: Sequence[Sequence[TrialCase]],
    place: int,
    sign: float,
    axes: tuple[SearchAxis, ...],
    counts: tuple[int, ...],
) -> tuple[int, ImportanceEstimate | None]:
    """How many trials say something on importance, and what; it changes when trials end, and not while they run."""
    losses, cases = list_losses(blocks, place, sign)
    return len(cases), estimate_importance(losses, collect_cells(cases, axes, counts), random.Random(SEED))


@keep_summary
def _estimate_with_forest(
    blocks: Sequence[Sequence[TrialCase]], place: int, sign: float, axes: tuple[SearchAxis, ...]
) -> tuple[int, VarianceShares | None]:
    """The same by fANOVA, which takes seconds."""
    from podtune.tuning.fanova import ParameterValues, estimate_variance_shares  # noqa: PLC0415 - not all have it

    losses, cases = list_losses(blocks, place, sign)
    if len(cases) < LEAST_TRIALS:
        return len(cases), None
    parameters = []
    for at, axis in enumerate(axes):
        low, high = (axis.low - 0.5, axis.high + 0.5) if axis.choices else (axis.low, axis.high)
        values = [case.positions[at] for case in cases]
        parameters.append(ParameterValues(axis.name, low, high, axis.is_log, values))
    return len(cases), estimate_variance_shares(losses, parameters, SEED)


def _make_bars(experiment: ExperimentRows, importances: Sequence[Importance]) -> list[ImportanceBar]:
    times = correlate_times(experiment)
    axes = {axis.name: axis for axis in experiment.axes}
    return [_make_bar(importance, axes[importance.name], *times[importance.name]) for importance in importances]


def _explain_early(ended: int, metric: str) -> str:
    have = {0: "no trial has", 1: "one trial has"}.get(ended, f"{ended} trials have")
    return f"Too early to say: {have} ended with a value of {metric}, and it takes {LEAST_TRIALS}."


def _make_bar(importance: Importance, axis: SearchAxis, time: float | None, is_signed: bool) -> ImportanceBar:
    share, error = importance.share or 0.0, importance.error or 0.0
    return ImportanceBar(
        name=importance.name,
        share=importance.share,
        error=importance.error,
        low=max(0.0, share - error),
        high=min(1.0, share + error),
        time=time,
        is_signed=is_signed,
        sentence=axis.sentence,
    )
