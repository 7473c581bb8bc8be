"""What `watch` knows: an Experiment and its Trials, kept up to date by the watches on both."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from podtune.api.conditions import find_bad_conditions
from podtune.api.names import ConditionType
from podtune.cli.client.api_client import Api, Change
from podtune.cli.client.resources import (
    NO_DEFINITIONS,
    ExperimentView,
    TrialView,
    read_experiment,
    read_trial,
)
from podtune.cli.errors import CliError, NoSuchObject
from podtune.cli.views.troubles import find_troubled_trials
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import select_experiment

EXPERIMENT_CHANGED = "experiment"
TRIALS_CHANGED = "trials"


class Inbox:
    """What the watches on one experiment tell, until somebody closes it."""

    def __init__(self) -> None:
        self._changes: queue.SimpleQueue[tuple[str, Change | Exception]] = queue.SimpleQueue()
        self._is_closed = threading.Event()

    @property
    def is_open(self) -> bool:
        """Whether anybody still wants to hear of changes."""
        return not self._is_closed.is_set()

    @property
    def has_more(self) -> bool:
        """Whether something waits to be taken."""
        return not self._changes.empty()

    def put(self, source: str, change: Change | Exception) -> None:
        """Hands over what a watch has told, or why it ends."""
        self._changes.put((source, change))

    def take(self, timeout: float | None = None) -> tuple[str, Change]:
        """Waits for the next change; raises what has ended a watch, or what the inbox was closed with.

        Raises:
            queue.Empty: None has come within the timeout, in seconds.
        """
        source, change = self._changes.get(timeout=timeout)
        if isinstance(change, Exception):
            raise change
        return source, change

    def close(self, reason: Exception | None = None) -> None:
        """Has the watches end; whoever waits for a change gets the reason raised, if one is given."""
        self._is_closed.set()
        if reason is not None:
            self.put("", reason)


@dataclass(slots=True)
class Progress:
    """An Experiment as it was last seen.

    Attributes:
        experiment: The Experiment; None before it is seen, and after it was deleted.
        trials: Its Trials by name.
        changed: Trials whose state, or what is wrong with them, has changed since they were last taken from here,
            oldest first.
    """

    experiment: ExperimentView | None = None
    trials: dict[str, TrialView] = field(default_factory=dict)
    changed: list[TrialView] = field(default_factory=list)
    _synced: set[str] = field(default_factory=set)
    _listed: dict[str, set[str]] = field(default_factory=lambda: {EXPERIMENT_CHANGED: set(), TRIALS_CHANGED: set()})

    @property
    def is_known(self) -> bool:
        """Whether both the Experiment and its Trials have been listed."""
        return self._synced == {EXPERIMENT_CHANGED, TRIALS_CHANGED}

    @property
    def running(self) -> list[TrialView]:
        """The Trials that train, by index."""
        return sorted((t for t in self.trials.values() if t.is_running), key=lambda trial: trial.index)

    @property
    def troubled(self) -> Sequence[tuple[TrialView, str]]:
        """The Trials that somebody should look at while the experiment goes on, by index, and why."""
        return find_troubled_trials(trial for trial in self.trials.values() if not trial.has_ended)

    @property
    def failed(self) -> list[TrialView]:
        """The Trials that have failed, by index."""
        return sorted((t for t in self.trials.values() if t.has_failed), key=lambda trial: trial.index)

    def copy(self) -> Progress:
        """The same as it is now, for another thread."""
        return replace(self, trials=self.trials.copy(), changed=self.changed.copy())

    @property
    def outcome(self) -> tuple[int, str] | None:
        """The exit code and the closing message, once there is nothing more to wait for."""
        if not self.is_known:
            return None
        return find_outcome(self.experiment) if self.experiment is not None else (1, "the experiment was deleted")

    def apply(self, source: str, change: Change) -> None:
        """Takes in one change of a watch."""
        match source, change.kind:
            case _, "INTERRUPTED" | "RESUMED":
                pass  # the watch goes on by itself
            case _, "RELISTED":
                self._listed[source] = set()
            case _, "SYNCED":
                self._synced.add(source)
                self._forget_unlisted(source)
            case "experiment", "DELETED":
                self.experiment = None
            case "experiment", _:
                self.experiment = read_experiment(change.object)
                self._listed[source].add(self.experiment.name)
            case _, "DELETED":
                self.trials.pop(change.object["metadata"]["name"], None)
            case _:
                self._put(read_trial(change.object))

    def _forget_unlisted(self, source: str) -> None:
        """What was deleted while no watch was open is only missing from the next list."""
        listed = self._listed[source]
        if source == TRIALS_CHANGED:
            self.trials = {name: trial for name, trial in self.trials.items() if name in listed}
        elif not listed:
            self.experiment = None

    def _put(self, trial: TrialView) -> None:
        before = self.trials.get(trial.name)
        if before is None or _collect_news(before) != _collect_news(trial):
            self.changed.append(trial)
        self.trials[trial.name] = trial
        self._listed[TRIALS_CHANGED].add(trial.name)


def find_outcome(experiment: ExperimentView) -> tuple[int, str] | None:
    """The exit code and the closing message of an Experiment that nothing more is to be waited for; else None."""
    for condition, code in ((ConditionType.FAILED, 1), (ConditionType.COMPLETE, 0), (ConditionType.STALLED, 1)):
        held = experiment.find_true(condition)
        if held is not None:
            return code, held.message or f"{condition}: {held.reason}"
    return None


def _collect_news(trial: TrialView) -> tuple[object, ...]:
    """What is worth a line when it changes: its state, and what is wrong with it, but not each result."""
    status = trial.status
    return trial.state, status.reason, [(bad.type, bad.reason) for bad in find_bad_conditions(status.conditions)]


def follow(api: Api, namespace: str, name: str, inbox: Inbox | None = None) -> Iterator[Progress]:
    """Watches an Experiment and its Trials; yields after every change, until there is nothing more to wait for.

    Args:
        api: The API server.
        namespace: The Experiment's.
        name: The Experiment's.
        inbox: Where changes arrive; who closes it ends this, from another thread, too.

    Raises:
        CliError: There is no such Experiment.
        ApiError: A watch can't go on.
    """
    inbox = inbox or Inbox()
    only = {"fieldSelector": f"metadata.name={name}"}
    for source, path, params in (
        (EXPERIMENT_CHANGED, paths.experiments(namespace), only),
        (TRIALS_CHANGED, paths.trials(namespace), select_experiment(name)),
    ):
        # They end with the process, or some minutes after the inbox is closed: a watch that waits for its next line
        # can't be interrupted.
        threading.Thread(target=pump_changes, args=(api, source, path, params, inbox), daemon=True).start()
    progress = Progress()
    seen = False
    try:
        while True:
            source, change = inbox.take()
            progress.apply(source, change)
            seen = seen or progress.experiment is not None
            if source == EXPERIMENT_CHANGED and change.kind == "SYNCED" and not seen:
                raise NoSuchObject(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all")
            if progress.is_known:
                yield progress
            if progress.outcome is not None:
                return
    finally:
        inbox.close()


def pump_changes(api: Api, source: str, path: str, params: Mapping[str, str], inbox: Inbox) -> None:
    """Puts what a watch tells into an inbox, and what ends it; runs in a thread of its own."""
    try:
        for change in api.watch(path, params, lambda: inbox.is_open):
            if not inbox.is_open:
                return
            inbox.put(source, change)
    except ResourceNotFound:
        inbox.put(source, CliError(NO_DEFINITIONS))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again where somebody sees it
        inbox.put(source, error)
