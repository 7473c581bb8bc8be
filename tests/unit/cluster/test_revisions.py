"""Revisions of trial templates are ControllerRevisions, which belong to their Experiment."""

from __future__ import annotations

import pytest

from podtune.cluster.revisions import drop_revision, keep_revision
from podtune.runner.actions import DONE, ActionStatus, DropRevision, KeepRevision
from tests.unit.cluster.fake_client import FakeCluster, refusal
from tests.unit.cluster.objects import NAMESPACE, REVISION, experiment_record

PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/controllerrevisions"
NAME = f"digits-{REVISION}"
EXPERIMENT = experiment_record()


def keep() -> KeepRevision:
    assert EXPERIMENT.spec is not None
    return KeepRevision(NAME, REVISION, 3, EXPERIMENT.spec.trial_template)


async def test_a_revision_holds_the_template_as_its_user_wrote_it() -> None:
    cluster = FakeCluster()
    assert await keep_revision(cluster, EXPERIMENT, keep()) == DONE
    made = cluster.get(f"{PATH}/{NAME}")
    assert made is not None
    container = {"name": "main", "image": "localhost/busybox:1", "args": ["--lr=$(PODTUNE_PARAM_lr)"]}
    assert made["data"] == {"trialTemplate": {"spec": {"containers": [container]}}}
    assert (made["kind"], made["revision"]) == ("ControllerRevision", 3)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Experiment", "e-1")
    assert made["metadata"]["labels"]["podtune.dev/experiment"] == "digits"


async def test_one_that_is_kept_already_is_as_good() -> None:
    cluster = FakeCluster()
    assert await keep_revision(cluster, EXPERIMENT, keep()) == DONE
    assert await keep_revision(cluster, EXPERIMENT, keep()) == DONE


async def test_a_name_that_another_owner_has_is_told() -> None:
    cluster = FakeCluster()
    cluster.put(PATH, {"metadata": {"name": NAME, "ownerReferences": []}})
    result = await keep_revision(cluster, EXPERIMENT, keep())
    assert (result.status, "another owner already exists; delete it" in result.message) == (ActionStatus.FAILED, True)


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_revision_is_dropped_once(is_there: bool) -> None:
    cluster = FakeCluster()
    if is_there:
        assert await keep_revision(cluster, EXPERIMENT, keep()) == DONE
    else:
        cluster.fail("DELETE", "", refusal(404, "not found"))
    assert await drop_revision(cluster, EXPERIMENT, DropRevision(NAME, REVISION)) == DONE
    assert cluster.get(f"{PATH}/{NAME}") is None
