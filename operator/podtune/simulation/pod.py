"""A trial's pod, from its creation to its end; its program follows a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from podtune.protocol.assignment import Assignment, build_attempt_id
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import compute_backlog_time
from podtune.protocol.messages import Restored
from podtune.runner.actions import CreatePod
from podtune.runner.records import ContainerEnd, Pod, PodPhase
from podtune.simulation.agent import Agent
from podtune.simulation.clock import NOTHING_DUE
from podtune.simulation.environment import SimEnvironment
from podtune.simulation.faults import CRASHED, DISRUPTIONS, KILLED, Fault
from podtune.simulation.training_state import (
    advance,
    evaluate,
    name_for_training,
    resume_training,
    start_training,
)
from podtune.trial.layout import ITERATION, TIME_THIS_ITER, TIME_TOTAL
from podtune.tuning.randomness import build_generator
from podtune.tuning.searchers.base import Configuration

NODE = "simulated"
_DECIMALS = 3
"""Of the seconds that results tell of, as agents write them."""
_SECONDS_AN_HOUR = 3600.0
VARIATION = 0.2
"""Pods take longer or shorter to start by up to this share, so that trials don't go in step."""
ABRUPT = 0.5
"""The share of disruptions that leave the agent no time to store anything: those of nodes that shut down."""


class _Stage(Enum):
    WAITING = "for its GPUs"
    STARTING = "its image is pulled, its checkpoint restored"
    TRAINING = "the program runs"
    DRAINING = "the program has ended, its agent stores what is left"
    ENDED = "nothing runs any more"


