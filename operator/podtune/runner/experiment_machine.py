"""One experiment as a state machine: observations go in, actions come out.

The machine takes in observations (`observe_…`, `report`, `on_action_result`) and says what to do (`decide`). It does no
I/O, and takes time and randomness as arguments. Everything it knows comes from the objects: a new machine built from
the same Experiment, Trials and pods makes the same decisions. If that is in doubt (a Trial was deleted, or written by
somebody else), the machine rebuilds itself from the observed objects. Only requests under way survive that.

With thousands of trials that takes a while, so `restore` and `rebuild` work in steps. While steps are left, nobody uses
the machine, and new observations are kept for it (`ExperimentEntry`).

What it decides is in `ExperimentPlanner.decide`. It looks only at trials that something happened to; what it needs to
know about the others is kept in counters and sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial_numbers import is_added
from podtune.protocol.messages import Reply, Report
from podtune.runner.action_queue import SOON, ActionQueue
from podtune.runner.actions import Action, ActionResult
from podtune.runner.attempts.refusals import Refusals
from podtune.runner.attempts.warm_pool import WarmPool
from podtune.runner.checkpoints.former_trials import FormerTrials
from podtune.runner.checkpoints.storage_work import StorageWork
from podtune.runner.expectations import Expectations
from podtune.runner.experiment import resumption
from podtune.runner.experiment.deletion import Deletion
from podtune.runner.experiment.planner import ExperimentPlanner, LastingParts
from podtune.runner.experiment.plugin_hold import PluginHold
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment.template_revisions import find_first_revision
from podtune.runner.records import Experiment, Pod, StoragePod, Trial
from podtune.runner.scheduling.guarded_scheduler import guard_scheduler
from podtune.runner.scheduling.namespace_cap import NO_LIMIT, PodQuota
from podtune.runner.scheduling.scheduler_outage import SchedulerOutage
from podtune.runner.search.added_trials import AddedTrials
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import BuildSteps, do_all
from podtune.runner.trial import replies, reports
from podtune.runner.trial.machine import TrialContext, TrialMachine
from podtune.runner.trial.replies import Unaccepted
from podtune.runner.trials import Trials
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.factory import make_scheduler

__all__ = ["ActionPlan", "ExperimentMachine", "Unaccepted"]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What to do now.

    Attributes:
        actions: What to carry out.
        wake: When to ask again even if nothing happens; infinity: never.
        assigned: UIDs of warm pods that another trial was assigned to: an agent that waits for that is answered.
    """

    actions: tuple[Action, ...]
    wake: float
    assigned: tuple[str, ...] = ()


