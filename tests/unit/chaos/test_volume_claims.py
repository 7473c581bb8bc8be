"""What the harness of `make chaos` sees of a volume: what is stored, what is wrong with it, what was never finished."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from e2e.chaos.ground_truth import GroundTruth
from e2e.chaos.pods.claims import list_checkpoints, look_into
from e2e.chaos.pods.volumes import MountedVolume
from podtune.cli.client import store_access, volume_access
from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import StoreOptions, open_store_of
from podtune.storage.address import VolumeAddress
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.storage.snapshots.record_store import RecordName, format_key
from podtune.storage.volume.store import VolumeStore

URI = "volume://weights/chaos/uid/c1-0/pod-1/2"


@pytest.fixture
def volume(tmp_path: Path) -> MountedVolume:
    """A volume with one checkpoint."""
    directory, tree = tmp_path / "volume", tmp_path / "shared" / "step-2"
    directory.mkdir()
    tree.mkdir(parents=True)
    (tree / "weights").write_bytes(b"w" * 100_000)
    address = VolumeAddress("weights", "chaos", str(directory))
    with open_tree(Directory(tree.parent), (tree.name,)) as opened:
        place = TrialAddress(address, "uid", "c1-0").checkpoint("pod-1", "2")
        upload_checkpoint(VolumeStore(address), opened, place, CheckpointInfo("pod-1", 2, 2, "0.5"))
    return MountedVolume("weights", directory, tmp_path / "faults.sock")


def look(volume: MountedVolume) -> GroundTruth:
    truth = GroundTruth()
    look_into(volume, "chaos", "uid", truth)
    return truth


def test_a_whole_checkpoint_is_found(volume: MountedVolume) -> None:
    truth = look(volume)
    assert (truth.bucket, truth.damaged, truth.unfinished) == ({URI: 2}, [], [])
    assert list_checkpoints(volume, "chaos", "uid") == {URI: 2}
    assert list_checkpoints(volume, "chaos", "another") == {}


def test_the_newest_record_of_each_object_is_read(volume: MountedVolume) -> None:
    store = VolumeStore(VolumeAddress("weights", "chaos", str(volume.directory)))
    for version in (7, 8):
        key = format_key("chaos/uid/", RecordName("c1-0", version))
        store.put_bytes(key, f'{{"version": {version}}}'.encode())
    assert look(volume).records == {"c1-0": {"version": 8}}


def test_the_command_line_reads_a_volume_without_a_pod(volume: MountedVolume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_access, "open_volume", None)  # and sets it back afterwards
    exec(volume.first_of_reader)
    address = volume.locate("chaos", "uid")
    options = StoreOptions(agent_image="none")
    monkeypatch.setattr(store_access, "find_user", lambda *_: None)
    with open_store_of(address, options, lambda: (cast(Api, None), "chaos")) as opened:
        keys = list(opened.store.list(f"{opened.address.find_key(address)}/"))
    assert f"{URI.removeprefix('volume://weights/')}/manifest.json" in keys


def test_half_a_file_under_its_final_name_is_damage(volume: MountedVolume) -> None:
    (file,) = volume.directory.rglob("weights")
    file.write_bytes(file.read_bytes()[:50_000])
    (problem,) = look(volume).damaged
    assert problem.startswith(f"{URI}: ")


def test_what_was_never_finished_is_found_beside_it(volume: MountedVolume) -> None:
    place = volume.directory / "chaos" / "uid" / "c1-0" / "pod-1" / "3"
    place.mkdir()
    (place / ".podtune-0123456789abcdef-weights").write_bytes(b"w")
    assert look(volume).unfinished == ["chaos/uid/c1-0/pod-1/3/weights"]
