"""The interface of all searchers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from podtune.api.tuning.search_space import Scalar

Configuration = Mapping[str, Scalar]
"""Values by parameter name, in the manifest's order."""


Attributes = Mapping[str, str]
"""What a searcher has to know again of one of its proposals; it is recorded with the Trial, so keep it small."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A searcher's answer.

    Attributes:
        configuration: What to try.
        attributes: What the searcher wants to be told with the trial that comes of it.
    """

    configuration: Configuration
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """A finished trial, or the value of one at a rung, as a searcher is told of it.

    Attributes:
        number: The number of the proposal that the trial came from; below 0, and without attributes, where the searcher
            has not proposed it: the manifest did, or it was tried before the experiment began.
        configuration: What was proposed.
        value: The objective's value, None where the trial failed. NaN also stands for an infinity that no finite
            number could beat; the other infinity is the worst value.
        step: Iterations after which the value was reached; a trial stopped early has fewer than a whole one.
        others: Values of the objective's further metrics, in the manifest's order, where it has some.
        attributes: What came with the proposal.
        final: Whether the trial has finished; else it is its value at a rung, and more may come of it.
    """

    number: int
    configuration: Configuration
    value: float | None
    step: int
    others: tuple[float, ...] = ()
    attributes: Attributes = field(default_factory=dict)
    final: bool = True


@dataclass(frozen=True, slots=True)
class PendingTrial:
    """A trial that was proposed and has not finished; for its number and attributes see `Observation`."""

    number: int
    configuration: Configuration
    attributes: Attributes = field(default_factory=dict)


class NoConfiguration(ValueError):
    """No configuration can be proposed: constraints refuse all, say. The message says what to change."""


class Searcher(ABC):
    """Proposes configurations, one at a time (ask), and learns from finished trials (tell).

    A searcher is deterministic: from the same space, settings and seed, the same tells in the same order, and the
    same number, unfinished trials and attempt, `ask` proposes the same. It is all that makes a restarted operator go on
    as if it had never stopped: nothing of a searcher is ever stored. `ask` changes nothing that a later call depends
    on.

    Not safe for concurrent use: one thread at a time calls it.

    A searcher is made with the parameters that are sampled, and proposes a value for each. Conditions, constraints,
    fixed and computed values and known configurations are the business of `RejectionSearcher`, which is laid around it.

    Attributes:
        sees_inactive: Whether the configurations that it is told of hold a value for each of its parameters: for those
            that a condition left out, what it had drawn for them. Else these are left out.
        learns_from_rungs: Whether it is also told of the values of trials at the scheduler's rungs, before they end.
            It belongs to the searcher and its settings, and never changes.
        learns_from_results: The same of the results of trials: it is also told of each, before they end.
    """

    sees_inactive: ClassVar[bool] = True
    learns_from_rungs: bool = False
    learns_from_results: bool = False

    @abstractmethod
    def tell(self, observation: Observation) -> None:
        """Takes in a finished trial. Each is told once, in the order that the trials record.

        Where it learns from rungs, it is told of a trial's values at these first, each once, by tells that are not
        final: with the milestone as their step, and interleaved with those of other trials. Where it learns from
        results, it is told of those in the same way: of up to 500 of a trial, with the iteration as their step.
        """

    def skip(self, configuration: Configuration) -> None:  # noqa: B027 - most don't care
        """This configuration is tried without having been proposed; said before the first `ask`.

        A searcher that goes through its space leaves it out.
        """

    @abstractmethod
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        """Proposes the configuration with this number.

        Args:
            number: The proposal's number, from 0; it seeds all random draws, by `derive_proposal_seed`.
            pending: The trials that are under way, ordered by number.
            attempt: How many answers with this number could not be used, since a constraint refuses them or they have
                been tried before. It seeds the draws too, or the same would be proposed again.

        Returns:
            A configuration, or None where the finite space is exhausted.

        Raises:
            NoConfiguration: There is none that could be proposed.
        """