class ExperimentMachine:
    """The state of one experiment with a spec that can be used."""

    def __init__(
        self,
        experiment: Experiment,
        settings: RunnerSettings,
        make_scheduler: Callable[[ExperimentSpec], Scheduler] = make_scheduler,
        *,
        storage_pods: Iterable[StoragePod] = (),
        quota: PodQuota = NO_LIMIT,
        throttle: StatusWriteThrottle | None = None,
    ) -> None:
        """Makes a machine that knows of no Trial yet: `restore` comes next.

        Args:
            experiment: The Experiment; its spec must be there.
            settings: Times and limits.
            make_scheduler: Makes the scheduler that the spec asks for.
            storage_pods: The pods that work in the bucket.
            quota: Is asked before pods of trials are made.
            throttle: Slows down writes when the operator serves many; never, where none is given.
        """
        assert experiment.spec is not None  # the caller reports a spec that can't be used
        self.settings = settings
        self._make_scheduler = make_scheduler
        self._actions = actions = ActionQueue(settings.api_backoff)
        self._trials = Trials(experiment.name)
        self._former = FormerTrials()
        self._added = AddedTrials(
            experiment, experiment.spec, actions, records_transitions=settings.records_transitions
        )
        self._warm = WarmPool(self._trials, actions, settings)
        self._storage = StorageWork(experiment, actions, settings)
        self._refusals = Refusals(experiment, actions, settings)
        self._outage = SchedulerOutage(settings.api_backoff, f"{experiment.uid}/scheduler")
        self._deletion = Deletion(actions, self._storage)
        self._lasting = LastingParts(
            settings=settings,
            quota=quota,
            throttle=throttle or StatusWriteThrottle(),
            actions=actions,
            trials=self._trials,
            former=self._former,
            warm=self._warm,
            storage=self._storage,
            refusals=self._refusals,
            outage=self._outage,
            plugin_hold=PluginHold(experiment, actions),
            prior_observations=() if experiment.spec.search.warm_start is None else None,
        )
        for storage_pod in storage_pods:
            self._storage.observe_pod(storage_pod)
        self._start_over(experiment, experiment.spec)

    @property
    def experiment(self) -> Experiment:
        """The Experiment as it was last seen."""
        return self._planner.experiment

    @property
    def spec(self) -> ExperimentSpec:
        """The spec that it is served by: the last one that could be used."""
        return self._planner.spec

    # The objects, and what is made of them

    def restore(self, trials: Iterable[Trial], pods: Collection[Pod]) -> BuildSteps:
        """Takes in the objects that are there, in steps.

        Args:
            trials: All Trials.
            pods: All their pods, looked up no earlier than the Trials: one that a Trial names and that is missing
                here is taken for gone.
        """
        for pod in pods:
            if pod.template_hash:
                self._warm.observe_pod(pod)
        admitted = (self._added.admit(trial) for trial in trials)
        own_pods = (pod for pod in pods if not pod.template_hash)
        yield from self._take_in((trial for trial in admitted if trial is not None), own_pods)
        counts = self.experiment.status.trials
        proposed = [name for name, trial in self._trials.items() if not is_added(trial.index)]
        self._former.miss(self.experiment.name, counts.total - counts.added, proposed)

    def rebuild(self, now: float) -> BuildSteps:
        """Rebuilds everything from the last observed objects, in steps.

        A status that is still being written comes from the machine as it was before. When it is observed, it counts as
        somebody else's, and everything is rebuilt once more. A pod that belongs to such a status may be observed only
        after it.
        """
        machines = list(self._trials.values())
        for machine in machines:
            machine.expectations.statuses.clear()
        own = () if self._context.reuses else (pod for machine in machines for pod in machine.pods)
        pods = [*self._strays.values(), *own]
        self._start_over(self.experiment, self.spec)
        yield from self._take_in(
            [machine.seen for machine in machines],
            pods,
            expectations={machine.uid: machine.expectations for machine in machines},
            pod_expected_until=now + self.settings.creation_timeout,
        )

    def _start_over(self, experiment: Experiment, spec: ExperimentSpec) -> None:
        """Forgets all trials, and all that followed from them."""
        scheduler = guard_scheduler(self._make_scheduler, spec, self._trials, self._outage)
        self._context = _build_context(experiment, spec, self.settings, scheduler.time_attribute)
        self._outdated = False
        self._trials.clear()
        self._warm.reset()
        self._strays: dict[str, Pod] = {}
        self._planner = ExperimentPlanner(experiment, spec, scheduler, self._lasting)

    def _take_in(
        self,
        trials: Iterable[Trial],
        pods: Iterable[Pod],
        *,
        expectations: Mapping[str, Expectations] | None = None,
        pod_expected_until: float = 0.0,
    ) -> BuildSteps:
        """Makes everything that follows from the objects, after `_start_over`.

        Args:
            trials: All Trials.
            pods: All their pods.
            expectations: By UID of the Trial: what is under way.
            pod_expected_until: Until then, a pod that a Trial names may still show up; 0 where all pods are among
                `pods`.
        """
        pods_of: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            pods_of[pod.trial].append(pod)
        for trial in sorted(trials, key=lambda trial: trial.spec.index):
            known = expectations.get(trial.uid) if expectations is not None else None
            self._adopt(trial, pods_of.pop(trial.name, ()), known, pod_expected_until)
            yield
        self._strays.update((pod.uid, pod) for orphans in pods_of.values() for pod in orphans)
        yield from self._planner.restore()

    def _adopt(
        self,
        trial: Trial,
        pods: Iterable[Pod],
        expectations: Expectations | None = None,
        pod_expected_until: float = 0.0,
    ) -> TrialMachine:
        """Makes the machine of a Trial, with the pods that belong to it."""
        machine = TrialMachine(trial, self._context, expectations)
        self._trials[trial.name] = machine
        for pod in pods:
            if machine.owns(pod):
                machine.observe_pod(pod)
                self._strays.pop(pod.uid, None)
            else:
                self._strays[pod.uid] = pod
        self._warm.restore(machine)
        recorded = machine.saved.pod
        is_gone = recorded is not None and recorded.uid in machine.expectations.gone
        if pod_expected_until and machine.lacks_recorded_pod and not is_gone:
            machine.expectations.pod_expected_until = machine.expectations.pod_expected_until or pod_expected_until
        else:
            machine.miss_pods()
        return machine

    # Observations of objects

    def observe_experiment(self, experiment: Experiment) -> None:
        """Takes in a version of the Experiment."""
        if experiment.version < self.experiment.version:
            return
        before = self.spec
        self._storage.observe_experiment(experiment)
        self._refusals.observe_experiment(experiment)
        self._planner.observe_experiment(experiment)
        if resumption.read_run_generation(experiment.status) != self._context.run_generation:
            self._outdated = True
        if self.spec is not before:
            self._outage.retry_soon()
            self._context = _build_context(experiment, self.spec, self.settings, self._context.time_attribute)
            for trial in self._trials.values():
                trial.context = self._context
            if self.spec.search.initial != before.search.initial:
                self._outdated = True  # what was proposed ahead makes room for the new configurations

    def observe_trial(self, trial: Trial) -> None:
        """Takes in a version of one of the experiment's Trials."""
        if trial.uid in self._former:
            return
        admitted = self._added.admit(trial)
        if admitted is None:
            return
        trial, known = admitted, self._trials.get(trial.name)
        if known is None:
            self._planner.add_trial(
                self._adopt(trial, [pod for pod in self._strays.values() if pod.trial == trial.name])
            )
        elif known.uid != trial.uid:
            self._trials[trial.name] = TrialMachine(trial, self._context)
            self._outdated = True
        elif not known.observe_trial(trial) or self._planner.on_status_saved(known):
            self._outdated = True
        self._planner.mark([trial.name])

    def observe_trial_deletion(self, name: str) -> None:
        """A Trial was deleted: unless the experiment has ended, it is recreated and continues from its checkpoints."""
        self._added.forget(name)
        trial = self._trials.pop(name, None)
        if trial is not None:
            self._former.record_deletion(trial)
            self._actions.forget(name)
            self._planner.forget_trial(trial)
            self._warm.observe_trial_deletion(name)
            self._outdated = not self._planner.tracker.is_recorded

    def observe_pod(self, pod: Pod) -> None:
        """Takes in a version of a pod of one of the trials; one that is gone is reported with `gone` set."""
        if pod.template_hash:
            self._planner.mark(self._warm.observe_pod(pod))
            return
        trial = self._trials.get(pod.trial)
        if trial is not None and trial.owns(pod):
            trial.observe_pod(pod)
            self._planner.mark([trial.name])
        elif pod.gone:
            self._strays.pop(pod.uid, None)
        else:
            self._strays[pod.uid] = pod

    def observe_storage_pod(self, pod: StoragePod) -> None:
        """Takes in a version of a pod that works in the bucket; one that is gone is reported with `gone` set."""
        self._storage.observe_pod(pod)

    def report(self, trial_name: str, pod_name: str, report: Report, now: float) -> Reply | Unaccepted:
        """Takes in what an agent has posted.

        Args:
            trial_name: The trial that it reports on.
            pod_name: The pod that it was authenticated as, whose UID the report's attempt is or begins with.
            report: The report.
            now: The present time.

        Returns:
            The answer, or why it was not taken in.
        """
        trial = self._trials.get(trial_name)
        if self._context.reuses:
            answer = self._warm.hear(trial, report)
        else:
            answer = Unaccepted.FENCED if trial is None else replies.fence(trial, pod_name, report.attempt)
        if answer is not None or trial is None:
            return answer or Unaccepted.FENCED
        if reports.find_misplaced(trial, report):
            return Unaccepted.MISPLACED
        return self._planner.take_report(trial, report, now)

    def find_pod(self, trial_name: str, rank: int) -> Pod | None:
        """The pod of a rank in a trial's current attempt, if it was seen."""
        trial = self._trials.get(trial_name)
        return trial.current.pods.find_pod(rank) if trial is not None else None

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> None:
        """Hears how an action went. What it made or changed is reported as seen before this."""
        self._actions.on_action_result(action, result, now)
        self._planner.on_action_result(action, result, now)

    # Decisions

    @property
    def is_outdated(self) -> bool:
        """Whether `rebuild` must run before the next decision; never while the experiment is being deleted."""
        return not self.experiment.deleting and (self._outdated or self._planner.is_outdated)

    @property
    def promised_pods(self) -> int:
        """How many pods it may make that were not seen yet."""
        return 0 if self.experiment.deleting else self._planner.slots.promised

    @property
    def waits_for_pods(self) -> bool:
        """Whether the quota keeps it from making pods that it would make now."""
        return bool(self._planner.slots.kept_back)

    @property
    def trials_with_pods(self) -> int | None:
        """How many trials have a pod, or are to get one; None if the experiment has ended."""
        return self._planner.slots.taken if self._planner.goes_on and not self.experiment.deleting else None

    def decide(self, now: float) -> ActionPlan:
        """What has to be done now; a machine that is still outdated is first rebuilt in one go.

        Nothing is done where the machine has to be rebuilt first since its scheduler has failed, or is tried again:
        that is done in steps, as the caller has them.
        """
        self._planner.slots.kept_back = ""
        if self._is_overtaken(now):
            return ActionPlan((), now + SOON)
        try:
            if self.is_outdated:
                do_all(self.rebuild(now))
            if self.experiment.deleting:
                self._decide_deletion(now)
            else:
                self._added.decide(now)
                self._planner.decide(now)
        except Exception:
            self._actions.drop()
            self._outdated = True  # half a decision must not be built upon
            self._planner.slots.kept_back = ""
            raise
        if self._is_overtaken(now):
            return ActionPlan((), now + SOON)
        wake = max(self._actions.timers.next, now + SOON)  # some that are due may have been left for the next time
        return ActionPlan(self._actions.take(), wake, self._warm.take_assigned())

    def _is_overtaken(self, now: float) -> bool:
        """Whether the planner gives way to one without the scheduler, which has failed, or to one that has it again."""
        if self.experiment.deleting:
            return False
        if self._outage.take_up(now):
            self._actions.drop()  # half a decision must not be built upon
        elif not self._outage.retry_if_due(now):
            return False
        self._outdated = True
        self._planner.slots.kept_back = ""
        return True

    def _decide_deletion(self, now: float) -> None:
        changed = self._planner.take_marked() | set(self._actions.timers.pop_due(now))
        self._warm.delete_idle(now, keeps=False, retention="None")
        strays, prefix = (*self._strays.values(), *self._warm.all), self._context.store_prefix
        self._deletion.decide(
            self.experiment, self.spec, now, trials=self._trials, strays=strays, prefix=prefix, changed=changed
        )


def _build_context(
    experiment: Experiment, spec: ExperimentSpec, settings: RunnerSettings, time_attribute: str
) -> TrialContext:
    """What all trials of an experiment share."""
    store = spec.checkpoints.store
    return TrialContext(
        spec=spec,
        settings=settings,
        time_attribute=time_attribute,
        run_generation=resumption.read_run_generation(experiment.status),
        store_prefix=store.build_prefix(experiment.uid) if store is not None else "",
        replicas=spec.trial_template.pod_count,
        reuses=spec.trial_template.reuse,
        revision=spec.template_revision,
        first_revision=find_first_revision(experiment.status, spec),
        curve_metrics=tuple(criterion.metric for criterion in spec.training_objective.criteria),
    )
