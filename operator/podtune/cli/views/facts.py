"""What `list` and `describe` say to programs: the same as to people, in types that JSON has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from podtune.cli.client.resources import Counts, ExperimentView, TrialView
from podtune.cli.errors import CliError
from podtune.cli.views import tables
from podtune.cli.views.troubles import experiment_troubles, trial_trouble


def experiment_facts(view: ExperimentView) -> dict[str, Any]:
    """An Experiment: how far it is, what it has found, and what is wrong."""
    return {
        "experiment": view.name,
        "namespace": view.namespace,
        "state": view.state or None,
        "message": view.message,
        "created": view.created or None,
        "started": view.start_time or None,
        "completed": view.completion_time or None,
        "maxTrials": view.max_trials,
        "trials": _counts(view.counts),
        "best": _best(view),
        "troubles": experiment_troubles(view),
    }


def description_facts(view: ExperimentView, trials: Sequence[TrialView]) -> dict[str, Any]:
    """The same with what was asked for, the conditions, and all Trials."""
    parameters: Sequence[Mapping[str, Any]] = view.spec.get("parameters", ())
    return {
        **experiment_facts(view),
        "spec": view.spec,
        "conditions": [asdict(condition) for condition in view.conditions],
        "items": [_trial(trial, parameters) for trial in trials],
    }


def _trial(trial: TrialView, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "index": trial.index,
        "state": trial.state,
        "reason": trial.reason,
        "message": trial.message,
        "trouble": trial_trouble(trial) or None,
        "attempt": trial.attempt,
        "failures": trial.failures,
        "pod": trial.pod or None,
        "node": trial.node or None,
        "parameters": tables.typed_configuration(parameters, trial.parameters),
        "lastResult": tables.numbers(trial.last_result),
        "bestValue": tables.numbers({"": trial.best_value})[""] if trial.best_value else None,
        "checkpoint": trial.checkpoint or None,
        "logTail": trial.log_tail.splitlines(),
        "conditions": [asdict(condition) for condition in trial.conditions],
    }


def _best(view: ExperimentView) -> dict[str, Any] | None:
    try:
        facts = tables.best_facts(view)
    except CliError:  # there is no result yet
        return None
    return {name: value for name, value in facts.items() if name not in ("experiment", "namespace")}


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "total": counts.total,
        "pending": counts.pending,
        "running": counts.running,
        "paused": counts.paused,
        "done": counts.done,
        "failed": counts.failed,
        "stoppedEarly": counts.stopped_early,
    }
