"""A trial's pod: a training program, the agent beside it, and what may happen to both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from podtune.agent.state.training_time import TrainingTimer, total_of
from podtune.api.base import parse_duration
from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.resources.checkpoints import Checkpoints
from podtune.protocol.assignment import Assignment, attempt_folder, attempt_in
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import backlog_time
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
    result_json,
)
from podtune.runner.actions import CreatePod, FetchLogs, Logs
from podtune.runner.attempts import grace_periods
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.records import ContainerEnd, Pod, PodPhase, Waiting
from podtune.runner.trial.results import show
from podtune.storage.checkpoint.address import CheckpointAddress
from tests.unit.runner.world.simulated_program import Fault, Program, ScheduledFault, curve
from tests.unit.runner.world.simulated_uploads import SimulatedUploads

if TYPE_CHECKING:
    from tests.unit.runner.world.simulation import Simulation


__all__ = ["Fault", "Program", "ScheduledFault", "SimulatedPod", "curve", "is_alive"]
T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """How a program has ended; what the pod's status says once its agent has ended, too."""

    phase: PodPhase
    ends: tuple[ContainerEnd, ...]
    done: bool
    reason: str
    message: str
    speaks: bool
    """Whether its agent has last words."""


class SimulatedPod:
    """Lives on the simulation's clock, from its creation to its end."""

    def __init__(self, simulation: Simulation, program: Program, action: CreatePod, uid: str, *, rank: int = 0) -> None:
        self._sim = simulation
        self._program = program if rank == 0 else replace(program, silent=True)
        self.name = action.name_of(rank)
        self.uid = uid
        self._rank = rank
        self._is_shared = bool(action.template_hash)
        self._alive = True
        """Whether its program may still run; its agent may go on."""
        self._end: _End | None = None
        """How its program has ended; None until it has."""
        self._is_over = False
        self._words = ""
        """What its agent has written down since the program's end, should it be killed before it says more."""
        self.served: list[str] = []
        """Names of the trials that it has served, first to last."""
        self._begin(
            action.trial,
            action.attempt,
            attempt_in(uid, action.trial, action.attempt) if action.template_hash else uid,
            action.spec.parameters,
            [checkpoint.uri for checkpoint in action.restore],
            restore_or_fail=action.restore_or_fail,
            find=action.find,
        )
        open_to_it = [node for node in program.nodes if node not in action.avoid]
        self.node = open_to_it[self.index % len(open_to_it)] if open_to_it else ""
        if not self.node:
            self._fault = ScheduledFault(Fault.UNSCHEDULABLE)
        elif self.node in program.bad_nodes:
            self._fault = ScheduledFault(Fault.CRASH, 1, exit_code=42)

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
        self.restored = self._restored_of(found) if found else Restored()
        self._time = TrainingTimer()
        self._time.begin(self._sim.now)
        self._time.go_on_from(self._sim.trained_for[found] if found else 0.0)
        self._can_start = found is not None or not restore_or_fail
        if found is not None:
            is_clone = restore_or_fail and f"/{trial}/" not in found
            fits = is_clone or self._is_own(self._sim.trained_with[found])
            assert fits, f"{self.name} mixes the weights of {found} with other parameters"
        self._step = self.restored.step
        fault = _nth(self._program.faults.get(self.index, ()), number)
        self._fault = fault if fault is not None and fault.rank == self._rank else None
        self._results: list[Result] = []
        self._acked = 0
        self.decisions: list[int] = []
        """Numbers of those that it has heard of; they are in the bucket."""
        self._durable = 0
        self.uploads = SimulatedUploads(
            self._sim,
            self._checkpoints.sync,
            upload=self._program.upload,
            snag=_nth(self._program.snags.get(self.index, ()), number),
            stored=self._uploaded,
            changed=self._something_stored,
        )
        self._wants_checkpoint = False
        self._is_asked_to_leave = False
        self._leaves: bool | None = None
        """Whether the program was done when it went on to another trial; None before that."""
        self._final: FinalCommit | None = None
        self._polls = 0
        self.fenced = False
        self.post_due = False

    @property
    def _checkpoints(self) -> Checkpoints:
        spec = self._sim.api.experiment.spec
        assert spec is not None
        return spec.checkpoints

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
        elif self._happens(Fault.STORE_AWAY):
            end = ContainerEnd(RESTORE_CONTAINER, os.EX_TEMPFAIL, "Error", "the bucket does not answer")
            self._finish(PodPhase.FAILED, (end,), agent=False)
        elif self._happens(Fault.NOT_ADMITTED):
            self._finish(PodPhase.FAILED, (), reason="OutOfcpu", message="Node didn't have enough cpu", agent=False)
        elif self._happens(Fault.UNSCHEDULABLE):
            self._sim.api.update_pod(self.name, waiting=Waiting("Unschedulable", "0/2 nodes are available"))
        elif self._happens(Fault.STUCK):
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
        if not self._alive or self._leaves is not None:
            return
        fault = self._fault
        if fault is not None and self._step >= fault.step:
            self._struck(fault)
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
            uri = f"{self._home}/{self._step}"
            self._sim.trained_for[uri] = total_of(metrics)
            self.uploads.add(result.seq, self._step, uri, value)
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

    def _restored_of(self, uri: str) -> Restored:
        step = CheckpointAddress.from_uri(uri).step
        return Restored(CheckpointRef(uri, "sha256:00", step), self._program.metric(self.index, step))

    def _leave(self, *, done: bool) -> None:
        """The program goes on to the next turn of its loop; all that is left is stored and delivered."""
        self._leaves = done
        self._finish_uploads()
        self._hand_over_if_stored()

    def _finish_uploads(self) -> None:
        """The program has ended: of one that was told to, nothing but the newest checkpoint is wanted."""
        if self._is_asked_to_leave:
            self.uploads.hurry()

    def _hand_over_if_stored(self) -> None:
        if self._leaves is not None and self._final is None and self.uploads.is_done:
            self._final = self._final_commit(self._leaves)
            self._post_soon()

    def _take_up(self, assignment: Assignment) -> None:
        """Goes on with the next attempt."""
        self.uploads.close()
        self._begin(
            assignment.trial,
            assignment.number,
            assignment.attempt,
            {name: show(value) for name, value in assignment.parameters.items()},
            [checkpoint.uri for checkpoint in assignment.restore_from],
            restore_or_fail=assignment.restore_or_fail,
            find=assignment.find,
        )
        if self._fault is not None and self._fault.kind in (Fault.NOT_ADMITTED, Fault.STUCK):
            self._fault = None  # that is over for this pod
        self._post_soon()
        self._sim.after_unless_frozen(self._sim.jitter(self._program.seconds), self._train)

    def strike(self, kind: Fault) -> bool:
        """Has a fault strike the attempt now; whether there was anything to strike."""
        pod = self._sim.api.pods.get(self.name)
        if not self._alive or pod is None or not pod.training or pod.deleting:
            return False
        self._struck(ScheduledFault(kind))
        return True

    def _struck(self, fault: ScheduledFault) -> None:
        end = (ContainerEnd("trial", fault.exit_code, "Error"),)
        match fault.kind:
            case Fault.CRASH:
                self._finish(PodPhase.FAILED, end)
            case Fault.OOM:
                self._finish(PodPhase.FAILED, (ContainerEnd("trial", 137, "OOMKilled"),))
            case Fault.DISK:
                message = "ephemeral storage exceeds its limit"
                self._finish(PodPhase.FAILED, end, reason="Evicted", message=message, drains=False)
            case Fault.EVICTED:
                self._sim.api.update_pod(self.name, disruption="EvictionByEvictionAPI: drained")
                self.delete(exit_code=143)
            case Fault.TRAPPED:
                self._sim.api.update_pod(self.name, disruption="PreemptionByScheduler: preempted")
                self.delete(exit_code=0)
            case Fault.DELETED:
                self.delete()
            case Fault.VANISHED:
                self._alive, self._is_over = False, True
                self.uploads.close()
                self._sim.api.remove_pod(self.name)
            case Fault.HUNG:
                pass
            case Fault.NOT_ADMITTED | Fault.STORE_AWAY | Fault.STUCK | Fault.UNSCHEDULABLE:
                raise AssertionError("it never ran")

    def _is_own(self, parameters: dict[str, str]) -> bool:
        """Whether weights were trained with its parameters, but for those that its user has changed."""
        changed = self._sim.api.overridden[self.trial]
        names = (parameters.keys() | self._parameters.keys()) - changed
        return all(parameters.get(name) == self._parameters.get(name) for name in names)

    def _is_whole(self, uri: str) -> bool:
        return uri not in self._sim.damaged

    def _happens(self, kind: Fault) -> bool:
        return self._fault is not None and self._fault.kind is kind

    # Its end

    def delete(self, grace: int | None = None, *, exit_code: int = 143) -> None:
        """Somebody asks for its deletion; one that has ended is gone at once.

        Args:
            grace: Seconds that it is given; None for its own grace period.
            exit_code: What its program ends with.
        """
        pod = self._sim.api.pods.get(self.name)
        if pod is None:
            return
        if pod.phase.is_finished:
            self._sim.api.remove_pod(self.name)
            return
        longest = self._grace_period if grace is None else float(grace)
        self._sim.after_unless_frozen(longest, self._killed)  # a later deletion can but shorten it
        if pod.deleting:
            return
        self._sim.api.update_pod(self.name, deleting=True, interrupted=self._alive)
        self._sim.after_unless_frozen(self._sim.jitter(0.5), lambda: self._terminate(exit_code))

    @property
    def _store_problem(self) -> StoreProblem | None:
        return self.uploads.problem or self._program.store_problem.get(self.index)

    @property
    def _grace_period(self) -> float:
        """The template's, which is the program's, and what the agent may take after it."""
        spec = self._sim.api.experiment.spec
        assert spec is not None
        own = grace_periods.read_from_template(spec.trial_template.spec)
        return float(own) + (parse_duration(self._checkpoints.drain) if self._sim.prefix else 0.0)

    def _terminate(self, exit_code: int) -> None:
        """SIGTERM: the program ends; one that has ended already has an agent that knows."""
        pod = self._sim.api.pods.get(self.name)
        if pod is not None and self._alive:
            phase = PodPhase.FAILED if exit_code or not pod.training else PodPhase.SUCCEEDED
            self._finish(phase, (ContainerEnd("trial", exit_code, "Error"),) if pod.training else ())

    def _finish(
        self,
        phase: PodPhase,
        ends: tuple[ContainerEnd, ...],
        *,
        done: bool = False,
        agent: bool = True,
        drains: bool = True,
        reason: str = "",
        message: str = "",
    ) -> None:
        """The program has ended, or never will begin; its agent stores what it can before the pod ends.

        Args:
            phase: How the pod ends.
            ends: How its containers have ended.
            done: Whether the program has said that it was done.
            agent: Whether there is an agent that could say something.
            drains: Whether it has the time to store anything.
            reason: The pod's reason.
            message: The pod's message.
        """
        self._alive = False
        pod = self._sim.api.pods.get(self.name)
        if pod is None:
            return
        speaks = agent and not self._program.silent and pod.training
        self._end = _End(phase, ends, done, reason, message, speaks)
        if not speaks:
            self._conclude("")
            return
        self._finish_uploads()
        self._words = self._final_commit(done).to_json()
        if self.uploads.is_done or self.fenced or not drains:
            self._conclude(self._words)
            return
        drain = parse_duration(self._checkpoints.drain)
        self._sim.api.update_pod(self.name, ends=ends, training_until=self._sim.now)
        self._sim.after_unless_frozen(backlog_time(drain), self.uploads.hurry)
        self._sim.after_unless_frozen(drain, self._out_of_time)
        self._post_soon()

    def _out_of_time(self) -> None:
        """The agent has had all the time that it may take."""
        if self._end is not None and not self._is_over:
            self.uploads.cancel()
            self._conclude(self._final_commit(self._end.done).to_json())

    def _killed(self) -> None:
        """The grace period is over."""
        if self._end is not None and not self._is_over:
            self._conclude(self._words)

    def _conclude(self, words: str) -> None:
        """Nothing of the pod runs any more."""
        pod, end = self._sim.api.pods.get(self.name), self._end
        assert end is not None  # the program has ended
        self._is_over = True
        self.uploads.close()
        if pod is None:
            return
        ended = self._sim.now if pod.started else 0.0
        self._sim.api.update_pod(
            self.name,
            phase=end.phase,
            ends=end.ends,
            agent_message=words,
            reason=end.reason,
            message=end.message,
            ended=ended,
            training_until=pod.training_until or ended,
        )
        if pod.deleting:
            self._sim.after_unless_frozen(self._sim.jitter(0.2), self._remove)

    def _remove(self) -> None:
        if self.name in self._sim.api.pods:
            self._sim.api.remove_pod(self.name)

    def _final_commit(self, done: bool) -> FinalCommit:
        return FinalCommit(
            attempt=self.attempt,
            seq=len(self._results),
            acked_seq=self._acked,
            last=self._results[-1] if self._results else None,
            checkpoints=self.uploads.queue.commits,
            restored=self.restored,
            store_problem=self._store_problem,
            done=done,
            ledger=self.decisions[-1] if self.decisions else 0,
            unstored=self.uploads.queue.unstored,
        )

    # The agent

    def logs(self, action: FetchLogs) -> Logs:
        lines = tuple(UNACKED_PREFIX + result_json(result) for result in self._results[self._durable :])
        tail = f"epoch {self._step}\nTraceback (most recent call last)\nValueError: boom" if action.program else ""
        return Logs(program_tail=tail, agent_lines=("agent says hello", *lines) if action.agent else ())

    def _uploaded(self, commit: CheckpointCommit) -> None:
        """The checkpoint's manifest is in the bucket; the checkpoints that are not kept are deleted from it."""
        self._sim.bucket.append(commit.checkpoint.uri)
        self._sim.trained_with[commit.checkpoint.uri] = self._parameters
        if self._end is not None:
            self._words = self._final_commit(self._end.done).to_json()

    def _something_stored(self) -> None:
        """A checkpoint is stored, or can't be at present."""
        self._hand_over_if_stored()
        if self._end is not None and self.uploads.is_done and not self._is_over:
            self._conclude(self._final_commit(self._end.done).to_json())
        self._post_soon()

    @property
    def _may_speak(self) -> bool:
        """Whether its agent is there: beside its program, or storing what that has left."""
        return self._alive or (self._end is not None and self._end.speaks and not self._is_over)

    def _heartbeat(self) -> None:
        if self._may_speak:
            self._post_soon()
            self._sim.after_unless_frozen(10.0, self._heartbeat)

    def _post_soon(self) -> None:
        if not self.post_due and not self.fenced and self._may_speak:
            self.post_due = True
            self._sim.after_unless_frozen(self._sim.jitter(0.05), self._post)

    def _post(self) -> None:
        """Posts what is unacknowledged, and learns from the reply, unless one of the two is lost on its way."""
        self.post_due = False
        if not self._may_speak or self.fenced:
            return
        report = Report(
            attempt=self.attempt,
            phase="Training" if self._alive else "Draining",
            results=tuple(self._results[self._acked :]),
            checkpoints=self.uploads.queue.to_report(),
            restored=self.restored,
            store_problem=self._store_problem,
            ledger=self.decisions[-1] if self.decisions else 0,
            final=self._final_commit(self._final.done) if self._final is not None else None,
            restore_failure=None if self._can_start else RestoreFailure(NOT_RESTORABLE, "its manifest is missing"),
            unstored=self.uploads.queue.unstored,
        )
        answer = self._sim.post(self.trial, self.name, report)
        if answer is Unaccepted.FENCED:
            self._fenced()
        elif isinstance(answer, Reply):
            self._learn(answer)
        if self._final is not None and not self.post_due:
            self._polls += 1
            self.post_due = True
            self._sim.after_unless_frozen(0.02 * 1.5 ** min(self._polls, 10), self._post)
        elif not self.post_due and (self._acked < len(self._results) or self.uploads.queue.commits):
            self.post_due = True
            self._sim.after_unless_frozen(1.0, self._post)

    def _fenced(self) -> None:
        """Its attempt counts no more: it stores nothing any more, and ends when its program has."""
        self.fenced = True
        self.uploads.close()
        if self._end is not None and not self._is_over:
            self._conclude(self._final_commit(self._end.done).to_json())

    def _learn(self, reply: Reply) -> None:
        self._durable = max(self._durable, reply.durable_seq)
        self._acked = max(reply.acked_seq, self._durable)
        self.uploads.queue.acknowledge(reply.acked_checkpoints)
        if reply.next is not None:
            self._take_up(reply.next)
            return
        self._wants_checkpoint = reply.should_checkpoint
        self._is_asked_to_leave = reply.decision != "CONTINUE"
        self.decisions += [entry.number for entry in reply.ledger]
        if reply.kept and not self.uploads.queue.commits:  # else one may be on its way to being recorded
            self._sim.keep(self.trial, reply.kept)


def _nth(items: tuple[T | None, ...], number: int) -> T | None:
    """What becomes of an attempt, of which there are numbers from 1."""
    return items[number - 1] if number <= len(items) else None


def is_alive(pod: Pod) -> bool:
    """Whether something of it still runs."""
    return not pod.phase.is_finished
