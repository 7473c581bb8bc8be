"""A volume read through a pod: what the suite for all stores asks of readers, and connections that break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.storage.address import VolumeAddress
from podtune.storage.errors import AccessDenied, NotFound, Unreachable
from podtune.storage.volume.remote_store import ConnectionLost, RemoteVolumeStore
from podtune.storage.volume.store import VolumeStore
from podtune.testing.stores import MultipartStoreConformance
from tests.unit.storage.volume.local_connection import LocalConnection

ADDRESS = VolumeAddress("checkpoints", "team")
LARGE = bytes(range(256)) * 8192


class ReadThroughPod(VolumeStore):
    """Writes as a pod of a trial does, and reads as a person does."""

    def __init__(self, address: VolumeAddress, remote: RemoteVolumeStore) -> None:
        super().__init__(address)
        for method in ("get", "get_bytes", "exists", "list", "check"):
            setattr(self, method, getattr(remote, method))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReadThroughPod]:
    (tmp_path / "volume").mkdir()
    address = VolumeAddress("checkpoints", "team", str(tmp_path / "volume"))
    remote = RemoteVolumeStore(address, lambda: LocalConnection(VolumeStore(address)))
    yield ReadThroughPod(address, remote)
    remote.close()


class TestConformance(MultipartStoreConformance):
    """See `MultipartStoreConformance`."""


class Pod:
    """Connections to a volume, and what became of them."""

    def __init__(self, volume: Path) -> None:
        self.volume = VolumeStore(VolumeAddress("checkpoints", directory=str(volume)))
        self.volume.put_bytes("large", LARGE)
        self.volume.put_bytes("small", b"small")
        self.connections: list[LocalConnection] = []
        self.remote = RemoteVolumeStore(ADDRESS, self.connect)

    def connect(self) -> LocalConnection:
        self.connections.append(LocalConnection(self.volume))
        return self.connections[-1]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    made = Pod(tmp_path)
    yield made
    made.remote.close()
    for connection in made.connections:
        if not connection.is_closed:
            connection.close()


def test_a_connection_serves_one_request_after_the_other(pod: Pod) -> None:
    for _ in range(3):
        assert pod.remote.get_bytes("small", 10) == b"small"
        with pytest.raises(NotFound):
            pod.remote.get_bytes("missing", 10)
    assert len(pod.connections) == 1


@pytest.mark.parametrize("come_through", [1, 60, 5000, len(LARGE) // 2, len(LARGE) * 7 // 8])
def test_an_object_that_is_cut_off_is_never_taken_for_a_whole_one(pod: Pod, come_through: int) -> None:
    pod.remote.connect()
    others = pod.remote.get("large")
    (connection,) = pod.connections
    first = next(others)  # from here on it is too late to ask anew
    connection.lost_after = come_through
    with pytest.raises(Unreachable, match="the volume of claim 'checkpoints' is not reached while reading large"):
        for _ in others:
            pass
    assert connection.is_closed
    assert LARGE.startswith(first)
    assert b"".join(pod.remote.get("large")) == LARGE, "the next request gets a connection of its own"


def test_what_was_changed_on_its_way_is_not_passed_on(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    read = LocalConnection.read
    monkeypatch.setattr(LocalConnection, "read", lambda self, size: read(self, size)[:-1] + b"?")
    with pytest.raises(Unreachable, match="an answer was changed on its way"):
        pod.remote.get_bytes("large", len(LARGE))


def test_a_connection_that_broke_while_nobody_used_it_is_replaced(pod: Pod) -> None:
    pod.remote.connect()
    pod.connections[0].lost_after = 0
    assert pod.remote.get_bytes("small", 10) == b"small"
    assert [connection.is_closed for connection in pod.connections] == [True, False]


def test_who_stops_reading_in_the_middle_does_not_leave_the_rest_to_the_next(pod: Pod) -> None:
    reading = pod.remote.get("large")
    next(reading)
    assert isinstance(reading, Iterator)
    reading.close()  # type: ignore[attr-defined]
    assert pod.connections[0].is_closed
    assert pod.remote.get_bytes("small", 10) == b"small"


def test_what_the_volume_says_comes_through_in_its_words(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Iterator[bytes]:
        raise AccessDenied("the volume of claim 'checkpoints' does not allow reading small")

    monkeypatch.setattr(pod.volume, "get", refuse)
    with pytest.raises(AccessDenied, match="does not allow reading small"):
        pod.remote.get_bytes("small", 10)


def test_another_program_than_the_agent_is_noticed(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalConnection, "readline", lambda *_: b"Hello\n")
    with pytest.raises(ConnectionLost, match=r"the pod says b'Hello"):
        RemoteVolumeStore(ADDRESS, pod.connect).connect()
