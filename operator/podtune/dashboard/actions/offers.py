"""Which actions the state of an Experiment or a Trial allows, and what each will do, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from podtune.api.names import TrialReason, TrialState
from podtune.cli.commands.lifecycle import FINISHED
from podtune.cli.commands.retry import find_current_attempt
from podtune.dashboard.numbers import format_measure
from podtune.dashboard.trial_rows import ExperimentRows, ShownState, TrialRow

_WAITING = frozenset({TrialReason.BACKING_OFF, TrialReason.NOT_PLACED})
"""Reasons of trials whose next attempt waits for a moment."""


_ENDS = "The experiment ends for good; results and checkpoints are kept."


class ViewerAction(StrEnum):
    """What a viewer may ask for."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that the present state allows.

    Attributes:
        sentence: What will happen.
        attempt: Number of the attempt that it is about; 0 where it is about no attempt.
        is_final: Whether nothing takes it back.
    """

    action: ViewerAction
    sentence: str
    attempt: int = 0
    is_final: bool = False


def list_offers(experiment: ExperimentRows, row: TrialRow | None) -> list[Offer]:
    """The actions on a trial, or on its experiment where no trial is given."""
    return _list_trial_offers(experiment, row) if row is not None else _list_experiment_offers(experiment)


def _list_experiment_offers(experiment: ExperimentRows) -> list[Offer]:
    spec, counts = experiment.view.spec, experiment.counts
    if experiment.view.state in FINISHED or (spec.get("stop") or {}).get("now"):
        return []
    running, waiting = counts[ShownState.RUNNING], counts[ShownState.PENDING] + counts[ShownState.PAUSED]
    stop = Offer(ViewerAction.STOP, f"{_say_stop(experiment, running, waiting)} {_ENDS}", is_final=True)
    if spec.get("suspend"):
        return [Offer(ViewerAction.RESUME, _say_resume(waiting)), stop]
    return [
        Offer(
            ViewerAction.PAUSE, f"{_say_pause(experiment, running)} No trial starts until the experiment is resumed."
        ),
        stop,
    ]


def _list_trial_offers(experiment: ExperimentRows, row: TrialRow) -> list[Offer]:
    if row.view.has_ended or not row.view.state:
        return []
    offers = []
    if row.view.status.reason == TrialReason.PAUSED_BY_USER:
        offers.append(Offer(ViewerAction.RESUME, "It goes on from its last checkpoint as soon as a slot is free."))
    elif not row.view.is_running:
        offers.append(Offer(ViewerAction.PAUSE, "It does not start until somebody resumes it."))
    elif _has_store(experiment):
        offers.append(
            Offer(
                ViewerAction.PAUSE, "It saves a checkpoint and gives its GPUs back. It waits until somebody resumes it."
            )
        )
    if sentence := _say_retry(experiment, row):
        offers.append(Offer(ViewerAction.RETRY, sentence, attempt=find_current_attempt(row.view)))
    value = f" Its best value so far, {format_measure(row.value)}, is kept." if row.value is not None else ""
    pods = "It gives its GPUs back" if row.view.is_running else "It starts no more"
    return [*offers, Offer(ViewerAction.STOP, f"{pods}, and ends for good.{value}", is_final=True)]


def _say_pause(experiment: ExperimentRows, running: int) -> str:
    if not running:
        return "No trial is running."
    if not _has_store(experiment):
        each = "It loses its progress, gives its" if running == 1 else "They lose their progress, give their"
        return f"{_count(running, 'is running', 'are running')}. {each} GPUs back, and later start from scratch."
    each = "It saves a checkpoint and gives its" if running == 1 else "They save a checkpoint and give their"
    return f"{_count(running, 'is running', 'are running')}. {each} GPUs back."


def _say_resume(waiting: int) -> str:
    if not waiting:
        return "Trials start again."
    each = "goes" if waiting == 1 else "go"
    return f"{_count(waiting, 'is waiting', 'are waiting')} and {each} on as soon as slots are free; others may follow."


def _say_stop(experiment: ExperimentRows, running: int, waiting: int) -> str:
    parts = []
    if running:
        ends = "ends" if running == 1 else "end"
        where = " after its last checkpoint" if running == 1 else " after their last checkpoints"
        stored = where if _has_store(experiment) else " at once"
        parts.append(f"{_count(running, 'is running', 'are running')} and {ends}{stored}.")
    if waiting:
        parts.append(f"{_count(waiting, 'that waits', 'that wait')} {'starts' if waiting == 1 else 'start'} no more.")
    return " ".join(parts) or "No trial is running."


def _say_retry(experiment: ExperimentRows, row: TrialRow) -> str:
    """What a retry does, as `podtune retry` does it; empty where it would refuse."""
    reason, attempt = row.view.status.reason, find_current_attempt(row.view)
    if row.view.state == TrialState.PAUSED or reason in ("", TrialReason.QUEUED, TrialReason.PAUSED_BY_USER):
        return ""
    if reason in _WAITING:
        return f"Attempt {attempt} starts as soon as a slot is free, without waiting longer."
    if not row.view.is_running:
        return f"The pods of attempt {attempt} are replaced by new ones, made from the present template."
    if not _has_store(experiment):
        return f"Attempt {attempt} ends. As there is no checkpoint store, the next one starts from scratch."
    return f"Attempt {attempt} saves a checkpoint and ends. The next one goes on from there, with the present template."


def _has_store(experiment: ExperimentRows) -> bool:
    return bool((experiment.view.spec.get("checkpoints") or {}).get("store"))


def _count(number: int, one: str, many: str) -> str:
    return f"1 trial {one}" if number == 1 else f"{number:,} trials {many}"
