"""What GPUs were held for: training that counted, training that was lost, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from podtune.api.names import DecisionKind, TrialState
from podtune.api.pods.gpus import count_requested_gpus
from podtune.dashboard.charts.timeline.collection import TracedTrial, read_history
from podtune.dashboard.charts.timeline.spans import Activity, TrialHistory
from podtune.dashboard.decisions import JUMPS
from podtune.dashboard.keeping import keep_by_trial_from, keep_chart
from podtune.dashboard.numbers import read_finite
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow

_HOUR = 3600
_OTHERS_WEIGHTS = JUMPS | {DecisionKind.RECREATE}
"""After such a decision, training time on record is that of weights from elsewhere."""


class Purpose(StrEnum):
    """What a GPU was held for."""

    TRAINED = "trained"
    FAILED = "failed"
    LOST = "lost"
    EVALUATED = "evaluated"
    HELD = "held"
    SAVED = "saved"


PURPOSE_WORDS = {
    Purpose.TRAINED: ("Trained", "training that led to the results on record"),
    Purpose.FAILED: ("Failed trials", "training of trials that failed for good; their results are on record"),
    Purpose.LOST: ("Lost", "training after the last checkpoint of attempts that failed or were taken away"),
    Purpose.EVALUATED: ("Evaluated", "the evaluation of trained checkpoints"),
    Purpose.HELD: ("Waited", "pods on a node whose program did not run: images, restoring, ending"),
    Purpose.SAVED: ("Saved and ended", "programs that ran on after their last result or after the decision to end"),
}
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class PurposeShare:
    """The time that went into one purpose.

    Attributes:
        hours: Of all trials together.
        share: Of all the time, from 0 to 1.
        trials: How many trials have some.
    """

    purpose: Purpose
    label: str
    meaning: str
    hours: float
    share: float
    trials: int


@dataclass(frozen=True, slots=True)
class PurposePlot:
    """The chart.

    Attributes:
        unit: What is counted: GPU-hours, or hours of pods where no GPU is on record.
        untold: How many trials run with weights from elsewhere, so that losses can't be told from training.
        unused: How many trials have no usage on record.
    """

    unit: str
    shares: Sequence[PurposeShare]
    total: float
    untold: int
    unused: int


@dataclass(frozen=True, slots=True)
class _DividedTime:
    """The time of one trial.

    Attributes:
        shares: In the order of the purposes.
        is_untold: Whether it runs with weights from elsewhere and has failed in between.
    """

    gpu_hours: float
    pod_hours: float
    shares: Sequence[float]
    is_untold: bool


@keep_chart
def draw_purposes(experiment: ExperimentRows) -> PurposePlot | None:
    """What the time of all trials went into; None where no usage is on record."""
    divided = _read_times.read_all(experiment, experiment.ranks, _count_training_gpus(experiment))
    used = [each for each in divided if each is not None]
    if not used:
        return None
    has_gpus = any(each.gpu_hours for each in used)
    wholes = [each.gpu_hours if has_gpus else each.pod_hours for each in used]
    amounts = {
        purpose: [whole * each.shares[place] for whole, each in zip(wholes, used, strict=True)]
        for place, purpose in enumerate(Purpose)
    }
    sums = {purpose: sum(each) for purpose, each in amounts.items()}
    total = sum(sums.values())
    return PurposePlot(
        unit="GPU-hours" if has_gpus else "pod-hours",
        shares=[
            PurposeShare(
                purpose=purpose,
                label=label,
                meaning=meaning,
                hours=sums[purpose],
                share=sums[purpose] / total if total else 0.0,
                trials=sum(amount > 0 for amount in amounts[purpose]),
            )
            for purpose, (label, meaning) in PURPOSE_WORDS.items()
            if sums[purpose] > 0 or purpose in (Purpose.TRAINED, Purpose.LOST, Purpose.HELD)
        ],
        total=total,
        untold=sum(each.is_untold for each in used),
        unused=len(experiment.rows) - len(used),
    )


def _count_training_gpus(experiment: ExperimentRows) -> float:
    """How many GPUs an attempt at training holds, if the evaluation after it holds none; else 0."""
    spec = experiment.view.spec
    evaluation = ((spec.get("evaluation") or {}).get("template") or {}).get("spec") or {}
    if not evaluation or count_requested_gpus(evaluation):
        return 0.0
    return experiment.ranks * count_requested_gpus((spec.get("trialTemplate") or {}).get("spec") or {})


@keep_by_trial_from(read_history)
def _read_times(traced: TracedTrial, replicas: int, gpus: float) -> _DividedTime | None:
    row, pods = traced.row, _measure_pods(traced.row)
    if pods <= 0:
        return None
    shares = divide_time(row, traced.history, replicas, gpus)
    is_untold = _has_others_weights(row) and _count_failures(row) > 0
    return _DividedTime(row.gpu_hours or 0.0, pods / _HOUR, [shares[purpose] for purpose in Purpose], is_untold)


def divide_time(row: TrialRow, history: TrialHistory, replicas: int = 1, gpus: float = 0.0) -> Mapping[Purpose, float]:
    """The shares of a trial's time on nodes that went into each purpose; they add up to 1.

    A status has sums: how long pods were on nodes and how long the program ran. The time in the last result leaves out
    what a retry had to repeat, for a checkpoint brings the time that went into it. The rest is told from the history.

    Args:
        row: The trial.
        history: What it was doing when.
        replicas: How many pods an attempt at training has.
        gpus: How many GPUs these hold, if an evaluation holds none: its time is left out then. 0 counts all time.
    """
    usage, evaluation = row.view.status.usage, row.view.status.evaluation
    pods = _measure_pods(row) / replicas
    if usage is None or pods <= 0:
        return dict.fromkeys(Purpose, 0.0) | {Purpose.HELD: 1.0}
    program = min(float(usage.training_seconds), pods)
    training = min(float(evaluation.training_seconds), program) if evaluation is not None else program
    seconds = dict.fromkeys(Purpose, 0.0)
    seconds[Purpose.EVALUATED] = program - training
    kept = min(_measure_kept(row, training), training)
    saving = _add_up(history, Activity.SAVING)
    saved = min(saving, training - kept)
    if _count_failures(row) > 0 or row.view.state == TrialState.ERROR:
        seconds[Purpose.LOST] = training - kept - saved
    elif row.ended is None:
        kept = training - saved  # the iteration that is under way
    else:
        saved = training - kept
    if row.view.state == TrialState.ERROR:
        seconds[Purpose.FAILED], kept = kept, 0.0
    idle = pods - program
    ending = min(max(saving - saved, 0.0), idle)
    seconds |= {Purpose.TRAINED: kept, Purpose.SAVED: saved + ending, Purpose.HELD: idle - ending}
    if gpus and evaluation is not None:
        spent = sum(seconds.values()) - seconds[Purpose.EVALUATED] - seconds[Purpose.HELD]
        held = max(usage.gpu_seconds / gpus - spent, 0.0)
        seconds |= {Purpose.EVALUATED: 0.0, Purpose.HELD: held}
        pods = spent + held
    return {purpose: amount / pods for purpose, amount in seconds.items()} if pods else seconds


def _measure_kept(row: TrialRow, training: float) -> float:
    """The training time in the last result; where that says nothing, all of it."""
    told = read_finite(row.view.status.last_result.get("time_total_s"))
    if told is None:
        return training if row.view.status.last_result or not _count_failures(row) else 0.0
    return training if _has_others_weights(row) else max(told, 0.0)


def _has_others_weights(row: TrialRow) -> bool:
    status = row.view.status
    has_source = status.clone is not None or status.restore_source is not None or status.former is not None
    has_changed = bool(status.parameters) and not status.overrides  # its exploits may have left the ledger
    return has_source or has_changed or any(entry.action in _OTHERS_WEIGHTS for entry in status.ledger)


def _count_failures(row: TrialRow) -> int:
    status = row.view.status
    return status.failures + status.disruptions + status.infrastructure_failures + status.ignored


def _measure_pods(row: TrialRow) -> float:
    usage = row.view.status.usage
    return float(usage.pod_seconds) if usage is not None else 0.0


def _add_up(history: TrialHistory, activity: Activity) -> float:
    return sum(span.seconds for span in history.spans if span.activity is activity)
