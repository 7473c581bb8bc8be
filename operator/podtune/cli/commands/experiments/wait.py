"""`podtune wait`: until an Experiment has come to where a script goes on."""

from __future__ import annotations

import operator
import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from podtune.api.names import ConditionType
from podtune.cli.client.api_client import Api, Change
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import ExperimentView, read_experiment
from podtune.cli.errors import CliError, NoSuchObject, TimeRanOut
from podtune.cli.options import Context, ExperimentName, Kubeconfig, NamedFormat, Namespace, read_duration_option
from podtune.cli.output import print_changed
from podtune.cli.views.progress import EXPERIMENT_CHANGED, Inbox, pump_changes
from podtune.kube import paths

COMPLETE = "complete"
_FAILED = "failed"
_COMPARISONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_COMPARED = re.compile(r"\s*(?P<what>best|trials)\s*(?P<how>>=|<=|>|<)\s*(?P<bound>\S+)\s*")


@dataclass(frozen=True, slots=True)
class Goal:
    """What is waited for.

    Attributes:
        written: As it was given.
        is_reached: Whether an Experiment has come to it; None where only its end tells.
        ending: The condition that an Experiment which ends may have for it; None where any end is too early.
    """

    written: str
    is_reached: Callable[[ExperimentView], bool] | None = None
    ending: ConditionType | None = None


@dataclass(frozen=True, slots=True)
class WaitOutcome:
    """How the wait ended."""

    is_reached: bool
    words: str


def wait_for_goal(
    experiment: ExperimentName,
    *,
    goal: Annotated[
        str, typer.Option("--for", metavar="GOAL", help="complete, failed, 'best>=0.9' or 'trials>=10' (done).")
    ] = COMPLETE,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="How long at most; else for ever.")
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait until an Experiment is complete, or has come to a value or a number of Trials.

    The exit code is 0 when it has, 1 when it never will, because the Experiment has ended, and 3 after --timeout.
    """
    wanted = parse_goal(goal)
    limit = None if timeout is None else read_duration_option(timeout, "--timeout")
    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    said = explain_outcome(experiment, await_goal(api, chosen, experiment, wanted, limit=limit))
    path = paths.experiment(chosen, experiment)
    print_changed([said], output, path, api.get)


def explain_outcome(experiment: str, outcome: WaitOutcome) -> str:
    """Says how a wait ended that has reached its goal.

    Raises:
        CliError: The goal will not be reached.
    """
    said = f"{experiment}: {outcome.words}"
    if not outcome.is_reached:
        raise CliError(said)
    return said


def parse_goal(written: str) -> Goal:
    """Reads what is to be waited for.

    Raises:
        typer.BadParameter: It is nothing that can be waited for.
    """
    if written.lower() == COMPLETE:
        return Goal(COMPLETE, ending=ConditionType.COMPLETE)
    if written.lower() == _FAILED:
        return Goal(_FAILED, ending=ConditionType.FAILED)
    match = _COMPARED.fullmatch(written)
    bound = _read_number(match["bound"]) if match is not None else None
    if match is None or bound is None:
        raise typer.BadParameter(f"--for: {written!r} is no goal; use complete, failed, 'best>=0.9' or 'trials>=10'")
    compare = _COMPARISONS[match["how"]]
    if match["what"] == "trials":
        return Goal(written, lambda view: compare(view.finished_trials, bound))
    return Goal(written, lambda view: (best := _read_best(view)) is not None and compare(best, bound))


def await_goal(
    api: Api,
    namespace: str,
    name: str,
    goal: Goal,
    *,
    limit: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> WaitOutcome:
    """Follows an Experiment by watch until it has come to a goal, or never will.

    Raises:
        NoSuchObject: There is no such Experiment.
        TimeRanOut: The limit is over.
        ApiError: The watch can't go on.
    """
    until = None if limit is None else clock() + limit
    inbox = Inbox()
    only = {"fieldSelector": f"metadata.name={name}"}
    # It ends with the process, or some minutes after the inbox is closed: a watch that waits can't be interrupted.
    threading.Thread(
        target=pump_changes, args=(api, EXPERIMENT_CHANGED, paths.experiments(namespace), only, inbox), daemon=True
    ).start()
    is_there, is_known = False, False
    try:
        while True:
            change = _take(inbox, None if until is None else max(0.0, until - clock()))
            if change is None:
                raise TimeRanOut(f"{name}: {goal.written} has not come within {limit:g} s")
            match change.kind:
                case "RELISTED":
                    is_there = False
                case "ADDED" | "MODIFIED":
                    is_there = is_known = True
                    outcome = _find_outcome(goal, read_experiment(change.object))
                    if outcome is not None:
                        return outcome
                case "SYNCED" if not is_there and not is_known:
                    raise NoSuchObject(
                        f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all"
                    )
                case "SYNCED" if is_there:
                    pass
                case "SYNCED" | "DELETED":
                    return WaitOutcome(False, "the experiment was deleted")
    finally:
        inbox.close()


def _take(inbox: Inbox, timeout: float | None) -> Change | None:
    """The next change; None where it has not come in time."""
    try:
        return inbox.take(timeout)[1]
    except queue.Empty:
        return None


def _find_outcome(goal: Goal, view: ExperimentView) -> WaitOutcome | None:
    """Whether there is anything more to wait for."""
    if goal.is_reached is not None and goal.is_reached(view):
        return WaitOutcome(True, _describe(view))
    for condition in (ConditionType.FAILED, ConditionType.COMPLETE, ConditionType.STALLED):
        held = view.find_true(condition)
        if held is not None:
            said = held.message or f"{condition}: {held.reason}"
            if condition == goal.ending:
                return WaitOutcome(True, said)
            return WaitOutcome(False, f"{goal.written} will not come: {said}")
    return None


def _describe(view: ExperimentView) -> str:
    best = view.status.best
    found = f", best {view.metric} {best.value} by {best.trial}" if best is not None else ""
    return f"{view.finished_trials} of {view.expected_trials} trials are done{found}"


def _read_best(view: ExperimentView) -> float | None:
    return None if view.status.best is None else _read_number(view.status.best.value)


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
