"""All results of an Experiment or a Trial as a table: from the store, or from the learning curves in the status."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from podtune.cli.client.api_client import Api
from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.store_access import StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.commands.results import make_row
from podtune.cli.layouts.layout_export import LayoutName, export_layout
from podtune.client.checkpoint import PathName
from podtune.client.errors import InvalidArgument, MissingPackage, NotPossible, Refused, StoreFailed
from podtune.client.facts import TrialFacts
from podtune.client.session import ClusterSession
from podtune.storage.errors import StoreError
from podtune.storage.segments.former import read_all_results
from podtune.trial.layout import ITERATION, TIME_TOTAL

if TYPE_CHECKING:
    import pandas

ResultSource = Literal["auto", "store", "status"]
ResultRow = dict[str, Any]


class IncompleteResults(UserWarning):
    """Some results are missing, and why."""


def choose_results(
    source: ResultSource,
    view: ExperimentView,
    read_stored: Callable[[], list[ResultRow]],
    list_trials: Callable[[], Iterable[TrialFacts]],
) -> list[ResultRow]:
    """Reads results, a row each.

    Args:
        source: Where from; auto is the store, or where that can't be read the status, with a warning.
        view: The Experiment.
        read_stored: Reads what the store has.
        list_trials: Lists the Trials whose learning curves are wanted.

    Raises:
        InvalidArgument: There is no such source.
        PodtuneError: The source can't be read.
    """
    if source not in get_args(ResultSource):
        raise InvalidArgument(f"source: {source!r} is none; use {', '.join(get_args(ResultSource))}")
    has_store = bool((view.spec.get("checkpoints") or {}).get("store"))
    if source == "store" or (source == "auto" and has_store):
        try:
            return read_stored()
        except (NotPossible, StoreFailed, Refused) as error:
            if source == "store":
                raise
            _warn(f"the results of {view.name} are those of its learning curves alone, at most 64 a trial: {error}")
    return [row for trial in list_trials() for row in _list_points(trial)]


def read_stored_rows(
    api: Api, view: ExperimentView, options: StoreOptions, *, trial: str, rank: int
) -> list[ResultRow]:
    """Reads all results that an Experiment has stored, as `podtune results` prints them.

    Args:
        api: The API server.
        view: The Experiment.
        options: How its store is reached.
        trial: The only Trial whose results are wanted; all Trials' when empty.
        rank: Of Trials of several pods: which one's results.

    Raises:
        CliError: The store can't be read.
        ApiError: The server can't say.
    """
    rows, missed = [], 0
    with open_experiment_store(api, view, options) as opened:
        try:
            prefix, former = opened.address.experiment_prefix(view.uid), list_former_folders(view, opened.address)
            for stored in read_all_results(opened.store, prefix, former, trial=trial, rank=rank):
                rows.append(make_row(stored))
                missed += stored.missed
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error
    if missed:
        _warn(f"{missed:,} results of {trial or view.name} are not kept; results.keep says how much is")
    return rows


def _list_points(trial: TrialFacts) -> Iterable[ResultRow]:
    """The points of a learning curve as results."""
    for point in trial.curve:
        yield {"trial": trial.name, ITERATION: point.iteration, TIME_TOTAL: point.seconds, **point.values}


def _warn(message: str) -> None:
    warnings.warn(message, IncompleteResults, stacklevel=2)


def make_frame(rows: Sequence[ResultRow]) -> pandas.DataFrame:
    """Makes a table of results.

    Raises:
        MissingPackage: pandas is not installed.
    """
    try:
        frames: Any = importlib.import_module("pandas")
    except ImportError as error:
        raise MissingPackage(
            "results_df needs pandas, which is not installed; pip install pandas, or use `results`, a list of dicts"
        ) from error
    frame = frames.DataFrame(list(rows))
    if "time" in frame:
        frame["time"] = frames.to_datetime(frame["time"])
    return frame


def check_rank(rank: object) -> int:
    """Checks that an argument is the rank of a pod.

    Raises:
        InvalidArgument: It is none.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
        raise InvalidArgument(f"rank: {rank!r} is no rank of a pod; give a whole number of at least 0")
    return rank


def export_results(session: ClusterSession, namespace: str, name: str, directory: PathName, layout: str) -> Path:
    """Writes all results of an Experiment to files as `podtune export --layout` does; returns the directory.

    Raises:
        InvalidArgument: There is no such layout, or the directory is no path.
        PodtuneError: They can't be read or written.
    """
    if layout not in list(LayoutName):
        raise InvalidArgument(f"layout: {layout!r} is none; use {', '.join(LayoutName)}")
    if not isinstance(directory, str | os.PathLike) or not os.fspath(directory):
        raise InvalidArgument(f"directory: {directory!r} is no path; name a directory that is not there yet")
    destination, options = Path(directory), session.store_options
    session.call(
        lambda api: export_layout(
            api, namespace, name, layout=LayoutName(layout), directory=destination, options=options
        )
    )
    return destination
