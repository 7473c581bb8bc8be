"""The volume of an experiment, opened through a pod of the caller's: what that pod is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from podtune.cli.client.api_client import Api
from podtune.cli.client.reader_pod import ReaderPlan, open_volume
from podtune.cli.client.resources import ExperimentView, list_experiments
from podtune.cli.errors import CliError
from podtune.storage.address import VolumeAddress
from podtune.storage.object_store import ReadableStore


@contextmanager
def open_volume_of(
    api: Api, namespace: str, address: VolumeAddress, experiment: ExperimentView | None, image: str
) -> Iterator[ReadableStore]:
    """Opens a volume through a pod (see `reader_pod`), which is deleted at the end.

    Args:
        api: The API server.
        namespace: Namespace of the claim.
        address: The volume.
        experiment: The Experiment that the pod goes with, and that says which image the agent has; None for none.
        image: The agent's image, where the command line names it; else empty.

    Raises:
        CliError: The pod may not be made, or does not start, or nobody says of which image.
        ApiError: The server can't say.
    """
    if find_spec("websocket") is None:
        raise CliError("websocket-client, which reads volumes, is not installed; pip install 'podtune[cli,store]'")
    image = image or (experiment.status.agent_image if experiment else "")
    if not image:
        silent = f"experiment {experiment.name} does not say" if experiment else "there is no experiment to say"
        raise CliError(f"{silent} which image reads claim {address.claim}; name the agent's with --agent-image")
    template = ((experiment.spec.get("trialTemplate") or {}).get("spec") or {}) if experiment else {}
    name, uid = (experiment.name, experiment.uid) if experiment else ("", "")
    with open_volume(api, ReaderPlan(namespace, address, image, name, uid, template)) as store:
        yield store


def find_user(api: Api, namespace: str, key: str, claim: str) -> ExperimentView | None:
    """The Experiment that has stored something on a volume; else another that stores there, which has its settings.

    Raises:
        ApiError: The server can't say.
    """
    using = [found for found in list_experiments(api, namespace) if _find_claim(found) == claim]
    own = [experiment for experiment in using if experiment.uid and experiment.uid in key.split("/")]
    return next(iter([*own, *using]), None)


def _find_claim(experiment: ExperimentView) -> str:
    """The claim that an Experiment stores on; empty where it stores on none."""
    store = (experiment.spec.get("checkpoints") or {}).get("store") or {}
    return str((store.get("volume") or {}).get("claimName", ""))
