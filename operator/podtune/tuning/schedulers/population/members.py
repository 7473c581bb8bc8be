"""The members of a population, and who is among the best and the worst of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from podtune.tuning.schedulers.base import Record
from podtune.tuning.schedulers.records import format_shortest
from podtune.tuning.searchers.base import Configuration

MEMBER = "population"
"""The section of a record that holds a member."""
CLONE = "clone"
"""The section that holds what a member is to go on from."""


@dataclass(frozen=True, slots=True)
class DonorState:
    """What a member is to go on from.

    Attributes:
        step: Iteration of the result that it was ranked with: no later checkpoint of it is cloned.
    """

    donor: int
    trained: float
    perturbed: float
    score: float
    step: int

    def to_record(self) -> dict[str, str]:
        """The clone in a record."""
        return {
            "donor": str(self.donor),
            "trained": format_shortest(self.trained),
            "perturbed": format_shortest(self.perturbed),
            "score": format_shortest(self.score),
            **_write_step(self.step, self.trained),
        }

    @classmethod
    def parse(cls, written: Mapping[str, str]) -> DonorState:
        """Reads what `to_record` has written.

        Raises:
            ValueError: A number is none, or missing.
        """
        trained, perturbed, score = (float(written.get(name, "")) for name in ("trained", "perturbed", "score"))
        return cls(int(written.get("donor", "")), trained, perturbed, score, _parse_step(written, trained))


@dataclass(slots=True)
class Member:
    """A trial of a population.

    Attributes:
        configuration: What it runs with.
        score: Its objective when it was last looked at, more is better; None before the first time.
        trained: Its time attribute then; after a clone, the donor's.
        step: Its iteration then; after a clone, the donor's.
        perturbed: The time from which the next interval counts.
        number: How often it has been perturbed, or left as it was: each time has random draws of its own.
        is_donor: Whether it was among the best then, so that a checkpoint was made for others to clone.
        is_fresh: Whether it has not been looked at since it became a clone.
        ended: Whether it came to a good end.
        removed: Whether it will never run again for another reason; its record need not say so.
        clone: What it is to go on from; None once it does, or has not.
        order: In a synchronous population: when it was last looked at, in the order of all.
        round: How many barriers had been released then.
    """

    configuration: Configuration
    score: float | None = None
    trained: float = 0
    step: int = 0
    perturbed: float = 0
    number: int = 0
    is_donor: bool = False
    is_fresh: bool = False
    ended: bool = False
    removed: bool = False
    clone: DonorState | None = None
    order: int = 0
    round: int = 0

    @property
    def is_live(self) -> bool:
        """Whether it may run again."""
        return not self.ended and not self.removed

    @property
    def is_ranked(self) -> bool:
        """Whether it takes part in the ranking: NaN can't be ranked, and who has ended is left out."""
        return self.is_live and self.score is not None and not math.isnan(self.score)

    def become(self, clone: DonorState) -> None:
        """Takes over how far the donor had come. The score stays its own until it is looked at again."""
        self.trained = clone.trained
        self.step = clone.step
        self.perturbed = clone.perturbed

    def record(self) -> dict[str, Mapping[str, str]]:
        """The member in a record: all but configurations, which the Trial holds."""
        written = {"number": str(self.number)} if self.number else {}
        if self.score is not None:
            written["score"] = format_shortest(self.score)
        if self.trained:
            written["trained"] = format_shortest(self.trained)
        written |= _write_step(self.step, self.trained)
        if self.perturbed:
            written["perturbed"] = format_shortest(self.perturbed)
        if self.is_donor:
            written["donor"] = "true"
        if self.is_fresh:
            written["fresh"] = "true"
        if self.ended:
            written["ended"] = "true"
        record: dict[str, Mapping[str, str]] = {MEMBER: written} if written else {}
        if self.clone is not None:
            record[CLONE] = self.clone.to_record()
        return record

    @classmethod
    def parse(cls, record: Record, configuration: Configuration) -> Member:
        """Reads what `record` has written.

        Raises:
            ValueError: A number is none, or missing.
        """
        written = record.get(MEMBER, {})
        score, trained = written.get("score"), float(written.get("trained", "0"))
        return cls(
            configuration=configuration,
            score=None if score is None else float(score),
            trained=trained,
            step=_parse_step(written, trained),
            perturbed=float(written.get("perturbed", "0")),
            number=int(written.get("number", "0")),
            is_donor=written.get("donor") == "true",
            is_fresh=written.get("fresh") == "true",
            ended=written.get("ended") == "true",
            clone=DonorState.parse(record[CLONE]) if CLONE in record else None,
        )


def _write_step(step: int, trained: float) -> dict[str, str]:
    """An iteration in a record, which has none where the time attribute says the same."""
    return {} if step == trained else {"step": str(step)}


def _parse_step(written: Mapping[str, str], trained: float) -> int:
    return int(written["step"]) if "step" in written else int(trained)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The members that can be ranked, the worst first; of equal ones the older is the worse.

    Attributes:
        quantile: How many of them are the worst, and as many the best: never more than half.
    """

    members: Sequence[int]
    quantile: int

    @property
    def worst(self) -> Sequence[int]:
        """Those that go on from others."""
        return self.members[: self.quantile]

    @property
    def best(self) -> Sequence[int]:
        """Those that others go on from."""
        return self.members[len(self.members) - self.quantile :]

    def rank(self, trial: int) -> int:
        """The rank of a member, 1 for the best."""
        return len(self.members) - self.members.index(trial)


def rank(members: Iterable[tuple[int, Member]], quantile: float) -> Ranking:
    """Ranks a population; of one alone nobody is the best or the worst.

    The worst are the quantile's share, rounded up, but at most half of all.
    """
    scores = [(member.score or 0.0, trial) for trial, member in members if member.is_ranked]
    ranked = [trial for _, trial in sorted(scores)]
    if len(ranked) <= 1:
        return Ranking(ranked, 0)
    count = math.ceil(len(ranked) * quantile)
    return Ranking(ranked, min(count, len(ranked) // 2))
