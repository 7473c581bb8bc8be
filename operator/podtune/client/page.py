"""What notebooks show: HTML without scripts, in which every text of a user is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from podtune.cli.views.numbers import format_measure

if TYPE_CHECKING:
    from podtune.client.facts import Best, CurvePoint, TrialFacts
    from podtune.client.snapshot import ExperimentSnapshot

MAX_ROWS = 20
"""How many trials a table shows; the others are counted."""
_WIDTH, _HEIGHT, _EDGE = 96, 20, 2
_ORDER = ("RUNNING", "PENDING", "PAUSED", "ERROR")
_LEFT = ' style="text-align:left"'


def draw_facts(title: str, facts: Mapping[str, object]) -> str:
    """A title, and a row for each fact that there is."""
    rows = "".join(
        f"<tr><th{_LEFT}>{escape(name)}</th><td{_LEFT}>{escape(_format_value(value))}</td></tr>"
        for name, value in facts.items()
        if value not in ("", None)
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def draw_best(best: Best) -> str:
    """The best result."""
    spread = "" if best.spread is None else f" ± {_format_value(best.spread)}"
    facts = {
        best.metric: f"{_format_value(best.value)}{spread}",
        **best.parameters,
        "checkpoint": best.checkpoint_uri,
        "exported": best.exported_uri,
    }
    return draw_facts(f"Best trial: {best.trial}", facts)


def draw_trial(trial: TrialFacts) -> str:
    """A Trial, with its learning curve."""
    facts = {
        "state": " ".join((trial.state, trial.reason)),
        "message": trial.message,
        "look at": trial.trouble,
        **trial.parameters,
        "best value": trial.best_value,
    }
    return f"{draw_facts(f'Trial {trial.name}', facts)}{draw_small_curve(trial.curve)}"


def draw_snapshot(snapshot: ExperimentSnapshot[Any]) -> str:
    """An Experiment: how far it is, the best result, and the trials that somebody looks for first."""
    counts, best = snapshot.counts, snapshot.best
    parts = [
        f"<b>{escape(snapshot.name)}</b> {escape(snapshot.state)}",
        escape(snapshot.message),
        f"{counts.total} trials: {counts.pending} pending, {counts.running} running, {counts.paused} paused, "
        f"{counts.terminated} done ({counts.stopped_early} stopped early), {counts.error} failed",
        *(escape(words) for words in snapshot.troubles),
    ]
    if best is not None:
        values = ", ".join(f"{name} {_format_value(value)}" for name, value in best.parameters.items())
        parts.append(f"best {escape(f'{best.metric} {_format_value(best.value)} by {best.trial}: {values}')}")
    lines = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"<div>{lines}{draw_trial_table(snapshot.trials)}</div>"


def draw_trial_table(trials: Sequence[TrialFacts]) -> str:
    """A table of trials: those that run first, then the latest; empty where there are none."""
    if not trials:
        return ""
    places = {state: place for place, state in enumerate(_ORDER)}
    ordered = sorted(trials, key=lambda trial: (places.get(trial.state, len(_ORDER)), -trial.index))
    shown = ordered[:MAX_ROWS]
    names = list(dict.fromkeys(name for trial in shown for name in trial.parameters))
    head = _render_row("th", ["trial", "state", *names, "best value", "curve"])
    body = "".join(_render_trial_row(trial, names) for trial in shown)
    others = len(ordered) - len(shown)
    more = f"<div>and {others} more: <code>trials</code> has all</div>" if others else ""
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


def _render_trial_row(trial: TrialFacts, names: Sequence[str]) -> str:
    values = trial.parameters
    cells = [trial.name, " ".join((trial.state, trial.reason)), *(values.get(name, "") for name in names)]
    best = "" if trial.best_value is None else trial.best_value
    texts = (escape(_format_value(cell)) for cell in (*cells, best))
    curve = draw_small_curve(trial.curve)
    return f"<tr>{''.join(f'<td{_LEFT}>{text}</td>' for text in texts)}<td>{curve}</td></tr>"


def _render_row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}{_LEFT}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def draw_small_curve(points: Sequence[CurvePoint]) -> str:
    """The first objective over the iterations as a line; empty where there are not two points of it."""
    metric = next(iter(points[0].values), "") if points else ""
    known = [(point.iteration, point.values[metric]) for point in points if math.isfinite(point.values[metric])]
    if len(known) < 2:
        return ""
    steps, values = [step for step, _ in known], [value for _, value in known]
    across, up = _make_scale(steps, _EDGE, _WIDTH - _EDGE), _make_scale(values, _HEIGHT - _EDGE, _EDGE)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
    said = f"{metric} from {_format_value(values[0])} to {_format_value(values[-1])}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img"><title>{escape(said)}</title>'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _make_scale(values: Sequence[float], start: float, end: float) -> list[float]:
    """Places of values between two ends, the lowest at the start."""
    low, high = min(values), max(values)
    span = high / 2 - low / 2  # halved, since the difference of the largest numbers is infinite
    return [start + (end - start) * ((value / 2 - low / 2) / span if span else 0.5) for value in values]


def _format_value(value: object) -> str:
    """A value for people: of a number the digits that matter."""
    return format_measure(value) if isinstance(value, float) else str(value)
