"""`podtune trials` and `podtune compare`: the trials of an experiment in a table, and a few of them side by side.

They filter, sort and compare as the dashboard's pages do, by the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from podtune.cli.client.named_api import open_all_named, open_named
from podtune.cli.client.resources import get_experiment, get_trial, list_trials
from podtune.cli.errors import CliError
from podtune.cli.options import (
    Context,
    ExperimentName,
    Kubeconfig,
    Namespace,
    TableFormat,
    TrialNames,
)
from podtune.cli.output import CommandAnswer, name_trial, print_answer
from podtune.cli.views.facts import collect_trials
from podtune.dashboard.query_values import QueryError
from podtune.dashboard.table import comparison
from podtune.dashboard.table.terminal import (
    collect_comparison,
    collect_items,
    make_query,
    render_comparison,
    render_table,
    select_trials,
)
from podtune.dashboard.trial_rows import ShownState, TrialRow, collect_rows


def print_trials(
    experiment: ExperimentName,
    *,
    sort: Annotated[
        str, typer.Option("--sort", "-s", metavar="COLUMN", help="Column to sort by; -COLUMN for the greatest first.")
    ] = "",
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            "-f",
            metavar="CONDITION",
            help="Such as 'lr<0.01', optimizer=adam, or a word of a name; all that are given must hold.",
        ),
    ] = None,
    states: Annotated[
        list[ShownState] | None, typer.Option("--state", help="Only trials in this state; may be given several times.")
    ] = None,
    columns: Annotated[
        str, typer.Option("--columns", "-c", metavar="NAME,…", help="Which columns, in this order, besides the name.")
    ] = "",
    output: TableFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the Trials of an Experiment, filtered and sorted."""
    api, chosen, experiment = open_named(experiment, kubeconfig, context, namespace)
    rows = collect_rows(get_experiment(api, chosen, experiment), list_trials(api, chosen, experiment))
    try:
        query = make_query(rows, " ".join(conditions or ()), sort, states or (), columns)
    except QueryError as error:
        raise CliError(str(error)) from error
    found = select_trials(rows, query)
    answer = CommandAnswer(
        lines=lambda width: render_table(rows, found, query.columns, width),
        wide=lambda: render_table(rows, found, query.columns, None, is_wide=True),
        facts=lambda: {
            "items": collect_items(rows, found, query.columns)
            if query.columns
            else collect_trials(rows.view, [row.view for row in found])
        },
        names=lambda: (name_trial(row.name) for row in found),
    )
    print_answer(answer, output)


def print_comparison(
    trials: TrialNames,
    output: TableFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Put Trials side by side: what came of each, and which parameters differ."""
    names = list(dict.fromkeys(trials))
    if not comparison.FEWEST <= len(names) <= comparison.MOST:
        raise CliError(
            f"{len(names)} {'Trial is' if len(names) == 1 else 'different Trials are'} named; "
            f"name {comparison.FEWEST} to {comparison.MOST}"
        )
    api, chosen, names = open_all_named(names, kubeconfig, context, namespace)
    experiment = get_trial(api, chosen, names[0]).experiment
    rows = collect_rows(get_experiment(api, chosen, experiment), list_trials(api, chosen, experiment))
    compared = comparison.compare_trials(rows, _pick(rows.by_name, names, experiment))
    answer = CommandAnswer(
        lines=lambda width: render_comparison(compared, width),
        wide=lambda: render_comparison(compared, None),
        facts=lambda: collect_comparison(rows, compared),
        names=lambda: map(name_trial, names),
    )
    print_answer(answer, output)


def _pick(known: Mapping[str, TrialRow], names: Sequence[str], experiment: str) -> list[TrialRow]:
    missing = [name for name in names if name not in known]
    if missing:
        raise CliError(
            f"{missing[0]!r} is no Trial of {experiment}, which {names[0]} belongs to; `podtune trials {experiment}` "
            "lists those"
        )
    return [known[name] for name in names]
