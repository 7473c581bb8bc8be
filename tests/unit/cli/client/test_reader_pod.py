"""The pod through which a person reads a volume: what it is, how it starts, and what is said where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.cli.client.reader_pod import START_SECONDS, ReaderPlan, make_reader_pod, open_volume
from podtune.cli.errors import CliError
from podtune.kube import paths
from podtune.kube.errors import ApiError, Unanswered, make_refusal
from podtune.kube.manifests import Manifest
from podtune.storage.address import VolumeAddress
from podtune.storage.volume.remote_store import ConnectionLost, ReaderConnection
from podtune.storage.volume.store import VolumeStore
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi
from tests.unit.storage.volume.local_connection import LocalConnection

ADDRESS = VolumeAddress("weights", "team")
PLAN = ReaderPlan(NAMESPACE, ADDRESS, "registry/agent:1", "digits", "uid-of-digits")
RUNNING: Manifest = {"containerStatuses": [{"state": {"running": {}}}]}
FORBIDDEN = 'pods is forbidden: User "ada" cannot create resource "pods" in API group "" in the namespace "vision"'


class Cluster(FakeApi):
    """Gives each pod that is created the statuses of a script, one at each look, the last one for ever."""

    def __init__(self, volume: Path) -> None:
        super().__init__()
        self.statuses: list[Manifest] = [{}, RUNNING]
        self.refusals: dict[str, ApiError] = {}
        (volume / "team").mkdir()
        (volume / "team" / "a").write_bytes(b"content")
        self.start_process = lambda: LocalConnection(VolumeStore(VolumeAddress("weights", "team", str(volume))))

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        self._refuse("get")
        found = super().get(path, params)
        return {"status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0], **found}

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        self._refuse("create")
        return super().create(path, item)

    def execute(self, path: str, container: str, command: Any) -> ReaderConnection:
        self._refuse("execute")
        return super().execute(path, container, command)

    def _refuse(self, doing: str) -> None:
        if doing in self.refusals:
            raise self.refusals[doing]

    @property
    def pods(self) -> list[str]:
        return [path for path in self.objects if "/pods/" in path]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def read(cluster: Cluster) -> Callable[[], bytes]:
    """Opens the volume and reads an object, in a time that passes as it is slept."""

    def open_and_read() -> bytes:
        now = 0.0

        def sleep(seconds: float) -> None:
            nonlocal now
            now += seconds
            assert now < 2 * START_SECONDS

        with open_volume(cluster, PLAN, clock=lambda: now, sleep=sleep) as store:
            ((pod, *started),) = cluster.executed
            assert pod in cluster.pods
            assert started == ["podtune-reader", "podtune-agent", "read-volume"]
            return store.get_bytes("team/a", 100)

    return open_and_read


def test_a_volume_is_read_through_a_pod_that_is_deleted_afterwards(cluster: Cluster, read: Callable[[], bytes]) -> None:
    assert read() == b"content"
    assert (len(cluster.deleted), cluster.pods) == (1, [])


def test_the_pod_has_no_rights_and_reads_only() -> None:
    pod = make_reader_pod(PLAN, "reader")
    (container,) = pod["spec"]["containers"]
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Experiment", "digits", "uid-of-digits")
    assert pod["metadata"]["labels"].get("podtune.dev/experiment") is None, "the operator does not watch it"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["activeDeadlineSeconds"] > 0
    assert container["image"] == "registry/agent:1"
    assert container["volumeMounts"] == [{"name": "podtune-store", "mountPath": "/podtune-store", "readOnly": True}]
    context = container["securityContext"]
    assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (True, False)
    assert (context["capabilities"], context["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
    assert pod["spec"]["securityContext"]["fsGroup"] == 60532


def test_the_pod_goes_where_the_trials_are_and_may_be() -> None:
    template = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu"}], "imagePullSecrets": [{"name": "a"}],
                "containers": [{"name": "trial"}], "securityContext": {"fsGroup": 7, "runAsUser": 8}}  # fmt: skip
    pod = make_reader_pod(ReaderPlan(NAMESPACE, ADDRESS, "agent", template=template), "reader")
    (term,) = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"podtune.dev/store-claim": "weights"}
    assert pod["metadata"]["labels"]["podtune.dev/store-claim"] == "weights"
    assert {field: pod["spec"][field] for field in ("nodeSelector", "tolerations", "imagePullSecrets")} == {
        field: template[field] for field in ("nodeSelector", "tolerations", "imagePullSecrets")
    }
    assert pod["spec"]["securityContext"] == {"fsGroup": 7}
    assert "ownerReferences" not in pod["metadata"]


@pytest.mark.parametrize(
    ("doing", "refusal", "said"),
    [
        (
            "create",
            make_refusal(403, "Forbidden", FORBIDDEN),
            "you may not create pods in namespace vision (pods is forbidden: User .*; reading a volume takes a pod of "
            "yours: ask for a role with the verbs create, get and delete on pods, and get and create on pods/exec",
        ),
        ("create", make_refusal(403, "Forbidden", "exceeded quota: pods"), "the API server says 403: exceeded quota"),
        ("get", make_refusal(403, "Forbidden", FORBIDDEN), "you may not get pods in namespace vision"),
        (
            "execute",
            make_refusal(403, "Forbidden", FORBIDDEN),
            "you may not get and create pods/exec in namespace visi",
        ),
    ],
)
def test_rights_that_are_missing_are_named(
    cluster: Cluster, read: Callable[[], bytes], doing: str, refusal: ApiError, said: str
) -> None:
    cluster.refusals[doing] = refusal
    with pytest.raises(CliError, match=said.replace("(", r"\(")):
        read()
    assert cluster.pods == [] or doing == "get", "who may not look at it can't be asked to check it either"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
            "can't start: ImagePullBackOff: no such image; name another image of the agent with --agent-image",
        ),
        ({"phase": "Failed", "message": "Pod was rejected: no memory"}, "has ended: Pod was rejected: no memory"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]},
            "has not started within 180 s: 0/3 nodes are available; if one node at a time can mount claim weights",
        ),
        ({}, "has not started within 180 s: FailedMount: Multi-Attach error; see that claim weights can be mounted"),
    ],
)
def test_a_pod_that_does_not_start_says_why(
    cluster: Cluster, read: Callable[[], bytes], status: Manifest, said: str
) -> None:
    event = {"metadata": {}, "reason": "FailedMount", "note": "Multi-Attach error"}
    cluster.objects[f"{paths.events(NAMESPACE)}/one"] = event
    cluster.statuses = [{}, status]
    with pytest.raises(CliError, match=said):
        read()
    assert cluster.pods == []


def test_an_image_that_is_no_agent_is_named(cluster: Cluster, read: Callable[[], bytes]) -> None:
    def fail() -> ReaderConnection:
        raise ConnectionLost("command terminated with exit code 2 (invalid choice: 'read-volume')")

    cluster.start_process = fail
    with pytest.raises(CliError, match=r"invalid choice.*is registry/agent:1 an agent of this version"):
        read()
    assert cluster.pods == []


def test_pods_of_readers_that_were_killed_are_deleted_and_others_stay(
    cluster: Cluster, read: Callable[[], bytes]
) -> None:
    for name, phase in (("left", "Succeeded"), ("late", "Failed"), ("busy", "Running")):
        metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"}
        cluster.objects[paths.pod(NAMESPACE, name)] = {"metadata": metadata, "status": {"phase": phase}}
    assert read() == b"content"
    assert cluster.pods == [paths.pod(NAMESPACE, "busy")]
    assert ("labelSelector", "podtune.dev/reader=true") in [
        item for _, asked in cluster.asked for item in asked.items()
    ]


def test_a_pod_that_can_not_be_deleted_is_named(
    cluster: Cluster, read: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Cluster, path: str, uid: str) -> None:
        raise Unanswered("it does not answer")

    monkeypatch.setattr(Cluster, "delete", fail)
    assert read() == b"content"
    assert "is not deleted (it does not answer); it ends by itself in a minute" in capsys.readouterr().err
