"""Whether a trial has a usable result: a finite number for each optimised metric."""

from __future__ import annotations

import math
from collections.abc import Mapping

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialStatus
from podtune.api.tuning.objective import Objective
from podtune.protocol.messages import MetricValue, read_number
from podtune.runner.trial.results import find_best_value, parse_metrics
from podtune.trial.layout import TIMES


def describe_lack(status: TrialStatus, objective: Objective) -> str:
    """What the trial has not reported of what is optimised; empty where nothing is missing."""
    return "; ".join(_describe(status, metric) for metric in _list_missing(status, objective))


def is_lacking(status: TrialStatus, objective: Objective, last: Mapping[str, MetricValue]) -> bool:
    """Whether a trial still lacks something of what is optimised once its last result is known."""
    return any(not _is_finite(read_number(last, metric)) for metric in _list_missing(status, objective))


def describe_remedy(status: TrialStatus, spec: ExperimentSpec) -> str:
    """What to do about it."""
    names = [criterion.metric for criterion in spec.objective.criteria]
    field = "objective.metric" if len(names) == 1 else "objective"
    if status.last_result.keys() - TIMES:
        return f"report a finite number for {' and '.join(names)}, or correct {field}"
    if spec.results.stdout is not None:
        return "correct results.stdout.pattern, which has matched nothing that the program has printed"
    if spec.results.hugging_face is not None:
        return "train with transformers 5 or later, with an eval_strategy, for results.huggingFace has heard nothing"
    if spec.results.mlflow is not None:
        return (
            "have the program log to the tracking server in MLFLOW_TRACKING_URI, for results.mlflow has heard nothing"
        )
    if spec.results.scrape is not None:
        where = f"port {spec.results.scrape.port}, path {spec.results.scrape.path}"
        return f"have the program serve its metrics at {where}, for results.scrape has read none"
    if spec.results.tensor_board is not None:
        directory = f"$PODTUNE_DIR/{spec.results.tensor_board.directory}"
        return f"have the program log to {directory}, where results.tensorBoard has found nothing"
    if spec.results.wandb is not None:
        return "have the program log by wandb in the directory WANDB_DIR, where results.wandb has found no run"
    return (
        f"report {' and '.join(names)} by podtune.trial.report or as a line of JSON in $PODTUNE_DIR/results.jsonl, or "
        "set results.stdout to have read what the program prints"
    )


def _list_missing(status: TrialStatus, objective: Objective) -> list[str]:
    """The metrics without a finite number, as far as the status shows."""
    metric = objective.metric  # `best` is there only where a finite number of it was reported
    first = [metric] if find_best_value(status, metric) is None else []
    return [*first, *(other.metric for other in objective.others if not _is_shown(status, other.metric))]


def _is_shown(status: TrialStatus, metric: str) -> bool:
    values = (read_number(parse_metrics(result), metric) for result in (status.last_result, status.best))
    return any(_is_finite(value) for value in values)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _describe(status: TrialStatus, metric: str) -> str:
    if metric not in status.last_result:
        seen = ", ".join(sorted(status.last_result.keys() - TIMES)) or "none"
        return f"{metric} was never reported; metrics seen: {seen}"
    last = status.last_result[metric]
    value = read_number(parse_metrics(status.last_result), metric)
    if value is None or math.isfinite(value):  # a text that reads as a number is a text
        return f"{metric} was never a number (last: {last!r})"
    return f"{metric} was never a finite number (last: {last})"
