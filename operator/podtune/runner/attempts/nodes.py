"""Nodes that fail trials: which nodes a trial's retry avoids, and which the whole experiment avoids.

Everything follows from what the Trials record (`status.failedNodes`), so a restarted operator avoids the same nodes. A
node is forgotten after a while, because it may have been repaired or replaced under the same name. The operator knows
only the nodes that this experiment's pods have run on, and avoids at most half of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from podtune.api.base import parse_duration
from podtune.api.resources.experiment import MAX_AVOIDED_NODES, AvoidedNode
from podtune.api.resources.failures import Failures
from podtune.api.resources.trial import NodeFailure
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial.machine import NEVER, TrialMachine
from podtune.runner.trials import TrialIndex


@dataclass(frozen=True, slots=True)
class Avoided:
    """A node that no trial of the experiment is to run on.

    Attributes:
        trials: How many trials have failed there.
    """

    name: str
    trials: int
    until: float

    @property
    def shown(self) -> AvoidedNode:
        """The same, as the status has it."""
        return AvoidedNode(name=self.name, trials=self.trials, until=format_rfc3339(self.until))


class Nodes(TrialIndex):
    """What the trials record of nodes, kept up to date a trial at a time."""

    def __init__(self, failures: Failures) -> None:
        self.take_spec(failures)
        self._recorded: dict[str, tuple[NodeFailure, ...]] = {}
        """By trial: its failures as they are counted."""
        self._failures: dict[str, list[tuple[float, str]]] = {}
        """By node: when it has failed which trial, the latest last."""
        self._nodes_of: dict[str, str] = {}
        """By trial: the node it was last on."""
        self._seen: Counter[str] = Counter()
        """By node: how many trials know of it."""

    def take_spec(self, failures: Failures) -> None:
        """Hears after how many failures a node is avoided, and for how long."""
        self._after = failures.avoid_node_after
        self._memory = parse_duration(failures.avoid_node_for)

    @override
    def update(self, trial: TrialMachine, now: float = 0.0) -> None:
        self._update_node(trial)
        recorded = tuple(trial.saved.failed_nodes)
        before = self._recorded.get(trial.name, ())
        if recorded == before:
            return
        for failure in before:
            self._forget(failure, trial.name)
        for failure in recorded:
            insort(self._failures.setdefault(failure.node, []), _build_entry(failure, trial.name))
            self._seen[failure.node] += 1
        self._recorded[trial.name] = recorded

    def list_avoided(self, now: float) -> tuple[Avoided, ...]:
        """The nodes that the experiment avoids, those that have failed most trials first."""
        after = self._after
        if after is None:
            return ()
        found = [node for name, entries in self._failures.items() if (node := self._assess(name, entries, after, now))]
        found.sort(key=lambda node: (-node.trials, node.name))
        return tuple(found[: min(MAX_AVOIDED_NODES, len(+self._seen) // 2)])

    def to_avoid(self, trial: TrialMachine, now: float) -> tuple[str, ...]:
        """The nodes that a trial's next pods are not to run on."""
        own = (f.node for f in trial.saved.failed_nodes if f.excluded and self._compute_end(f) > now)
        return tuple(sorted({*own, *(node.name for node in self.list_avoided(now))}))

    def find_next_change(self, now: float) -> float:
        """When the next node is forgotten; infinity for never."""
        return min((node.until for node in self.list_avoided(now)), default=NEVER)

    def release(self, trial: TrialMachine, avoids: Sequence[str], now: float) -> float:
        """When the first of the nodes that a trial's pod avoids may be used again."""
        times = {node.name: node.until for node in self.list_avoided(now)}
        for failure in trial.saved.failed_nodes:
            if failure.excluded:
                times[failure.node] = max(times.get(failure.node, 0.0), self._compute_end(failure))
        return min((times.get(node, now) for node in avoids), default=NEVER)

    def _assess(self, name: str, entries: Sequence[tuple[float, str]], after: int, now: float) -> Avoided | None:
        if len(entries) < after:
            return None
        until = entries[-after][0] + self._memory
        first = bisect_left(entries, (now - self._memory, ""))
        return Avoided(name, len(entries) - first, until) if until > now else None

    def _update_node(self, trial: TrialMachine) -> None:
        node = trial.saved.pod.node if trial.saved.pod is not None else ""
        before = self._nodes_of.get(trial.name, "")
        if node == before:
            return
        if node:
            self._seen[node] += 1
        if before:
            self._seen[before] -= 1
        self._nodes_of[trial.name] = node

    def _forget(self, failure: NodeFailure, trial: str) -> None:
        entries = self._failures[failure.node]
        entries.remove(_build_entry(failure, trial))
        if not entries:
            del self._failures[failure.node]
        self._seen[failure.node] -= 1

    def _compute_end(self, failure: NodeFailure) -> float:
        return (parse_rfc3339(failure.time) or 0.0) + self._memory


def _build_entry(failure: NodeFailure, trial: str) -> tuple[float, str]:
    return (parse_rfc3339(failure.time) or 0.0, trial)
