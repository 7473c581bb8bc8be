"""A trial's pod: a training program, the agent beside it, and what may happen to both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from podtune.agent.state.training_time import TrainingTimer, read_total
from podtune.api.base import parse_duration
from podtune.api.pods.pod_template import RESTORE_CONTAINER
from podtune.api.pods.quantities import parse_size
from podtune.api.resources.checkpoints import Checkpoints
from podtune.protocol.assignment import Assignment, build_attempt_id
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import compute_backlog_time
from podtune.protocol.messages import NOT_RESTORABLE, Restored, StoreProblem
from podtune.runner.actions import CreatePod, FetchLogs, Logs
from podtune.runner.records import ContainerEnd, PodPhase, Waiting
from podtune.runner.trial.results import show
from podtune.simulation.faults import DISRUPTIONS, Fault, ScheduledFault, find_for_attempt
from podtune.simulation.training_state import resume_training, start_training
from podtune.simulation.uploads import DIGEST
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.tuning.searchers.base import Configuration
from tests.unit.runner.world.simulated_agent import DistantAgent
from tests.unit.runner.world.simulated_program import Program

if TYPE_CHECKING:
    from tests.unit.runner.world.simulation import Simulation


HEARTBEAT = 10.0
"""Seconds between reports that say nothing."""


@dataclass(frozen=True)
class _End:
    """How a program has ended; what the pod's status says once its agent has ended, too."""

    phase: PodPhase
    ends: tuple[ContainerEnd, ...]
    done: bool
    reason: str
    message: str
    speaks: bool
    """Whether its agent leaves a termination message."""


