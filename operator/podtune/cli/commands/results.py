"""`podtune results`: all results that trials have stored, also those of pods that are gone."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml

from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import TrialView, get_experiment
from podtune.cli.client.store_access import StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.commands.lifecycle import find_target
from podtune.cli.options import (
    AgentImage,
    Context,
    Kubeconfig,
    Namespace,
    OwnCredentials,
    StoreEndpoint,
    StoreRegion,
    TargetName,
)
from podtune.cli.output import print_note, to_json
from podtune.runner.timestamps import format_rfc3339_precise
from podtune.storage.errors import StoreError
from podtune.storage.segments.former import read_all_results
from podtune.storage.segments.reader import StoredResult


class ResultFormat(StrEnum):
    """How results are printed."""

    CSV = "csv"
    JSON = "json"
    YAML = "yaml"


def results(
    name: TargetName,
    *,
    rank: Annotated[int, typer.Option("--rank", min=0, help="Of Trials of several pods: which one's results.")] = 0,
    output: Annotated[
        ResultFormat, typer.Option("--output", "-o", help="A table, one JSON object a line, or a YAML list.")
    ] = ResultFormat.CSV,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print all results that a Trial has stored, or all Trials of an Experiment, in order of time."""
    api, chosen, name = open_named(name, kubeconfig, context, namespace)
    view = find_target(api, chosen, name).view
    if isinstance(view, TrialView):
        experiment, trial = get_experiment(api, chosen, view.experiment), view.name
    else:
        experiment, trial = view, ""
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials, agent_image)
    with open_experiment_store(api, experiment, options) as opened:
        prefix = opened.address.experiment_prefix(experiment.uid)
        former = list_former_folders(experiment, opened.address)
        found = _note_gaps(read_all_results(opened.store, prefix, former, trial=trial, rank=rank))
        try:
            any_printed = _PRINTERS[output](found)
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error
    if not any_printed:
        print_note(f"{view.name} has stored no results{f' of rank {rank}' if rank else ''}")


def _note_gaps(found: Iterable[StoredResult]) -> Iterator[StoredResult]:
    """Passes results on, and says of those that are missing between them."""
    for stored in found:
        if stored.missed:
            missing = "1 result is" if stored.missed == 1 else f"{stored.missed:,} results are"
            print_note(
                f"{stored.trial}, attempt {stored.number}: {missing} missing before iteration {stored.result.step}; "
                "results.keep says how much is kept"
            )
        yield stored


def _print_table(found: Iterable[StoredResult]) -> bool:
    """Prints a line of comma-separated values for each result; returns whether there was any.

    All are held in memory first: a metric that appears late has a column in the first line, too.
    """
    rows = [make_row(stored) for stored in found]
    if rows:
        columns = dict.fromkeys(name for row in rows for name in row)
        table = csv.DictWriter(sys.stdout, list(columns), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    return bool(rows)


def make_row(stored: StoredResult) -> dict[str, Any]:
    """A result by column; a metric that is called as one of the first columns gets another name."""
    row = _describe_place(stored)
    return row | {f"{name} (result)" if name in row else name: value for name, value in stored.result.metrics.items()}


def _print_json(found: Iterable[StoredResult]) -> bool:
    """Prints an object for each result as it is read; returns whether there was any."""
    any_printed = False
    for stored in found:
        typer.echo(to_json({**_describe_place(stored), "metrics": stored.result.metrics}, indent=None))
        any_printed = True
    return any_printed


def _print_yaml(found: Iterable[StoredResult]) -> bool:
    """Prints an item of a list for each result as it is read; returns whether there was any."""
    any_printed = False
    for stored in found:
        item = {**_describe_place(stored), "metrics": dict(stored.result.metrics)}
        typer.echo(yaml.safe_dump([item], sort_keys=False, allow_unicode=True), nl=False)
        any_printed = True
    return any_printed


_PRINTERS: Mapping[ResultFormat, Callable[[Iterable[StoredResult]], bool]] = {
    ResultFormat.CSV: _print_table,
    ResultFormat.JSON: _print_json,
    ResultFormat.YAML: _print_yaml,
}


def _describe_place(stored: StoredResult) -> dict[str, Any]:
    """When a result came, and whose it is."""
    return {
        "time": format_rfc3339_precise(stored.result.time),
        "trial": stored.trial,
        "attempt": stored.number,
        "rank": stored.rank,
    }
