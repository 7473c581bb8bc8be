"""A scheduler of another package, which may fail or answer anything: its problems affect only its own experiment.

What it raises, and an answer that is none, begin an outage (see `SchedulerOutage`). From then on it is not asked any
more, and the answers are those that change nothing: trials continue, none starts, all checkpoints stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from typing_extensions import override

from podtune.api.names import UnheardNews
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialStatus
from podtune.api.tuning.search_space import format_value, parse_configuration
from podtune.runner.scheduling.scheduler_outage import SchedulerOutage
from podtune.runner.trials import Trials
from podtune.tuning.plugins import describe_failure
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Exploit,
    MetricMissing,
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
)
from podtune.tuning.searchers.base import Configuration

_FIELD = "scheduler.plugin"
_MAKING = "__init__"
_FOLLOWS = (
    "install a corrected version in the operator's image; Podtune tries it again within a minute, and when the "
    "spec changes; until then no trial starts, and running trials train on without it"
)

Answer = TypeVar("Answer")


def guard_scheduler(
    make: Callable[[ExperimentSpec], Scheduler], spec: ExperimentSpec, trials: Trials, outage: SchedulerOutage
) -> Scheduler:
    """Makes the scheduler that an experiment asks for; one of another package comes with a guard.

    Args:
        make: Makes it.
        spec: The experiment.
        trials: Its trials: their statuses say what the scheduler has not heard.
        outage: What is known of its failures: while it is not to be asked, none is made.

    Raises:
        PluginError: The first one can't be made.
    """
    if spec.scheduler.plugin is None:
        return make(spec)
    guarded = GuardedScheduler(spec, trials, outage)
    if not outage.is_on:
        guarded.take(make)
    return guarded


class GuardedScheduler(Scheduler):
    """Asks a scheduler of another package as long as that works."""

    def __init__(self, spec: ExperimentSpec, trials: Trials, outage: SchedulerOutage) -> None:
        """Has no scheduler to ask yet: see `take`."""
        assert spec.scheduler.plugin is not None  # others need no guard
        self._spec = spec
        self._plugin = spec.scheduler.plugin
        self._trials = trials
        self._outage = outage
        self._scheduler: Scheduler | None = None

    def take(self, make: Callable[[ExperimentSpec], Scheduler]) -> None:
        """Makes the scheduler to ask; whatever is wrong with the first one is raised."""
        try:
            made = make(self._spec)
            time_attribute = made.time_attribute
            _require(time_attribute, str)
        except Exception as error:  # it may be anyone's code
            if not self._outage.time_attribute:
                raise  # nobody could tell how far a trial is
            self._fail(_MAKING, "when it was made", error)
        else:
            self._outage.time_attribute = time_attribute
            self._outage.pins_checkpoints = type(made).pinned_steps is not Scheduler.pinned_steps
            self._outage.record_answer(_MAKING)
            self._scheduler = made

    @property
    @override
    def time_attribute(self) -> str:
        return self._outage.time_attribute

    @property
    @override
    def records_every_result(self) -> bool:
        return self._ask("records_every_result", lambda scheduler: bool(scheduler.records_every_result), False)

    # Questions

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        def ask(scheduler: Scheduler) -> StartDecision | None:
            start = scheduler.choose(waiting)
            if start is None:
                return None
            _require(start, StartDecision)
            if start.trial not in waiting:
                raise ValueError(f"returned trial {start.trial!r}, which does not wait; return one that does")
            self._check_parts(start.message, start.inputs, start.exploit)
            return start

        return self._ask("choose", ask, None)

    @override
    def trials_to_stop(self) -> Sequence[StopPaused]:
        def ask(scheduler: Scheduler) -> Sequence[StopPaused]:
            stops = list(scheduler.trials_to_stop())
            for stop in stops:
                _require(stop, StopPaused)
                self._check_parts(stop.message, stop.inputs)
            return stops

        return self._ask("trials_to_stop", ask, ())

    @override
    def rungs_passed(self, trial: int) -> int:
        return self._ask("rungs_passed", lambda scheduler: int(scheduler.rungs_passed(trial)), 0, trial)

    @override
    def pinned_steps(self, trial: int) -> Collection[int]:
        def ask(scheduler: Scheduler) -> Collection[int]:
            return [int(step) for step in scheduler.pinned_steps(trial)]

        status = self._find_status(trial)
        all_steps = [checkpoint.step for checkpoint in status.checkpoints] if status is not None else []
        return self._ask("pinned_steps", ask, all_steps if self._outage.pins_checkpoints else (), trial)

    @override
    def record(self, trial: int) -> Record:
        def ask(scheduler: Scheduler) -> Record:
            record = {section: dict(values) for section, values in scheduler.record(trial).items()}
            TrialStatus.model_validate({"scheduler": record}, strict=True)
            return record

        status = self._find_status(trial)
        return self._ask("record", ask, status.scheduler if status is not None else {}, trial)

    # What it hears, and hears later where it can't now

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        def ask(scheduler: Scheduler) -> SchedulerDecision | MetricMissing:
            try:
                decision = scheduler.on_result(trial, metrics, waiting=waiting)
            except MetricMissing as missing:
                return missing
            _require(decision, SchedulerDecision)
            SchedulerAction(decision.action)
            _require(0 if decision.milestone is None else decision.milestone, int)
            self._check_parts(decision.message, decision.inputs, decision.exploit)
            return decision

        unasked: SchedulerDecision | MetricMissing = CONTINUE
        answer = self._tell("on_result", trial, UnheardNews.RESULT, ask, unasked)
        if isinstance(answer, MetricMissing):
            raise answer
        return answer

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        def ask(scheduler: Scheduler) -> bool:
            return bool(scheduler.on_trial_complete(trial, metrics))

        return self._tell("on_trial_complete", trial, UnheardNews.COMPLETION, ask, False)

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        def ask(scheduler: Scheduler) -> None:
            scheduler.on_configuration(trial, configuration)

        self._tell("on_configuration", trial, UnheardNews.CONFIGURATION, ask, None)

    @override
    def on_exploit_skipped(self, trial: int) -> None:
        def ask(scheduler: Scheduler) -> None:
            scheduler.on_exploit_skipped(trial)

        self._tell("on_exploit_skipped", trial, UnheardNews.SKIPPED_EXPLOIT, ask, None)

    # What it hears again when it is restored

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self._ask("restore", lambda scheduler: scheduler.restore(trial, record, configuration), None, trial)

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self._ask("on_trial_add", lambda scheduler: scheduler.on_trial_add(trial, configuration), None, trial)

    @override
    def on_progress(self, trial: int, time: float) -> None:
        self._ask("on_progress", lambda scheduler: scheduler.on_progress(trial, time), None, trial)

    @override
    def on_trial_error(self, trial: int) -> None:
        self._ask("on_trial_error", lambda scheduler: scheduler.on_trial_error(trial), None, trial)

    @override
    def on_trial_remove(self, trial: int) -> None:
        self._ask("on_trial_remove", lambda scheduler: scheduler.on_trial_remove(trial), None, trial)

    @override
    def forget(self, trial: int) -> None:
        self._ask("forget", lambda scheduler: scheduler.forget(trial), None, trial)

    @override
    def on_trial_hold(self, trial: int) -> None:
        self._ask("on_trial_hold", lambda scheduler: scheduler.on_trial_hold(trial), None, trial)

    @override
    def on_trial_release(self, trial: int) -> None:
        self._ask("on_trial_release", lambda scheduler: scheduler.on_trial_release(trial), None, trial)

    @override
    def on_search_over(self) -> None:
        self._ask("on_search_over", lambda scheduler: scheduler.on_search_over(), None)

    # The guard

    def _tell(
        self,
        hook: str,
        trial: int,
        news: UnheardNews,
        ask: Callable[[Scheduler], Answer],
        otherwise: Answer,
    ) -> Answer:
        """Has the scheduler hear news of a trial, or the trial's status say that it has not."""
        answer = self._ask(hook, ask, otherwise, trial)
        machine = self._trials.find_by_index(trial)
        if machine is not None:
            before = frozenset(machine.status.unheard)
            unheard = before | {news} if self._scheduler is None else before - {news}
            if unheard != before:
                machine.set(unheard=[one for one in UnheardNews if one in unheard])
        return answer

    def _ask(
        self, hook: str, ask: Callable[[Scheduler], Answer], otherwise: Answer, trial: int | None = None
    ) -> Answer:
        if self._scheduler is None:
            return otherwise
        try:
            answer = ask(self._scheduler)
        except Exception as error:  # noqa: BLE001 - it may be anyone's code; its failure is the experiment's alone
            self._fail(hook, f"in {hook}()" if trial is None else f"in {hook}() for trial {trial}", error)
            return otherwise
        self._outage.record_answer(hook)
        return answer

    def _fail(self, hook: str, failed_at: str, error: Exception) -> None:
        self._scheduler = None  # it may have taken in half of what it was told
        self._outage.record_failure(hook, describe_failure(_FIELD, self._plugin, failed_at, error, _FOLLOWS))

    def _find_status(self, trial: int) -> TrialStatus | None:
        machine = self._trials.find_by_index(trial)
        return machine.status if machine is not None else None

    def _check_parts(self, message: object, inputs: object, exploit: object = None) -> None:
        """Checks what an answer consists of.

        Raises:
            TypeError: A part is something else.
            ValueError: The configuration of an exploit is none of the experiment's.
        """
        _require(message, str)
        _require(inputs, Mapping)
        if exploit is None:
            return
        _require(exploit, Exploit)
        assert isinstance(exploit, Exploit)  # as was just required
        _require(0 if exploit.step is None else exploit.step, int)
        written = {name: format_value(value) for name, value in exploit.configuration.items()}
        if unknown := written.keys() - {parameter.name for parameter in self._spec.parameters}:
            raise ValueError(f"returned a configuration with {', '.join(sorted(unknown))}, which are no parameters")
        parse_configuration(self._spec.parameters, written)


def _require(found: object, expected: type) -> None:
    """Checks the type of an answer.

    Raises:
        TypeError: It has another.
    """
    if not isinstance(found, expected):
        raise TypeError(f"returned {found!r:.80}; return a {expected.__name__}")
