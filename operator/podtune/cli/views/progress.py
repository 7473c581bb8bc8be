"""What `watch` knows: an Experiment and its Trials, kept up to date by the watches on both."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from podtune.api.names import ConditionType
from podtune.cli.client.api_client import Api, Change
from podtune.cli.client.resources import (
    NO_DEFINITIONS,
    ExperimentView,
    TrialView,
    read_experiment,
    read_trial,
)
from podtune.cli.errors import CliError
from podtune.cli.views.troubles import find_bad_conditions, find_troubled_trials
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import select_experiment

EXPERIMENT_CHANGED = "experiment"
TRIALS_CHANGED = "trials"
Changes = queue.SimpleQueue[tuple[str, Change | Exception]]


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
    def outcome(self) -> tuple[int, str] | None:
        """The exit code and the closing message, once there is nothing more to wait for."""
        if not self.is_known:
            return None
        if self.experiment is None:
            return 1, "the experiment was deleted"
        for condition, code in ((ConditionType.FAILED, 1), (ConditionType.COMPLETE, 0), (ConditionType.STALLED, 1)):
            held = self.experiment.find_true(condition)
            if held is not None:
                return code, held.message or f"{condition}: {held.reason}"
        return None

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


def _collect_news(trial: TrialView) -> tuple[object, ...]:
    """What is worth a line when it changes: its state, and what is wrong with it, but not each result."""
    status = trial.status
    return trial.state, status.reason, [(bad.type, bad.reason) for bad in find_bad_conditions(status.conditions)]


def follow(api: Api, namespace: str, name: str) -> Iterator[Progress]:
    """Watches an Experiment and its Trials; yields after every change, until there is nothing more to wait for.

    Raises:
        CliError: There is no such Experiment.
        ApiError: A watch can't go on.
    """
    changes: Changes = queue.SimpleQueue()
    only = {"fieldSelector": f"metadata.name={name}"}
    for source, path, params in (
        (EXPERIMENT_CHANGED, paths.experiments(namespace), only),
        (TRIALS_CHANGED, paths.trials(namespace), select_experiment(name)),
    ):
        # They end with the process: a watch that waits for its next line can't be interrupted.
        threading.Thread(target=_pump, args=(api, source, path, params, changes), daemon=True).start()
    progress = Progress()
    seen = False
    while True:
        source, change = changes.get()
        if isinstance(change, Exception):
            raise change
        progress.apply(source, change)
        seen = seen or progress.experiment is not None
        if source == EXPERIMENT_CHANGED and change.kind == "SYNCED" and not seen:
            raise CliError(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all")
        if progress.is_known:
            yield progress
        if progress.outcome is not None:
            return


def _pump(api: Api, source: str, path: str, params: Mapping[str, str], changes: Changes) -> None:
    try:
        for change in api.watch(path, params):
            changes.put((source, change))
    except ResourceNotFound:
        changes.put((source, CliError(NO_DEFINITIONS)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again where somebody sees it
        changes.put((source, error))
