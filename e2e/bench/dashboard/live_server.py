"""Shows an experiment of which trials change all the time, on loopback.

python -m e2e.bench.dashboard.live_server TRIALS CHANGES_A_SECOND

It prints its address and its process as JSON, and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime

from aiohttp import web

from e2e.bench.dashboard.trial_maker import NAME, NAMESPACE, RUNGS, make_experiment, make_trial
from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.cli.client.api_client import Change
from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.app import make_app
from podtune.dashboard.live.cluster_state import ClusterState
from podtune.dashboard.serving import spare_collector
from podtune.dashboard.sources import LiveSource, Outage

RUNNING = 100
TURNS = 10
"""In so many parts of a second trials change."""


class ChangingSource(LiveSource):
    """A cluster's state, as watches would bring it up to date."""

    title = "trials that change"
    has_own_title = True
    outage: Outage | None = None

    def __init__(self, trials: int) -> None:
        """Has so many trials, of which the last ones run."""
        self._state = ClusterState()
        self._news = asyncio.Event()
        self._results = {index: 5 + index % 7 for index in range(trials - RUNNING, trials)}
        self._state.apply(EXPERIMENT_PLURAL, Change("ADDED", make_experiment(trials, is_running=True)))
        for index in range(trials):
            trial = make_trial(index, results=self._results.get(index))
            self._state.apply(TRIAL_PLURAL, Change("ADDED", trial))

    async def change(self, changes_a_second: int) -> None:
        """Gives running trials one more result after the other, for ever."""
        indexes = itertools.cycle(self._results)
        while True:
            await asyncio.sleep(1 / TURNS)
            for index in itertools.islice(indexes, changes_a_second // TURNS):
                self._results[index] = self._results[index] % RUNGS[-1] + 1
                self._state.apply(TRIAL_PLURAL, Change("MODIFIED", make_trial(index, results=self._results[index])))
            self._news.set()
            self._news.clear()

    def list_experiments(self) -> Sequence[ExperimentView]:
        """The one there is."""
        return self._state.list_experiments()

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """It, by its name."""
        return self._state.find_experiment((namespace, name))

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """Its trials."""
        return self._state.list_trials((namespace, experiment))

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """Nothing is ever deleted."""
        return self._state.find_deletion((namespace, experiment))

    def find_revision(self, namespace: str, experiment: str) -> str:
        """The number of the last change."""
        return str(self._state.find_revision((NAMESPACE, NAME)))

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """The next number."""
        while (revision := self.find_revision(namespace, experiment)) == known:
            await self._news.wait()
        return revision


async def _serve(trials: int, changes_a_second: int) -> None:
    source = ChangingSource(trials)
    runner = web.AppRunner(make_app(source), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    spare_collector()
    print(json.dumps({"address": f"http://127.0.0.1:{runner.addresses[0][1]}/", "process": os.getpid()}), flush=True)
    changing = asyncio.ensure_future(source.change(changes_a_second))
    await asyncio.to_thread(sys.stdin.read)
    changing.cancel()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
