"""`podtune release`: takes the finalizer off an Experiment where no operator does."""

from __future__ import annotations

from podtune.api.names import FINALIZER
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import fetch_experiment
from podtune.cli.options import Context, ExperimentName, Kubeconfig, NamedFormat, Namespace
from podtune.cli.output import print_changed
from podtune.kube import paths
from podtune.kube.manifests import Manifest


def release_experiment(
    experiment: ExperimentName,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Let an Experiment go that waits for its checkpoints' deletion; they stay in the bucket."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    said, left = take_finalizer(api, chosen, experiment)
    print_changed([said], output, paths.experiment(chosen, experiment), lambda _: left)


def take_finalizer(api: Api, namespace: str, name: str) -> tuple[str, Manifest]:
    """Lets an Experiment go without its checkpoints being deleted.

    Returns:
        What was done, and what is left to do, in a sentence; and the Experiment as it was then: it may be gone now.

    Raises:
        CliError: There is no such Experiment.
        ApiError: It has changed meanwhile, or the server refuses.
    """
    item = fetch_experiment(api, namespace, name)
    metadata = item["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        return f"experiment {name} is not held: it has no finalizer {FINALIZER}", item
    others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    change = {"metadata": {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}}
    released = api.patch(paths.experiment(namespace, name), change)
    left = f"what it has stored stays in the bucket, below {metadata['uid']}/"
    if "deletionTimestamp" in metadata:
        return f"experiment {name} goes; {left}", released
    doubt = "unless an operator takes it up again (deletionPolicy: Retain)"
    return f"experiment {name} is released; {left}, {doubt}", released
