"""What `list`, `describe` and `best` print: plain text in columns, placed by the width of a terminal, if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from podtune.api.json_values import canonicalize
from podtune.api.names import ExperimentState
from podtune.api.tuning.search_space import format_value, parse_plain_value
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.errors import CliError
from podtune.cli.views.columns import (
    INDENT,
    RankedColumn,
    align_columns,
    align_labels,
    align_with_message,
    render_columns,
    render_with_message,
    wrap_line,
)
from podtune.cli.views.formats import format_age, format_best_holder, format_best_value, format_curve
from podtune.cli.views.numbers import format_hours, format_number
from podtune.cli.views.parameter_text import describe_parameters
from podtune.cli.views.troubles import explain_trial, find_experiment_troubles, find_troubled_trials

SHOWN_LOGS = 3
"""For how many failed trials the last lines of the log are shown."""
_TRIES = ("attempt", "failures")
SHOWN_NAMES = 8
"""How many trials that need attention are named at the top."""


def render_list(
    views: Sequence[ExperimentView],
    now: datetime,
    width: int | None = None,
    *,
    with_namespace: bool,
    is_wide: bool = False,
) -> list[str]:
    """The lines of `list`; without a `width`, all columns."""
    counts, bests = [view.status.trials for view in views], [view.status.best for view in views]
    found = [f"{v.metric} {format_number(b.value)}" if b else "" for v, b in zip(views, bests, strict=True)]
    columns = [
        *([RankedColumn("NAMESPACE", [view.namespace for view in views])] if with_namespace else []),
        RankedColumn("NAME", [view.name for view in views]),
        RankedColumn("STATE", [view.state for view in views], 8),
        RankedColumn("TRIALS", [f"{view.status.trials.total}/{view.max_trials}" for view in views], 6),
        RankedColumn("RUNNING", [str(each.running) for each in counts], 5, is_number=True),
        RankedColumn("PAUSED", [str(each.paused) for each in counts], 1, is_number=True),
        RankedColumn("DONE", [str(each.terminated) for each in counts], 2, is_number=True),
        RankedColumn("FAILED", [str(each.error) for each in counts], 4, is_number=True),
        RankedColumn("BEST", found, 7),
        RankedColumn("AGE", [format_age(view.created, now) for view in views], 3),
    ]
    if is_wide:
        usages = [view.status.usage for view in views]
        columns += [
            RankedColumn("BEST-TRIAL", [best.trial if best else "" for best in bests]),
            RankedColumn("GPU-HOURS", [format_hours(u.gpu_hours) if u else "" for u in usages], is_number=True),
            RankedColumn("MESSAGE", [view.status.message for view in views]),
        ]
    return render_columns(columns, None if is_wide else width)


def render_description(
    view: ExperimentView, trials: Sequence[TrialView], now: datetime, width: int | None = None
) -> list[str]:
    """The lines of `describe`; without a `width` they have no end."""
    lines = align_labels(_collect_facts(view, trials, now), width)
    lines += ["", "Parameters:", *_wrap_parameters(view, width)]
    if view.status.conditions:
        rows = [(c.type, c.status, c.reason, c.message) for c in view.status.conditions]
        lines += ["", *align_with_message(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows, width)]
    if trials:
        lines += ["", *render_trials(trials, view.parameters, view.metric, width)]
    return lines + _render_last_lines(trials)


def _wrap_parameters(view: ExperimentView, width: int | None) -> list[str]:
    lines = describe_parameters(view.spec.get("parameters", ()))
    return [part for line in lines for part in wrap_line(f"  {line}", width)]


def _collect_facts(view: ExperimentView, trials: Sequence[TrialView], now: datetime) -> dict[str, str]:
    counts, best = view.status.trials, view.status.best
    limit = f"of {view.max_trials}" if isinstance(view.max_trials, int) else "without a limit"
    facts = {
        "Name": view.name,
        "Namespace": view.namespace,
        "State": view.state or "not seen by an operator yet",
        "Message": view.status.message,
        "Attention": "; ".join([*find_experiment_troubles(view), *_list_attention(trials)]),
        "Age": format_age(view.created, now),
        "Objective": ", ".join(f"{mode} {metric}" for metric, mode in view.objectives.items()),
        "Search": _search(view.spec.get("search", {})),
        "Scheduler": _format_one_of(view.spec.get("scheduler", {"fifo": {}})),
        "Stop": _format_settings(view.spec.get("stop", {})),
        "Trials": (
            f"{counts.total} {limit}: {counts.pending} pending, {counts.running} running, "
            f"{counts.paused} paused, {counts.terminated} done ({counts.stopped_early} stopped early), "
            f"{counts.error} failed"
        ),
    }
    if template := _describe_template(view, trials):
        facts["Template"] = template
    if best:
        facts["Best"] = f"{view.metric} {format_best_value(best)} by {format_best_holder(best)}"
        facts["Checkpoint"] = best.checkpoint
    return facts


def _describe_template(view: ExperimentView, trials: Sequence[TrialView]) -> str:
    """The present revision of the trial template, and who runs an earlier one; empty where there has been but one."""
    template = view.status.template
    if template is None or not template.revisions or template.revisions[-1].number == 1:
        return ""
    present = template.revisions[-1]
    text = f"revision {present.number} ({present.name})"
    for revision in template.revisions[:-1]:
        names = [trial.name for trial in trials if trial.is_running and trial.find_revision(view) == revision.name]
        if names:
            others = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
            verb = "runs" if len(names) == 1 else "run"
            text += f"; {', '.join(names[:SHOWN_NAMES])}{others} {verb} revision {revision.number} ({revision.name})"
    return text


def _list_attention(trials: Sequence[TrialView]) -> list[str]:
    """Which trials somebody should look at; their messages say why."""
    names = [trial.name for trial, _ in find_troubled_trials(trials)]
    if not names:
        return []
    others = len(names) - SHOWN_NAMES
    return [f"look at {', '.join(names[:SHOWN_NAMES])}{f' and {others} more' if others > 0 else ''}"]


def render_trials(
    trials: Sequence[TrialView], names: Sequence[str], metric: str, width: int | None = None
) -> list[str]:
    """A table of trials, with what they are trying (the parameters `names`), how it goes, and what is to be said.

    Where a terminal is too narrow for it, what is tried is said in a sentence below each row. Learning curves are for
    terminals that have room for them: programs that read a pipe want numbers.
    """
    wide = ["TRIAL", "STATE", "REASON", *(name.upper() for name in _TRIES), *names, metric.upper(), "BEST"]
    cells = [_format_cells(trial, names, metric) for trial in trials]
    curves = [format_curve(trial.status.curve) for trial in trials]
    with_curves = [[*row, curve] for row, curve in zip(cells, curves, strict=True)]
    if width is not None and any(curves) and _measure_width([*wide, "CURVE"], with_curves) <= width:
        rows = [[*row, explain_trial(trial)] for row, trial in zip(with_curves, trials, strict=True)]
        return align_with_message([*wide, "CURVE", "MESSAGE"], rows, width)
    if width is None or _measure_width(wide, cells) <= width:
        rows = [[*row, explain_trial(trial)] for row, trial in zip(cells, trials, strict=True)]
        return align_with_message([*wide, "MESSAGE"], rows, width)
    by_column = list(zip(*cells, strict=True))
    return render_with_message(
        [
            RankedColumn(wide[0], by_column[0]),
            RankedColumn(wide[1], by_column[1], 4),
            RankedColumn(wide[2], by_column[2], 1),
            RankedColumn(wide[-2], by_column[-2], 3),
            RankedColumn(wide[-1], by_column[-1], 2),
        ],
        "MESSAGE",
        [_describe_trial([*_TRIES, *names], row[3:-2], trial) for row, trial in zip(cells, trials, strict=True)],
        width,
    )


def _measure_width(header: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    return max(map(len, align_columns(header, cells)))


def _format_cells(trial: TrialView, names: Sequence[str], metric: str) -> list[str]:
    return [
        trial.title,
        trial.state,
        trial.status.reason,
        str(trial.status.attempt),
        str(trial.status.failures),
        *(format_number(trial.parameters.get(name, "")) for name in names),
        format_number(trial.status.last_result.get(metric, "")),
        format_number(trial.status.best_value),
    ]


def _describe_trial(names: Sequence[str], cells: Sequence[str], trial: TrialView) -> str:
    """What has no column, and the trial's message."""
    given = ((name, cell) for name, cell in zip(names, cells, strict=True) if cell)
    values = ", ".join(f"{name} {cell}" for name, cell in given)
    return "; ".join(part for part in (values, explain_trial(trial)) if part)


