"""The operator's view of the cluster: every Experiment with its machine, its Trials and their pods.

All observations arrive here: from the watches, from the answers to the operator's own writes, and from the resync.
Resource versions, and the UIDs of deleted objects, tell stale observations from new ones, so it does not matter which
source is first. Only owners' UIDs say which object belongs to which, because names are reused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import structlog

from podtune.api.names import LABEL_EXPERIMENT
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.cluster import decoders
from podtune.cluster.decoders import MalformedObject
from podtune.controllers.pods.namespace_caps import NO_LIMITS, NamespaceCaps, PodLimits
from podtune.controllers.pods.overdue_pods import OverduePods
from podtune.controllers.store.entry import ExperimentEntry, ObjectListener, StateEvent
from podtune.controllers.store.stalled import Stalled
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Unstored
from podtune.runner.experiment import finalizer
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Pod, StoragePod, Trial
from podtune.runner.settings import RunnerSettings

log = structlog.get_logger(__name__)

REMEMBERED = 20_000
"""UIDs of objects that are gone; an answer or a list that is older than the deletion must not bring them back."""


class Store:
    """All Experiments, by UID."""

    def __init__(
        self,
        settings: RunnerSettings,
        changed: Callable[[str], None],
        policy: TemplatePolicy = DEFAULT_POLICY,
        pod_limits: PodLimits = NO_LIMITS,
        overdue_pods: OverduePods | None = None,
        *,
        listeners: Sequence[ObjectListener] = (),
        find_bar: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Makes an empty store.

        Args:
            settings: For the machines.
            changed: Called with the UID of an Experiment that something happened to.
            policy: What the administrator decides about trial templates.
            pod_limits: How many pods of trials each namespace may have.
            overdue_pods: Ends pods that take longer to end than they may.
            listeners: Hear of each Experiment and Trial.
            find_bar: Why the Experiments of a namespace may not be served; empty while that is not known, None where
                they may.
        """
        self._settings = settings
        self._changed = changed
        self._policy = policy
        self._entries: dict[str, ExperimentEntry] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._trials: dict[str, tuple[str, str]] = {}
        """By UID of the Trial: its Experiment's UID and its name."""
        self._pods: dict[str, dict[str, Pod]] = {}
        """By UID of the owner, a Trial or of warm pods the Experiment, known or not, and UID of the pod."""
        self._owners: dict[str, str] = {}
        """By UID of the pod: its owner's UID."""
        self._storage_pods: dict[str, str] = {}
        """By UID of a pod that works in the bucket: its Experiment's UID."""
        self._caps = NamespaceCaps(pod_limits, self._wake)
        self._throttle = StatusWriteThrottle()
        self._gone = _BoundedSet(REMEMBERED)
        self._complained = _BoundedSet(REMEMBERED)
        self._spared = _BoundedSet(REMEMBERED)
        """UIDs of objects that were deleted without what belongs to them."""
        self._overdue_pods = overdue_pods
        self._listeners = tuple(listeners)
        self._find_bar = find_bar
        self._synced = False

    # What was seen

    def observe_experiment(self, body: Manifest) -> None:
        """An Experiment was seen."""
        uid = body["metadata"]["uid"]
        entry = self._entries.get(uid)
        if uid in self._gone or (entry is not None and decoders.read_version(body) <= entry.experiment.version):
            return
        known = entry.experiment if entry is not None else None
        try:
            experiment = decoders.decode_experiment(body, self._policy, known=known)
        except MalformedObject as error:
            self._complain(uid, error)
            return
        if entry is None:
            settings = self._settings
            stalled = Stalled(settings.api_backoff, records_transitions=settings.records_transitions)
            entry = self._entries[uid] = ExperimentEntry(experiment, stalled)
            self._by_name[experiment.namespace, experiment.name] = uid
        entry.experiment = experiment
        self._tell(entry)
        self._apply(entry, lambda machine: machine.observe_experiment(experiment))
        if experiment.deleting and not (known is not None and known.deleting):
            self._observe_experiment_ending(entry, body)

    def observe_trial(self, body: Manifest) -> None:
        """A Trial was seen."""
        metadata = body["metadata"]
        entry = self._find_entry_for(body)
        if entry is None or metadata["uid"] in self._gone or self._find_bar(entry.experiment.namespace):
            return
        known = entry.trials.get(metadata["name"])
        if known is not None and known.uid == metadata["uid"] and decoders.read_version(body) <= known.version:
            return
        try:
            trial = decoders.decode_trial(body)
        except MalformedObject as error:
            self._complain(metadata["uid"], error)
            return
        is_new = known is None or known.uid != trial.uid
        if known is not None and is_new:
            self._trials.pop(known.uid, None)
            self._gone.add(known.uid)
            self._tell_of_deletion(entry, known)
        entry.trials[trial.name] = trial
        self._trials[trial.uid] = (entry.experiment.uid, trial.name)
        self._tell(entry, trial)
        self._apply(entry, lambda machine: machine.observe_trial(trial))
        for pod in self._list_pods(trial.uid) if is_new else ():
            self._apply_pod(trial.uid, pod)
        if trial.deleting and (known is None or is_new or not known.deleting):
            self._observe_trial_ending(trial.uid, body)

    def _find_entry_for(self, trial: Manifest) -> ExperimentEntry | None:
        """The Experiment that a Trial belongs to or, if it is nobody's yet, that a person has added it to."""
        owner = decoders.find_experiment_of_trial(trial)
        if not owner and not trial["metadata"].get("ownerReferences"):
            named = (trial.get("spec") or {}).get("experiment")
            owner = self._by_name.get((trial["metadata"]["namespace"], named), "") if isinstance(named, str) else ""
        return self._entries.get(owner)

    def observe_experiment_status(self, metadata: Manifest, status: ExperimentStatus) -> None:
        """An Experiment was given a status; what else there is of it is as it was known."""
        entry = self._entries.get(metadata["uid"])
        if entry is None or not decoders.is_same_but_for_status(metadata, entry.experiment):
            return
        experiment = entry.experiment = replace(
            entry.experiment, version=int(metadata["resourceVersion"]), status=status
        )
        self._tell(entry)
        self._apply(entry, lambda machine: machine.observe_experiment(experiment))

    def observe_trial_status(self, metadata: Manifest, status: TrialStatus) -> None:
        """A Trial was given a status; what else there is of it is as it was known."""
        experiment_uid, name = self._trials.get(metadata["uid"], ("", ""))
        entry = self._entries.get(experiment_uid)
        if entry is None or not decoders.is_same_but_for_status(metadata, entry.trials[name]):
            return
        trial = entry.trials[name] = replace(
            entry.trials[name], version=int(metadata["resourceVersion"]), status=status
        )
        self._tell(entry, trial)
        self._apply(entry, lambda machine: machine.observe_trial(trial))

    def observe_pod(self, body: Manifest) -> None:
        """A trial's pod was seen."""
        if self._find_bar(body["metadata"].get("namespace", "")):
            return
        if owner := decoders.find_experiment_of_storage_pod(body):
            self._observe_storage_pod(owner, body, gone=False)
            return
        uid, owner = body["metadata"]["uid"], decoders.find_owner_of_pod(body)
        known = self._pods.get(owner, {}).get(uid)
        if not owner or uid in self._gone or (known is not None and decoders.read_version(body) <= known.version):
            return
        try:
            pod = decoders.decode_pod(body)
        except MalformedObject as error:
            self._complain(uid, error)
            return
        self._pods.setdefault(owner, {})[uid] = pod
        self._owners[uid] = owner
        if self._overdue_pods is not None:
            self._overdue_pods.observe_pod(body)
        if pod.is_over:
            self._caps.remove_pod(uid)
        else:
            metadata = body["metadata"]
            self._caps.add_pod(metadata["namespace"], metadata["labels"].get(LABEL_EXPERIMENT, ""), uid)
        self._apply_pod(owner, pod)

    def observe_agent(self, pod: str, unstored: Unstored | None) -> None:
        """The agent of a pod has reported, be the pod's Experiment known or not."""
        if self._overdue_pods is not None:
            self._overdue_pods.observe_agent(pod, unstored)

    # What is ending

    def _observe_experiment_ending(self, entry: ExperimentEntry, body: Manifest) -> None:
        """An Experiment is being deleted. Where its deletion waits for us, its machine ends its pods."""
        if decoders.leaves_dependents(body):
            self._spared.add(entry.experiment.uid)
        elif not finalizer.is_there(entry.experiment):
            self._end_pods_of(entry.experiment.uid, *(trial.uid for trial in entry.trials.values()))

    def _observe_trial_ending(self, uid: str, body: Manifest) -> None:
        """A Trial is being deleted."""
        if decoders.leaves_dependents(body):
            self._spared.add(uid)
        else:
            self._end_pods_of(uid)

    def _end_pods_of(self, *owners: str) -> None:
        """The garbage collector is about to delete the pods of these: it does not know how long they need."""
        if self._overdue_pods is not None:
            self._overdue_pods.observe_orphans(uid for owner in owners for uid in self._pods.get(owner, ()))

    # What is gone

    def observe_experiment_deletion(self, body: Manifest) -> None:
        """An Experiment was deleted; the garbage collector sees to its Trials and pods."""
        self._forget_experiment(body["metadata"]["uid"])

    def observe_trial_deletion(self, body: Manifest) -> None:
        """A Trial was deleted."""
        self._forget_trial(body["metadata"]["uid"])

    def observe_pod_deletion(self, body: Manifest) -> None:
        """A pod was deleted; the body is how it ended."""
        if owner := decoders.find_experiment_of_storage_pod(body):
            self._observe_storage_pod(owner, body, gone=True)
            return
        uid, owner = body["metadata"]["uid"], decoders.find_owner_of_pod(body)
        if uid in self._gone:
            return
        try:
            self._forget_pod(uid, owner, decoders.decode_pod(body, gone=True))
        except MalformedObject as error:
            self._complain(uid, error)
            self.on_missing(uid)

    def on_missing(self, uid: str) -> None:
        """An object is missing from a list: it was deleted without an event."""
        if uid in self._entries:
            self._forget_experiment(uid)
        elif uid in self._trials:
            self._forget_trial(uid)
        elif (owner := self._owners.get(uid)) is not None:
            self._forget_pod(uid, owner, replace(self._pods[owner][uid], gone=True))
        elif (entry := self._entries.get(self._storage_pods.get(uid, ""))) is not None:
            self._take_storage_pod(entry, replace(entry.storage_pods[uid], gone=True))

    def give_up(self, namespace: str) -> None:
        """A namespace lets us see nothing but its Experiments any more: the rest is forgotten, and goes on without us.

        It is not gone: nobody is told of a deletion, and it is known again once it is seen again.
        """
        for uid, entry in self._entries.items():
            if entry.experiment.namespace != namespace:
                continue
            entry.drop_machine()
            for owner in (uid, *(trial.uid for trial in entry.trials.values())):
                self._trials.pop(owner, None)
                for pod in self._pods.pop(owner, ()):
                    self._owners.pop(pod, None)
                    self._caps.remove_pod(pod)
                    if self._overdue_pods is not None:
                        self._overdue_pods.forget_pod(pod)
            for pod in entry.storage_pods:
                self._storage_pods.pop(pod, None)
            entry.trials.clear()
            entry.storage_pods.clear()
            self._throttle.update(uid, None)
            self._caps.update(namespace, entry.experiment.name, None)

    def wake_namespace(self, namespace: str) -> None:
        """Whether a namespace is served is known, or has changed."""
        for uid, entry in self._entries.items():
            if entry.experiment.namespace == namespace:
                self._changed(uid)

    def mark_synced(self) -> None:
        """Everything that is there has been seen: from now on there are machines."""
        self._synced = True
        for uid in self._entries:
            self._changed(uid)

    # What is known

    def find_entry(self, uid: str) -> ExperimentEntry | None:
        """The Experiment with this UID; if it is to have a machine, that is begun here (see `ExperimentEntry`)."""
        entry = self._entries.get(uid)
        if entry is None:
            return None
        entry.bar = self._find_bar(entry.experiment.namespace)
        if entry.machine is None and entry.build is None and self._synced and entry.is_ready:
            self._begin_build(entry)
        return entry

    def _begin_build(self, entry: ExperimentEntry) -> None:
        """Begins to make an Experiment's machine of all that is known of it now."""
        experiment, trials = entry.experiment, list(entry.trials.values())
        machine = ExperimentMachine(
            experiment,
            self._settings,
            storage_pods=entry.storage_pods.values(),
            quota=self._caps.get_quota(experiment.namespace, experiment.name),
            throttle=self._throttle,
        )
        owners = (*(trial.uid for trial in trials), experiment.uid)
        pods = [pod for owner in owners for pod in self._list_pods(owner)]
        entry.begin_build(machine, machine.restore(trials, pods))

    def list_entries(self) -> Iterator[ExperimentEntry]:
        """All Experiments; a snapshot, so that it may change meanwhile."""
        yield from list(self._entries.values())

    def find_entry_of_trial(self, namespace: str, trial: str) -> ExperimentEntry | None:
        """The Experiment that a Trial of this name belongs to."""
        uid = self._by_name.get((namespace, trial.rpartition("-")[0]))
        entry = self._entries.get(uid) if uid is not None else None
        return entry if entry is not None and trial in entry.trials else None

    def find_trial_uid(self, experiment_uid: str, trial: str) -> str:
        """UID of a Trial by its name, empty where there is none."""
        entry = self._entries.get(experiment_uid)
        known = entry.trials.get(trial) if entry is not None else None
        return known.uid if known is not None else ""

    def list_namespaces(self) -> set[str]:
        """Namespaces with Experiments."""
        return {namespace for namespace, _ in self._by_name}

    def list_uids(self) -> set[str]:
        """UIDs of all Experiments, Trials and pods."""
        return {*self._entries, *self._trials, *self._owners, *self._storage_pods}

    def record_decision(self, entry: ExperimentEntry) -> None:
        """An Experiment's machine has decided: what it does not want of its namespace's pods is for others."""
        experiment, machine = entry.experiment, entry.machine
        self._caps.update(experiment.namespace, experiment.name, machine)
        self._throttle.update(experiment.uid, machine.trials_with_pods if machine is not None else None)

    # Bookkeeping

    def _wake(self, namespace: str, experiment: str) -> None:
        uid = self._by_name.get((namespace, experiment))
        if uid is not None:
            self._changed(uid)

    def _observe_storage_pod(self, owner: str, body: Manifest, *, gone: bool) -> None:
        """A pod that works in the bucket was seen, or was deleted."""
        uid, entry = body["metadata"]["uid"], self._entries.get(owner)
        if entry is None or uid in self._gone:
            return
        known = entry.storage_pods.get(uid)
        if known is not None and not gone and decoders.read_version(body) <= known.version:
            return
        try:
            self._take_storage_pod(entry, decoders.decode_storage_pod(body, gone=gone))
        except MalformedObject as error:
            self._complain(uid, error)

    def _take_storage_pod(self, entry: ExperimentEntry, pod: StoragePod) -> None:
        if pod.gone:
            self._gone.add(pod.uid)
            self._storage_pods.pop(pod.uid, None)
            entry.storage_pods.pop(pod.uid, None)
        else:
            self._storage_pods[pod.uid] = entry.experiment.uid
            entry.storage_pods[pod.uid] = pod
        self._apply(entry, lambda machine: machine.observe_storage_pod(pod))

    def _forget_experiment(self, uid: str) -> None:
        self._gone.add(uid)
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        if uid not in self._spared:
            self._end_pods_of(uid, *(trial.uid for trial in entry.trials.values()))
        self._throttle.update(uid, None)
        entry.drop_machine()
        for trial in entry.trials.values():
            self._trials.pop(trial.uid, None)
            self._tell_of_deletion(entry, trial)
        self._tell_of_deletion(entry)
        for pod in entry.storage_pods:
            self._storage_pods.pop(pod, None)
        key = (entry.experiment.namespace, entry.experiment.name)
        if self._by_name.get(key) == uid:
            del self._by_name[key]
            self._caps.update(*key, None)
        self._changed(uid)

    def _forget_trial(self, uid: str) -> None:
        self._gone.add(uid)
        if uid not in self._spared:
            self._end_pods_of(uid)
        experiment_uid, name = self._trials.pop(uid, ("", ""))
        entry = self._entries.get(experiment_uid)
        if entry is not None:
            self._tell_of_deletion(entry, entry.trials.pop(name))
            self._apply(entry, lambda machine: machine.observe_trial_deletion(name))

    def _forget_pod(self, uid: str, owner: str, pod: Pod) -> None:
        self._gone.add(uid)
        if self._overdue_pods is not None:
            self._overdue_pods.forget_pod(uid)
        self._caps.remove_pod(uid)
        self._owners.pop(uid, None)
        siblings = self._pods.get(owner, {})
        siblings.pop(uid, None)
        if not siblings:
            self._pods.pop(owner, None)
        self._apply_pod(owner, pod)

    def _list_pods(self, owner: str) -> list[Pod]:
        return list(self._pods.get(owner, {}).values())

    def _apply_pod(self, owner: str, pod: Pod) -> None:
        """Tells the machine, if the pod's owner is known; otherwise it learns of the pod along with the owner."""
        experiment_uid, name = self._trials.get(owner, (owner, pod.trial))
        entry = self._entries.get(experiment_uid)
        if entry is not None and pod.trial == name:
            self._apply(entry, lambda machine: machine.observe_pod(pod))

    def _apply(self, entry: ExperimentEntry, event: StateEvent) -> None:
        entry.apply(event)
        self._changed(entry.experiment.uid)

    def _tell(self, entry: ExperimentEntry, trial: Trial | None = None) -> None:
        """Tells the listeners of an Experiment, or of one of its Trials."""
        for listener in self._listeners:
            if trial is not None:
                listener.observe_trial(entry.served, trial)
            else:
                listener.observe_experiment(entry.served)

    def _tell_of_deletion(self, entry: ExperimentEntry, trial: Trial | None = None) -> None:
        for listener in self._listeners:
            if trial is not None:
                listener.forget_trial(entry.served, trial)
            else:
                listener.forget_experiment(entry.served)

    def _complain(self, uid: str, error: MalformedObject) -> None:
        """Says once of an object that it is passed over."""
        if self._complained.add(uid):
            found = error.object
            log.warning(
                "object passed over",
                kind=found.kind,
                namespace=found.namespace,
                name=found.name,
                experiment=found.experiment,
                message=str(error),
            )


class _BoundedSet:
    """A set that forgets what was added longest ago once it is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[str, None] = OrderedDict()

    def add(self, item: str) -> bool:
        """Adds an item; whether it was not in."""
        if item in self._items:
            return False
        self._items[item] = None
        if len(self._items) > self._size:
            self._items.popitem(last=False)
        return True

    def __contains__(self, item: object) -> bool:
        return item in self._items
