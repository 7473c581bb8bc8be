"""Who uses GPUs and who waits for them, by experiment, by trial and by node, as `podtune top` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, TrialState
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.views.columns import RankedColumn, render_columns, render_with_message
from podtune.cli.views.formats import format_age
from podtune.cli.views.live.gpus import GpuDemand, format_gpus
from podtune.cli.views.numbers import format_hours

SEVERAL_NODES = "several"
"""Stands for the nodes of a trial of several pods: its status names that of the first."""


@dataclass(frozen=True, slots=True)
class TrialUse:
    """A trial that runs, or waits to.

    Attributes:
        gpus: How many GPUs it has, or asks for.
        since: When it began to run or to wait (RFC 3339).
        node: Where it runs; empty where it waits.
    """

    view: TrialView
    gpus: float
    since: str
    node: str

    @property
    def is_running(self) -> bool:
        """Whether it has its GPUs."""
        return self.view.is_running


@dataclass(frozen=True, slots=True)
class ExperimentUse:
    """An experiment with its trials that run or wait, those that wait longest first."""

    view: ExperimentView
    trials: Sequence[TrialUse]

    def count_gpus(self, *, running: bool) -> float:
        """How many GPUs its trials have, or wait for."""
        return sum(use.gpus for use in self.trials if use.is_running is running)

    def count_trials(self, *, running: bool) -> int:
        """How many trials run, or wait."""
        return sum(use.is_running is running for use in self.trials)

    @property
    def waiting_since(self) -> str:
        """Since when one of its trials waits; empty where none does."""
        return min((use.since for use in self.trials if not use.is_running), default="")


def collect_use(view: ExperimentView, trials: Iterable[TrialView]) -> ExperimentUse:
    """Which trials of an experiment use GPUs, and which wait; a paused one does neither."""
    demand = GpuDemand(view)
    uses = [
        TrialUse(trial, demand.count(trial), _find_since(trial), _find_node(trial, demand.pods))
        for trial in trials
        if trial.state in (TrialState.RUNNING, TrialState.PENDING)
    ]
    return ExperimentUse(view, sorted(uses, key=lambda use: (use.is_running, use.since, use.view.index)))


def _find_since(trial: TrialView) -> str:
    """When it began to run or to wait: its condition says that, and before it has one, its creation."""
    running = find_condition(trial.status.conditions, ConditionType.RUNNING)
    return running.last_transition_time if running is not None else trial.created


def _find_node(trial: TrialView, pods: int) -> str:
    if not trial.is_running:
        return ""
    return SEVERAL_NODES if pods > 1 else trial.node


def render_use(
    uses: Sequence[ExperimentUse], now: datetime, width: int | None, *, with_namespace: bool = False
) -> list[str]:
    """The three tables: experiments, trials and nodes."""
    trials = [use for each in uses for use in each.trials]
    lines = render_columns(
        [
            *([RankedColumn("NAMESPACE", [use.view.namespace for use in uses])] if with_namespace else []),
            RankedColumn("EXPERIMENT", [use.view.name for use in uses]),
            RankedColumn("RUNNING", [str(use.count_trials(running=True)) for use in uses], 5, is_number=True),
            RankedColumn("GPUS", [format_gpus(use.count_gpus(running=True)) for use in uses], 6, is_number=True),
            RankedColumn("WAITING", [str(use.count_trials(running=False)) for use in uses], 4, is_number=True),
            RankedColumn("ASKED", [format_gpus(use.count_gpus(running=False)) for use in uses], 3, is_number=True),
            RankedColumn("LONGEST", [format_age(use.waiting_since, now) for use in uses], 2, is_number=True),
            RankedColumn("GPU-HOURS", [_format_hours(use.view) for use in uses], 1, is_number=True),
        ],
        width,
    )
    if trials:
        columns = [
            RankedColumn("TRIAL", [use.view.name for use in trials]),
            RankedColumn("STATE", [use.view.state for use in trials], 4),
            RankedColumn("GPUS", [format_gpus(use.gpus) for use in trials], 3, is_number=True),
            RankedColumn("SINCE", [format_age(use.since, now) for use in trials], 2, is_number=True),
            RankedColumn("NODE", [use.node for use in trials], 1),
        ]
        lines += ["", *render_with_message(columns, "WHY", list(map(_explain, trials)), width)]
    if nodes := _sum_by_node(trials):
        lines += [
            "",
            *render_columns(
                [
                    RankedColumn("NODE", [name for name, _, _ in nodes]),
                    RankedColumn("TRIALS", [str(count) for _, count, _ in nodes], 2, is_number=True),
                    RankedColumn("GPUS", [format_gpus(gpus) for _, _, gpus in nodes], 1, is_number=True),
                ],
                width,
            ),
        ]
    return lines


def _format_hours(view: ExperimentView) -> str:
    return format_hours(view.status.usage.gpu_hours) if view.status.usage is not None else ""


def _explain(use: TrialUse) -> str:
    """Why a trial waits; what one that runs has to say is in `describe`."""
    if use.is_running:
        return ""
    status = use.view.status
    reason = f"{status.reason}: {status.message}" if status.reason and status.message else status.reason
    return reason or "the operator has not seen it yet"


def _sum_by_node(trials: Iterable[TrialUse]) -> list[tuple[str, int, float]]:
    """The nodes with how many trials and GPUs are on each, by name."""
    found: dict[str, tuple[int, float]] = {}
    for use in trials:
        if use.is_running and use.node:
            count, gpus = found.get(use.node, (0, 0.0))
            found[use.node] = (count + 1, gpus + use.gpus)
    return [(name, count, gpus) for name, (count, gpus) in sorted(found.items())]


def collect_use_facts(uses: Sequence[ExperimentUse]) -> dict[str, Any]:
    """The same for programs."""
    trials = [use for each in uses for use in each.trials]
    return {
        "items": [
            {
                "experiment": use.view.name,
                "namespace": use.view.namespace,
                "running": use.count_trials(running=True),
                "gpus": use.count_gpus(running=True),
                "waiting": use.count_trials(running=False),
                "gpusAsked": use.count_gpus(running=False),
                "waitingSince": use.waiting_since or None,
                "gpuHours": use.view.status.usage.gpu_hours if use.view.status.usage is not None else None,
                "trials": [_collect_trial_use(each) for each in use.trials],
            }
            for use in uses
        ],
        "nodes": [{"node": name, "trials": count, "gpus": held} for name, count, held in _sum_by_node(trials)],
    }


def _collect_trial_use(use: TrialUse) -> dict[str, Any]:
    return {
        "trial": use.view.name,
        "state": use.view.state,
        "gpus": use.gpus,
        "since": use.since or None,
        "node": use.node or None,
        "reason": use.view.status.reason,
        "message": use.view.status.message,
    }
