"""Population based training, synchronous: all trials wait for each other at each interval."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from typing_extensions import override

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.population import PopulationSettings
from podtune.tuning.numbers import shorten
from podtune.tuning.schedulers.base import (
    Exploit,
    Metrics,
    Record,
    RecordError,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
)
from podtune.tuning.schedulers.pbt import InputValues, Pbt, build_perturbation_generator
from podtune.tuning.schedulers.population.barrier_release import BarrierRelease, BarrierReleaseWriter
from podtune.tuning.schedulers.population.explore import Explorer
from podtune.tuning.schedulers.population.members import CLONE, MEMBER, DonorState, Member, rank
from podtune.tuning.schedulers.records import format_shortest
from podtune.tuning.searchers.base import Configuration

BARRIER = "barrier"
"""The section of a record that says where the barrier was."""


class SynchronousPbt(Pbt):
    """PBT whose trials are all ranked at the same progress.

    Every trial is ranked at the same progress, which is fairer than `Pbt` with its scores of different ages. The price
    is waiting: slots are idle at each barrier until the slowest trial has arrived.

    Example:
        scheduler:
          pbt: {timeAttribute: epoch, interval: 5, synchronous: true}

    Jaderberg et al., 2017, appendix A.1, as `PopulationBasedTraining(synch=True)` of Ray Tune 2.60 does it; what `pbt`
    says of the differences holds here, too, and besides:

    - A trial is paused whenever it is looked at. It has arrived when its progress has reached the barrier.
    - The barrier is released when all others than the last trial to come by have arrived, whether that one has or not,
      at that one's time: all are ranked then, the worst clone the best, and the next interval of each counts from that
      time.
    - The next barrier is one interval on, or where the farthest trial is, if that is farther: who has overshot so much
      waits there. Where nobody would have anywhere to go, Ray comes to a standstill; here the barrier is an interval on
      from there.
    - Where the last trial that was waited for ends instead of arriving, Ray waits for ever; here the barrier is
      released.

    What is decided then is about many trials at once, but each can change its own record alone. So the barrier is
    released when the next trial is chosen, and all that was decided is written into the record of that one, before it
    starts. There it stays until every other trial's own record is of a later time.

    A trial's record is what it was when it was last looked at, or took over another one's weights, {"population": {…},
    "barrier": {…}}, and, where it was the first to go on, what was decided at the barrier's release, {"opened-3": {…}}.
    """

    def __init__(
        self,
        name: str,
        settings: PopulationSettings,
        objective: Objective,
        explorer: Explorer,
        seed: int,
        *,
        writer: BarrierReleaseWriter,
    ) -> None:
        super().__init__(name, settings, objective, explorer, seed)
        self._writer = writer
        self._held: set[int] = set()
        """Trials that nobody waits for, since their users have paused them."""
        self._clear()

    def _clear(self) -> None:
        self._members.clear()
        self._target = float(max(self._settings.interval, self._settings.burn_in))
        self._released_count = 0
        self._releases: dict[int, BarrierRelease] = {}
        self._carried: dict[int, list[int]] = {}
        self._changed: dict[int, Configuration] = {}
        self._records: dict[int, Record] = {}
        self._is_caught_up = True

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self._catch_up()
        self._members[trial] = Member(configuration, number=self._released_count)
        self._records[trial] = {}

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        """Looks at a trial when its interval is over, and pauses it."""
        self._catch_up()
        return super().on_result(trial, metrics, waiting=waiting)

    @override
    def _decide_ranked(self, trial: int, member: Member, time: float, waiting: int) -> SchedulerDecision:
        self._changed.pop(trial, None)
        member.order = 1 + max(other.order for other in self._members.values())
        member.round = self._released_count
        self._note(trial)
        live = [other for other in self._members.values() if other.is_live]
        arrived = sum(other.trained >= self._target for other in live)
        value = self._compute_value(member)
        return SchedulerDecision(
            SchedulerAction.PAUSE,
            message=(
                f"paused at {self.time_attribute} {shorten(time)} with {self._metric} {shorten(value)}: {arrived} of "
                f"{len(live)} trials have reached the barrier at {shorten(self._target)}"
            ),
            inputs={
                "time": time,
                "metric": self._metric,
                "value": value,
                "barrier": self._target,
                "arrived": arrived,
                "population": len(live),
            },
            recorded=True,
        )

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        """The trial leaves the ranking."""
        self._catch_up()
        self._members[trial].ended = True
        self._note(trial)
        return True

    @override
    def on_trial_hold(self, trial: int) -> None:
        """The barrier is released without the trial; it is ranked by what it was when it was last looked at."""
        self._held.add(trial)

    @override
    def on_trial_release(self, trial: int) -> None:
        self._held.discard(trial)

    @override
    def forget(self, trial: int) -> None:
        """Makes everything anew of what the others' records say: some of it may have been in this one's alone."""
        if trial not in self._members:
            return
        kept = {other: (self._records[other], member) for other, member in self._members.items() if other != trial}
        self._explorer.forget(trial)
        self._clear()
        for other, (record, member) in kept.items():
            if record:
                self.restore(other, record, member.configuration)
        for other, (record, member) in kept.items():
            if not record:
                self.on_trial_add(other, member.configuration)
            self._members[other].removed = member.removed

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        """The trial has another one's weights, if it was to clone one; its progress it has had since the barrier."""
        self._catch_up()
        member = self._members[trial]
        member.configuration = configuration
        self._changed.pop(trial, None)
        self._tell_explorer(trial, member)
        self._note(trial)

    @override
    def on_exploit_skipped(self, trial: int) -> None:
        """The trial keeps its own weights; its progress it has had since the barrier."""
        self._catch_up()
        self._members[trial].clone = None
        self._changed.pop(trial, None)
        self._note(trial)

    @override
    def pinned_steps(self, trial: int) -> Collection[int]:
        """Where it may be cloned when the barrier is released, or is about to be."""
        self._catch_up()
        return super().pinned_steps(trial)

    @override
    def _may_donate(self, member: Member) -> bool:
        return member.is_live and member.score is not None

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        """Picks the least advanced trial that is not at the barrier; releases the barrier if all others are there."""
        self._catch_up()
        if self._is_barrier_complete(waiting):
            self._release_barrier()
        candidates = [trial for trial in waiting if self._members[trial].trained < self._target]
        if not candidates:
            return None
        trial = min(candidates, key=self._build_progress)
        member = self._members[trial]
        if not self._is_complete and member.score is not None:
            return None
        recorded = self._carry(trial)
        if member.clone is None:
            return StartDecision(trial, recorded=recorded)
        message, inputs = self._explain_exploit(trial, member, member.clone)
        exploit = Exploit(member.clone.donor, self._changed[trial], member.clone.step)
        return StartDecision(trial, message, inputs, recorded, exploit)

    @override
    def record(self, trial: int) -> Record:
        """What the trial was when its record last changed."""
        return self._records[trial]

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        """Takes in a trial's record after a restart; what was decided at barriers is laid over all records later.

        Raises:
            RecordError: It is not one that `record` writes.
        """
        super().restore(trial, record, configuration)
        try:
            member, barrier = self._members[trial], record.get(BARRIER, {})
            member.order = int(barrier.get("order", "0"))
            member.round = int(barrier.get("round", "0"))
            self._target = max(self._target, float(barrier.get("target", "0")))
            releases = self._writer.read(record)
        except ValueError as error:
            raise RecordError(
                f"trial {trial}: status.scheduler can't be read: {error}; correct it, or delete the trial"
            ) from error
        self._releases |= {release.number: release for release in releases}
        self._carried[trial] = sorted(release.number for release in releases)
        self._records[trial] = record
        self._is_caught_up = False

    def _catch_up(self) -> None:
        """Applies the releases of barriers since."""
        if self._is_caught_up:
            return
        self._is_caught_up = True
        self._released_count = max([*self._releases, *(member.number for member in self._members.values())], default=0)
        self._target = max([self._target, *(release.target for release in self._releases.values())])
        for number in sorted(self._releases):
            self._apply(self._releases[number])

    def _is_barrier_complete(self, waiting: Sequence[int]) -> bool:
        """Whether the population is complete, all of it is there, and all but the last to come by have arrived."""
        live = {trial: member for trial, member in self._members.items() if member.is_live and trial not in self._held}
        if not self._is_complete or not live or not all(trial in waiting for trial in live):
            return False
        last = self._find_last()
        return all(member is last or member.trained >= self._target for member in live.values())

    def _find_last(self) -> Member | None:
        """Who was the last to come by since the barrier's last release."""
        came = [member for member in self._members.values() if member.is_live and member.round == self._released_count]
        last = max(came, key=lambda member: member.order, default=None)
        return None if last is None or not last.order else last

    def _release_barrier(self) -> None:
        """Ranks all, has the worst clone the best, and moves the barrier on."""
        number = self._released_count + 1
        last = self._find_last()
        time = last.trained if last is not None else max(member.trained for member in self._members.values())
        ranking = rank(self._members.items(), self._settings.quantile)
        clones: dict[int, tuple[DonorState, Configuration]] = {}
        for trial in ranking.worst:
            random = build_perturbation_generator(self._seed, trial, number)
            donor = random.choice(ranking.best)
            basis = self._changed.get(donor, self._members[donor].configuration)
            chosen = {other: configuration for other, (_, configuration) in clones.items()}
            pending = self._list_pending() | self._changed | chosen
            configuration = self._explorer.explore(donor, basis, list(pending.values()), random)
            clones[trial] = self._clone_at(donor, time), configuration
        release = BarrierRelease(
            number, time, self._compute_next_target(clones), len(ranking.members), ranking.quantile, clones
        )
        self._releases[number] = release
        self._released_count, self._target = number, release.target
        self._apply(release)

    def _clone_at(self, donor: int, time: float) -> DonorState:
        """A clone of a donor; of one that is itself still to become a clone, the one that it is to clone."""
        donating = self._members[donor]
        clone = donating.clone or self._clone_of(donor)
        return DonorState(clone.donor, donating.trained, time, clone.score, donating.step)

    def _compute_next_target(self, clones: Mapping[int, tuple[DonorState, Configuration]]) -> float:
        trained = {
            trial: clones[trial][0].trained if trial in clones else member.trained
            for trial, member in self._members.items()
        }
        target = max(self._target + self._settings.interval, *trained.values())
        live = [trained[trial] for trial, member in self._members.items() if member.is_live]
        return target if min(live) < target else max(live) + self._settings.interval

    def _apply(self, release: BarrierRelease) -> None:
        for trial, member in self._members.items():
            if member.number >= release.number:
                continue
            member.number = release.number
            member.perturbed = release.time
            if trial in release.clones:
                member.clone, self._changed[trial] = release.clones[trial]
                member.become(member.clone)

    def _carry(self, trial: int) -> bool:
        """Has a trial's record hold the last release, unless a record does; whether it does."""
        release = self._releases.get(self._released_count)
        if release is None or any(self._released_count in numbers for numbers in self._carried.values()):
            return False
        self._carried.setdefault(trial, []).append(release.number)
        self._records[trial] = {**self._records[trial], **self._writer.write(release)}
        return True

    def _note(self, trial: int) -> None:
        """Makes a trial's record anew, without what all others know by themselves."""
        member = self._members[trial]
        others = [self._read_noted_number(other) for other, m in self._members.items() if other != trial and m.is_live]
        carried = [number for number in self._carried.get(trial, ()) if any(noted < number for noted in others)]
        for number in set(self._carried.get(trial, ())) - set(carried):
            del self._releases[number]
        self._carried[trial] = carried
        barrier = {"target": format_shortest(self._target), "order": str(member.order), "round": str(member.round)}
        record = {**member.record(), BARRIER: barrier, **self._explorer.record(trial)}
        record.pop(CLONE, None)  # it follows from the barrier's release
        for number in carried:
            record |= self._writer.write(self._releases[number])
        self._records[trial] = record

    def _read_noted_number(self, trial: int) -> int:
        return int(self._records[trial].get(MEMBER, {}).get("number", "0"))

    def _explain_exploit(self, trial: int, member: Member, clone: DonorState) -> tuple[str, InputValues]:
        release = next(o for _, o in sorted(self._releases.items(), reverse=True) if trial in o.clones)
        value = self._compute_value(member)
        inputs: InputValues = {
            "barrier": release.time,
            "metric": self._metric,
            "value": value,
            "population": release.ranked,
            "quantile": release.quantile,
            "donor": clone.donor,
            "donorValue": self._sign * clone.score,
        }
        reason = (
            f"at the barrier of {self.time_attribute} {shorten(release.time)}: {self._metric} {shorten(value)} is "
            f"among the worst {release.quantile} of {release.ranked}"
        )
        return self._write_exploit_message(clone, reason, self._changed[trial]), inputs
