"""What `why` prints: the decisions on a trial, with the numbers that they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podtune.api.resources.trial import LedgerEntry
from podtune.cli.client.resources import TrialView
from podtune.cli.views.numbers import format_number, read_finite
from podtune.tuning.numbers import shorten

_CHANGE = " → "
"""Between the values of a parameter, before a decision and after it."""


def explain_in_sentences(trial: TrialView) -> list[str]:
    """The decisions on a trial in sentences, oldest first, and where it stands now."""
    status = trial.status
    reason = f" ({status.reason})" if status.reason else ""
    lines = [f"{trial.title} is {trial.state}{reason}{_put_after_colon(status.message)}"]
    lines += explain_origin(trial)
    if not status.ledger:
        lines.append("Nothing was decided on it: no scheduler, stopper or user stepped in, and no attempt failed.")
        return [*lines, *_render_last_lines(trial)]
    left_out = status.ledger[0].number - 1
    if left_out:
        lines.append(
            f"{left_out} older decisions are in the bucket alone, in ledger.jsonl beside an attempt's results."
        )
    for decision in status.ledger:
        lines += ["", *_list_sentences(decision)]
    return [*lines, *_render_last_lines(trial)]


def explain_origin(trial: TrialView) -> list[str]:
    """Where its configuration comes from, and what of it was changed since, a sentence each."""
    lines = [f"Its configuration comes from {trial.proposer}."] if trial.proposer else []
    changed = {name: value for name, value in trial.parameters.items() if trial.proposed.get(name) != value}
    if changed:
        values = ", ".join(
            f"{name} {format_number(value)} ({format_number(trial.proposed.get(name, '-'))})"
            for name, value in changed.items()
        )
        lines.append(f"It runs with other parameters than were proposed: {values}.")
    if trial.status.limits:
        values = ", ".join(f"{name} {amount}" for name, amount in trial.status.limits.items())
        lines.append(f"It has limits of its own: {values}.")
    return lines


def explain_as_data(trial: TrialView) -> dict[str, Any]:
    """The same for programs."""
    return {
        "trial": trial.name,
        "experiment": trial.experiment,
        "displayName": trial.display_name or None,
        "proposer": trial.proposer or None,
        "state": trial.state,
        "reason": trial.status.reason,
        "message": trial.status.message,
        "parameters": dict(trial.parameters),
        "limits": dict(trial.status.limits) or None,
        "decisions": [decision.model_dump() for decision in trial.status.ledger],
        "lastLines": {"attempt": trial.tail_attempt, "lines": trial.log_tail.splitlines()} if trial.log_tail else None,
    }


def _render_last_lines(trial: TrialView) -> list[str]:
    """What the program of the last attempt has printed before it failed."""
    if not trial.log_tail:
        return []
    return ["", f"Attempt {trial.tail_attempt} printed last:", *(f"  {line}" for line in trial.log_tail.splitlines())]


def locate_decision(decision: LedgerEntry) -> str:
    """At which point of the trial a decision was taken."""
    return f"iteration {decision.step} of attempt {decision.attempt}" if decision.attempt else "before its start"


def _list_sentences(decision: LedgerEntry) -> list[str]:
    when = decision.time.replace("T", " ").removesuffix("Z")
    line = f"{when}, {locate_decision(decision)}, {decision.action}{_put_after_colon(decision.message)}"
    numbers = _format_untold(decision.inputs, decision.message)
    return [line, f"  {numbers}"] if numbers else [line]


def _format_untold(inputs: Mapping[str, str], message: str) -> str:
    """The numbers that the sentence does not hold."""
    return ", ".join(f"{name} {_round(value)}" for name, value in inputs.items() if not _is_told(value, message))


def _is_told(value: str, message: str) -> bool:
    """Whether a value stands in a sentence, which has fewer digits of it."""
    number = read_finite(value)
    return value in message or (number is not None and shorten(number) in message)


def _round(value: str) -> str:
    """A number as people compare it, or one that has changed."""
    return _CHANGE.join(map(format_number, value.split(_CHANGE)))


def _put_after_colon(text: str) -> str:
    return f": {text}" if text else ""
