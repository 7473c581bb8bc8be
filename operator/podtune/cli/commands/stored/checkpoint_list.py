"""`podtune checkpoints list`: what checkpoints there are, by what the Trials record of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podtune.cli.client import api_client
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.commands.stored.verification import find_trials
from podtune.cli.options import Context, ForPrograms, Kubeconfig, Namespace, TargetName
from podtune.cli.output import print_facts, print_lines, print_note
from podtune.cli.views.columns import align_columns
from podtune.cli.views.numbers import format_number
from podtune.cli.views.tables import read_numbers


def list_checkpoints(
    name: TargetName,
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the checkpoints of a Trial, or of all Trials of an Experiment."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    experiment, trials = find_trials(api, chosen, name)
    facts = [fact for trial in trials for fact in _collect(experiment, trial)]
    if output is not None:
        print_facts({"items": facts}, output)
    elif not facts:
        print_note(f"{name} has no checkpoints.")
    else:
        header = ("TRIAL", "ITERATION", "VALUE", "NOTE", "URI")
        print_lines(align_columns(header, map(_make_row, facts)))


def _collect(experiment: ExperimentView, trial: TrialView) -> Iterator[dict[str, Any]]:
    """The checkpoints of a trial, the oldest first."""
    best, kept = experiment.status.best, trial.status.checkpoints
    for position, checkpoint in enumerate(kept):
        notes = ["latest"] if position == len(kept) - 1 else []
        if best is not None and checkpoint.uri == best.checkpoint:
            notes.append("best")
        yield {
            "trial": trial.name,
            "step": checkpoint.step,
            "value": read_numbers({"value": checkpoint.metric})["value"] if checkpoint.metric else None,
            "uri": checkpoint.uri,
            "digest": checkpoint.digest,
            "notes": notes,
        }


def _make_row(fact: Mapping[str, Any]) -> tuple[str, ...]:
    value = "" if fact["value"] is None else format_number(str(fact["value"]))
    return fact["trial"], str(fact["step"]), value, ", ".join(fact["notes"]), fact["uri"]
