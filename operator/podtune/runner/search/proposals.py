"""From proposals to Trials: which numbers were requested, which Trials must still be created, which are under way.

A proposal's number identifies a configuration. With n repeats it becomes n Trials, `<experiment>-<n · number>` and the
following ones, which differ only in their seeds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice

from podtune.api.resources.experiment import ExperimentSpec, ProposalRequest
from podtune.api.resources.trial import ProposalRecord, ProposalSource, TrialSpec, format_indexes
from podtune.api.tuning.search_space import format_value
from podtune.runner.actions import Propose
from podtune.runner.search.origins import FreeNumbers, Origin, ProposalOrigins
from podtune.tuning.randomness import derive_trial_seed
from podtune.tuning.searchers.base import PendingTrial, Proposal


class Proposals:
    """The numbers of proposals, from 0 without gaps.

    A number without a Trial below the highest one is proposed again: its Trial was deleted, or an operator died before
    it was made.
    """

    def __init__(self, experiment: str, spec: ExperimentSpec) -> None:
        """Knows of no Trial yet: see `add_trial`.

        Args:
            experiment: Name of the experiment.
            spec: Its spec.
        """
        self._experiment = experiment
        self._repeats = spec.search.repeats
        self._seed = spec.search.seed
        self.origins = ProposalOrigins(spec.parameters, spec.search.initial)
        """Where each of them comes from."""
        self._present: set[int] = set()
        self._answered: set[int] = set()
        self._numbers = FreeNumbers()
        self.waiting: dict[int, TrialSpec] = {}
        """By index: Trials that are still to be made."""
        self.exhausted = False
        """Whether the searcher has no more configurations."""
        self.is_outdated = False
        """Whether a Trial has another origin than was expected: it was on its way when `search.initial` grew."""

    @property
    def present(self) -> int:
        """How many Trials there are."""
        return len(self._present)

    @property
    def made(self) -> int:
        """How many Trials there are or will be from what was answered."""
        return len(self._present) + len(self.waiting)

    def find_open_numbers(self, asked: ProposalRequest | None) -> range:
        """The first stretch of numbers among those asked for before that nothing came of: they are asked for again."""
        numbers = range(asked.first, asked.last + 1) if asked is not None else range(0)
        first = next((number for number in numbers if number not in self._answered), None)
        if first is None:
            return range(0)
        end = next((number for number in range(first, numbers.stop) if number in self._answered), numbers.stop)
        return range(first, end)

    def find_next_numbers(self, count: int) -> range:
        """The numbers to ask for next: the one that was left out earliest, alone, or new ones."""
        left_out = self._numbers.left_out
        if left_out:
            return range(left_out[0], left_out[0] + 1)
        return range(self._numbers.next, self._numbers.next + count)

    def choose_origins(self, numbers: range) -> tuple[Origin, ...]:
        """Where the proposals with these numbers come from, for which there is none yet."""
        return self.origins.choose(self._numbers, numbers)

    def list_first_entries(self) -> tuple[int, ...]:
        """Places in `search.initial` of what is proposed before the searcher proposes anything."""
        return self.origins.list_first(self._numbers)

    def record_answers(self, request: Propose, answers: Sequence[Proposal]) -> None:
        """Takes in the searcher's answer; fewer proposals than requested mean that there are no more."""
        running = [trial.number for trial in request.pending]
        for number, (proposed, origin) in enumerate(zip(answers, request.origins, strict=False), start=request.first):
            if number not in self._answered:
                self._mark_answered(number, origin)
                basis = ProposalRecord(
                    number=number,
                    source=origin.source,
                    position=origin.position,
                    observed_seq=request.observed_seq,
                    running=format_indexes(running),
                    attributes=dict(proposed.attributes),
                )
                parameters = {name: format_value(value) for name, value in proposed.configuration.items()}
                self._wait_for(number, parameters, basis)
            running.append(number)
        if len(answers) < request.count:
            self.exhausted = True
            self._numbers.forget_left_out()

    def add_trial(self, spec: TrialSpec) -> None:
        """A Trial is there; its repeats will be too."""
        self.waiting.pop(spec.index, None)
        self._present.add(spec.index)
        number = spec.index // self._repeats
        origin = self.origins.read(number, spec)
        if number not in self._answered:
            self._mark_answered(number, origin)
            self._wait_for(number, spec.parameters, spec.proposal)
        elif origin != self.origins.by_number[number]:
            self.is_outdated = True

    @property
    def untried_entries(self) -> int:
        """How many configurations of `search.initial` that are to be tried have no Trial."""
        waiting = {index // self._repeats for index in self.waiting}
        asked = [self.origins.by_number[number] for number in waiting if not self.is_begun(number)]
        return self.origins.open_entries + sum(origin.source is ProposalSource.INITIAL for origin in asked)

    def is_begun(self, number: int) -> bool:
        """Whether a Trial of this configuration is there."""
        first = number * self._repeats
        return not self._present.isdisjoint(range(first, first + self._repeats))

    def format_trial_name(self, index: int) -> str:
        """Name of the Trial with this index."""
        return f"{self._experiment}-{index}"

    def _wait_for(self, number: int, parameters: dict[str, str], basis: ProposalRecord | None) -> None:
        """Marks the missing Trials of a configuration as still to be created."""
        restore_from = self.origins.find_restore_source(number)
        for repeat in range(self._repeats):
            index = number * self._repeats + repeat
            if index not in self._present:
                self.waiting[index] = TrialSpec(
                    experiment=self._experiment,
                    index=index,
                    parameters=parameters,
                    seed=derive_trial_seed(self._seed, repeat),
                    restore_from=restore_from,
                    proposal=basis,
                )

    def _mark_answered(self, number: int, origin: Origin) -> None:
        """There is a configuration with this number."""
        self._answered.add(number)
        self._numbers.take(number)
        self.origins.record(number, origin)


class PendingTrials:
    """Configurations that were proposed and whose results the searcher has not observed.

    Kept in the order of their numbers, so that the newest are found however many others are paused.
    """

    def __init__(self) -> None:
        """Starts with none."""
        self._by_number: dict[int, PendingTrial] = {}
        self._numbers: list[int] = []

    def __contains__(self, number: int) -> bool:
        """Whether the configuration with a number is under way."""
        return number in self._by_number

    def begin(self, trial: PendingTrial) -> None:
        """A configuration is under way from now on."""
        if trial.number not in self._by_number:
            insort(self._numbers, trial.number)
        self._by_number[trial.number] = trial

    def end(self, number: int) -> None:
        """A configuration is under way no more, if it was."""
        if self._by_number.pop(number, None) is not None:
            del self._numbers[bisect_left(self._numbers, number)]

    def list_newest(self, count: int, hidden: range, more: Iterable[PendingTrial] = ()) -> tuple[PendingTrial, ...]:
        """The newest of them, ordered by number.

        Args:
            count: How many at most.
            hidden: Numbers that are left out.
            more: What was under way at the time that is asked about, and is not any more.
        """
        others = {trial.number: trial for trial in more if trial.number not in self._by_number}
        shown = (number for number in self._list_newest_first(others) if number not in hidden)
        chosen = [self._by_number.get(number) or others[number] for number in islice(shown, count)]
        return tuple(reversed(chosen))

    def _list_newest_first(self, others: Iterable[int]) -> Iterator[int]:
        return merge(reversed(self._numbers), sorted(others, reverse=True), reverse=True)
