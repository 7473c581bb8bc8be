"""`podtune checkpoints list`: what checkpoints there are, by what the Trials record of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.commands.stored.verification import find_trials
from podtune.cli.options import Context, Kubeconfig, Namespace, TargetName, WideFormat, WideOutput
from podtune.cli.output import CommandAnswer, print_answer, print_note
from podtune.cli.views.columns import RankedColumn, render_columns
from podtune.cli.views.numbers import format_number
from podtune.cli.views.tables import read_numbers


def list_checkpoints(
    name: TargetName,
    output: WideFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the checkpoints of a Trial, or of all Trials of an Experiment."""
    api, chosen, name = open_named(name, kubeconfig, context, namespace)
    experiment, trials = find_trials(api, chosen, name)
    facts = [fact for trial in trials for fact in _collect(experiment, trial)]
    if not facts and output in (None, WideOutput.WIDE):
        print_note(f"{name} has no checkpoints.")
        return
    answer = CommandAnswer(
        lines=lambda width: render_columns(_make_columns(facts), width),
        wide=lambda: render_columns(_make_columns(facts), None),
        facts=lambda: {"items": facts},
    )
    print_answer(answer, output)


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


def _make_columns(facts: Sequence[Mapping[str, Any]]) -> list[RankedColumn]:
    values = ["" if fact["value"] is None else format_number(str(fact["value"])) for fact in facts]
    return [
        RankedColumn("TRIAL", [fact["trial"] for fact in facts]),
        RankedColumn("ITERATION", [str(fact["step"]) for fact in facts], is_number=True),
        RankedColumn("VALUE", values, 3, is_number=True),
        RankedColumn("NOTE", [", ".join(fact["notes"]) for fact in facts], 2),
        RankedColumn("URI", [fact["uri"] for fact in facts], 1),
    ]