def _render_last_lines(trials: Sequence[TrialView]) -> list[str]:
    """What the programs that failed have printed last, of the latest few."""
    failed = [trial for trial in trials if trial.log_tail and trial.has_failed]
    lines = []
    for trial in failed[-SHOWN_LOGS:]:
        lines += [
            "",
            f"Last lines of attempt {trial.tail_attempt} of {trial.name}:",
            *(f"{INDENT}{line}" for line in trial.log_tail.splitlines()),
        ]
    if len(failed) > SHOWN_LOGS:
        lines += ["", f"{len(failed) - SHOWN_LOGS} more trials have failed: `podtune logs TRIAL` prints their lines."]
    return lines


def collect_best(view: ExperimentView) -> dict[str, Any]:
    """What `best` says, in types that programs can go on with.

    Raises:
        CliError: There is no result yet.
    """
    best = view.status.best
    if best is None:
        raise CliError(_explain_no_result(view))
    kinds: dict[str, Mapping[str, Any]] = {
        parameter["name"]: parameter for parameter in view.spec.get("parameters", ())
    }
    facts: dict[str, Any] = {
        "experiment": view.name,
        "namespace": view.namespace,
        "trial": best.trial,
        "metric": view.metric,
        "value": _parse_number(best.value),
        "parameters": {n: _convert(kinds[n], best.parameters[n]) for n in kinds if n in best.parameters},
        "checkpoint": best.checkpoint or None,
        **({"exported": best.exported} if best.exported else {}),
    }
    if best.repeats:
        facts |= {"spread": _parse_number(best.spread), "repeats": best.repeats}
    if len(view.objectives) > 1:
        facts["paretoFront"] = [
            {"trial": point.trial, "values": {metric: _parse_number(value) for metric, value in point.values.items()}}
            for point in view.status.pareto_front
        ]
    return facts


