"""What a check is: steps, each of which does something and waits for what comes of it, and what holds at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from podtune.api.names import LABEL_TRIAL, ConditionType
from podtune.cli.client.api_client import Api
from podtune.cli.commands.conformance.program import CheckImage, make_check_experiment
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest, select_experiment

_ENDED = ("Succeeded", "Failed")


class Need(StrEnum):
    """What a check can't do without."""

    STORE = "a store for checkpoints"
    PLAIN_STORE = "a store whose server is reached over plain http"
    OPERATOR_PODS = "the right to delete the operator's pods"


@dataclass(frozen=True, slots=True)
class CheckStore:
    """Where the checks' checkpoints go.

    Attributes:
        spec: The `checkpoints.store` of an Experiment.
        server: Host and port of a server that is reached over plain http; None for any other.
    """

    spec: Manifest
    server: tuple[str, int] | None = None


@dataclass(frozen=True)
class Observed:
    """How an Experiment, its one Trial and that Trial's pods are at a moment."""

    experiment: Manifest
    trial: Manifest
    pods: Sequence[Manifest]

    @cached_property
    def status(self) -> Mapping[str, Any]:
        """The Trial's status; empty before it has one."""
        return self.trial.get("status") or {}

    @cached_property
    def live_pods(self) -> Sequence[Manifest]:
        """The pods that have not ended."""
        return [pod for pod in self.pods if (pod.get("status") or {}).get("phase") not in _ENDED]

    @property
    def checkpoint_step(self) -> int:
        """The epoch of the last checkpoint that is stored; 0 where there is none."""
        return int((self.status.get("checkpoint") or {}).get("step", 0))

    def count(self, what: str) -> int:
        """A number of the Trial's status, such as `failures`."""
        return int(self.status.get(what) or 0)

    def read_result(self, metric: str) -> float:
        """A metric of the last result; NaN where there is none."""
        return float((self.status.get("lastResult") or {}).get(metric, "nan"))

    def find_condition(self, type_: ConditionType, *, of_trial: bool = False) -> Mapping[str, Any]:
        """A condition of the Experiment, or of its Trial; empty where it has none of this type."""
        status = self.status if of_trial else self.experiment.get("status") or {}
        return next((entry for entry in status.get("conditions") or () if entry["type"] == type_), {})

    def holds(self, type_: ConditionType) -> bool:
        """Whether a condition of the Experiment is True."""
        return self.find_condition(type_).get("status") == "True"


@dataclass
class Rig:
    """What a check works with, and on.

    Attributes:
        api: The cluster.
        namespace: Where the Experiment is; nobody else works there.
        home: The operator's own namespace.
        image: What pods run.
        name: The check's, and the Experiment's.
        environment: Of the program.
        store: Where checkpoints go; None where there is none.
        made: Paths of what the check has made, the Experiment aside.
        notes: What one step has to tell a later one.
    """

    api: Api
    namespace: str
    home: str
    image: CheckImage
    name: str
    environment: Mapping[str, str]
    store: CheckStore | None = None
    made: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def trial(self) -> str:
        """Name of the Experiment's one Trial."""
        return f"{self.name}-0"

    def start(self, store: Manifest | None = None) -> None:
        """Makes the Experiment, with another store than the usual one where that is given."""
        usual = self.store.spec if self.store is not None else None
        manifest = make_check_experiment(self.name, self.image, self.environment, store or usual)
        self.api.create(paths.experiments(self.namespace), manifest)

    def make(self, collection: str, body: Manifest) -> None:
        """Makes an object that goes at the end of the check."""
        made = self.api.create(collection, body)
        self.made.append(paths.name_in(collection, made["metadata"]["name"]))

    def observe(self) -> Observed:
        """Looks at the Experiment and what belongs to it; what is not there yet is empty."""
        found: list[Manifest] = [{}, {}]
        for place, path in enumerate(
            (paths.experiment(self.namespace, self.name), paths.trial(self.namespace, self.trial))
        ):
            with suppress(ResourceNotFound):
                found[place] = self.api.get(path)
        selector = select_experiment(self.name)["labelSelector"]
        pods = self.api.list_all(paths.pods(self.namespace), {"labelSelector": f"{selector},{LABEL_TRIAL}"})
        return Observed(found[0], found[1], pods)

    def change_trial(self, spec: Mapping[str, Any]) -> None:
        """Writes fields of the Trial's spec, as a person would."""
        self.api.patch(paths.trial(self.namespace, self.trial), {"spec": spec})

    def delete(self, path: str, grace: int | None = None) -> None:
        """Deletes an object as it is there now; one that is not there is as good as deleted."""
        with suppress(ResourceNotFound):
            self.api.delete(path, self.api.get(path)["metadata"]["uid"], grace)


def _do_nothing(_: Rig) -> None:
    """Where a step only waits, or a check leaves nothing to mend."""


@dataclass(frozen=True, slots=True)
class CheckStep:
    """One step of a check.

    Attributes:
        words: What is waited for, as a clause: `a checkpoint is stored`.
        until: Whether that has come.
        act: What is done before.
    """

    words: str
    until: Callable[[Rig, Observed], bool]
    act: Callable[[Rig], None] = _do_nothing


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """A failure, and what must become of a trial that meets it.

    Attributes:
        name: Its name, and that of its Experiment.
        proves: What has been shown if it passes, as a sentence.
        deadline: Seconds that all of it may take.
        steps: The disturbance, with what leads to it. The end of the Experiment is waited for afterwards.
        expected: What must hold at the end, by the words for it.
        environment: What the program does; see `CHECK_PROGRAM`.
        needs: What it can't do without.
        mend: Takes back what the disturbance has done, however far the check has come.
    """

    name: str
    proves: str
    deadline: float
    steps: Sequence[CheckStep]
    expected: Mapping[str, Callable[[Observed], bool]]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    mend: Callable[[Rig], None] = _do_nothing

    @property
    def needs_store(self) -> bool:
        """Whether its trial stores checkpoints."""
        return bool(self.needs & {Need.STORE, Need.PLAIN_STORE})
