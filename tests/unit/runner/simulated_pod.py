"""A trial's pod: a training program, the agent beside it, and what may happen to both."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from podtune.agent.training_time import TrainingTime, total_of
from podtune.api.pod_template import RESTORE_CONTAINER
from podtune.protocol.assignment import Assignment, attempt_folder, attempt_in
from podtune.protocol.messages import (
    NOT_RESTORABLE,
    UNACKED_PREFIX,
    CheckpointCommit,
    FinalCommit,
    Reply,
    Report,
    Restored,
    RestoreFailure,
    Result,
    StoreProblem,
    Unstored,
    result_json,
)
from podtune.runner.actions import CreatePod, FetchLogs, Logs
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.records import ContainerEnd, Pod, PodPhase, Waiting
from podtune.runner.results import show
from podtune.storage.address import CheckpointAddress

if TYPE_CHECKING:
    from tests.unit.runner.simulation import Simulation


class Fate(Enum):
    """What ends an attempt, besides the program's own good end."""

    CRASH = "exit code 1"
    OOM = "out of memory"
    EVICTED = "evicted, with a DisruptionTarget"
    TRAPPED = "evicted; the program traps SIGTERM and ends well"
    DELETED = "deleted by somebody else"
    VANISHED = "gone without a trace"
    NOT_ADMITTED = "refused by the kubelet"
    STORE_AWAY = "the bucket does not answer when it restores"
    STUCK = "its image can't be pulled"
    DISK = "evicted for its own disk"
    HUNG = "the program hangs; its agent lives on"
    UNSCHEDULABLE = "no node can take it"


@dataclass(frozen=True)
class Mishap:
    """A fate that overtakes an attempt after the iteration `step`."""

    fate: Fate
    step: int = 0
    exit_code: int = 1
    rank: int = 0


def curve(trial: int, step: int) -> float:
    """The accuracy of a trial after some iterations: pure, bounded, and different for every trial."""
    level = 0.5 + 0.45 * math.sin(12.9898 * (trial + 1))
    return round(level * (1 - math.exp(-step / 4)) + 0.01 * math.sin(7.0 * step + trial), 6)


@dataclass(frozen=True)
class Program:
    """What the trials of an experiment run.

    Attributes:
        steps: Iterations until the program ends by itself.
        seconds: Time that one takes.
        checkpoint_every: A checkpoint is taken every so many iterations; 0 for never, unless it is asked for.
        upload: Time until a checkpoint is committed; infinity for never.
        seen_after: Time until the pod's status says that it runs.
        silent: Whether there is no agent: nothing is ever reported (pods of kwok).
        says_done: Whether the program says that it is done.
        metric: Value of the objective by trial and iteration.
        further: Further metrics by trial and iteration.
        mishaps: By trial, what becomes of its attempts, first to last; those left out end well.
        store_problem: By trial, what its agents report of the store.
        gpus: How many GPUs a pod holds.
        nodes: The nodes of the cluster; a pod is put on one that it does not avoid.
        bad_nodes: Those on which every program fails with exit code 42.
    """

    steps: int = 4
    seconds: float = 1.0
    checkpoint_every: int = 0
    upload: float = 0.3
    seen_after: float = 0.0
    silent: bool = False
    says_done: bool = True
    metric: Callable[[int, int], float | None] = curve
    further: Callable[[int, int], dict[str, float]] = lambda trial, step: {}
    mishaps: dict[int, tuple[Mishap | None, ...]] = field(default_factory=dict)
    store_problem: dict[int, StoreProblem] = field(default_factory=dict)
    gpus: float = 0.0
    nodes: tuple[str, ...] = ("n1",)
    bad_nodes: frozenset[str] = frozenset()


