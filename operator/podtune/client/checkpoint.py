"""A Trial's checkpoint, and how it comes to this machine."""

from __future__ import annotations

import os
from pathlib import Path

from podtune.api.resources.trial import Checkpoint as CheckpointRecord
from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import open_experiment_store
from podtune.cli.commands.checkpoints import fetch_checkpoint, find_named_checkpoint
from podtune.client.errors import InvalidArgument
from podtune.client.page import draw_facts
from podtune.client.session import ClusterSession

PathName = str | os.PathLike[str]


class TrialCheckpoint:
    """A checkpoint that was kept when its Trial was read."""

    def __init__(self, session: ClusterSession, namespace: str, trial: str, record: CheckpointRecord) -> None:
        """Is made by a Trial."""
        self._session = session
        self._namespace = namespace
        self._trial = trial
        self._record = record

    @property
    def trial(self) -> str:
        """Name of its Trial."""
        return self._trial

    @property
    def step(self) -> int:
        """The training iteration that it is of."""
        return self._record.step

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._record.uri

    def download(self, directory: PathName | None = None) -> Path:
        """Downloads it, and checks the hash of all that is in it.

        Args:
            directory: Where to, a directory that is not there yet; else ./<trial>-<iteration>.

        Returns:
            The directory.

        Raises:
            NotPossible: It is kept no longer, it is damaged, or the directory exists.
            StoreFailed: The store can't be read.
            PodtuneError: The API server refuses, or does not answer.
        """
        target = f"trial/{self._trial}"
        return download_checkpoint(self._session, self._namespace, target, directory, step=self.step)

    def __repr__(self) -> str:
        return f"<TrialCheckpoint {self.trial}, iteration {self.step}: {self.uri}>"

    def _repr_html_(self) -> str:
        return draw_facts(f"Checkpoint of {self.trial}", {"iteration": self.step, "URI": self.uri})


def download_checkpoint(
    session: ClusterSession, namespace: str, target: str, directory: PathName | None, *, step: int | None
) -> Path:
    """Downloads a checkpoint as `podtune checkpoints download` does; returns the directory.

    Args:
        session: The way to the cluster.
        namespace: The target's.
        target: Kind and name of a Trial or an Experiment, such as trial/digits-7.
        directory: Where to; else ./<trial>-<iteration>.
        step: Of which iteration; else of a Trial the latest, of an Experiment the best.

    Raises:
        PodtuneError: There is none, or it can't be downloaded.
    """
    if directory is not None and (not isinstance(directory, str | os.PathLike) or not os.fspath(directory)):
        raise InvalidArgument(f"directory: {directory!r} is no path; name a directory that is not there yet")

    def fetch(api: Api) -> Path:
        experiment, choice = find_named_checkpoint(api, namespace, target, step=step, best=False)
        destination = Path(directory) if directory is not None else Path(f"{choice.trial}-{choice.ref.step}")
        with open_experiment_store(api, experiment, session.store_options) as opened:
            fetch_checkpoint(opened, choice, destination)
        return destination

    return session.call(fetch)