class SimulatedPod:
    """One attempt of a trial. The pods of a gang share one outcome, and find their nodes together."""

    def __init__(
        self,
        environment: SimEnvironment,
        action: CreatePod,
        records: Sequence[Pod],
        configuration: Configuration,
        gpus: float,
    ) -> None:
        """Makes the pods; `records` is what the API server has of them, by rank."""
        self._environment = environment
        self.record, *self._followers = records
        record = self.record
        self.gpus = gpus
        self._evaluates = action.evaluates
        self._stage = _Stage.WAITING
        random = build_generator(environment.seed, "pod", record.name)
        self._slowness = random.uniform(1 - VARIATION, 1 + VARIATION)
        self._luck = random.expovariate(1.0)
        """The number of failures to be expected by the time that one hits this pod."""
        self._lot = random.random()
        self._fails_at = NOTHING_DUE
        self._killed_at = NOTHING_DUE
        """When what of it still runs is killed."""
        self._phase, self._is_done = PodPhase.FAILED, False
        """How it ends once its agent has ended, too; and whether its program was done."""
        attempt = build_attempt_id(record.uid, action.trial, action.attempt) if action.template_hash else record.uid
        candidates = [checkpoint.ref for checkpoint in action.restore]
        self._take_up(action.trial, attempt, configuration, candidates, or_fail=action.restore_or_fail)

    def _take_up(
        self, trial: str, attempt: str, configuration: Configuration, restore: Sequence[CheckpointRef], *, or_fail: bool
    ) -> None:
        """Prepares for an attempt."""
        self._trial = trial
        self._is_leaving = False
        """Whether the program has gone on to the next trial, while its agent stores what is left of this one."""
        self._curve = self._environment.curves.build_curve(configuration, int(trial.rpartition("-")[2]))
        found = self._environment.bucket.restore(restore)
        assert found or not or_fail, f"{trial}: the checkpoint that it clones is gone"
        self._training = resume_training(found[1], configuration) if found else start_training(configuration)
        restored = Restored(found[0] if found else None)
        self.agent = Agent(
            self._environment, trial, self.record.name, attempt, restored, begin=self._take_next, stored=self._on_stored
        )
        self._restores = found is not None

    def _take_next(self, assignment: Assignment) -> None:
        """The pod is given another trial."""
        self._environment.trace.record_start(f"{assignment.trial}-{assignment.number}", dict(assignment.parameters))
        candidates, or_fail = assignment.restore_from, assignment.restore_or_fail
        self._take_up(assignment.trial, assignment.attempt, dict(assignment.parameters), candidates, or_fail=or_fail)
        self.agent.post()
        seconds = self._environment.model.restore * self._slowness if self._restores else 0.0
        self._environment.clock.call_later(seconds, self._train_next)

    def _train_next(self) -> None:
        if self._stage is _Stage.TRAINING and not self.record.deleting:
            self._go_on()

    @property
    def records(self) -> list[Pod]:
        """The attempt's pods as the API server has them, by rank."""
        return [self.record, *self._followers]

    @property
    def is_training(self) -> bool:
        """Whether its program runs."""
        return self._stage is _Stage.TRAINING

    @property
    def iteration(self) -> int:
        """Iterations of the training so far, over all attempts."""
        return self._training.iteration

    def enter(self) -> None:
        """Waits for its GPUs, if it has to."""
        if self.gpus:
            self._environment.gpus.take(self.gpus, self.record.name, self._start)
        else:
            self._start()

    def delete(self, grace: int | None = None) -> None:
        """Somebody asks for its deletion: it is gone when program and agent have ended, at once where nothing runs.

        Without `grace` it is given its own grace period.
        """
        if self.record.deleting or self.record.gone:
            return
        if self._stage is _Stage.WAITING:
            self._environment.gpus.leave(self.record.name)
        if self._stage in (_Stage.WAITING, _Stage.ENDED):
            self._change(gone=True)
            return
        self._change(deleting=True, deletion_requested=self._environment.clock.now)
        if self._stage is not _Stage.DRAINING:  # whose agent has less time left than a first deletion gives it
            self._terminate(self._environment.grace_period if grace is None else grace)

    def resend(self) -> None:
        """Its agent finds an operator that was started anew."""
        if self._stage in (_Stage.TRAINING, _Stage.DRAINING):
            self.agent.find_operator()

    def _start(self) -> None:
        self._stage = _Stage.STARTING
        self._change(started=self._environment.clock.now, node=NODE)
        model = self._environment.model
        seconds = model.pod_start + (model.restore if self._restores else 0.0)
        self._environment.clock.call_later(seconds * self._slowness, self._begin)

    def _begin(self) -> None:
        if self._stage is not _Stage.STARTING or self.record.deleting:
            return
        self._stage = _Stage.TRAINING
        model = self._environment.model
        rate = model.crashes_per_hour + model.disruptions_per_hour
        if rate > 0:
            self._fails_at = self._environment.clock.now + self._luck / rate * _SECONDS_AN_HOUR
        self._change(phase=PodPhase.RUNNING, training=True, training_since=self._environment.clock.now)
        self._go_on()

    # The program

    def _go_on(self) -> None:
        """On to the next iteration, the end of the program, or a failure, whichever comes first."""
        if self._evaluates:
            self._go_on_after(self._environment.model.evaluation, self._evaluate)
            return
        is_through = self._training.iteration >= self._curve.length
        if self.record.template_hash and (is_through or self._may_leave):
            self._is_leaving = True
            self.agent.finish()
            self._hand_over_if_stored()
            return
        if is_through:
            self._finish(PodPhase.SUCCEEDED, ContainerEnd("trial", 0), done=True)
            return
        self._go_on_after(self._curve.compute_seconds(self._training.iteration + 1), self._iterate)

    def _go_on_after(self, seconds: float, step: Callable[[], None]) -> None:
        clock = self._environment.clock
        if clock.now + seconds > self._fails_at:
            clock.call_later(max(0.0, self._fails_at - clock.now), self._fail)
        else:
            clock.call_later(seconds, step)

    def _evaluate(self) -> None:
        """The program reports what the checkpoint is worth, and ends."""
        if self._stage is not _Stage.TRAINING or self.record.deleting:
            return
        metrics = evaluate(self._training, self._curve, self._environment.spec)
        self._environment.trace.record_result(self._trial, self._training.iteration, metrics)
        self.agent.take({**metrics, ITERATION: self._training.iteration}, self._training, checkpoint=False)
        self._finish(PodPhase.SUCCEEDED, ContainerEnd("trial", 0), done=True)

    @property
    def _may_leave(self) -> bool:
        """Whether a stop or a pause was decided, and no checkpoint is wanted any more."""
        return self.agent.is_asked_to_leave and not self.agent.wants_checkpoint

    def _iterate(self) -> None:
        if self._stage is not _Stage.TRAINING or self.record.deleting:
            return
        before = self._training.seconds
        spec = self._environment.spec
        self._training, reported = advance(self._training, self._curve, spec.objective.metric)
        iteration, seconds = self._training.iteration, self._training.seconds
        metrics: dict[str, float | int | str | bool] = {ITERATION: iteration}
        metrics |= {TIME_THIS_ITER: round(seconds - before, _DECIMALS), TIME_TOTAL: round(seconds, _DECIMALS)}
        metrics.setdefault(self._environment.time_attribute, iteration)
        metrics |= name_for_training(reported, spec)
        every = self._environment.model.checkpoint_every
        due = (every > 0 and iteration % every == 0) or self.agent.wants_checkpoint
        checkpoint = due and self._environment.prefix != ""
        self._environment.trace.record_result(self._trial, iteration, metrics)
        self.agent.take(metrics, self._training, checkpoint=checkpoint)
        self._go_on()

    def _on_stored(self) -> None:
        """Its agent has stored a checkpoint, or has given one up."""
        self.agent.post()
        self._hand_over_if_stored()
        if self._stage is _Stage.DRAINING and not self.agent.is_storing:
            self._conclude()

    def _hand_over_if_stored(self) -> None:
        if self._is_leaving and not self.agent.is_storing:
            self._is_leaving = False
            self.agent.hand_over()

    def _fail(self) -> None:
        if self._stage is not _Stage.TRAINING or self.record.deleting:
            return
        model = self._environment.model
        rate = model.crashes_per_hour + model.disruptions_per_hour
        if self._lot * rate < model.crashes_per_hour:
            self._finish(PodPhase.FAILED, CRASHED, done=False)
            return
        is_abrupt = self._lot * rate - model.crashes_per_hour < ABRUPT * model.disruptions_per_hour
        fault = Fault.NODE_LOST if is_abrupt else Fault.EVICTED
        self._change(disruption=DISRUPTIONS[fault], deleting=True, deletion_requested=self._environment.clock.now)
        self._terminate(model.pod_stop if is_abrupt else self._environment.grace_period)

    # Its end

    def _terminate(self, grace: float) -> None:
        """SIGTERM: the program ends, then its agent, both before so many seconds are over."""
        self._killed_at = self._environment.clock.now + grace
        self._environment.clock.call_later(min(grace, self._environment.model.pod_stop), self._on_terminated)

    def _on_terminated(self) -> None:
        if self._stage is _Stage.TRAINING:
            self._finish(PodPhase.FAILED, KILLED, done=False)
        elif self._stage is _Stage.STARTING:
            self._conclude()

    def _finish(self, phase: PodPhase, end: ContainerEnd, *, done: bool) -> None:
        """The program has ended; its agent stores what it can before the pod ends."""
        clock = self._environment.clock
        self._stage, self._is_leaving = _Stage.DRAINING, False
        self._phase, self._is_done = phase, done
        self.agent.finish()
        self._change(ends=(end,), training_until=clock.now)
        until = min(clock.now + self._environment.drain, self._killed_at)
        if not self.agent.is_storing or until <= clock.now:
            self._conclude()
            return
        clock.call_later(compute_backlog_time(self._environment.drain), self.agent.hurry)
        clock.call_later(until - clock.now, self._on_out_of_time)

    def _on_out_of_time(self) -> None:
        """The agent has had all the time that it may take, or is killed before."""
        if self._stage is not _Stage.DRAINING:
            return
        if self._environment.clock.now < self._killed_at:
            self.agent.cancel_uploads()
        self._conclude()

    def _conclude(self) -> None:
        """Nothing of it runs any more."""
        words = self.agent.build_final_commit(done=self._is_done).to_json() if self._stage is _Stage.DRAINING else ""
        self.agent.close()
        self._stage = _Stage.ENDED
        self._change(phase=self._phase, agent_message=words, ended=self._environment.clock.now)
        self._environment.gpus.give_back(self.gpus)
        if self.record.deleting:
            self._change(gone=True)

    def _change(self, **changes: object) -> None:
        self.record, *self._followers = (
            replace(record, version=record.version + 1, **changes)  # type: ignore[arg-type]
            for record in self.records
        )
        for record in self.records:
            self._environment.operator.observe_pod(record)
