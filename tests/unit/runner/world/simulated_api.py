"""An API server in memory: objects, resource versions, optimistic locks, a watch, and the promises it holds us to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.runner.attempts.classification import FailureClass
from podtune.runner.records import Experiment, Pod, StoragePod, Trial

Thing = Experiment | Trial | Pod | StoragePod


class Conflict(Exception):
    """The object has another version than the one that the status was made for."""


class AlreadyExists(Exception):
    """There is an object of this name."""


class NotFound(Exception):
    """There is no object of this name."""


@dataclass
class ApiServer:
    """Holds the objects of one experiment. `changed` is called with each version of each object.

    Attributes:
        max_alive: How many pods that were not finished there were at a time, at most.
        allowed_alive: How many there may be.
        writes: Requests that changed something, by kind.
        attempts: Classes of ended attempts, by trial, as they became durable.
    """

    experiment: Experiment
    changed: Callable[[Thing], None] = lambda thing: None
    trials: dict[str, Trial] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    status_writes: Counter[str] = field(default_factory=Counter)
    attempts: dict[str, list[str]] = field(default_factory=dict)
    max_alive: int = 0
    allowed_alive: int | None = None
    unanswered: set[str] = field(default_factory=set)
    """Pods that were asked for without an answer: asked for again, they may be made again if they are gone by then."""
    deleted_trials: set[str] = field(default_factory=set)
    overridden: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By trial: parameters whose values users have changed."""
    _version: int = 100
    _recorded: set[str] = field(default_factory=set)
    """Pods that a status has named. One that came and went while no operator looked may be made again."""

    def next_version(self) -> int:
        self._version += 1
        return self._version

    # Writes

    def create_trial(self, name: str, spec: TrialSpec) -> Trial:
        if name in self.trials:
            raise AlreadyExists(name)
        version = self.next_version()
        spec = TrialSpec.model_validate_json(spec.model_dump_json(by_alias=True, exclude_none=True))
        trial = Trial(name, f"{name}-uid-{version}", version, 1, spec, TrialStatus())
        self.writes["create-trial"] += 1
        return self._put_trial(trial)

    def add_trial(self, name: str, **spec: Any) -> Trial:
        """A person makes a Trial, which belongs to nobody yet."""
        version, index = self.next_version(), int(name.rpartition("-")[2])
        made = TrialSpec.model_validate({"experiment": "e", "index": index, **spec})
        return self._put_trial(Trial(name, f"{name}-uid-{version}", version, 1, made, TrialStatus(), owned=False))

    def adopt_trial(self, name: str, version: int) -> Trial:
        trial = self.trials.get(name)
        if trial is None:
            raise NotFound(name)
        if trial.version != version:
            raise Conflict(f"{name}: {version} is not {trial.version}")
        self.writes["adopt-trial"] += 1
        return self._put_trial(replace(trial, version=self.next_version(), owned=True))

    def write_trial_status(self, name: str, version: int, status: TrialStatus) -> Trial:
        trial = self.trials.get(name)
        if trial is None:
            raise NotFound(name)
        if trial.version != version:
            raise Conflict(f"{name}: {version} is not {trial.version}")
        stored = TrialStatus.model_validate(status.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        self._check_attempts(trial, stored)
        if stored.pod is not None and not stored.pod.since:
            self._recorded.add(stored.pod.name)
        self.writes["trial-status"] += 1
        self.status_writes[name] += 1
        return self._put_trial(replace(trial, version=self.next_version(), status=stored))

    def write_experiment_status(self, version: int, status: ExperimentStatus) -> Experiment:
        if self.experiment.version != version:
            raise Conflict("experiment")
        stored = ExperimentStatus.model_validate(status.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.writes["experiment-status"] += 1
        self.experiment = replace(self.experiment, version=self.next_version(), status=stored)
        self.changed(self.experiment)
        return self.experiment

    def write_metadata(self, version: int, finalizers: tuple[str, ...]) -> Experiment:
        if self.experiment.version != version:
            raise Conflict("experiment")
        self.experiment = replace(self.experiment, version=self.next_version(), finalizers=finalizers)
        self.changed(self.experiment)
        return self.experiment

    def create_pod(self, pod: Pod) -> Pod:
        if pod.name in self.pods:
            raise AlreadyExists(pod.name)
        assert pod.name not in self._recorded - self.unanswered, f"{pod.name} was made twice"
        others = [known for known in self.pods.values() if known.trial_uid == pod.trial_uid]
        rivals = [known for known in others if known.attempt != pod.attempt and not known.template_hash]
        earlier = [known.name for known in rivals if not known.phase.is_finished]
        assert not earlier, f"{pod.name} was made while {earlier} of another attempt run"
        self.writes["create-pod"] += 1
        self.pods[pod.name] = pod
        alive = sum(not known.phase.is_finished for known in self.pods.values())
        self.max_alive = max(self.max_alive, alive)
        if self.allowed_alive is not None:
            assert alive <= self.allowed_alive, f"{alive} pods run at once"
        self.changed(pod)
        return pod

    def update_pod(self, name: str, **changes: Any) -> Pod:
        pod = replace(self.pods[name], version=self.next_version(), **changes)
        self.pods[name] = pod
        self.changed(pod)
        return pod

    def remove_pod(self, name: str) -> None:
        pod = replace(self.pods.pop(name), version=self.next_version(), gone=True)
        self.changed(pod)

    # What users do

    def edit_trial(self, name: str, **changes: object) -> Trial:
        trial = self.trials[name]
        spec = trial.spec.model_copy(update=changes)
        self.overridden[name] |= spec.overrides.keys()
        return self._put_trial(replace(trial, version=self.next_version(), generation=trial.generation + 1, spec=spec))

    def edit_experiment(self, **changes: Any) -> Experiment:
        self.experiment = replace(
            self.experiment, version=self.next_version(), generation=self.experiment.generation + 1, **changes
        )
        self.changed(self.experiment)
        return self.experiment

    def remove_trial(self, name: str) -> None:
        del self.trials[name]
        self.deleted_trials.add(name)
        self._recorded = {pod for pod in self._recorded if not pod.startswith(f"{name}-")}

    def _put_trial(self, trial: Trial) -> Trial:
        self.trials[trial.name] = trial
        self.changed(trial)
        return trial

    def _check_attempts(self, trial: Trial, status: TrialStatus) -> None:
        """An attempt is classified once, and its class is counted in the same write."""
        before, after = trial.status, status
        ended = after.last_attempt != before.last_attempt
        number = before.last_attempt.attempt if before.last_attempt else 0
        counted = _count_failures(after) - _count_failures(before)
        if not ended:
            was_finished = before.state is not None and before.state.is_finished
            if was_finished and after.run_generation > before.run_generation:
                return  # it is opened again, and forgiven
            assert counted == 0, f"{trial.name}: counted without an attempt's end"
            return
        assert after.last_attempt.attempt == number + 1, f"{trial.name}: attempt {number + 1} was left out"
        spends = FailureClass(after.last_attempt.failure_class).is_failure
        assert counted == spends, f"{trial.name}: {after.last_attempt.failure_class} counted {counted} times"
        self.attempts.setdefault(trial.name, []).append(after.last_attempt.failure_class)


def _count_failures(status: TrialStatus) -> int:
    """The failures of all kinds, of both stages."""
    kinds = ("failures", "disruptions", "infrastructure_failures", "ignored")
    stages = [status, *([status.evaluation] if status.evaluation is not None else [])]
    return sum(getattr(stage, kind) for stage in stages for kind in kinds)
