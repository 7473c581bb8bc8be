"""Criteria that have to hold together."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from podtune.tuning.stoppers.base import Finding, ProgressT, StopCriterion


class AllOf(StopCriterion[ProgressT]):
    """Holds while all of its parts hold.

    Example:
        stop: {trial: [{all: [{iterations: 10}, {metrics: {accuracy: 0.5}}]}]}

    Those that look at the last result keep holding, or not, until there is another one. (Ray's `CombinedStopper` knows
    only "any of"; here that is what the list of rules means.)
    """

    def __init__(self, parts: Sequence[StopCriterion[ProgressT]]) -> None:
        self._parts: tuple[StopCriterion[ProgressT], ...] = tuple(parts)

    @override
    def check(self, progress: ProgressT) -> Finding | None:
        """Asks every part; the numbers of the n-th, from 0, are given as `n.…`."""
        clauses: list[str] = []
        inputs: dict[str, float | int | str] = {}
        for index, part in enumerate(self._parts):
            finding = part.check(progress)
            if finding is None:
                return None
            clauses.append(finding.clause)
            inputs |= {f"{index}.{name}": number for name, number in finding.inputs.items()}
        return Finding(" and ".join(clauses), inputs)

    @override
    def find_deadline(self, progress: ProgressT) -> float | None:
        """The latest of the parts that do not hold yet; none where one of them waits for something else."""
        latest: float | None = None
        for part in self._parts:
            if part.check(progress) is not None:
                continue
            deadline = part.find_deadline(progress)
            if deadline is None:
                return None
            latest = deadline if latest is None else max(latest, deadline)
        return latest
