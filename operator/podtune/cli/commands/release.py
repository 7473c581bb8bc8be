"""Taking the finalizer off an Experiment where no operator does."""

from __future__ import annotations

from podtune.api.names import FINALIZER
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import experiments_path
from podtune.cli.errors import CliError, NotFound


def release(api: Api, namespace: str, name: str) -> str:
    """Lets an Experiment go without its checkpoints being deleted.

    Returns:
        What was done, and what is left to do, in a sentence.

    Raises:
        CliError: There is no such Experiment, or it has changed meanwhile, or the server refuses.
    """
    path = experiments_path(namespace, name)
    try:
        metadata = api.get(path)["metadata"]
    except NotFound as error:
        raise CliError(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all") from error
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers:
        return f"experiment {name} is not held: it has no finalizer {FINALIZER}"
    others = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
    api.patch(path, {"metadata": {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}})
    left = f"what it has stored stays in the bucket, below {metadata['uid']}/"
    if "deletionTimestamp" in metadata:
        return f"experiment {name} goes; {left}"
    return f"experiment {name} is released; {left}, unless an operator takes it up again (deletionPolicy: Retain)"
