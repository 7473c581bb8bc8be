"""Runs an experiment in virtual time: the operator's state machine, and an API server and a cluster in memory.

Whatever the machine asks for is carried out at once and in order, and it is asked again until it wants nothing more;
then time goes on to the next thing that happens in a pod, or to when the machine wants to be asked. The cost of an
event does not depend on how many trials there are, save for what the searcher takes to think.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import assert_never

from podtune.api.base import parse_duration
from podtune.api.pods.container_resources import find_memory_limit
from podtune.api.pods.gpus import count_requested_gpus
from podtune.api.pods.limit_names import select_limits
from podtune.api.pods.pod_template import find_trial_container
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec
from podtune.api.restore_from import RestoreFrom
from podtune.api.tuning.search_space import parse_configuration
from podtune.protocol.messages import Reply, Report
from podtune.protocol.storage_job import StorageReport
from podtune.runner import actions, resources
from podtune.runner.actions import (
    DONE,
    Action,
    ActionStatus,
    AdoptTrial,
    CreatePod,
    CreateStoragePod,
    CreateTrial,
    DeleteExperiment,
    DeleteFinishedPods,
    DeletePod,
    DropRevision,
    EmitEvent,
    FetchLogs,
    FindCheckpoint,
    KeepRevision,
    LoadWarmStart,
    Logs,
    OpenGates,
    Propose,
    TryPod,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from podtune.runner.attempts import grace_periods
from podtune.runner.experiment.plugin_hold import read_plugin_failure
from podtune.runner.experiment_machine import ExperimentMachine, Unaccepted
from podtune.runner.records import Experiment, Pod, PodPhase, StoragePod
from podtune.runner.search.session import SearcherSession
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from podtune.simulation.bucket import Bucket
from podtune.simulation.clock import NOTHING_DUE, START, Clock
from podtune.simulation.cluster import ClusterModel, GpuPool, set_limits
from podtune.simulation.curves.base import Curves
from podtune.simulation.environment import SimEnvironment
from podtune.simulation.objects import Objects
from podtune.simulation.pod import SimulatedPod
from podtune.simulation.trace import SimulationResult, Trace
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Configuration, NoConfiguration

UID = "simulated"
SETTINGS = RunnerSettings(result_debounce=60.0, experiment_debounce=60.0)
"""Times of the operator: what nothing depends on is written less often, which changes no decision."""


class SimulationError(Exception):
    """The experiment can't go on; the text says why."""


