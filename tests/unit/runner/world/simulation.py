"""A cluster, an operator and a clock, all in memory and all from one seed.

The operator is an `ExperimentMachine` and an executor that carries out its actions with delays, failures and lost
replies as `Weather` has it. It may be killed at any moment and comes back with nothing but what the API server holds.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from podtune.api.names import ExperimentReason
from podtune.api.pods.container_resources import find_memory_limit
from podtune.api.pods.limit_names import select_limits
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.api.resources.trial_requests import CheckpointRequest, RetryRequest
from podtune.api.resources.trial_template import TrialTemplate
from podtune.protocol.assignment import build_attempt_id
from podtune.protocol.messages import Reply, Report
from podtune.runner.actions import (
    DONE,
    Action,
    ActionResult,
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
    OpenGates,
    Propose,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from podtune.runner.attempts import grace_periods
from podtune.runner.experiment.status_write_throttle import StatusWriteThrottle
from podtune.runner.experiment_machine import ExperimentMachine, Unaccepted
from podtune.runner.records import Experiment, Pod, StoragePod, Trial
from podtune.runner.resources import write_own_limits
from podtune.runner.scheduling.namespace_cap import NamespaceCap, PodQuota
from podtune.runner.search.session import SearcherSession
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import do_all
from podtune.simulation.clock import NOTHING_DUE, Clock
from podtune.simulation.cluster import set_limits
from podtune.simulation.environment import AgentEnvironment
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Proposal
from tests.unit.runner.world import checkpoint_invariants
from tests.unit.runner.world.action_log import ActionLog, ActionT
from tests.unit.runner.world.simulated_api import AlreadyExists, ApiServer, Conflict, NotFound, Thing
from tests.unit.runner.world.simulated_pod import SimulatedPod
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulated_storage import StoragePods, WatchedBucket
from tests.unit.tuning.manifests import experiment as make_spec

START = 1_700_000_000.0
STORE = {"bucket": "bucket", "prefix": "demo"}


@dataclass(frozen=True)
class Weather:
    """What the cluster does to an operator.

    Attributes:
        latency: Longest way of a request to the API server, and of its answer, in seconds.
        watch_delay: Longest way of a watch event; events overtake each other.
        fails: Share of the actions that fail without an effect.
        loses_reply: Share of those that are done, but reported as failed.
        repeats: Share of the watch events that come twice.
        loses_report: Share of the agents' reports that are lost, or whose replies are.
        restarts: Seconds after which the operator is killed, each time anew.
        downtime: How long it stays away.
    """

    latency: float = 0.0
    watch_delay: float = 0.0
    fails: float = 0.0
    loses_reply: float = 0.0
    repeats: float = 0.0
    loses_report: float = 0.0
    restarts: tuple[float, ...] = ()
    downtime: float = 1.0


FAIR = Weather()
ANY_NUMBER = 1_000_000


class CountedCap(NamespaceCap):
    """The cap of a namespace with one experiment; it knows of pods as soon as they are there or have ended."""

    def __init__(self, limit: int) -> None:
        super().__init__("ns", limit)
        self._alive: set[str] = set()

    def of_experiment(self) -> PodQuota:
        """The quota of the one experiment."""
        return SimpleNamespace(claim=partial(self.claim, "e"), wants_back=partial(self.wants_back, "e"))

    def count(self, pods: Iterable[Pod]) -> None:
        """Takes in what there is."""
        alive = {pod.uid for pod in pods if not pod.is_over}
        for uid in self._alive - alive:
            self.remove_pod(uid)
        for uid in alive - self._alive:
            self.add_pod(uid, "e")
        self._alive = alive


def spec(**fields: Any) -> ExperimentSpec:
    """An Experiment's spec; short backoffs, random search over a small space, four trials unless it is said."""
    defaults: dict[str, Any] = {
        "parameters": [{"name": "learning_rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}}],
        "search": {"algorithm": "random", "maxTrials": 4, "seed": 7},
        "maxConcurrentTrials": 2,
        "snapshot": {"period": "0s"},  # it is tested apart: its storage pods come between those of others
    }
    return make_spec(**{**defaults, **fields})


def _numbered(action: Propose, answers: Iterable[Proposal]) -> dict[int, Proposal]:
    return dict(zip(itertools.count(action.first), answers, strict=False))


class PodClock(Clock):
    """A clock on which what happens in pods can be stopped."""

    is_frozen = False

    def call_later(self, seconds: float, what: Callable[[], None]) -> None:
        """Has something happen in a pod."""
        super().call_later(seconds, lambda: None if self.is_frozen else what())

    def surely_after(self, seconds: float, what: Callable[[], None]) -> None:
        """Has something happen elsewhere."""
        super().call_later(seconds, what)


class Simulation(ActionLog):
    """Runs one experiment."""

    def __init__(
        self,
        experiment: ExperimentSpec,
        program: Program | None = None,
        weather: Weather = FAIR,
        *,
        seed: int = 0,
        settings: RunnerSettings | None = None,
        make_scheduler: Callable[[ExperimentSpec], Scheduler] = make_scheduler,
        places: float = math.inf,
        pods_allowed: int = ANY_NUMBER,
        throttle: StatusWriteThrottle | None = None,
    ) -> None:
        self.clock = PodClock(START)
        self.places = places
        """How many pods of gangs the nodes can take."""
        self._unscheduled: list[str] = []
        """Pods of gangs that are before the scheduler."""
        self.make_scheduler = make_scheduler
        self.random = random.Random(seed)
        self.weather = weather
        self.program = program or Program()
        self.settings, self.throttle = settings or RunnerSettings(), throttle or StatusWriteThrottle()
        self.pods_allowed = pods_allowed  # in its namespace
        self.api = ApiServer(
            Experiment("ns", "e", "e-uid", 1, 1, experiment, ExperimentStatus()),
            self._watched,
            allowed_alive=min(experiment.max_concurrent_trials * experiment.trial_template.pod_count, pods_allowed),
        )
        store = experiment.checkpoints.store
        self.prefix = store.build_prefix("e-uid") if store else ""
        self.bucket = WatchedBucket(self.api.trials)
        self.pods: dict[str, SimulatedPod] = {}
        self.storage = StoragePods(self, lambda: self.api.experiment, self.api.next_version)
        self.storage.changed = self._watched
        self.events: list[EmitEvent] = []
        self.log: list[Action] = []
        self.kept_revisions: dict[str, TrialTemplate] = {}
        self.proposed: dict[int, Proposal] = {}
        """What the searcher has answered last, by number."""
        self.completed: set[str] = set()
        """Pods whose programs have come to their own ends."""
        self.unreachable = False
        """Whether no report of an agent reaches the operator."""
        self.machine: ExperimentMachine | None = None
        self.refuse: Callable[[Action], ActionResult | None] = lambda action: None
        """What the API server answers instead of carrying an action out."""
        self.earlier = DONE
        """What an earlier experiment has found."""
        self.elsewhere = ActionResult(ActionStatus.FAILED, "there is no such trial yet")
        """What is found of a checkpoint in another experiment."""
        self.loses_reply: Callable[[Action], bool] = lambda action: False
        self.delay: Callable[[Action], float] = lambda action: 0.0
        """Seconds that an action is on its way to the API server, beside the weather's latency."""
        self._in_flight: set[tuple[str, str]] = set()
        self._life, self._is_late = 0, False  # late is what an operator asked for that was killed meanwhile
        self._decide_at = float("inf")
        self._pending = 0
        self._searcher = SearcherSession(experiment)
        for moment in itertools.accumulate(weather.restarts):
            self.after(moment, self.restart)
        self.boot()

    # The clock

    @property
    def now(self) -> float:
        return self.clock.now

    @property
    def frozen(self) -> bool:
        """Whether nothing happens in pods any more, so that the operator comes to rest."""
        return self.clock.is_frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self.clock.is_frozen = frozen

    def after(self, delay: float, what: Callable[[], Any]) -> None:
        self.clock.surely_after(delay, what)

    def jitter(self, seconds: float) -> float:
        """About so long; exactly so long in fair weather."""
        return seconds if self.weather == FAIR else seconds * self.random.uniform(0.5, 1.5)

    def run(self, seconds: float | None = None, until: Callable[[], bool] = lambda: False) -> Simulation:
        """Lets so much time pass; without a time, until the experiment is over and nothing is left to happen.

        Args:
            seconds: How long.
            until: Ends it earlier.
        """
        end = float("inf") if seconds is None else self.now + seconds
        for _ in range(200_000):
            if until() or (seconds is None and self.is_over and self.is_quiet):
                return self
            if self.clock.next > end or self.clock.next == NOTHING_DUE:
                if seconds is not None:
                    self.clock.skip(max(self.now, end))
                return self
            self.clock.step()
        raise AssertionError("the simulation does not come to rest")

    @property
    def is_over(self) -> bool:
        state = self.api.experiment.status.state
        return state is not None and state.is_finished

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way between the operator and the API server."""
        return (
            self.machine is not None and not self._in_flight and not self._pending and self._decide_at == float("inf")
        )

    @property
    def ends_are_noted(self) -> bool:
        """Whether the end of every pod that has ended is recorded."""
        recorded = {name: trial.status.last_attempt for name, trial in self.api.trials.items()}
        ended = (pod for pod in self.api.pods.values() if pod.phase.is_finished and not pod.template_hash)
        return all((last := recorded.get(pod.trial)) is not None and last.attempt >= pod.attempt for pod in ended)

    @property
    def environment(self) -> AgentEnvironment:
        """What agents share."""
        spec = self.api.experiment.spec
        return AgentEnvironment(
            self.clock,
            self.bucket,
            self,
            self.prefix,
            spec.checkpoints.sync,
            self.program.upload,
            spec.training_objective.metric,
        )

    # The operator

    def boot(self) -> None:
        """Makes a machine of what the API server holds."""
        self._life += 1  # a watch begins where the list ended
        self._pending = 0
        self._heard, self._booted = set[str](), self.now
        self._cap = CountedCap(self.pods_allowed)
        self.machine = self.rebuilt(self._cap)
        assert self.api.experiment.spec is not None
        self._searcher = SearcherSession(self.api.experiment.spec)
        self._wake(self.now)

    def restart(self) -> None:
        """Kills the operator; what it had asked for may or may not be carried out, and nobody hears of it."""
        if self.machine is None:
            return
        self._life += 1
        self.machine = None
        self._in_flight.clear()
        self._decide_at = float("inf")
        self.after(self.jitter(self.weather.downtime) + 2 * self.weather.latency, self.boot)

    def wake(self) -> None:
        """Has the operator decide, after the test has told it something."""
        self._wake(self.now)

    def _wake(self, at: float) -> None:
        if at < self._decide_at:
            self._decide_at = at
            life = self._life
            self.after(max(0.0, at - self.now), lambda: self._decide(life, at))

    def _decide(self, life: int, at: float) -> None:
        if life != self._life or self.machine is None or at != self._decide_at:
            return
        self._decide_at = float("inf")
        self._cap.count(self.api.pods.values())
        plan = self.machine.decide(self.now)
        self.throttle.update(self.api.experiment.uid, self.machine.trials_with_pods)
        self._cap.update("e", promised=self.machine.promised_pods, waits=self.machine.waits_for_pods)
        if self._cap.next is not None:
            self._wake(self.now)
        assert plan.wake > self.now, "the machine asks to be asked again at once"
        for action in plan.actions:
            assert action.key not in self._in_flight, f"{action.key} is under way twice"
            self._in_flight.add(action.key)
            self.log.append(action)
            way = self.random.uniform(0, self.weather.latency) + self.delay(action)
            self.after(way, partial(self._arrive, life, action))
        if plan.wake < float("inf"):
            self._wake(plan.wake)

    def _arrive(self, life: int, action: Action) -> None:
        """The action reaches the API server; its answer takes as long again."""
        if life != self._life and self.random.random() < 0.5:
            return
        self._is_late = life != self._life
        refusal = self.refuse(action)
        seen: list[Thing] = []
        if refusal is not None:
            outcome = refusal
        elif self.random.random() < self.weather.fails:
            outcome = ActionResult(ActionStatus.FAILED, "the API server is busy")
        else:
            outcome = self._carry_out(action, seen)
            if self.random.random() < self.weather.loses_reply or self.loses_reply(action):
                seen, outcome = [], ActionResult(ActionStatus.FAILED, "no answer")
                if isinstance(action, CreatePod):
                    self.api.unanswered.add(action.name)
        self.after(self.random.uniform(0, self.weather.latency), lambda: self._answer(life, action, seen, outcome))

    def _answer(self, life: int, action: Action, seen: list[Thing], outcome: ActionResult) -> None:
        if life != self._life or self.machine is None:
            return
        for thing in seen:
            self._tell(thing)
        self._in_flight.discard(action.key)
        self.machine.on_action_result(action, outcome, self.now)
        self._wake(self.now)

    def _carry_out(self, action: Action, seen: list[Thing]) -> ActionResult:
        match action:
            case Propose():
                return ActionResult(ActionStatus.DONE, proposals=self._propose(action))
            case LoadWarmStart() | FindCheckpoint():
                return self._look_up(action)
            case CreateTrial():
                try:
                    seen.append(self.api.create_trial(action.name, action.spec))
                except AlreadyExists:
                    seen.append(self.api.trials[action.name])
            case CreatePod():
                return self._create_pod(action, seen)
            case CreateStoragePod():
                seen.append(self.storage.create(action))
            case OpenGates():
                self._open_gates(action, seen)
            case DeletePod() | DeleteFinishedPods():
                self._delete_pods(action)
            case FetchLogs():
                gone = action.pod not in self.api.pods
                return DONE if gone else ActionResult(ActionStatus.DONE, logs=self.pods[action.pod].logs(action))
            case WriteTrialStatus() | WriteExperimentStatus() | WriteMetadata() | AdoptTrial():
                return self._write(action, seen)
            case DeleteExperiment():
                self.api.edit_experiment(deleting=True)
            case KeepRevision() | DropRevision() | EmitEvent():
                self._keep_for_people(action)
        return DONE

    def _write(
        self, action: WriteTrialStatus | WriteExperimentStatus | WriteMetadata | AdoptTrial, seen: list[Thing]
    ) -> ActionResult:
        try:
            if isinstance(action, WriteTrialStatus):
                seen.append(self.api.write_trial_status(action.name, action.version, action.status))
            elif isinstance(action, AdoptTrial):
                seen.append(self.api.adopt_trial(action.name, action.version))
            elif isinstance(action, WriteMetadata):
                seen.append(self.api.write_metadata(action.version, action.finalizers))
            else:
                seen.append(self.api.write_experiment_status(action.version, action.status))
        except Conflict as conflict:
            of_trial = isinstance(action, WriteTrialStatus | AdoptTrial)
            seen.append(self.api.trials[action.name] if of_trial else self.api.experiment)
            return ActionResult(ActionStatus.FAILED, str(conflict))
        except NotFound:
            return DONE
        return DONE

    def _keep_for_people(self, action: KeepRevision | DropRevision | EmitEvent) -> None:
        match action:
            case KeepRevision():
                self.kept_revisions[action.revision] = action.template
            case DropRevision():
                self.kept_revisions.pop(action.revision, None)
            case EmitEvent():
                self.events.append(action)

    def _look_up(self, action: LoadWarmStart | FindCheckpoint) -> ActionResult:
        if isinstance(action, LoadWarmStart):
            return self.earlier
        found = self.elsewhere.checkpoint
        if found is not None and found.uri in action.lost:
            return ActionResult(ActionStatus.REFUSED, f"{action.wanted.trial} has no other checkpoint to start from")
        return self.elsewhere

    def _create_pod(self, action: CreatePod, seen: list[Thing]) -> ActionResult:
        if not self._is_late:
            if action.revision != self.api.experiment.spec.template_revision:
                return ActionResult(ActionStatus.FAILED, "another template", ExperimentReason.TEMPLATE_CHANGED)
            self._check_revision(action)
        existing = self.api.pods.get(action.name)
        if existing is not None and existing.trial_uid != action.trial_uid:
            return ActionResult(ActionStatus.FAILED, f"a pod {action.name} of another owner is in the way")
        if action.trial_uid not in {trial.uid for trial in self.api.trials.values()}:
            for orphan in [self._new_pod(action, rank) for rank in range(action.replicas)]:
                seen.append(orphan)  # as the API server answers: it is the garbage collector that looks for its owner
                self._watched(replace(orphan, version=self.api.next_version(), gone=True))
            return DONE
        for rank in range(action.replicas):
            known = self.api.pods.get(action.format_name(rank))
            seen.append(known or self._create_rank(action, rank))
        return DONE

    def _check_revision(self, action: CreatePod) -> None:
        """A pod is made from the template that is on record for its attempt."""
        trial, template = self.api.trials.get(action.trial), self.api.experiment.status.template
        if trial is not None and trial.uid == action.trial_uid:
            recorded = trial.status.revision or (template.first if template is not None else action.revision)
            assert action.revision == recorded, f"{action.name} is made from another template than is on record"
            assert action.own_limits == trial.status.limits, f"{action.name} has other limits than are on record"

    def _delete_pods(self, action: DeletePod | DeleteFinishedPods) -> None:
        if isinstance(action, DeleteFinishedPods):
            self.api.writes["delete-pods"] += 1
            ended = [pod for pod in self.api.pods.values() if pod.is_over and not pod.template_hash]
            for pod in [pod for pod in ended if pod.trial in action.trials]:
                self._check_deletion(pod)
                self.pods[pod.name].delete()
            return
        self.storage.delete(action.name, action.uid)
        named = self.api.pods.get(action.name)
        if named is not None and named.uid == action.uid:
            self._check_deletion(named)
            self.pods[action.name].delete(action.grace)
            self.api.writes["delete-pod"] += 1

    def _create_rank(self, action: CreatePod, rank: int) -> Pod:
        pod = self.api.create_pod(self._new_pod(action, rank))
        simulated = self.pods[pod.name] = SimulatedPod(self, self.program, action, pod.uid, rank=rank)
        if not pod.gated:
            self.clock.call_later(self.jitter(0.5), simulated.start)
        return pod

    def _new_pod(self, action: CreatePod, rank: int) -> Pod:
        name, version = action.format_name(rank), self.api.next_version()
        role = self.api.experiment.spec.find_pod_role(rank, evaluates=action.evaluates)
        template, limits = role.template.spec, select_limits(action.limits, role.name)
        return Pod(
            name,
            f"{name}-uid-{version}",
            action.trial,
            action.attempt,
            version=version,
            trial_uid=action.trial_uid,
            created=self.now,
            rank=rank,
            role=role.name,
            gated=action.replicas > 1,
            avoids=action.avoid,
            template_hash=action.template_hash,
            revision=action.revision,
            own_limits="" if action.template_hash else write_own_limits(action.own_limits),
            memory=find_memory_limit(set_limits(template, limits), "trial"),
            own_grace=grace_periods.read_from_template(template),
        )

    def _open_gates(self, action: OpenGates, seen: list[Thing]) -> None:
        for name, uid in action.pods:
            pod = self.api.pods.get(name)
            if pod is not None and pod.uid == uid and pod.gated:
                self._check_ranks(pod)
                seen.append(self.api.update_pod(name, gated=False))
                self._unscheduled.append(name)
        self.clock.call_later(self.jitter(0.1), self.schedule)

    def _check_ranks(self, pod: Pod) -> None:
        """A gang that may run was made from one template."""
        ranks = [known for known in self.api.pods.values() if (known.trial, known.attempt) == (pod.trial, pod.attempt)]
        assert len({known.revision for known in ranks}) == 1, f"the ranks of {pod.trial} are of different templates"
        assert len({known.own_limits for known in ranks}) == 1, f"the ranks of {pod.trial} have different limits"

    def schedule(self) -> None:
        """The scheduler gives places to pods of gangs in an order of its own; it knows nothing of gangs."""
        self._unscheduled = [name for name in self._unscheduled if name in self.api.pods]
        taken = sum(bool(pod.node) and not pod.phase.is_finished for pod in self.api.pods.values())
        while self._unscheduled and taken < self.places:
            name = self._unscheduled.pop(self.random.randrange(len(self._unscheduled)))
            if not self.api.pods[name].deleting:
                self.api.update_pod(name, node="n1", started=self.now)
                self.clock.call_later(self.jitter(0.5), self.pods[name].start)
                taken += 1
        if self._unscheduled:
            self.clock.call_later(1.0, self.schedule)

    def _check_deletion(self, pod: Pod) -> None:
        """A pod is deleted only after the decision to do so, or the attempt's end, is durable."""
        if self.api.experiment.deleting:
            return  # its deletion is the decision
        if pod.template_hash:
            self._check_deletion_of_shared(pod)
            return
        if pod.trial in self.api.deleted_trials:
            return  # it may be one of an earlier Trial of that name
        status = self.api.trials[pod.trial].status
        ended = status.last_attempt is not None and status.last_attempt.attempt >= pod.attempt
        decided = status.decision is not None and status.decision.attempt == pod.attempt
        finished = status.state is not None and status.state.is_finished
        assert ended or decided or finished, f"{pod.name} deleted too early"
        if decided and not ended and pod.training and not pod.is_over:
            checkpoint_invariants.assert_stored_first(self, self.pods[pod.name], status)

    def _check_deletion_of_shared(self, pod: Pod) -> None:
        """A pod is deleted only while it serves no trial, or after the decision on the one that it serves."""
        if self._is_late:
            return  # who has asked for it did not know yet what it serves
        for trial in self.api.trials.values():
            status, given = trial.status, trial.status.pod
            ended = status.last_attempt.attempt if status.last_attempt is not None else 0
            is_current = given is not None and given.uid == build_attempt_id(pod.uid, trial.name, ended + 1)
            if is_current and status.state is not None and not status.state.is_finished:
                assert status.decision is not None, f"{pod.name} deleted while it serves {trial.name}"

    def _propose(self, action: Propose) -> tuple[Proposal, ...]:
        spec = self.api.experiment.spec
        assert spec is not None
        if spec.search.initial != self._searcher.spec.search.initial:
            self._searcher = SearcherSession(spec)
        answers = self._searcher.answer(action)
        self.proposed.update(_numbered(action, answers))
        return answers

    def fail(
        self,
        kind: type[ActionT],
        message: str = "busy",
        *,
        when: Callable[[ActionT], object] = lambda action: True,
        status: ActionStatus = ActionStatus.FAILED,
    ) -> None:
        """Has the API server carry out no action of a kind any more, or none of those that are so."""
        answer = ActionResult(status, message)
        self.refuse = lambda action: answer if isinstance(action, kind) and when(action) else None

    def answers(self, action: Propose) -> dict[int, Proposal]:
        """By number, what a fresh searcher proposes that is told and asked the same."""
        return _numbered(action, SearcherSession(self._searcher.spec).answer(action))

    # What the operator sees

    def post(self, trial: str, pod: str, report: Report) -> Reply | Unaccepted | None:
        """An agent posts a report; None where no answer comes."""
        lost = self.random.random() < self.weather.loses_report
        if self.machine is None or self.unreachable or (lost and self.random.random() < 0.5):
            return None
        answer = self.machine.report(trial, pod, report, self.now)
        self._heard.add(report.attempt)
        self._wake(self.now)
        return None if lost else answer

    def hears(self, attempt: str) -> bool:
        """Whether the operator knows what an agent is storing, or has listened for it for long enough."""
        deaf = self.now < self._booted + self.settings.report_wait
        return not self._is_late and (attempt in self._heard or not (deaf or self.frozen))

    def _watched(self, thing: Thing) -> None:
        life = self._life
        for _ in range(1 + (self.random.random() < self.weather.repeats)):
            self._pending += 1
            self.after(self.random.uniform(0, self.weather.watch_delay), lambda: self._watch_event(life, thing))

    def _watch_event(self, life: int, thing: Thing) -> None:
        if life != self._life:
            return
        self._pending -= 1
        if self.machine is not None:
            self._tell(thing)
            self._wake(self.now)

    def _tell(self, thing: Thing) -> None:
        assert self.machine is not None
        match thing:
            case Experiment():
                self.machine.observe_experiment(thing)
            case Trial():
                self.machine.observe_trial(thing)
            case Pod():
                self.machine.observe_pod(thing)
            case StoragePod():
                self.machine.observe_storage_pod(thing)

    # What users do

    def delete_trial(self, name: str) -> None:
        """A user deletes a Trial; its pods are garbage."""
        self.api.remove_trial(name)
        for pod in [pod for pod in self.api.pods.values() if pod.trial == name and not pod.template_hash]:
            self.pods[pod.name].delete()
        life = self._life

        def gone() -> None:
            if life == self._life and self.machine is not None:
                self.machine.observe_trial_deletion(name)
                self._wake(self.now)

        self.after(self.weather.watch_delay, gone)

    def retry_trial(self, name: str) -> None:
        """A user has the current attempt of a Trial retried, as `kubectl podtune retry` does."""
        last = self.api.trials[name].status.last_attempt
        self.api.edit_trial(name, retry=RetryRequest(attempt=(last.attempt if last else 0) + 1))

    def take_back(self, name: str) -> None:
        """A user has a Trial go back to its oldest checkpoint, as `kubectl podtune retry --step` does."""
        status = self.api.trials[name].status
        step = min((checkpoint.step for checkpoint in status.checkpoints), default=1)
        last = status.last_attempt
        self.api.edit_trial(name, retry=RetryRequest(attempt=(last.attempt if last else 0) + 1, step=step))

    def ask_for_checkpoint(self, name: str) -> None:
        """A user asks a Trial for a checkpoint, as `kubectl podtune checkpoint` does."""
        self.api.edit_trial(name, checkpoint_request=CheckpointRequest(id=str(self.api.next_version())))

    def edit_spec(self, **changes: object) -> None:
        """A user edits the Experiment."""
        spec = self.api.experiment.spec
        self.api.edit_experiment(spec=spec.model_copy(update=changes))

    def edit_template(self, **changes: object) -> str:
        """A user edits the trial template's pod; returns the new revision."""
        known = self.api.experiment.spec.trial_template
        template = TrialTemplate.model_validate(known.model_dump() | {"spec": known.spec | changes})
        self.edit_spec(trial_template=template)
        return self.api.experiment.spec.template_revision

    # What is to be seen

    def status(self, index: int = 0) -> TrialStatus:
        return self.api.trials[f"e-{index}"].status

    def status_exists(self, index: int = 0) -> bool:
        return f"e-{index}" in self.api.trials

    def rebuilt(self, cap: CountedCap | None = None) -> ExperimentMachine:
        """Another machine of the same objects, with a cap that was made anew, too, unless there is one."""
        cap = cap or CountedCap(self.pods_allowed)
        cap.count(self.api.pods.values())
        experiment = replace(self.api.experiment)
        machine = ExperimentMachine(
            experiment,
            self.settings,
            self.make_scheduler,
            storage_pods=list(self.storage.pods.values()),
            quota=cap.of_experiment(),
            throttle=self.throttle,
        )
        do_all(machine.restore(list(self.api.trials.values()), list(self.api.pods.values())))
        return machine
