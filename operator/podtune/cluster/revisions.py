"""Revisions of trial templates, kept as ControllerRevisions that belong to the Experiment."""

from __future__ import annotations

import contextlib

from podtune.cluster.client import ClusterClient, create_owned
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest, make_labels, refer_to_experiment
from podtune.runner.actions import DONE, ActionResult, ActionStatus, DropRevision, KeepRevision
from podtune.runner.records import Experiment


async def keep_revision(client: ClusterClient, experiment: Experiment, action: KeepRevision) -> ActionResult:
    """Keeps a revision; its name says what it holds, so one of the name that is there is as good."""
    path = paths.controller_revisions(experiment.namespace)
    if await create_owned(client, path, make_revision(experiment, action)) is None:
        problem = f"a ControllerRevision {action.name} with another owner already exists; delete it"
        return ActionResult(ActionStatus.FAILED, problem)
    return DONE


async def drop_revision(client: ClusterClient, experiment: Experiment, action: DropRevision) -> ActionResult:
    """Deletes a revision; one that is gone is as good."""
    with contextlib.suppress(ResourceNotFound):
        await client.request("DELETE", paths.controller_revision(experiment.namespace, action.name))
    return DONE


def make_revision(experiment: Experiment, action: KeepRevision) -> Manifest:
    """A ControllerRevision, as those of a StatefulSet: what it holds is fixed, and goes with the Experiment."""
    data: Manifest = {"trialTemplate": action.template.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    if (evaluation := action.evaluation) is not None:
        template = evaluation.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data["evaluation"] = {"template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": action.name,
            "labels": make_labels(experiment.name),
            "ownerReferences": [refer_to_experiment(experiment.name, experiment.uid)],
        },
        "revision": action.number,
        "data": data,
    }