class Simulation:
    """One experiment, from its creation to its end."""

    def __init__(
        self,
        spec: ExperimentSpec,
        curves: Curves,
        model: ClusterModel | None = None,
        *,
        name: str = "simulated",
        seed: int = 0,
        settings: RunnerSettings = SETTINGS,
    ) -> None:
        """Sets up the experiment.

        Args:
            spec: What is asked for.
            curves: What trials report.
            model: What the cluster is like.
            name: Name of the Experiment.
            seed: Seeds the cluster's failures and delays; the experiment's own draws have the manifest's seed.
            settings: Times of the operator.
        """
        model = model or ClusterModel()
        self._spec = spec
        self._settings = settings
        store = spec.checkpoints.store
        drain = parse_duration(spec.checkpoints.drain) if store else 0.0
        leading = spec.trial_template.leading_role.template
        self._clock = Clock()
        gpus = GpuPool(self._clock, model.gpus)
        self._trace = Trace(spec.objective, self._clock, gpus)
        self._environment = SimEnvironment(
            clock=self._clock,
            model=model,
            gpus=gpus,
            bucket=Bucket(),
            operator=self,
            curves=curves,
            trace=self._trace,
            metric=spec.training_objective.metric,
            time_attribute=make_scheduler(spec).time_attribute,
            prefix=store.build_prefix(UID) if store else "",
            sync=spec.checkpoints.sync,
            upload_seconds=model.checkpoint,
            drain=drain,
            grace_period=max(1, grace_periods.read_from_template(leading.spec)) + drain,
            spec=spec,
            seed=seed,
        )
        self._objects = Objects(Experiment("default", name, UID, 1, 1, spec, ExperimentStatus()))
        self._machine = self._boot()
        self._searcher = SearcherSession(spec)
        self._wake = START
        self.events = 0
        """How many things have happened so far."""

    @property
    def bucket(self) -> Bucket:
        """The checkpoints."""
        return self._environment.bucket

    @property
    def is_over(self) -> bool:
        """Whether the experiment has ended."""
        state = self._objects.experiment.status.state
        return state is not None and state.is_finished

    def run(self) -> SimulationResult:
        """Runs the experiment to its end.

        Raises:
            SimulationError: It comes to a standstill before, a plugin's included, or a trial needs more GPUs than there
                are.
        """
        while not self.is_over:
            self.step()
        return self.outcome

    def step(self) -> None:
        """Goes on to the next thing that happens, and has the operator do what is to be done then.

        Raises:
            SimulationError: Nothing more will happen.
        """
        if self._clock.next == NOTHING_DUE and (self._wake == NOTHING_DUE or self._waits_for_plugin):
            message = self._objects.experiment.status.message
            raise SimulationError(f"nothing more will happen, and the experiment has not ended: {message}")
        self.events += 1
        if self._wake < self._clock.next:
            self._clock.skip(max(self._wake, self._clock.now))
        else:
            self._clock.step()
        self._decide()

    @property
    def _waits_for_plugin(self) -> bool:
        """Whether the operator does nothing but try a plugin again, which would be as it is for ever."""
        return read_plugin_failure(self._objects.experiment.status) != ""

    def change_after(self, seconds: float, spec: ExperimentSpec) -> None:
        """Has a user change the Experiment so many seconds from now."""
        self._clock.call_later(seconds, partial(self._change, spec))

    def add_trial_after(
        self, seconds: float, name: str, parameters: Mapping[str, str], restore_from: RestoreFrom | None = None
    ) -> None:
        """Has a user add a Trial so many seconds from now."""
        self._clock.call_later(seconds, partial(self._add_trial, name, parameters, restore_from))

    def retry_after(self, seconds: float, trial: str) -> None:
        """Has a user have a Trial retried so many seconds from now, if there is one of this name then."""
        self._clock.call_later(seconds, partial(self._retry, trial))

    def fork(self) -> Simulation:
        """Another simulation that is where this one is, but for its operator, which was killed and started again."""
        other = copy.copy(self)
        shared = [self._spec, self._environment.curves, self._environment.model, self._objects.experiment]
        shared += [*self._objects.trials.values(), *self._trace.decisions, *self._trace.starts]
        # What never changes need not be copied, and whoever watches the copied cluster is the copy.
        memo: dict[int, object] = {id(self): other, **{id(thing): thing for thing in shared}}
        other._environment, other._objects = copy.deepcopy((self._environment, self._objects), memo)
        other._clock, other._trace = other._environment.clock, other._environment.trace
        other.restart()
        return other

    def restart(self) -> None:
        """Kills the operator and starts it again: it knows what the objects record, and what agents tell it again."""
        self._objects.reload()
        self._machine = self._boot()
        self._searcher = SearcherSession(self._spec)
        for pod in list(self._objects.pods.values()):
            pod.resend()
        self._decide()

    @property
    def outcome(self) -> SimulationResult:
        """How it has gone so far."""
        trials = self._objects.trials.values()
        return SimulationResult(
            status=self._objects.experiment.status,
            trials=tuple(sorted(trials, key=lambda trial: trial.spec.index)),
            improvements=tuple(self._trace.improvements),
            decisions=tuple(self._trace.decisions),
            starts=tuple(self._trace.starts),
            results=self._trace.results,
            seconds=self._trace.seconds,
            gpu_hours=self._environment.gpus.hours,
            optimum=self._environment.curves.optimum,
        )

    # What happens in the cluster

    def _change(self, spec: ExperimentSpec) -> None:
        if spec.search.initial != self._spec.search.initial:
            self._searcher = SearcherSession(spec)
        self._spec = spec
        self._machine.observe_experiment(self._objects.change_experiment(spec))

    def _add_trial(self, name: str, parameters: Mapping[str, str], restore_from: RestoreFrom | None) -> None:
        self._machine.observe_trial(self._objects.add_trial(name, parameters, restore_from))

    def _retry(self, trial: str) -> None:
        if trial in self._objects.trials:
            self._machine.observe_trial(self._objects.request_retry(trial))

    def observe_pod(self, pod: Pod) -> None:
        """The operator sees a new version of a pod."""
        if pod.gone and pod.rank == 0:
            del self._objects.pods[pod.name]
        self._machine.observe_pod(pod)

    def post(self, trial: str, pod: str, report: Report) -> Reply | Unaccepted:
        """The operator hears an agent."""
        return self._machine.report(trial, pod, report, self._clock.now)

    # The operator

    def _boot(self) -> ExperimentMachine:
        objects = self._objects
        pods = [record for pod in objects.pods.values() for record in pod.records]
        machine = ExperimentMachine(objects.experiment, self._settings)
        do_all(machine.restore(list(objects.trials.values()), pods))
        return machine

    def _decide(self) -> None:
        while True:
            plan = self._machine.decide(self._clock.now)
            if not plan.actions:
                self._wake = plan.wake
                return
            for action in plan.actions:
                result = self._carry_out(action)
                self._machine.on_action_result(action, result, self._clock.now)

    def _carry_out(self, action: Action) -> actions.ActionResult:
        objects = self._objects
        match action:
            case Propose():
                return self._propose(action)
            case CreateTrial() | AdoptTrial():
                self._make_trial(action)
            case CreatePod() | CreateStoragePod():
                self._make_pod(action)
            case DeletePod():
                if action.name in objects.pods:
                    objects.pods[action.name].delete(action.grace)
            case DeleteFinishedPods():
                ended = [pod for pod in objects.pods.values() if pod.record.is_over and not pod.record.template_hash]
                for pod in [pod for pod in ended if pod.record.trial in action.trials]:
                    pod.delete()
            case FindCheckpoint():
                return actions.ActionResult(ActionStatus.REFUSED, "a simulation knows nothing of other experiments")
            case FetchLogs():
                return actions.ActionResult(ActionStatus.DONE, logs=Logs())
            case WriteTrialStatus() | WriteExperimentStatus() | WriteMetadata():
                self._write(action)
            case (
                KeepRevision()
                | DropRevision()
                | EmitEvent()
                | LoadWarmStart()
                | OpenGates()
                | TryPod()
                | DeleteExperiment()
            ):
                pass  # nothing is known here of other experiments, and the end is not waited for that long
            case _:
                assert_never(action)
        return DONE

    def _write(self, action: WriteTrialStatus | WriteExperimentStatus | WriteMetadata) -> None:
        objects = self._objects
        match action:
            case WriteTrialStatus():
                before = objects.trials[action.name].status
                self._trace.record_decisions(action.name, before, action.status)
                self._machine.observe_trial(objects.write_trial(action.name, action.status))
            case WriteExperimentStatus():
                self._machine.observe_experiment(objects.write_experiment(action.status))
            case WriteMetadata():
                self._machine.observe_experiment(objects.write_finalizers(action.finalizers))

    def _make_trial(self, action: CreateTrial | AdoptTrial) -> None:
        if isinstance(action, CreateTrial):
            self._machine.observe_trial(self._objects.create_trial(action.name, action.spec))
        else:
            self._machine.observe_trial(self._objects.adopt_trial(action.name))

    def _make_pod(self, action: CreatePod | CreateStoragePod) -> None:
        if isinstance(action, CreatePod):
            self._create_pod(action)
        else:
            self._work_in_bucket(action)

    def _work_in_bucket(self, action: CreateStoragePod) -> None:
        """A storage pod has done its job as soon as it is made: how long that takes says nothing about a search."""
        name = actions.format_storage_pod_name(self._objects.experiment.name, action.number)
        report = StorageReport(action.purpose, ok=True, message="simulated")
        done = StoragePod(name, name, PodPhase.SUCCEEDED, version=1, started=True, message=report.to_json())
        self._machine.observe_storage_pod(done)

    def _propose(self, action: Propose) -> actions.ActionResult:
        try:
            return actions.ActionResult(ActionStatus.DONE, proposals=self._searcher.answer(action))
        except NoConfiguration as error:
            raise SimulationError(f"no configuration can be proposed: {error}") from error

    def _create_pod(self, action: CreatePod) -> None:
        existing = self._objects.pods.get(action.name)
        if existing is not None:  # it was made before the operator was restarted
            for record in existing.records:
                self._machine.observe_pod(record)
            return
        records = [self._make_record(action, rank) for rank in range(action.replicas)]
        gpus_needed = sum(record.gpus for record in records)
        if not action.evaluates:  # that runs beside trainings
            gpus_needed = gpus_needed or float(action.replicas)  # those without are limited, too
        total = self._environment.model.gpus
        if total is not None and gpus_needed > total:
            raise SimulationError(f"a trial needs {gpus_needed:g} GPUs, the cluster has {total:g}; give it more")
        configuration = self._read_configuration(action.spec)
        self._trace.record_start(action.name, configuration)
        pod = SimulatedPod(self._environment, action, records, configuration, gpus_needed)
        self._objects.pods[action.name] = pod
        for made in pod.records:
            self._machine.observe_pod(made)
        pod.enter()

    def _make_record(self, action: CreatePod, rank: int) -> Pod:
        """The pod of a rank as the API server has it at first."""
        assert self._objects.experiment.spec is not None  # it is never changed to one that can't be read
        role = self._objects.experiment.spec.find_pod_role(rank, evaluates=action.evaluates)
        pod_spec = set_limits(role.template.spec, select_limits(action.limits, role.name))
        return Pod(
            name=action.format_name(rank),
            uid=f"{action.format_name(rank)}-uid",
            trial=action.trial,
            attempt=action.attempt,
            version=1,
            gpus=count_requested_gpus(pod_spec),
            trial_uid=action.trial_uid,
            rank=rank,
            role=role.name,
            template_hash=action.template_hash,
            own_grace=max(1, grace_periods.read_from_template(role.template.spec)),
            revision=action.revision,
            own_limits=resources.write_own_limits(action.own_limits),
            memory=find_memory_limit(pod_spec, find_trial_container(pod_spec)),
        )

    def _read_configuration(self, spec: TrialSpec) -> Configuration:
        written = spec.parameters
        return parse_configuration(self._spec.parameters, written)
