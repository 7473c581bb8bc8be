"""Population based training, asynchronous."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from random import Random

from typing_extensions import override

from podtune.api.resources.trial import MAX_LEDGER_MESSAGE
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.population import PopulationSettings
from podtune.api.tuning.search_space import Scalar, format_value
from podtune.trial.layout import ITERATION
from podtune.tuning.numbers import as_number, shorten
from podtune.tuning.randomness import build_generator
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Exploit,
    Metrics,
    Record,
    RecordError,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    require_number,
    require_time,
)
from podtune.tuning.schedulers.population.explore import Explorer, RankedPerformance
from podtune.tuning.schedulers.population.members import DonorState, Member, Ranking, rank
from podtune.tuning.searchers.base import Configuration

InputValues = dict[str, float | int | str]


class Pbt(Scheduler):
    """Lets the worst of a population continue from the checkpoints of the best, with perturbed configurations.

    All trials of the experiment are one population, trained side by side. Once in an `interval` a trial is ranked. If
    it is among the worst, it copies the weights of one of the best and continues with a perturbed copy of that trial's
    configuration. So a single run finds a schedule of hyperparameters, not only good constants. It needs checkpoints.

    Example:
        scheduler:
          pbt: {timeAttribute: epoch, interval: 5, quantile: 0.25, perturbationFactors: {up: 1.2, down: 0.8}}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. A clone continues from its donor's
            value.
        interval: How far the time attribute must advance before a trial is ranked again. If too short, scores are noise
            and pods restart often; if too long, there are few generations.
        burnIn: No trial is ranked before this.
        quantile: The worst trials, this share of the population, continue from the best. 0.5 replaces half each time.
        resampleProbability: Probability that a parameter is resampled instead of perturbed.
        synchronous: All trials wait for each other at each interval; see `SynchronousPbt`.
        mutations: Parameters to change, and their bounds. Defaults to all sampled parameters.
        perturbationFactors: Factors that a number is multiplied by when it is perturbed.
        clip: A number that has left its domain is moved back to the nearest value in it; otherwise it stays outside.

    Jaderberg et al., "Population Based Training of Neural Networks", 2017, https://arxiv.org/abs/1711.09846, as Ray
    Tune 2.60 implements it in `PopulationBasedTraining`; decisions, donors and configurations are the same ones. Where
    that differs from the paper:

    - A trial is looked at once in an interval, from the burn-in period on, and ranked by its value at that time; the
      others by theirs of when they were last looked at, be that long ago. The paper has the mean of the last ten.
    - Each trial among the worst clones one among the best, every time; the paper's truncation selection has 20 % for
      both, here it is the quantile: its share of the population, rounded up, but at most half of it.
    - Who clones takes over the donor's progress, and keeps its own score until it is looked at again.
    - A donor must have been among the best when it was itself looked at last, since only then a checkpoint was made of
      it; else the trial goes on as it is. Ray makes that checkpoint at that very moment. Here programs make checkpoints
      when they like, so it is the newest one up to that result, and never a later one: who clones would be ahead.
    - NaN isn't ranked. A trial that has ended is not ranked any more.
    - While others wait for a slot, a trial that was looked at is paused, and the one goes on that is least far: a
      population may be larger than the number of slots.

    Here each trial, each time, draws from a generator of its own, so that a restart changes nothing. And no trial is
    resumed before all of the population have been made: those come first.

    Its record is {"population": {…}}: the trial's score, how far it was, and how often it was looked at.
    """

    def __init__(
        self, name: str, settings: PopulationSettings, objective: Objective, explorer: Explorer, seed: int
    ) -> None:
        self._name = name
        self._settings = settings
        self._metric = objective.metric
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._explorer = explorer
        self._seed = seed
        self._members: dict[int, Member] = {}
        self._is_complete = False

    @property
    @override
    def time_attribute(self) -> str:
        return self._settings.time_attribute

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self._members[trial] = Member(configuration)

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Looks at a trial once in an interval."""
        time = require_time(metrics, self.time_attribute, f"scheduler.{self._name}.timeAttribute")
        score = self._sign * require_number(metrics, self._metric)
        member = self._members[trial]
        if time < self._settings.burn_in or time - member.perturbed < self._settings.interval:
            return CONTINUE
        member.score = score
        member.trained = time
        member.step = int(as_number(metrics.get(ITERATION)) or time)
        member.clone = None
        member.is_fresh = False
        self._explorer.observe(trial, RankedPerformance(time, score, member.configuration))
        return self._decide_ranked(trial, member, time, waiting)

    def _decide_ranked(self, trial: int, member: Member, time: float, waiting: int) -> SchedulerDecision:
        member.perturbed = time
        member.number += 1
        ranking = rank(self._members.items(), self._settings.quantile)
        member.is_donor = trial in ranking.best
        at = f"at {self.time_attribute} {shorten(time)}"
        inputs: InputValues = {"time": time, "metric": self._metric}
        standing = self._describe_standing(trial, ranking, inputs)
        if trial in ranking.worst:
            random = build_perturbation_generator(self._seed, trial, member.number)
            donor = random.choice(ranking.best)
            if self._members[donor].is_donor:
                return self._exploit(trial, donor, random, f"{at}: {standing}", inputs)
            standing += f"; the drawn donor, trial {donor}, was not among the best when last ranked"
        if waiting:
            message = f"paused {at}, because {waiting} others wait: {standing}"
            return SchedulerDecision(SchedulerAction.PAUSE, message, inputs | {"waiting": waiting}, recorded=True)
        return SchedulerDecision(
            SchedulerAction.CONTINUE,
            f"continued {at}: {standing}",
            inputs,
            recorded=True,
            wants_checkpoint=member.is_donor,
        )

    def _exploit(self, trial: int, donor: int, random: Random, reason: str, inputs: InputValues) -> SchedulerDecision:
        member, donating = self._members[trial], self._members[donor]
        configuration = self._explorer.explore(
            donor, donating.configuration, list(self._list_pending().values()), random
        )
        member.clone = self._clone_of(donor)
        inputs |= {"donor": donor, "donorValue": self._compute_value(donating)}
        message = self._write_exploit_message(member.clone, reason, configuration)
        return SchedulerDecision(
            SchedulerAction.PAUSE,
            message,
            inputs,
            recorded=True,
            exploit=Exploit(donor, configuration, member.clone.step),
        )

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """The trial leaves the ranking."""
        self._members[trial].ended = True
        return True

    @override
    def on_trial_remove(self, trial: int) -> None:
        """The trial leaves the ranking."""
        self._members[trial].removed = True

    @override
    def forget(self, trial: int) -> None:
        """The trial leaves the ranking, and nothing that was learnt from it stays."""
        self._members.pop(trial, None)
        self._explorer.forget(trial)

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        """The trial has another one's weights and progress, if it was to clone one."""
        member = self._members[trial]
        member.configuration = configuration
        if member.clone is not None:
            member.become(member.clone)
        self._tell_explorer(trial, member)

    @override
    def on_exploit_skipped(self, trial: int) -> None:
        """The trial keeps its own weights and progress."""
        self._members[trial].clone = None

    @override
    def pinned_steps(self, trial: int) -> Collection[int]:
        """Where it may be cloned, or is about to be."""
        member = self._members.get(trial)
        own = {member.step} if member is not None and self._may_donate(member) else set()
        return own | {clone.step for clone in self._list_pending_clones() if clone.donor == trial}

    def _may_donate(self, member: Member) -> bool:
        """Whether others may yet clone a member by its last score."""
        return member.is_live and member.is_donor

    def _list_pending_clones(self) -> Iterator[DonorState]:
        """What was decided, and has not been carried out."""
        return (other.clone for other in self._members.values() if other.clone is not None and other.is_live)

    @override
    def on_search_over(self) -> None:
        """The population is complete."""
        self._is_complete = True

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the trial that is least far; a paused one only when the population is complete."""
        trial = min(waiting, key=self._build_progress)
        return StartDecision(trial) if self._is_complete or self._members[trial].score is None else None

    @override
    def record(self, trial: int) -> Record:
        """The member, and what the explorer keeps of it."""
        return self._members[trial].record() | dict(self._explorer.record(trial))

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        try:
            self._members[trial] = Member.parse(record, configuration)
            self._explorer.restore(trial, record)
        except ValueError as error:
            raise RecordError(
                f"trial {trial}: status.scheduler can't be read: {error}; correct it, or delete the trial"
            ) from error

    def _list_pending(self) -> dict[int, Configuration]:
        """What clones run with that have not been looked at since."""
        return {
            trial: other.configuration for trial, other in self._members.items() if other.is_live and other.is_fresh
        }

    def _tell_explorer(self, trial: int, member: Member) -> None:
        """Tells the explorer what a member goes on from, which is settled by that."""
        clone, member.clone = member.clone, None
        member.is_fresh = clone is not None
        observation = None if clone is None else RankedPerformance(clone.trained, clone.score, member.configuration)
        self._explorer.on_clone(trial, observation)

    def _build_progress(self, trial: int) -> tuple[float, int]:
        return self._members[trial].trained, trial

    def _clone_of(self, donor: int) -> DonorState:
        donating = self._members[donor]
        assert donating.score is not None  # who was ranked has one
        return DonorState(donor, donating.trained, donating.perturbed, donating.score, donating.step)

    def _compute_value(self, member: Member) -> float:
        """A member's score as its trial has reported it."""
        return math.nan if member.score is None else self._sign * member.score

    def _describe_standing(self, trial: int, ranking: Ranking, inputs: InputValues) -> str:
        """Where a trial stands, in words; the numbers are added to `inputs`."""
        value = self._compute_value(self._members[trial])
        if math.isnan(value):
            return f"{self._metric} is NaN, which isn't ranked"
        own_rank, count = ranking.rank(trial), len(ranking.members)
        inputs |= {"value": value, "rank": own_rank, "population": count, "quantile": ranking.quantile}
        standing = f"{self._metric} {shorten(value)} is rank {own_rank} of {count}"
        if trial in ranking.worst:
            return f"{standing}, among the worst {ranking.quantile}"
        return f"{standing}, among the best {ranking.quantile}" if trial in ranking.best else standing

    def _write_exploit_message(self, clone: DonorState, reason: str, configuration: Configuration) -> str:
        donors = self._members[clone.donor].configuration if clone.donor in self._members else {}
        return write_message(
            f"clones trial {clone.donor} ({self._metric} {shorten(self._sign * clone.score)}) {reason}",
            [
                f"{name} {_show(donors.get(name))} → {_show(value)}"
                for name, value in configuration.items()
                if name not in donors or donors[name] != value
            ],
        )


def build_perturbation_generator(seed: int, trial: int, number: int) -> Random:
    """Where all draws come from when a trial is perturbed, or left as it was, for the `number`-th time."""
    return build_generator(seed, "perturbation", trial, number)


def write_message(what: str, changes: Sequence[str]) -> str:
    """What happens and what changes with it, as far as there is room."""
    text = what
    for index, change in enumerate(changes):
        rest = f", and {len(changes) - index} more"
        piece = f"{'; perturbed: ' if index == 0 else ', '}{change}"
        if len(text) + len(piece) + (len(rest) if index < len(changes) - 1 else 0) > MAX_LEDGER_MESSAGE:
            return (text + rest)[:MAX_LEDGER_MESSAGE]
        text += piece
    return text


def _show(value: Scalar | None) -> str:
    if value is None:
        return "none"
    written = shorten(value) if isinstance(value, float) else format_value(value)
    return written if len(written) <= 24 else f"{written[:23]}…"
