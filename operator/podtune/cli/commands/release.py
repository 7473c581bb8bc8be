"""`podtune release`: takes the finalizer off an Experiment where no operator does."""

from __future__ import annotations

import typer

from podtune.api.names import FINALIZER
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import fetch_experiment
from podtune.cli.options import Context, ExperimentName, Kubeconfig, Namespace
from podtune.kube import paths


def release_experiment(
    experiment: ExperimentName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> None:
    """Let an Experiment go that waits for its checkpoints' deletion; they stay in the bucket."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    typer.echo(take_finalizer(api, chosen, experiment))


def take_finalizer(api: Api, namespace: str, name: str) -> str:
    """Lets an Experiment go without its checkpoints being deleted; says what was done, and what is left to do.

    Raises:
        CliError: There is no such Experiment.
        ApiError: It has changed meanwhile, or the server refuses.
    """
    metadata = fetch_experiment(api, namespace, name)["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        return f"experiment {name} is not held: it has no finalizer {FINALIZER}"
    others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    change = {"metadata": {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}}
    api.patch(paths.experiment(namespace, name), change)
    left = f"what it has stored stays in the bucket, below {metadata['uid']}/"
    if "deletionTimestamp" in metadata:
        return f"experiment {name} goes; {left}"
    return f"experiment {name} is released; {left}, unless an operator takes it up again (deletionPolicy: Retain)"
