"""The files of the pods whose agent is real; a volume may be a file system of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from podtune.storage.address import VolumeAddress
from podtune.storage.volume.store import VolumeStore

if TYPE_CHECKING:
    from podtune.cli.client.reader_pod import ReaderPlan

_ROOT = Path(tempfile.gettempdir()) / "podtune-chaos-pods"


def home() -> Path:
    """The directory of the pods' files of this campaign."""
    found = _ROOT / str(os.getpid())
    found.mkdir(parents=True, exist_ok=True)
    return found


def remove_leftovers() -> None:
    """Removes the files of this campaign, and of those that are no more."""
    own = home()
    for directory in list(_ROOT.iterdir()):
        if directory == own or not Path("/proc", directory.name).exists():
            remove(directory)


@dataclass(frozen=True)
class MountedVolume:
    """The volume of a claim, a directory of this machine, as the agents of a testbed see it.

    Attributes:
        faults: The Unix socket on which agents ask what happens to their calls.
    """

    claim: str
    directory: Path
    faults: Path

    @property
    def address(self) -> VolumeAddress:
        """Where it is."""
        return VolumeAddress(self.claim, directory=str(self.directory))

    def locate(self, prefix: str, uid: str) -> str:
        """The address by which people restore an experiment."""
        return f"{self.address.uri}/{prefix}/{uid}"

    @property
    def first_of_reader(self) -> str:
        """The statement that comes before the command line, for which no pod can run that mounts it."""
        return f"from e2e.chaos.pods.volumes import read_without_pod; read_without_pod({str(self.directory)!r})"

    @property
    def first(self) -> str:
        """The statement that comes before an agent's program."""
        layer = f"install({str(self.directory)!r}, {str(self.faults)!r})"
        return f"from e2e.chaos.pods.volume_layer import install; {layer}"

    def place(self, store: str) -> str:
        """What agents are told of the store, with the directory."""
        return json.dumps({**json.loads(store), "directory": str(self.directory)})


def read_without_pod(directory: str) -> None:
    """Has the command line of this process read volumes from a directory, where it would make a pod that does."""
    from podtune.cli.client import volume_access

    @contextmanager
    def open_directory(_: object, plan: ReaderPlan) -> Iterator[VolumeStore]:
        yield VolumeStore(replace(plan.address, directory=directory))

    setattr(volume_access, "open_volume", open_directory)  # noqa: B010 -- a stand-in, which types refuse


def mount(directory: Path, size: int) -> None:
    """Makes a directory a volume of a size, which needs root, as the local cluster does."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "podtune-chaos", directory], check=True)


def remove(directory: Path) -> None:
    """Removes a directory with all in it, volumes included."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        place = Path(line.split()[1])
        if place.is_relative_to(directory):
            subprocess.run(["umount", "--lazy", place], check=True)
    shutil.rmtree(directory, ignore_errors=True)
