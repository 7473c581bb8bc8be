"""What is known of a cluster: its Experiments and Trials as views, kept up to date by the changes of two watches."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, TypeVar

from podtune.api.names import EXPERIMENT_PLURAL
from podtune.cli.client.api_client import Change
from podtune.cli.client.resources import ExperimentView, TrialView, read_experiment, read_trial
from podtune.dashboard.server.logs import get_field_logger
from podtune.kube.manifests import Manifest, name_object

MOST_DELETED = 1000
"""So many deleted Experiments are remembered, to say what has become of them."""
ObjectKey = tuple[str, str]
"""A namespace, and a name in it."""
View = TypeVar("View")
_log = get_field_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[View]):
    """A view, and the version of the object that it was read from."""

    version: str
    view: View


@dataclass(slots=True)
class _Family:
    """The Trials of one Experiment.

    Attributes:
        by_name: All of them.
        views: The same by index, unless it is not `is_sorted`.
        places: Where each is among them.
        listed: A copy of them; None as long as nobody has asked since the last change.
    """

    by_name: dict[str, _Kept[TrialView]] = field(default_factory=dict)
    views: list[TrialView] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    is_sorted: bool = True
    listed: tuple[TrialView, ...] | None = None

    def put(self, kept: _Kept[TrialView]) -> None:
        """Takes in a trial. Most are known, or the newest: the order is kept then."""
        view, known = kept.view, self.by_name.get(kept.view.name)
        self.by_name[view.name], self.listed = kept, None
        if not self.is_sorted:
            return
        if known is not None and _find_order(known.view) == _find_order(view):
            self.views[self.places[view.name]] = view
        elif known is None and (not self.views or _find_order(self.views[-1]) < _find_order(view)):
            self.places[view.name] = len(self.views)
            self.views.append(view)
        else:
            self.is_sorted = False

    def remove(self, name: str) -> bool:
        """Forgets a trial; returns whether it was there."""
        if self.by_name.pop(name, None) is None:
            return False
        self.is_sorted, self.listed = False, None
        return True

    def list_by_index(self) -> Sequence[TrialView]:
        """All trials in their order."""
        if not self.is_sorted:
            self.views = sorted((each.view for each in self.by_name.values()), key=_find_order)
            self.places = {view.name: place for place, view in enumerate(self.views)}
            self.is_sorted = True
        if self.listed is None:
            self.listed = tuple(self.views)
        return self.listed


class ClusterState:
    """Views by name. It is no thread's own: who uses it from several holds a lock."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Knows nothing yet.

        Args:
            clock: Tells the time.
        """
        self._clock = clock
        self._experiments: dict[ObjectKey, _Kept[ExperimentView]] = {}
        self._families: dict[ObjectKey, _Family] = {}
        self._deleted: OrderedDict[ObjectKey, datetime] = OrderedDict()
        self._listed: dict[str, set[ObjectKey]] = {}
        self._counter = itertools.count(1)
        self._revisions: dict[ObjectKey, int] = {}
        self.revision = 0

    def list_experiments(self) -> Sequence[ExperimentView]:
        """All Experiments, by namespace and name."""
        return tuple(kept.view for _, kept in sorted(self._experiments.items()))

    def find_experiment(self, key: ObjectKey) -> ExperimentView | None:
        """One of them; None where there is none."""
        kept = self._experiments.get(key)
        return kept.view if kept is not None else None

    def list_trials(self, key: ObjectKey) -> Sequence[TrialView]:
        """An Experiment's Trials by index; the same object until one of them changes."""
        family = self._families.get(key)
        if family is None:
            return ()
        return family.list_by_index()

    def find_revision(self, key: ObjectKey) -> int:
        """The number of the last change to an Experiment or its Trials; 0 where there was none."""
        return self._revisions.get(key, 0)

    def find_deletion(self, key: ObjectKey) -> datetime | None:
        """When we heard that an Experiment was deleted; None where it is there, or never was."""
        return self._deleted.get(key)

    def apply(self, plural: str, change: Change) -> None:
        """Takes in one change of the watch on Experiments, or of that on Trials."""
        match change.kind:
            case "RELISTED":
                self._listed[plural] = set()
            case "SYNCED":
                self._forget_unlisted(plural, self._listed.pop(plural, set()))
            case "ADDED" | "MODIFIED":
                self._put(plural, change.object)
            case "DELETED":
                self._remove(plural, _find_key(change.object), _find_experiment(change.object))

    def _put(self, plural: str, item: Manifest) -> None:
        key, version = _find_key(item), item["metadata"].get("resourceVersion", "")
        if plural in self._listed:
            self._listed[plural].add(key)
        try:
            self._put_experiment(key, version, item) if plural == EXPERIMENT_PLURAL else self._put_trial(
                key, version, item
            )
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            found = name_object(item)
            _log.warning(
                "object passed over",
                kind=found.kind,
                namespace=found.namespace,
                name=found.name,
                experiment=found.experiment,
                message=f"{found.kind} {found.namespace}/{found.name} can't be read: {error}",
            )

    def _put_experiment(self, key: ObjectKey, version: str, item: Manifest) -> None:
        known = self._experiments.get(key)
        if known is not None and version and known.version == version:
            return
        self._experiments[key] = _Kept(version, read_experiment(item))
        self._deleted.pop(key, None)
        self._note(key)

    def _put_trial(self, key: ObjectKey, version: str, item: Manifest) -> None:
        owner = key[0], _find_experiment(item)
        family = self._families.get(owner)
        known = family.by_name.get(key[1]) if family is not None else None
        if known is not None and version and known.version == version:
            return
        view = read_trial(item)
        family = self._families.setdefault(owner, _Family())
        family.put(_Kept(version, view))
        self._note(owner)

    def _remove(self, plural: str, key: ObjectKey, experiment: str) -> None:
        if plural != EXPERIMENT_PLURAL:
            self._remove_trial((key[0], experiment), key[1])
        elif self._experiments.pop(key, None) is not None:
            self._deleted[key] = self._clock()
            while len(self._deleted) > MOST_DELETED:
                self._revisions.pop(self._deleted.popitem(last=False)[0], None)
            self._note(key)

    def _remove_trial(self, owner: ObjectKey, name: str) -> None:
        family = self._families.get(owner)
        if family is None or not family.remove(name):
            return
        if not family.by_name:
            del self._families[owner]
        self._note(owner)

    def _forget_unlisted(self, plural: str, listed: set[ObjectKey]) -> None:
        """What was deleted while no watch was open is only missing from the next list."""
        if plural == EXPERIMENT_PLURAL:
            for key in self._experiments.keys() - listed:
                self._remove(plural, key, "")
            return
        gone = [
            (owner, name)
            for owner, family in self._families.items()
            for name in family.by_name
            if (owner[0], name) not in listed
        ]
        for owner, name in gone:
            self._remove_trial(owner, name)

    def _note(self, key: ObjectKey) -> None:
        self.revision = self._revisions[key] = next(self._counter)


def _find_order(view: TrialView) -> tuple[int, str]:
    return view.index, view.name


def _find_key(item: Manifest) -> ObjectKey:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _find_experiment(item: Manifest) -> str:
    """The Experiment that a Trial belongs to."""
    return str((item.get("spec") or {}).get("experiment", ""))
