"""The API server of a run: its objects as manifests in files, and as the records that the runner knows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from podtune.api.base import parse_duration
from podtune.api.names import EXPERIMENT_KIND, TRIAL_KIND
from podtune.api.pods.parameter_text import format_parameter_labels
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.cli.client.run_directory import LOCAL_NAMESPACE
from podtune.cli.errors import CliError
from podtune.cluster import decoders
from podtune.kube.manifests import Manifest, make_trial, refer_to_experiment
from podtune.local.directory import RunDirectory, StoredPod
from podtune.runner.records import Experiment, Pod, Trial

_PATIENCE = "10s"
"""How long a pause of the whole run waits for a checkpoint that it asks for, at most."""
Listener = Callable[[str, Manifest], None]
"""Hears of each object that was written, with its kind."""


def make_experiment(resource: Mapping[str, Any], name: str) -> Manifest:
    """An Experiment as the API server makes it of a manifest."""
    given = resource.get("metadata") or {}
    own = {"name": name, "namespace": LOCAL_NAMESPACE, **_make_metadata()}
    kept = {kind: given[kind] for kind in ("labels", "annotations") if given.get(kind)}
    return {**resource, "metadata": {**kept, **own}, "status": {}}


class LocalObjects:
    """Holds the objects as they were written last.

    Attributes:
        trials: By name.
        pods: By name, those that are not done with.
    """

    def __init__(self, directory: RunDirectory, listener: Listener) -> None:
        """Reads what the directory holds.

        Raises:
            CliError: It can't be read, or its Experiment can't be used.
            MalformedObject: An object in it is none of ours.
        """
        self._directory = directory
        self._listener = listener
        self._experiment_body = directory.read_experiment()
        self.experiment = decoders.decode_experiment(self._experiment_body, UNKNOWN_POLICY)
        if self.experiment.spec is None:
            raise CliError(f"{directory.path}/experiment.json: {self.experiment.problem}")
        self._spec = self.experiment.spec
        listener(EXPERIMENT_KIND, self._experiment_body)
        self._trial_bodies: dict[str, Manifest] = {}
        self.trials: dict[str, Trial] = {}
        for body in directory.read_trials():
            self._keep_trial(body, decoders.decode_trial(body))
        self.pods = {pod.record.name: pod for pod in directory.read_pods()}

    @property
    def bodies(self) -> tuple[Manifest, list[Manifest]]:
        """The Experiment and its Trials, as the API server would give them."""
        return self._experiment_body, list(self._trial_bodies.values())

    def write_experiment(self, status: ExperimentStatus) -> Experiment:
        """Writes the Experiment's status."""
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._replace_experiment({"status": written}, replace(self.experiment, status=status))
        return self.experiment

    def write_finalizers(self, finalizers: tuple[str, ...]) -> Experiment:
        """Writes what the Experiment's deletion waits for."""
        metadata = {**self._experiment_body["metadata"], "finalizers": list(finalizers)}
        self._replace_experiment({"metadata": metadata}, replace(self.experiment, finalizers=finalizers))
        return self.experiment

    @property
    def is_suspended(self) -> bool:
        """Whether the Experiment is to be suspended."""
        return self.experiment.spec is not None and self.experiment.spec.suspend

    def suspend_experiment(self, suspend: bool) -> Experiment:
        """Has the Experiment suspended or go on, as `kubectl podtune pause` and `resume` do."""
        known = self.experiment
        assert known.spec is not None  # a run begins with one that can be used
        generation = known.generation + 1
        metadata = {**self._experiment_body["metadata"], "generation": generation}
        spec = {**self._experiment_body["spec"], "suspend": suspend}
        changed = replace(known, generation=generation, spec=_suspend(self._spec, suspend))
        self._replace_experiment({"metadata": metadata, "spec": spec}, changed)
        return self.experiment

    def create_trial(self, name: str, spec: TrialSpec) -> Trial:
        """Makes a Trial; one that is there stays as it is."""
        if name in self.trials:
            return self.trials[name]
        experiment = self.experiment
        assert experiment.spec is not None  # there are no trials without
        owner = refer_to_experiment(experiment.name, experiment.uid)
        written = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        labels = format_parameter_labels(experiment.spec.labels, spec.parameters)
        body = make_trial(name, experiment.name, owner, written, labels)
        body["metadata"] |= {"namespace": LOCAL_NAMESPACE, **_make_metadata()}
        self._directory.write_trial(body)
        return self._keep_trial(body, decoders.decode_trial(body))

    def write_trial(self, name: str, status: TrialStatus) -> Trial:
        """Writes a Trial's status."""
        known = self._trial_bodies[name]
        record = self.trials[name]
        written = status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        metadata = {**known["metadata"], "resourceVersion": str(record.version + 1)}
        body = {**known, "metadata": metadata, "status": written}
        self._directory.write_trial(body)
        return self._keep_trial(body, replace(record, version=record.version + 1, status=status))

    def create_pod(self, manifest: Manifest) -> Pod:
        """Makes a trial's pod; one that is there stays as it is."""
        name = manifest["metadata"]["name"]
        if name not in self.pods:
            manifest["metadata"] |= {"namespace": LOCAL_NAMESPACE, **_make_metadata()}
            record = decoders.decode_pod(manifest)
            self.pods[name] = pod = StoredPod(manifest, record)
            self._directory.find_attempt(name).mkdir(parents=True, exist_ok=True)
            self._directory.write_pod(pod)
        return self.pods[name].record

    def change_pod(self, name: str, changes: Mapping[str, Any]) -> Pod:
        """Changes what is known of a pod."""
        known = self.pods[name]
        record = replace(known.record, version=known.record.version + 1, **changes)
        self.pods[name] = replace(known, record=record)
        self._directory.write_pod(self.pods[name])
        return record

    def remove_pod(self, name: str) -> Pod:
        """Deletes a pod; returns what is last to be said of it."""
        known = self.pods.pop(name)
        self._directory.remove_pod(name)
        self._directory.clear_attempt(name)
        return replace(known.record, version=known.record.version + 1, gone=True)

    def _replace_experiment(self, parts: Mapping[str, Any], record: Experiment) -> None:
        body = {**self._experiment_body, **parts}
        version = self.experiment.version + 1
        body["metadata"] = {**body["metadata"], "resourceVersion": str(version)}
        self._directory.write_experiment(body)
        self._experiment_body, self.experiment = body, replace(record, version=version)
        self._listener(EXPERIMENT_KIND, body)

    def _keep_trial(self, body: Manifest, record: Trial) -> Trial:
        self._trial_bodies[record.name] = body
        self.trials[record.name] = record
        self._listener(TRIAL_KIND, body)
        return record


def _suspend(spec: ExperimentSpec, suspend: bool) -> ExperimentSpec:
    """The same, suspended or not; a program that takes no checkpoint when it is asked to is not waited for long."""
    asked = spec.checkpoints.request_timeout
    patience = asked if not suspend or parse_duration(asked) <= parse_duration(_PATIENCE) else _PATIENCE
    checkpoints = spec.checkpoints.model_copy(update={"request_timeout": patience})
    return spec.model_copy(update={"suspend": suspend, "checkpoints": checkpoints})


def _make_metadata() -> Manifest:
    """What the API server adds to the metadata of a new object."""
    created = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"uid": str(uuid.uuid4()), "resourceVersion": "1", "generation": 1, "creationTimestamp": created}
