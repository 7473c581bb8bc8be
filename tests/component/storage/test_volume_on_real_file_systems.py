"""A volume store on file systems of its own: what the kernel itself says of one that is full, or read-only.

Each test mounts in a mount namespace of its own, which needs root, as the local cluster does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import VolumeAddress
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.storage.errors import StoreError
from podtune.storage.volume.store import VolumeStore

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
SMALL, LARGE = 1 << 20, 6 << 20
ROOM = 5 << 20


def run_on_new_file_system(scene: str, folder: Path) -> dict[str, str]:
    """Runs a scene of this file on a file system that has room for 5 MiB; returns what it has found out."""
    volume = folder / "volume"
    volume.mkdir()
    program = f"import runpy; from pathlib import Path; runpy.run_path({__file__!r})[{scene!r}](Path({str(folder)!r}))"
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "podtune-test", str(volume)]
    script = f'{" ".join(mount)} && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder / "volume"], check=True)


class Scene:
    """A trial that stores on the volume of a test."""

    def __init__(self, folder: Path) -> None:
        self.store_address = VolumeAddress("weights", "team", str(folder / "volume"))
        self.store = VolumeStore(self.store_address)
        self._folder = folder
        self._trial = TrialAddress(self.store_address, "uid", "digits-7")

    def upload(self, step: int, size: int) -> str:
        """Stores a checkpoint; returns the error's words, empty where there was none."""
        tree = self._folder / "shared" / str(step)
        tree.mkdir(parents=True, exist_ok=True)
        (tree / "weights").write_bytes(Random(step).randbytes(size))
        (tree / "state").write_text(str(step))
        address, info = self._trial.checkpoint("pod-1", str(step)), CheckpointInfo("pod-1", step, step, "0.5")
        return attempt(lambda: self._upload(tree, address, info))

    def _upload(self, tree: Path, address: CheckpointAddress, info: CheckpointInfo) -> None:
        with open_tree(Directory(tree.parent), (tree.name,)) as opened:
            self.digest = upload_checkpoint(self.store, opened, address, info)

    def restore(self, step: int, digest: str) -> bool:
        """Whether the whole checkpoint comes back."""
        restorer = Restorer(
            self.store,
            self.store_address,
            backoff=ExponentialBackoff(0.1, 0.1, Random(0)),
            patience=0.0,
            clock=lambda: 0.0,
            sleep=lambda _: None,
        )
        uri = self._trial.checkpoint("pod-1", str(step)).uri
        found = restorer.restore([CheckpointRef(uri, digest, step)], Directory(self._folder), f"restored-{step}")
        return found.manifest is not None

    def list_all(self) -> list[str]:
        """What lies on the volume, finished or not."""
        return [*self.store.list(""), *(f"unfinished {upload.key}" for upload in self.store.list_uploads(""))]


def attempt(action: Callable[[], object]) -> str:
    try:
        action()
    except StoreError as error:
        return f"{error.reason}: {error}"
    return ""


def fill(folder: Path) -> None:
    """The second checkpoint does not fit; the volume is enlarged, and it does."""
    scene = Scene(folder)
    assert scene.upload(1, SMALL) == ""
    first, before = scene.digest, scene.list_all()
    said = scene.upload(2, LARGE)
    assert not [key for key in scene.list_all() if "manifest.json" in key and key not in before], "it is no checkpoint"
    assert not [key for key in scene.list_all() if key.startswith("unfinished") or ("weights" in key and "/2/" in key)]
    assert scene.restore(1, first)
    remount(folder, f"size={4 * ROOM}")
    assert scene.upload(2, LARGE) == ""
    assert scene.restore(2, scene.digest)
    print(json.dumps({"said": said}))


def protect(folder: Path) -> None:
    """The node remounts the volume read-only, as it does after errors of a disk."""
    scene = Scene(folder)
    assert scene.upload(1, SMALL) == ""
    digest, before = scene.digest, scene.list_all()
    remount(folder, "ro")
    found = {
        "stored": scene.upload(2, SMALL),
        "deleted": attempt(lambda: scene.store.delete(before)),
        "checked": attempt(scene.store.check),
    }
    assert scene.list_all() == before
    assert scene.restore(1, digest), "what is there can be read"
    remount(folder, "rw")
    assert scene.upload(2, SMALL) == ""
    print(json.dumps(found))


def test_of_a_full_volume_the_remedy_is_named_and_no_part_is_taken_for_a_checkpoint(tmp_path: Path) -> None:
    said = run_on_new_file_system("fill", tmp_path)["said"]
    assert said.startswith("OutOfSpace: the volume of claim 'weights' is full while storing ")
    assert said.endswith("enlarge the claim, or delete what is not needed")


def test_a_volume_that_becomes_read_only_can_be_read_and_says_what_is_wrong(tmp_path: Path) -> None:
    for said in run_on_new_file_system("protect", tmp_path).values():
        assert said.startswith(
            "AccessDenied: the volume of claim 'weights' is mounted read-only, which does not allow "
        )
        assert "use a volume that can be written, or see why the node has remounted it" in said