class SimulatedPod:
    """Lives on the simulation's clock, from its creation to its end."""

    def __init__(self, simulation: Simulation, program: Program, action: CreatePod, uid: str, *, rank: int = 0) -> None:
        self._sim = simulation
        self._program = program if rank == 0 else replace(program, silent=True)
        self.name = action.name_of(rank)
        self.uid = uid
        self._rank = rank
        self._is_shared = bool(action.variant)
        self._alive = True
        self.served: list[str] = []
        """Names of the trials that it has served, first to last."""
        self._begin(
            action.trial,
            action.attempt,
            attempt_in(uid, action.trial, action.attempt) if action.variant else uid,
            action.spec.parameters,
            [checkpoint.uri for checkpoint in action.restore],
            restore_or_fail=action.restore_or_fail,
            find=action.find,
        )
        open_to_it = [node for node in program.nodes if node not in action.avoid]
        self.node = open_to_it[self.index % len(open_to_it)] if open_to_it else ""
        if not self.node:
            self._mishap = Mishap(Fate.UNSCHEDULABLE)
        elif self.node in program.bad_nodes:
            self._mishap = Mishap(Fate.CRASH, 1, exit_code=42)

    def _begin(
        self,
        trial: str,
        number: int,
        attempt: str,
        parameters: Mapping[str, str],
        restore: list[str],
        *,
        restore_or_fail: bool,
        find: bool,
    ) -> None:
        """Begins with an attempt."""
        self.trial = trial
        self.index = int(trial.rpartition("-")[2])
        self.attempt = attempt
        self.served.append(trial)
        self._home = f"{self._sim.prefix}{trial}/{attempt_folder(attempt)}"
        self._parameters = dict(parameters)
        by_itself = self._find(trial) if find else []
        candidates = [*by_itself, *restore]
        found = next((uri for uri in candidates if uri in self._sim.bucket and self._is_whole(uri)), None)
        self.restored = self._restored_of(found, is_found=found in by_itself) if found else Restored(0)
        self._time = TrainingTime()
        self._time.begin(self._sim.now)
        self._time.go_on_from(self._sim.trained_for[found] if found else 0.0)
        self._can_start = found is not None or not restore_or_fail
        if found is not None:
            is_clone = restore_or_fail and f"/{trial}/" not in found
            fits = is_clone or self._is_own(self._sim.trained_with[found])
            assert fits, f"{self.name} mixes the weights of {found} with other parameters"
        self._step = self.restored.step
        mishaps = self._program.mishaps.get(self.index, ())
        mishap = mishaps[number - 1] if number <= len(mishaps) else None
        self._mishap = mishap if mishap is not None and mishap.rank == self._rank else None
        self._results: list[Result] = []
        self._acked = 0
        self.decisions: list[int] = []
        """Numbers of those that it has heard of; they are in the bucket."""
        self._durable = 0
        self._commits: list[CheckpointCommit] = []
        self._uploading: list[CheckpointCommit] = []
        self._stored: list[CheckpointCommit] = []
        self._wants_checkpoint = False
        self._is_asked_to_leave = False
        self._final: FinalCommit | None = None
        self._polls = 0
        self.fenced = False
        self.post_due = False

    @property
    def final_iteration(self) -> int:
        return self._step

    def start(self) -> None:
        """The kubelet takes it up."""
        if not self._alive:
            return
        moment = self._sim.now
        self._time.begin(moment)
        if not self._can_start:
            end = ContainerEnd(RESTORE_CONTAINER, NOT_RESTORABLE, "Error", "its manifest is missing")
            self._finish(PodPhase.FAILED, (end,), agent=False)
        elif self._happens(Fate.STORE_AWAY):
            end = ContainerEnd(RESTORE_CONTAINER, os.EX_TEMPFAIL, "Error", "the bucket does not answer")
            self._finish(PodPhase.FAILED, (end,), agent=False)
        elif self._happens(Fate.NOT_ADMITTED):
            self._finish(PodPhase.FAILED, (), reason="OutOfcpu", message="Node didn't have enough cpu", agent=False)
        elif self._happens(Fate.UNSCHEDULABLE):
            self._sim.api.update_pod(self.name, waiting=Waiting("Unschedulable", "0/2 nodes are available"))
        elif self._happens(Fate.STUCK):
            waiting = Waiting("ImagePullBackOff", 'Back-off pulling image "nowhere"', hopeless=True)
            self._sim.api.update_pod(self.name, waiting=waiting, started=moment, node=self.node)
        else:
            if self._program.seen_after:
                self._sim.after_unless_frozen(self._program.seen_after, lambda: self._seen_to_run(moment))
            else:
                self._seen_to_run(moment)
            if not self._program.silent:
                self._post_soon()
                self._sim.after_unless_frozen(10.0, self._heartbeat)
            self._sim.after_unless_frozen(self._sim.jitter(self._program.seconds), self._train)

    def _seen_to_run(self, since: float) -> None:
        if not self._alive:
            return
        self._sim.api.update_pod(
            self.name,
            phase=PodPhase.RUNNING,
            training=True,
            started=since,
            training_since=since,
            gpus=self._program.gpus,
            node=self.node,
        )

    # The program

    def _train(self) -> None:
        if not self._alive or self._final is not None:
            return
        mishap = self._mishap
        if mishap is not None and self._step >= mishap.step:
            self._overtaken(mishap)
        elif self._is_shared and not self._can_start:
            self._leave(done=False)
        elif self._is_shared and (self._step >= self._program.steps or self._may_leave):
            self._leave(done=True)
        elif self._step >= self._program.steps:
            self._finish(PodPhase.SUCCEEDED, (ContainerEnd("trial", 0),), done=self._program.says_done)
        else:
            self._step += 1
            if not self._program.silent:
                self._result()
            self._sim.after_unless_frozen(self._sim.jitter(self._program.seconds), self._train)

    def _result(self) -> None:
        every = self._program.checkpoint_every
        stores = bool(self._sim.prefix) and self._program.store_problem.get(self.index) is None
        checkpoint = stores and ((every > 0 and self._step % every == 0) or self._wants_checkpoint)
        metrics: dict[str, float | int | str | bool] = {"training_iteration": self._step}
        value = self._program.metric(self.index, self._step)
        if value is not None:
            metrics["accuracy"] = value
        metrics |= self._program.further(self.index, self._step)
        metrics = self._time.fill_in(metrics, self._sim.now)
        result = Result(len(self._results) + 1, self._sim.now, metrics, self._step, checkpoint)
        self._results.append(result)
        if checkpoint:
            self._wants_checkpoint = False
            commit = CheckpointCommit(self._step, result.seq, f"{self._home}/{self._step}", f"sha256:{self._step:04x}")
            self._uploading.append(commit)
            self._sim.trained_for[commit.uri] = total_of(metrics)
            if self._program.upload < math.inf:
                self._sim.after_unless_frozen(self._sim.jitter(self._program.upload), lambda: self._uploaded(commit))
        self._post_soon()

    @property
    def _may_leave(self) -> bool:
        """Whether a stop or a pause was decided, and no checkpoint is wanted any more."""
        return self._is_asked_to_leave and not self._wants_checkpoint

    def _find(self, trial: str) -> list[str]:
        """The trial's checkpoints in the bucket that were taken with the attempt's parameters, the furthest first."""
        own = [uri for uri in self._sim.bucket if uri.startswith(f"{self._sim.prefix}{trial}/")]
        fitting = [uri for uri in own if self._sim.trained_with[uri] == self._parameters]
        return sorted(fitting, key=lambda uri: CheckpointAddress.from_uri(uri).step, reverse=True)

    def _restored_of(self, uri: str, *, is_found: bool) -> Restored:
        step = CheckpointAddress.from_uri(uri).step
        if not is_found:
            return Restored(step, uri)
        value = self._program.metric(self.index, step)
        return Restored(step, uri, digest="sha256:00", metric="" if value is None else show(value))

    def _leave(self, *, done: bool) -> None:
        """The program goes on to the next turn of its loop; all that is left is delivered."""
        if self._program.upload < math.inf:
            for commit in list(self._uploading):
                self._uploaded(commit)
        self._final = self._final_commit(done)
        self._post_soon()

    def _take_up(self, assignment: Assignment) -> None:
        """Goes on with the next attempt."""
        self._begin(
            assignment.trial,
            assignment.number,
            assignment.attempt,
            {name: show(value) for name, value in assignment.parameters.items()},
            [checkpoint["uri"] for checkpoint in json.loads(assignment.restore_from or "[]")],
            restore_or_fail=assignment.restore_or_fail,
            find=assignment.find,
        )
        if self._mishap is not None and self._mishap.fate in (Fate.NOT_ADMITTED, Fate.STUCK):
            self._mishap = None  # that is over for this pod
        self._post_soon()
        self._sim.after_unless_frozen(self._sim.jitter(self._program.seconds), self._train)

    def overtake(self, fate: Fate) -> bool:
        """Has a fate overtake the attempt now; whether there was anything to overtake."""
        pod = self._sim.api.pods.get(self.name)
        if not self._alive or pod is None or not pod.training or pod.deleting:
            return False
        self._overtaken(Mishap(fate))
        return True

    def _overtaken(self, mishap: Mishap) -> None:
        end = (ContainerEnd("trial", mishap.exit_code, "Error"),)
        match mishap.fate:
            case Fate.CRASH:
                self._finish(PodPhase.FAILED, end)
            case Fate.OOM:
                self._finish(PodPhase.FAILED, (ContainerEnd("trial", 137, "OOMKilled"),))
            case Fate.DISK:
                self._finish(PodPhase.FAILED, end, reason="Evicted", message="ephemeral storage exceeds its limit")
            case Fate.EVICTED:
                self._sim.api.update_pod(
                    self.name, disruption="EvictionByEvictionAPI: drained", deleting=True, interrupted=True
                )
                self._sim.after_unless_frozen(self._sim.jitter(0.5), lambda: self._terminate(143))
            case Fate.TRAPPED:
                self._sim.api.update_pod(
                    self.name, disruption="PreemptionByScheduler: preempted", deleting=True, interrupted=True
                )
                self._sim.after_unless_frozen(self._sim.jitter(0.5), lambda: self._terminate(0))
            case Fate.DELETED:
                self.delete()
            case Fate.VANISHED:
                self._alive = False
                self._sim.api.remove_pod(self.name)
            case Fate.HUNG:
                pass
            case Fate.NOT_ADMITTED | Fate.STORE_AWAY | Fate.STUCK | Fate.UNSCHEDULABLE:
                raise AssertionError("it never ran")

    def _is_own(self, parameters: dict[str, str]) -> bool:
        """Whether weights were trained with its parameters, but for those that its user has changed."""
        changed = self._sim.api.overridden[self.trial]
        names = (parameters.keys() | self._parameters.keys()) - changed
        return all(parameters.get(name) == self._parameters.get(name) for name in names)

    def _is_whole(self, uri: str) -> bool:
        return uri not in self._sim.damaged

    def _happens(self, fate: Fate) -> bool:
        return self._mishap is not None and self._mishap.fate is fate

    # Its end

    def delete(self) -> None:
        """Somebody asks for its deletion; one that has ended is gone at once."""
        pod = self._sim.api.pods.get(self.name)
        if pod is None or pod.deleting:
            return
        if pod.phase.is_finished:
            self._sim.api.remove_pod(self.name)
            return
        self._sim.api.update_pod(self.name, deleting=True, interrupted=True)
        self._sim.after_unless_frozen(self._sim.jitter(0.5), lambda: self._terminate(143))

    def _terminate(self, exit_code: int) -> None:
        """The grace period: the program is ended, the agent says its last words, the pod goes."""
        pod = self._sim.api.pods.get(self.name)
        if pod is None:
            return
        if self._alive:
            phase = PodPhase.FAILED if exit_code or not pod.training else PodPhase.SUCCEEDED
            self._finish(phase, (ContainerEnd("trial", exit_code, "Error"),) if pod.training else ())
        self._sim.after_unless_frozen(
            self._sim.jitter(0.2), lambda: self._sim.api.pods.get(self.name) and self._sim.api.remove_pod(self.name)
        )

    def _finish(
        self,
        phase: PodPhase,
        ends: tuple[ContainerEnd, ...],
        *,
        done: bool = False,
        agent: bool = True,
        reason: str = "",
        message: str = "",
    ) -> None:
        self._alive = False
        if self.name not in self._sim.api.pods:
            return
        words = ""
        if agent and not self._program.silent and self._sim.api.pods[self.name].training:
            if self._program.upload < math.inf:
                for commit in list(self._uploading):
                    self._uploaded(commit)
            words = self._final_commit(done).to_json()
        ended = self._sim.now if self._sim.api.pods[self.name].started else 0.0
        self._sim.api.update_pod(
            self.name,
            phase=phase,
            ends=ends,
            agent_message=words,
            reason=reason,
            message=message,
            ended=ended,
            training_until=ended,
        )

    def _final_commit(self, done: bool) -> FinalCommit:
        return FinalCommit(
            attempt=self.attempt,
            seq=len(self._results),
            acked_seq=self._acked,
            last=self._results[-1] if self._results else None,
            checkpoints=tuple(self._commits[-4:]),
            restored=self.restored,
            store_problem=self._program.store_problem.get(self.index),
            done=done,
            ledger=self.decisions[-1] if self.decisions else 0,
            unstored=self._unstored(),
        )

    def _unstored(self) -> Unstored | None:
        """What the program has reported since the newest stored checkpoint."""
        newest = max((commit.seq for commit in self._stored), default=0)
        unstored = [commit for commit in self._uploading if commit.seq > newest]
        return Unstored(unstored[0].seq, unstored[-1].seq, unstored[-1].step, waits=True) if unstored else None

    # The agent

    def logs(self, action: FetchLogs) -> Logs:
        lines = tuple(UNACKED_PREFIX + result_json(result) for result in self._results[self._durable :])
        tail = f"epoch {self._step}\nTraceback (most recent call last)\nValueError: boom" if action.program else ""
        return Logs(program_tail=tail, agent_lines=("agent says hello", *lines) if action.agent else ())

    def _uploaded(self, commit: CheckpointCommit) -> None:
        """The checkpoint's manifest is in the bucket; the checkpoints that are not kept are deleted from it."""
        if commit not in self._uploading or self.name not in self._sim.api.pods:
            return
        self._uploading.remove(commit)
        self._stored.append(commit)
        self._commits.append(commit)
        self._sim.bucket.append(commit.uri)
        self._sim.trained_with[commit.uri] = self._parameters
        self._post_soon()

    def _heartbeat(self) -> None:
        if self._alive:
            self._post_soon()
            self._sim.after_unless_frozen(10.0, self._heartbeat)

    def _post_soon(self) -> None:
        if not self.post_due and not self.fenced and self._alive:
            self.post_due = True
            self._sim.after_unless_frozen(self._sim.jitter(0.05), self._post)

    def _post(self) -> None:
        """Posts what is unacknowledged, and learns from the reply, unless one of the two is lost on its way."""
        self.post_due = False
        if not self._alive or self.fenced:
            return
        report = Report(
            attempt=self.attempt,
            results=tuple(self._results[self._acked :]),
            checkpoints=tuple(self._commits),
            restored=self.restored,
            store_problem=self._program.store_problem.get(self.index),
            ledger=self.decisions[-1] if self.decisions else 0,
            final=self._final_commit(self._final.done) if self._final is not None else None,
            restore_failure=None if self._can_start else RestoreFailure(NOT_RESTORABLE, "its manifest is missing"),
            unstored=self._unstored(),
        )
        answer = self._sim.post(self.trial, self.name, report)
        if answer is Unaccepted.FENCED:
            self.fenced = True
        elif isinstance(answer, Reply):
            self._learn(answer)
        if self._final is not None and not self.post_due:
            self._polls += 1
            self.post_due = True
            self._sim.after_unless_frozen(0.02 * 1.5 ** min(self._polls, 10), self._post)
        elif not self.post_due and (self._acked < len(self._results) or self._commits):
            self.post_due = True
            self._sim.after_unless_frozen(1.0, self._post)

    def _learn(self, reply: Reply) -> None:
        self._durable = max(self._durable, reply.durable_seq)
        self._acked = max(reply.acked_seq, self._durable)
        self._commits = [commit for commit in self._commits if commit.uri not in reply.acked_checkpoints]
        if reply.next is not None:
            self._take_up(reply.next)
            return
        self._wants_checkpoint = reply.should_checkpoint
        self._is_asked_to_leave = reply.decision != "CONTINUE"
        self.decisions += [entry.number for entry in reply.ledger]
        if reply.kept and not self._commits:  # else one may be on its way to being recorded
            self._sim.keep(self.trial, reply.kept)


def is_alive(pod: Pod) -> bool:
    """Whether something of it still runs."""
    return not pod.phase.is_finished
