"""From proposals to Trials: what the searcher was told, what it was asked, and which answers are Trials already."""

from __future__ import annotations

from collections.abc import Iterable

from podtune.api.search_space import format_value
from podtune.api.trial import Proposal, TrialSpec, format_indexes
from podtune.runner.actions import Propose
from podtune.tuning.searchers.base import Proposed, Tell, Unfinished

MAX_RUNNING = 1024
"""So many trials under way are shown to the searcher at most, the newest: a Trial records which they were."""


class Tells:
    """The finished trials in the order in which the searcher is told of them.

    Each Trial records its place in that order with its end. Several ends may be written at once, so one may become
    durable before another with a lower place: the searcher is told only of those below the first gap.
    """

    def __init__(self, recorded: Iterable[tuple[int, Tell]] = ()) -> None:
        """Takes in the tells that Trials have recorded, each with its place; gaps among them stay for ever."""
        known = sorted(recorded, key=lambda pair: pair[0])
        self.in_order = [tell for _, tell in known]
        self._next_place = known[-1][0] + 1 if known else 0
        self._next_durable = self._next_place
        self._early: dict[int, Tell] = {}

    def reserve(self) -> int:
        """A place for a trial that has come to its end."""
        self._next_place += 1
        return self._next_place - 1

    def durable(self, place: int, tell: Tell) -> None:
        """The end of the trial with this place is recorded."""
        if place < self._next_durable or place in self._early:
            return
        self._early[place] = tell
        while self._next_durable in self._early:
            self.in_order.append(self._early.pop(self._next_durable))
            self._next_durable += 1


class Proposals:
    """The numbers of proposals: each becomes one Trial, `<experiment>-<number>`.

    A number without a Trial below the highest one is proposed again: its Trial was deleted, or an operator died before
    it was made.
    """

    def __init__(self, experiment: str, taken: Iterable[int]) -> None:
        """Starts with the Trials that are there.

        Args:
            experiment: Name of the experiment.
            taken: Numbers that are Trials.
        """
        self._experiment = experiment
        self._taken = set(taken)
        self._next = max(self._taken, default=-1) + 1
        self._missing = sorted(set(range(self._next)) - self._taken)
        self.waiting: dict[int, TrialSpec] = {}
        """Proposals that are not Trials yet."""
        self.exhausted = False

    @property
    def made(self) -> int:
        """How many numbers are Trials or about to be."""
        return len(self._taken) + len(self.waiting)

    def request(self, count: int, tells: Tells, unfinished: Iterable[Unfinished]) -> Propose:
        """Asks for the next configurations: first the number that was left out earliest, alone."""
        first, wanted = (self._missing[0], 1) if self._missing else (self._next, count)
        return Propose(
            first=first,
            count=wanted,
            tells=tells.in_order,
            told=len(tells.in_order),
            unfinished=tuple(sorted(unfinished, key=lambda trial: trial.number))[wanted - MAX_RUNNING :],
        )

    def answered(self, request: Propose, answers: Iterable[Proposed]) -> None:
        """Takes in the searcher's answer; fewer than asked for mean that there are no more."""
        running = [trial.number for trial in request.unfinished]
        count = 0
        for number, proposed in enumerate(answers, start=request.first):
            if number not in self._taken:
                self.waiting[number] = TrialSpec(
                    experiment=self._experiment,
                    index=number,
                    parameters={name: format_value(value) for name, value in proposed.configuration.items()},
                    proposal=Proposal(
                        number=number,
                        told=request.told,
                        running=format_indexes(running),
                        attributes=dict(proposed.attributes),
                    ),
                )
            running.append(number)
            count += 1
        self._reached(request.first + count)
        if count < request.count:
            self.exhausted = True
            self._missing.clear()

    def trial_exists(self, number: int) -> None:
        """The Trial with this number is there."""
        self.waiting.pop(number, None)
        self._taken.add(number)
        self._reached(number + 1)

    def _reached(self, end: int) -> None:
        """All numbers below `end` are Trials, about to be, or left out."""
        left_out = [*self._missing, *range(self._next, end)]
        self._missing = [number for number in left_out if number not in self._taken and number not in self.waiting]
        self._next = max(self._next, end)

    def trial_name(self, number: int) -> str:
        """Name of the Trial with this number."""
        return f"{self._experiment}-{number}"
