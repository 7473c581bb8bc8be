"""`podtune top`: who uses GPUs, and who waits for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import get_experiment, list_experiments, list_trials
from podtune.cli.errors import CliError
from podtune.cli.options import Context, Kubeconfig, Namespace, TableFormat
from podtune.cli.output import CommandAnswer, name_trial, print_answer, print_note
from podtune.cli.views.gpu_use import ExperimentUse, collect_use, collect_use_facts, render_use


def print_use(
    experiment: Annotated[
        str | None, typer.Argument(metavar="[EXPERIMENT]", help="One Experiment; else all that have not ended.")
    ] = None,
    *,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    output: TableFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show who uses GPUs, who waits for them since when and why, by node."""
    if experiment and all_namespaces:
        raise CliError("an Experiment is in one namespace; leave out -A, or EXPERIMENT")
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    uses = _read_use(api, None if all_namespaces else chosen, experiment)
    if not uses and output is None:
        print_note(f"No Experiment goes on{'' if all_namespaces else f' in namespace {chosen}'}.")
        return
    now = datetime.now(UTC)
    answer = CommandAnswer(
        lines=lambda width: render_use(uses, now, width, with_namespace=all_namespaces),
        wide=lambda: render_use(uses, now, None, with_namespace=all_namespaces),
        facts=lambda: collect_use_facts(uses),
        names=lambda: (name_trial(trial.view.name) for use in uses for trial in use.trials),
    )
    print_answer(answer, output)


def _read_use(api: Api, namespace: str | None, experiment: str | None) -> list[ExperimentUse]:
    if experiment is not None and namespace is not None:
        views = [get_experiment(api, namespace, experiment)]
    else:
        views = [view for view in list_experiments(api, namespace) if not view.status.completion_time]
    return [collect_use(view, list_trials(api, view.namespace, view.name)) for view in views]
