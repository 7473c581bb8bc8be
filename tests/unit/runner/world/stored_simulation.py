"""A simulated experiment whose agents and storage pods store its snapshot, and what that holds at any time."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from typing_extensions import override

from podtune.agent.state.record_exchange import RecordExchange
from podtune.protocol.messages import Reply, Report
from podtune.protocol.snapshot import SnapshotRecord
from podtune.runner.actions import CreateStoragePod
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.records import Experiment, Trial
from tests.unit.runner.world.simulated_api import Thing
from tests.unit.runner.world.simulation import Simulation


class StoredSimulation(Simulation):
    """Agents ask for records as real ones do, and have them stored at once.

    Attributes:
        versions: Every version that an object has had, by name of the Trial, empty for the Experiment.
        stored: The records that are in the store, by name of the Trial: as there, the highest version counts.
        given: When which agent was given a record, by attempt and by whether it is a Trial's.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.versions: defaultdict[str, dict[int, Experiment | Trial]] = defaultdict(dict)
        self.stored: dict[str, SnapshotRecord] = {}
        self.given: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        self._exchanges: dict[str, RecordExchange] = {}
        super().__init__(*arguments, **named)
        self._note(self.api.experiment)
        self.storage.on_done = self._store_job

    @override
    def _watched(self, thing: Thing) -> None:
        self._note(thing)
        super()._watched(thing)

    @override
    def post(self, trial: str, pod: str, report: Report) -> Reply | Unaccepted | None:
        exchange = self._exchanges.setdefault(report.attempt, self._make_exchange(report.attempt))
        reply = super().post(trial, pod, replace(report, stored=exchange.ask(self.now)))
        if isinstance(reply, Reply):
            exchange.take(reply.records, self.now)
            self._store(reply.records)
            for record in reply.records:
                exchange.mark_stored(record)
                self.given[report.attempt, bool(record.trial)].append(self.now)
        return reply

    def _make_exchange(self, attempt: str) -> RecordExchange:
        period = self.api.experiment.spec.snapshot.seconds
        return RecordExchange(period, random.Random(attempt).uniform(0.0, period))

    def _note(self, thing: Thing) -> None:
        if isinstance(thing, Experiment | Trial):
            self.versions[thing.name if isinstance(thing, Trial) else ""][thing.version] = thing

    def _store_job(self, action: CreateStoragePod) -> None:
        self._store(trial.record for trial in action.trials if trial.record is not None)

    def _store(self, records: Iterable[SnapshotRecord]) -> None:
        for record in records:
            known = self.stored.get(record.trial)
            if known is None or known.version < record.version:
                self.stored[record.trial] = record