def convert_configuration(parameters: Sequence[Mapping[str, Any]], values: Mapping[str, str]) -> dict[str, Any]:
    """A trial's configuration, in the types of the search space."""
    kinds = {parameter["name"]: parameter for parameter in parameters}
    return {name: _convert(kinds.get(name, {}), value) for name, value in values.items()}


def read_numbers(values: Mapping[str, str]) -> dict[str, float | str]:
    """A result, as numbers where its values are such."""
    return {name: _parse_number(value) for name, value in values.items()}


def _explain_no_result(view: ExperimentView) -> str:
    """Why there is no best trial, and what to do."""
    if view.state not in (ExperimentState.COMPLETE, ExperimentState.FAILED):
        return f"no trial of {view.name} has reported {view.metric} yet; `podtune watch {view.name}` waits"
    return (
        f"{view.name} has ended, and no trial has reported a finite number for {view.metric}: {view.status.message}; "
        f"`podtune describe {view.name}` shows what became of each"
    )


def render_best(facts: Mapping[str, Any]) -> list[str]:
    """The lines of `best`, for people: of the Pareto front first, where there are several objectives.

    Parameters have all their digits, as somebody will train with them.
    """
    value = format_number(str(facts["value"]))
    lines = [f"{facts['metric']} {value} by {facts['trial']}"]
    if "repeats" in facts:
        others = f"{facts['trial']} and {facts['repeats'] - 1} more repeats"
        lines = [f"{facts['metric']} {value} ± {format_number(str(facts['spread']))} by {others}"]
    width = max((len(name) for name in facts["parameters"]), default=0)
    lines += [f"  {name:<{width}}  {value}" for name, value in facts["parameters"].items()]
    lines.append(f"checkpoint: {facts['checkpoint'] or 'none is stored'}")
    if facts.get("exported"):
        lines.append(f"exported:   {facts['exported']}")
    return lines if "paretoFront" not in facts else [*_render_front(facts["paretoFront"]), "", *lines]


def _render_front(front: Sequence[Mapping[str, Any]]) -> list[str]:
    if not front:
        return ["no trial has finished yet, so there is no Pareto front; best by the first objective so far:"]
    metrics = list(front[0]["values"])
    rows = (
        [point["trial"], *(format_number(str(point["values"].get(metric, ""))) for metric in metrics)]
        for point in front
    )
    return ["no other trial beats these in all objectives:", *align_columns(["TRIAL", *metrics], rows)]


def _convert(parameter: Mapping[str, Any], text: str) -> Any:
    """A value of a configuration in the type that its domain has."""
    fixed = parameter.get("fixed", {})
    for value in (*parameter.get("choice", {}).get("values", ()), *([fixed["value"]] if "value" in fixed else [])):
        written = canonicalize(value) if isinstance(value, list | dict) else format_value(value)
        if written == text:
            return value
    try:
        if "int" in parameter:
            return int(text)
        if any(kind in parameter for kind in ("float", "normal", "logNormal")):
            return float(text)
    except ValueError:
        return text
    return parse_plain_value(text)


def _parse_number(text: str) -> float | str:
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
    return _format_settings(rest)


def _format_one_of(union: Mapping[str, Any]) -> str:
    kind, settings = next(iter(union.items()), ("", {}))
    return f"{kind} ({_format_settings(settings)})" if settings else kind


def _format_settings(settings: Mapping[str, Any]) -> str:
    flat = []
    for name, value in settings.items():
        flat.append(_format_settings(value) if isinstance(value, Mapping) else f"{name} {value}")
    return ", ".join(part for part in flat if part)
