"""What `list` and `describe` say to programs: the same as to people, in types that JSON has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podtune.api.conditions import Condition
from podtune.api.resources.experiment import TrialCounts
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.errors import CliError
from podtune.cli.views import tables
from podtune.cli.views.troubles import find_experiment_troubles, find_trial_trouble


def collect_experiment_facts(view: ExperimentView) -> dict[str, Any]:
    """An Experiment: how far it is, what it has found, and what is wrong."""
    return {
        "experiment": view.name,
        "namespace": view.namespace,
        "state": view.state or None,
        "message": view.status.message,
        "created": view.created or None,
        "started": view.status.start_time or None,
        "completed": view.status.completion_time or None,
        "maxTrials": view.max_trials,
        "trials": _collect_counts(view.status.trials),
        "best": _collect_best(view),
        "troubles": find_experiment_troubles(view),
    }


def collect_description(view: ExperimentView, trials: Sequence[TrialView]) -> dict[str, Any]:
    """The same with what was asked for, the conditions, and all Trials."""
    return {
        **collect_experiment_facts(view),
        "spec": view.spec,
        "conditions": _list_conditions(view.status.conditions),
        "items": collect_trials(view, trials),
    }


def collect_trials(view: ExperimentView, trials: Sequence[TrialView]) -> list[dict[str, Any]]:
    """Trials with all that is known of them."""
    parameters: Sequence[Mapping[str, Any]] = view.spec.get("parameters", ())
    return [_collect_trial(trial, parameters) | {"template": trial.find_revision(view) or None} for trial in trials]


def _collect_trial(trial: TrialView, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "index": trial.index,
        "displayName": trial.display_name or None,
        "state": trial.state,
        "reason": trial.status.reason,
        "message": trial.status.message,
        "trouble": find_trial_trouble(trial) or None,
        "attempt": trial.status.attempt,
        "limits": dict(trial.status.limits) or None,
        "failures": trial.status.failures,
        "evaluation": _collect_evaluation(trial),
        "pod": trial.pod or None,
        "node": trial.node or None,
        "parameters": tables.convert_configuration(parameters, trial.parameters),
        "lastResult": tables.read_numbers(trial.status.last_result),
        "bestValue": tables.read_numbers({"": trial.status.best_value})[""] if trial.status.best_value else None,
        "curve": trial.status.curve.to_arrays() if trial.status.curve else None,
        "checkpoint": trial.status.checkpoint.uri if trial.status.checkpoint else None,
        "logTail": trial.log_tail.splitlines(),
        "conditions": _list_conditions(trial.status.conditions),
    }


def _collect_evaluation(trial: TrialView) -> dict[str, Any] | None:
    evaluation = trial.status.evaluation
    if evaluation is None:
        return None
    return {
        "step": evaluation.step,
        "checkpoint": evaluation.uri,
        "since": evaluation.since,
        "failures": evaluation.failures,
        "result": tables.read_numbers(evaluation.result),
    }


def _collect_best(view: ExperimentView) -> dict[str, Any] | None:
    try:
        facts = tables.collect_best(view)
    except CliError:  # there is no result yet
        return None
    return {name: value for name, value in facts.items() if name not in ("experiment", "namespace")}


def _list_conditions(conditions: Iterable[Condition]) -> list[dict[str, str]]:
    return [condition.model_dump(include={"type", "status", "reason", "message"}) for condition in conditions]


def _collect_counts(counts: TrialCounts) -> dict[str, int]:
    return {
        "total": counts.total,
        "pending": counts.pending,
        "running": counts.running,
        "paused": counts.paused,
        "done": counts.terminated,
        "failed": counts.error,
        "stoppedEarly": counts.stopped_early,
    }
