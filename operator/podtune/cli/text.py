"""What `list`, `describe` and `best` print: plain text in columns, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from podtune.cli.errors import CliError
from podtune.cli.parameter_text import parameter_lines
from podtune.cli.resources import ExperimentView, TrialView, age, short

GAP = "   "


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, each column as wide as its widest cell; an empty cell is a dash."""
    cells = [list(header), *([cell or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def experiment_list(views: Sequence[ExperimentView], now: datetime, *, with_namespace: bool) -> list[str]:
    """The lines of `list`."""
    header = ["NAME", "STATE", "TRIALS", "RUNNING", "PAUSED", "DONE", "FAILED", "BEST", "AGE"]
    rows = []
    for view in views:
        counts = view.counts
        numbers = (counts.running, counts.paused, counts.done, counts.failed)
        best = f"{view.metric} {short(view.best.value)}" if view.best else ""
        trials = f"{counts.total}/{view.max_trials}"
        row = [view.name, view.state, trials, *map(str, numbers), best, age(view.created, now)]
        rows.append([view.namespace, *row] if with_namespace else row)
    return columns(["NAMESPACE", *header] if with_namespace else header, rows)


def experiment_description(view: ExperimentView, trials: Sequence[TrialView], now: datetime) -> list[str]:
    """The lines of `describe`."""
    counts = view.counts
    limit = f"of {view.max_trials}" if isinstance(view.max_trials, int) else "without a limit"
    facts = {
        "Name": view.name,
        "Namespace": view.namespace,
        "State": view.state or "not seen by an operator yet",
        "Message": view.message,
        "Age": age(view.created, now),
        "Objective": ", ".join(f"{mode} {metric}" for metric, mode in view.objectives.items()),
        "Search": _search(view.spec.get("search", {})),
        "Scheduler": _one_of(view.spec.get("scheduler", {"fifo": {}})),
        "Stop": _settings(view.spec.get("stop", {})),
        "Trials": (
            f"{counts.total} {limit}: {counts.pending} pending, {counts.running} running, "
            f"{counts.paused} paused, {counts.done} done ({counts.stopped_early} stopped early), {counts.failed} failed"
        ),
    }
    if view.best:
        facts["Best"] = f"{view.metric} {view.best.whole_value} by {view.best.holder}"
        facts["Checkpoint"] = view.best.checkpoint
    width = max(map(len, facts)) + 2
    lines = [f"{name + ':':<{width}} {value}" for name, value in facts.items() if value]
    lines += ["", "Parameters:", *(f"  {line}" for line in parameter_lines(view.spec.get("parameters", ())))]
    if view.conditions:
        rows = [(c.type, c.status, c.reason, c.message) for c in view.conditions]
        lines += ["", *columns(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows)]
    if trials:
        lines += ["", *trial_list(trials, view.parameters, view.metric)]
    return lines


def trial_list(trials: Sequence[TrialView], names: Sequence[str], metric: str) -> list[str]:
    """A table of trials, with what they are trying (the parameters `names`) and how it goes."""
    header = ["TRIAL", "STATE", "REASON", "ATTEMPT", "FAILURES", *names, metric.upper(), "BEST"]
    rows = [
        [
            trial.name,
            trial.state,
            trial.reason,
            str(trial.attempt),
            str(trial.failures),
            *(short(trial.parameters.get(name, "")) for name in names),
            short(trial.last_result.get(metric, "")),
            short(trial.best_value),
        ]
        for trial in trials
    ]
    return columns(header, rows)


def best_facts(view: ExperimentView) -> dict[str, Any]:
    """What `best` says, in types that programs can go on with.

    Raises:
        CliError: There is no result yet.
    """
    if view.best is None:
        raise CliError(f"no trial of {view.name} has reported {view.metric} yet; `podtune watch {view.name}` waits")
    found = view.best.parameters
    kinds: dict[str, Mapping[str, Any]] = {
        parameter["name"]: parameter for parameter in view.spec.get("parameters", ())
    }
    facts: dict[str, Any] = {
        "experiment": view.name,
        "namespace": view.namespace,
        "trial": view.best.trial,
        "metric": view.metric,
        "value": _number(view.best.value),
        "parameters": {name: _typed(kinds[name], found[name]) for name in kinds if name in found},
        "checkpoint": view.best.checkpoint or None,
        **({"exported": view.best.exported} if view.best.exported else {}),
    }
    if view.best.repeats:
        facts |= {"spread": _number(view.best.spread), "repeats": view.best.repeats}
    if len(view.objectives) > 1:
        facts["paretoFront"] = [
            {"trial": point.trial, "values": {metric: _number(value) for metric, value in point.values.items()}}
            for point in view.front
        ]
    return facts


def best_lines(facts: Mapping[str, Any]) -> list[str]:
    """The lines of `best`, for people: of the Pareto front first, where there are several objectives."""
    lines = [f"{facts['metric']} {facts['value']} by {facts['trial']}"]
    if "repeats" in facts:
        others = f"{facts['trial']} and {facts['repeats'] - 1} more repeats"
        lines = [f"{facts['metric']} {facts['value']} ± {facts['spread']} by {others}"]
    width = max((len(name) for name in facts["parameters"]), default=0)
    lines += [f"  {name:<{width}}  {value}" for name, value in facts["parameters"].items()]
    lines.append(f"checkpoint: {facts['checkpoint'] or 'none is stored'}")
    if facts.get("exported"):
        lines.append(f"exported:   {facts['exported']}")
    return lines if "paretoFront" not in facts else [*_front_lines(facts["paretoFront"]), "", *lines]


def _front_lines(front: Sequence[Mapping[str, Any]]) -> list[str]:
    if not front:
        return ["no trial has finished yet, so there is no Pareto front; best by the first objective so far:"]
    metrics = list(front[0]["values"])
    rows = ([point["trial"], *(str(point["values"].get(metric, "")) for metric in metrics)] for point in front)
    return ["no other trial beats these in all objectives:", *columns(["TRIAL", *metrics], rows)]


def _typed(parameter: Mapping[str, Any], text: str) -> Any:
    """A value of a configuration in the type that its domain has."""
    for value in parameter.get("choice", {}).get("values", ()):
        written = json.dumps(value) if isinstance(value, bool) else str(value)
        if written == text:
            return value
    if "int" in parameter:
        return int(text)
    return float(text) if "float" in parameter else text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _search(search: Mapping[str, Any]) -> str:
    initial, source = search.get("initial") or (), search.get("warmStart") or {}
    rest = {name: value for name, value in search.items() if name not in ("initial", "warmStart")}
    if initial:
        rest["initial configurations"] = len(initial)
    if source:
        rest["warm start from"] = source.get("experiment", "")
    return _settings(rest)


def _one_of(union: Mapping[str, Any]) -> str:
    kind, settings = next(iter(union.items()), ("", {}))
    return f"{kind} ({_settings(settings)})" if settings else kind


def _settings(settings: Mapping[str, Any]) -> str:
    flat = []
    for name, value in settings.items():
        flat.append(_settings(value) if isinstance(value, Mapping) else f"{name} {value}")
    return ", ".join(part for part in flat if part)