class SimulatedPod:
    """Lives on the simulation's clock, from its creation to its end."""

    def __init__(self, simulation: Simulation, program: Program, action: CreatePod, uid: str, *, rank: int = 0) -> None:
        self._sim = simulation
        self._program = program if rank == 0 else replace(program, silent=True)
        self.name = action.format_name(rank)
        self.uid = uid
        self._rank = rank
        self._is_shared = bool(action.template_hash)
        self.evaluates = action.evaluates
        self.is_alive = True
        """Whether its program may still run; its agent may go on."""
        self._end: _End | None = None
        """How its program has ended; None until it has."""
        self._is_over = False
        self.served: list[str] = []
        """Names of the trials that it has served, first to last."""
        self._begin(
            action.trial,
            action.attempt,
            build_attempt_id(uid, action.trial, action.attempt) if action.template_hash else uid,
            action.spec.parameters,
            [checkpoint.ref for checkpoint in action.restore],
            restore_or_fail=action.restore_or_fail,
            find=action.find,
        )
        open_to_it = [node for node in program.nodes if node not in action.avoid]
        self.node = open_to_it[self.index % len(open_to_it)] if open_to_it else ""
        if not self.node:
            self._fault: ScheduledFault | None = ScheduledFault(Fault.UNSCHEDULABLE)
        elif action.revision in program.unusable:
            self._fault = ScheduledFault(Fault.STUCK)
        elif self.node in program.bad_nodes:
            self._fault = ScheduledFault(Fault.CRASH, 1, exit_code=42)

    def _begin(
        self,
        trial: str,
        number: int,
        attempt: str,
        parameters: Mapping[str, str],
        restore: Sequence[CheckpointRef],
        *,
        restore_or_fail: bool,
        find: bool,
    ) -> None:
        """Begins with an attempt."""
        self.trial = trial
        self.index = int(trial.rpartition("-")[2])
        self.attempt = attempt
        self.served.append(trial)
        self._parameters = dict(parameters)
        found = self._sim.bucket.restore([*(self._find(trial) if find else []), *restore])
        if found is not None:
            checkpoint, training = found
            is_clone = restore_or_fail and f"/{trial}/" not in checkpoint.uri
            fits = is_clone or self._is_own(training.configuration)
            assert fits, f"{self.name} mixes the weights of {checkpoint.uri} with other parameters"
            self._training = resume_training(training, self._parameters)
            self.restored = Restored(checkpoint, self._program.metric(self.index, checkpoint.step))
        else:
            self._training, self.restored = start_training(self._parameters), Restored()
        self._time = TrainingTimer()
        self._time.begin(self._sim.now)
        self._time.go_on_from(self._training.seconds)
        self.can_start = found is not None or not restore_or_fail
        """Whether there is the checkpoint that it can't go on without."""
        fault = find_for_attempt(self._program.faults, self.index, number)
        self._fault = fault if fault is not None and fault.rank == self._rank else None
        snag = find_for_attempt(self._program.snags, self.index, number)
        self.agent = DistantAgent(self._sim, self, attempt, self.restored, snag)
        self._leaves: bool | None = None
        """Whether the program was done when it went on to another trial; None before that."""

    @property
    def _checkpoints(self) -> Checkpoints:
        spec = self._sim.api.experiment.spec
        return spec.checkpoints

    @property
    def final_iteration(self) -> int:
        return self._training.iteration

    def start(self) -> None:
        """The kubelet takes it up."""
        if not self.is_alive:
            return
        moment = self._sim.now
        self._time.begin(moment)
        if not self.can_start:
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
                self._sim.clock.call_later(self._program.seen_after, lambda: self._seen_to_run(moment))
            else:
                self._seen_to_run(moment)
            if not self._program.silent:
                self.agent.post()
                self._sim.clock.call_later(HEARTBEAT, self._heartbeat)
            self._sim.clock.call_later(self._sim.jitter(self._program.seconds), self._train)

    def _seen_to_run(self, since: float) -> None:
        if not self.is_alive:
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
        if not self.is_alive or self._leaves is not None:
            return
        fault = self._fault or self._find_lack_of_memory()
        if fault is not None and self._training.iteration >= fault.step:
            self._struck(fault)
        elif self._is_shared and not self.can_start:
            self._leave(done=False)
        elif self._is_shared and (self._training.iteration >= self._program.steps or self._may_leave):
            self._leave(done=True)
        elif self.evaluates and not self.agent.has_taken:
            self._evaluate()
            self._sim.clock.call_later(self._sim.jitter(self._program.seconds), self._train)
        elif self.evaluates or self._training.iteration >= self._program.steps:
            self._sim.completed.add(self.name)
            self._finish(PodPhase.SUCCEEDED, (ContainerEnd("trial", 0),), done=self._program.says_done)
        else:
            self._iterate()
            self._sim.clock.call_later(self._sim.jitter(self._program.seconds), self._train)

    def _find_lack_of_memory(self) -> ScheduledFault | None:
        """What strikes it for its memory limit, which is too low; None for nothing."""
        step, needed = self._program.memory.get(self.index, (0, "0"))
        pod = self._sim.api.pods.get(self.name)
        is_short = pod is not None and pod.memory and parse_size(pod.memory) < parse_size(needed)
        return ScheduledFault(Fault.OOM, step) if is_short else None

    def _iterate(self) -> None:
        step = self._training.iteration + 1
        self._training = replace(self._training, iteration=step)
        if self._program.silent:
            return
        every = self._program.checkpoint_every
        stores = bool(self._sim.prefix) and self.store_problem is None
        checkpoint = stores and ((every > 0 and step % every == 0) or self.agent.wants_checkpoint)
        metrics: dict[str, float | int | str | bool] = {"training_iteration": step}
        value = self._program.metric(self.index, step)
        spec = self._sim.api.experiment.spec
        if value is not None and spec is not None and spec.evaluation is not None:
            metrics |= {"loss": -value, "accuracy": 99.0}  # what training says of the objective counts for nothing
        elif value is not None:
            metrics["accuracy"] = value
        metrics |= self._program.further(self.index, step)
        metrics = self._time.fill_in(metrics, self._sim.now)
        self._training = replace(self._training, seconds=read_total(metrics))
        self.agent.take(metrics, self._training, checkpoint=checkpoint)

    def _evaluate(self) -> None:
        value = self._program.evaluation(self.index, self._training.iteration)
        metrics: dict[str, float | int | str | bool] = {"seen": self._training.iteration}
        if value is not None:
            metrics["accuracy"] = value
        self.agent.take(metrics, self._training, checkpoint=False)

    @property
    def _may_leave(self) -> bool:
        """Whether a stop or a pause was decided, and no checkpoint is wanted any more."""
        return self.agent.is_asked_to_leave and not self.agent.wants_checkpoint

    def _find(self, trial: str) -> list[CheckpointRef]:
        """The trial's checkpoints in the bucket that were taken with the attempt's parameters, the furthest first."""
        own = [uri for uri in self._sim.bucket if uri.startswith(f"{self._sim.prefix}{trial}/")]
        fitting = [uri for uri in own if self._sim.bucket[uri].configuration == self._parameters]
        found = [CheckpointRef(uri, DIGEST, CheckpointAddress("", uri).step) for uri in fitting]
        return sorted(found, key=lambda checkpoint: checkpoint.step, reverse=True)

    def _leave(self, *, done: bool) -> None:
        """The program goes on to the next turn of its loop; all that is left is stored and delivered."""
        self._leaves = done
        self.agent.finish()
        self._hand_over_if_stored()

    def _hand_over_if_stored(self) -> None:
        if self._leaves is not None and not self.agent.hands_over and not self.agent.is_storing:
            self.agent.hand_over(done=self._leaves)

    def take_up(self, assignment: Assignment) -> None:
        """Goes on with the next attempt."""
        self.agent.close()
        self._begin(
            assignment.trial,
            assignment.number,
            assignment.attempt,
            {name: show(value) for name, value in assignment.parameters.items()},
            assignment.restore_from,
            restore_or_fail=assignment.restore_or_fail,
            find=assignment.find,
        )
        if self._fault is not None and self._fault.kind in (Fault.NOT_ADMITTED, Fault.STUCK):
            self._fault = None  # that is over for this pod
        self.agent.post()
        self._sim.clock.call_later(self._sim.jitter(self._program.seconds), self._train)

    def strike(self, kind: Fault) -> bool:
        """Has a fault strike the attempt now; whether there was anything to strike."""
        pod = self._sim.api.pods.get(self.name)
        if not self.is_alive or pod is None or not pod.training or pod.deleting:
            return False
        self._struck(ScheduledFault(kind))
        return True

    def _struck(self, fault: ScheduledFault) -> None:
        end = (fault.end,)
        match fault.kind:
            case Fault.CRASH | Fault.OOM:
                self._finish(PodPhase.FAILED, end)
            case Fault.DISK:
                message = "ephemeral storage exceeds its limit"
                self._finish(PodPhase.FAILED, end, reason="Evicted", message=message, drains=False)
            case Fault.EVICTED | Fault.TRAPPED:
                self._sim.api.update_pod(self.name, disruption=DISRUPTIONS[fault.kind])
                self.delete(exit_code=fault.end.exit_code)
            case Fault.DELETED:
                self.delete()
            case Fault.VANISHED:
                self.is_alive, self._is_over = False, True
                self.agent.close()
                self._sim.api.remove_pod(self.name)
            case Fault.HUNG:
                pass
            case _:
                raise AssertionError(f"{fault.kind} strikes no program that runs")

    def _is_own(self, parameters: Configuration) -> bool:
        """Whether weights were trained with its parameters, but for those that its user has changed."""
        changed = self._sim.api.overridden[self.trial]
        names = (parameters.keys() | self._parameters.keys()) - changed
        return all(parameters.get(name) == self._parameters.get(name) for name in names)

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
        self._sim.clock.call_later(longest, self._killed)  # a later deletion can but shorten it
        if pod.deleting:
            return
        self._sim.api.update_pod(self.name, deleting=True, deletion_requested=self._sim.now)
        self._sim.clock.call_later(self._sim.jitter(0.5), lambda: self._terminate(exit_code))

    @property
    def store_problem(self) -> StoreProblem | None:
        """Why nothing can be stored, whatever its agent tries."""
        return self._program.store_problem.get(self.index)

    @property
    def _grace_period(self) -> float:
        """The template's, which is the program's, and what the agent may take after it."""
        own = self._sim.api.pods[self.name].own_grace
        return float(own) + (parse_duration(self._checkpoints.drain) if self._sim.prefix else 0.0)

    def _terminate(self, exit_code: int) -> None:
        """SIGTERM: the program ends; one that has ended already has an agent that knows."""
        pod = self._sim.api.pods.get(self.name)
        if pod is not None and self.is_alive:
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
        self.is_alive = False
        pod = self._sim.api.pods.get(self.name)
        if pod is None:
            return
        speaks = agent and not self._program.silent and pod.training
        self._end = _End(phase, ends, done, reason, message, speaks)
        if not speaks:
            self._conclude("")
            return
        self.agent.finish()
        words = self.agent.write_words(done=done)
        if not self.agent.is_storing or self.agent.fenced or not drains:
            self._conclude(words)
            return
        drain = parse_duration(self._checkpoints.drain)
        self._sim.api.update_pod(self.name, ends=ends, training_until=self._sim.now)
        self._sim.clock.call_later(compute_backlog_time(drain), self.agent.hurry)
        self._sim.clock.call_later(drain, self._out_of_time)
        self.agent.post()

    def _out_of_time(self) -> None:
        """The agent has had all the time that it may take."""
        if not self._is_over:
            self.agent.cancel_uploads()
            self.conclude_draining()

    def _killed(self) -> None:
        """The grace period is over."""
        if self._end is not None and not self._is_over:
            self._conclude(self.agent.words)

    def _conclude(self, words: str) -> None:
        """Nothing of the pod runs any more."""
        pod, end = self._sim.api.pods.get(self.name), self._end
        assert end is not None  # the program has ended
        self._is_over = True
        self.agent.close()
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
            self._sim.clock.call_later(self._sim.jitter(0.2), self._remove)

    def _remove(self) -> None:
        """The kubelet lets go of it by a deletion of its own, and the API server notes that one's moment."""
        if self.name in self._sim.api.pods:
            self._sim.api.update_pod(self.name, deletion_requested=self._sim.now)
            self._sim.api.remove_pod(self.name)

    # The agent

    def logs(self, action: FetchLogs) -> Logs:
        tail = f"epoch {self._training.iteration}\nTraceback (most recent call last)\nValueError: boom"
        agent_lines = ("agent says hello", *self.agent.lines) if action.agent else ()
        return Logs(program_tail=tail if action.program else "", agent_lines=agent_lines)

    def check_stored(self) -> None:
        """A checkpoint is stored, or can't be at present."""
        self._hand_over_if_stored()
        if not self.agent.is_storing:
            self.conclude_draining()
        self.agent.post()

    def conclude_draining(self) -> None:
        """Its agent has nothing more to do once the program has ended."""
        if self._end is not None and not self._is_over:
            self._conclude(self.agent.write_words(done=self._end.done))

    @property
    def may_speak(self) -> bool:
        """Whether its agent is there: beside its program, or storing what that has left."""
        return self.is_alive or (self._end is not None and self._end.speaks and not self._is_over)

    def _heartbeat(self) -> None:
        if self.may_speak:
            self.agent.post()
            self._sim.clock.call_later(HEARTBEAT, self._heartbeat)
