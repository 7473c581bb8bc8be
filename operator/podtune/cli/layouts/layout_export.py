"""All results that an Experiment has stored, in files as other programs lay them out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from podtune.cli.client.api_client import Api
from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.resources import ExperimentView, get_experiment, list_trials
from podtune.cli.client.store_access import StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.errors import CliError
from podtune.cli.layouts.exported_trial import ExportedTrial, describe_trial
from podtune.cli.layouts.ray_layout import RayLayout
from podtune.cli.layouts.tensorboard_layout import TensorBoardLayout
from podtune.storage.errors import StoreError
from podtune.storage.segments.former import read_all_results
from podtune.storage.segments.reader import StoredResult

_MODE = 0o755
"""Of the directory, in the place of that of temporary ones, which only their owner may read."""


class LayoutName(StrEnum):
    """The layouts that there are."""

    RAY = "ray"
    TENSORBOARD = "tensorboard"


class LayoutWriter(Protocol):
    """Writes files into a directory that is empty at first."""

    def add(self, stored: StoredResult) -> None:
        """Takes the next result, in order of time."""

    def finish(self) -> None:
        """There are no more results."""


def export_layout(
    api: Api, namespace: str, name: str, *, layout: LayoutName, directory: Path, options: StoreOptions
) -> str:
    """Writes all results of an Experiment into a directory, which is there only once it is whole.

    Args:
        api: The API server.
        namespace: The Experiment's.
        name: Its name.
        layout: How files are laid out.
        directory: Where to; it must not be there yet.
        options: How its store is reached.

    Returns:
        What was done, in a sentence.

    Raises:
        CliError: The directory is there, or can't be written; or the store can't be read.
        ApiError: The server can't say.
    """
    if directory.exists():
        raise CliError(f"{directory} exists; name another directory, or delete it first")
    experiment = get_experiment(api, namespace, name)
    trials = [describe_trial(experiment, view) for view in list_trials(api, namespace, experiment.name)]
    unfinished: Path | None = None
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        unfinished.chmod(_MODE)
        writer = _MAKERS[layout](unfinished, experiment, trials)
        count, missed = _write(api, experiment, options, writer)
        unfinished.rename(directory)
    except OSError as error:
        raise CliError(f"{directory}: {error.strerror or error}; name a directory that can be written") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
    gaps = f"; {missed:,} more are not kept, results.keep says how much is" if missed else ""
    return f"{directory}: {count:,} results of {len(trials):,} trials of {name}, as {layout} lays them out{gaps}"


def _write(api: Api, experiment: ExperimentView, options: StoreOptions, writer: LayoutWriter) -> tuple[int, int]:
    """Passes all results to a writer; returns how many there were, and how many are missing."""
    count = missed = 0
    with open_experiment_store(api, experiment, options) as opened:
        prefix = opened.address.experiment_prefix(experiment.uid)
        try:
            for stored in read_all_results(opened.store, prefix, list_former_folders(experiment, opened.address)):
                writer.add(stored)
                count, missed = count + 1, missed + stored.missed
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error
    writer.finish()
    return count, missed


_Maker = Callable[[Path, ExperimentView, list[ExportedTrial]], LayoutWriter]
_MAKERS: dict[LayoutName, _Maker] = {
    LayoutName.RAY: lambda directory, _, trials: RayLayout(directory, trials),
    LayoutName.TENSORBOARD: TensorBoardLayout,
}
