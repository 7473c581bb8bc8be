"""What all pages need: the source, and the experiment that an address names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from aiohttp import web

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.access.viewed_source import NOTHING, ViewedSource
from podtune.dashboard.access.visit import GATE, VISIT, Visit
from podtune.dashboard.live.object_reader import ObjectReader, ReadingThreads
from podtune.dashboard.pricing import GpuPrice
from podtune.dashboard.sources import ExperimentSource, LiveSource
from podtune.dashboard.stores.access import StoreAccess
from podtune.dashboard.stores.history import HistoryShelf
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow, collect_rows

MOST_EXPERIMENTS = 256
"""So many are kept at hand as rows; others are made anew when they are looked at."""
PRESENT_STEP = 15
"""The present moves on by so many seconds at once, so that charts are not drawn for each viewer anew."""

STATIC = "static"
"""Name of the route of scripts and styles, which say nothing of anything that is shown."""
WITH_BUTTONS = frozenset({"experiment", "trial"})
"""Names of the routes of pages that offer actions."""


class NotThere(Exception):
    """What an address names is not there; the text says what that is."""


class Deleted(Exception):
    """The experiment that an address names was there, and was deleted.

    Attributes:
        name: Its name.
        moment: When, as the API writes times.
    """

    def __init__(self, name: str, moment: str) -> None:
        super().__init__(f"experiment {name!r} was deleted at {moment}")
        self.name = name
        self.moment = moment


class RowCache:
    """Experiments as rows, made anew whenever the source has news of them."""

    def __init__(self, source: ExperimentSource) -> None:
        """Takes where they come from."""
        self.source = source
        self._kept: OrderedDict[tuple[str, str], tuple[ExperimentView, Sequence[TrialView], ExperimentRows]]
        self._kept = OrderedDict()

    def get(self, view: ExperimentView) -> ExperimentRows:
        """An experiment with its trials."""
        key = view.namespace, view.name
        trials = self.source.list_trials(*key)
        known = self._kept.get(key)
        if known is None or known[0] is not view or known[1] is not trials:
            earlier = known[2] if known is not None else None
            known = self._kept[key] = view, trials, collect_rows(view, trials, earlier)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_EXPERIMENTS:
            self._kept.popitem(last=False)
        return known[2]


EXPERIMENT_ROWS = web.AppKey("rows", RowCache)
GPU_PRICE = web.AppKey("price", GpuPrice)
CLOCK: web.AppKey[Callable[[], float]] = web.AppKey("clock")
"""Tells the present time in seconds since 1970."""
OBJECT_READER: web.AppKey[ObjectReader | None] = web.AppKey("reader")
READING_THREADS = web.AppKey("reading_threads", ReadingThreads)
STORE_ACCESS: web.AppKey[StoreAccess | None] = web.AppKey("store_access")
STORE_THREADS = web.AppKey("store_threads", ReadingThreads)
HISTORIES = web.AppKey("histories", HistoryShelf)


def get_source(request: web.Request) -> ExperimentSource:
    """What is shown of: where the application has its data from, and for a viewer the part that they may see.

    Where viewers are asked who they are, that is nothing until it is known.
    """
    visit: Visit | None = request.get(VISIT)
    if visit is not None:
        return visit.source
    source = request.app[EXPERIMENT_ROWS].source
    if GATE in request.app and isinstance(source, LiveSource):
        return ViewedSource(source, NOTHING)
    return source


def find_present(request: web.Request) -> float | None:
    """The present where what is shown may be under way, in seconds since 1970; None for what was exported."""
    is_live = isinstance(get_source(request), LiveSource)
    return float(-(-int(request.app[CLOCK]()) // PRESENT_STEP) * PRESENT_STEP) if is_live else None


def find_rows(request: web.Request) -> ExperimentRows:
    """The experiment that an address names.

    Raises:
        NotThere: There is none.
        Deleted: There is none any more.
    """
    source = get_source(request)
    namespace, name = request.match_info["namespace"], request.match_info["experiment"]
    view = source.find_experiment(namespace, name)
    if view is None:
        moment = source.find_deletion(namespace, name) if isinstance(source, LiveSource) else None
        if moment is not None:
            raise Deleted(name, moment.isoformat(timespec="seconds"))
        raise NotThere(f"There is no experiment {name!r} in namespace {namespace!r}.")
    return request.app[EXPERIMENT_ROWS].get(view)


def pick_row(experiment: ExperimentRows, trial: str) -> TrialRow:
    """A trial of an experiment.

    Raises:
        NotThere: It has none of that name.
    """
    row = experiment.by_name.get(trial)
    if row is None:
        raise NotThere(f"There is no trial {trial!r} in experiment {experiment.view.name!r}.")
    return row
