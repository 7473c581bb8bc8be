"""How trials have ended and which is the best, told to a tracking server by a storage pod.

Agents tell most of it while they run. What is decided after an agent's end, such as that a failed trial gets no other
attempt, only the operator knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from random import Random

from podtune.agent.trackers.mlflow_client import FoundRun, MlflowClient, TrackerError
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.protocol.storage_job import StoredTrial
from podtune.protocol.tracking import TAG_BEST, TAG_EXPERIMENT_UID, TAG_TRIAL_UID, RunFacts
from podtune.storage.backoff import ExponentialBackoff

MARKS_PATIENCE = 60.0
"""Seconds that a server which does not answer is asked again."""
MOST_RUNS = 1_000_000


class RunMarker:
    """Brings an experiment's runs up to date. It may be repeated."""

    def __init__(
        self,
        tracker: TrackerSettings,
        experiment_uid: str,
        rng: Random,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = MlflowClient(tracker.uri, tracker.read_credentials, ca_file=tracker.ca_file)
        self._tracker = tracker
        self._experiment_uid = experiment_uid
        self._backoff = ExponentialBackoff(0.5, 10.0, rng)
        self._clock = clock
        self._sleep = sleep
        self._wall = wall

    def mark(self, trials: Iterable[StoredTrial]) -> str:
        """Tells the server of trials; says in a sentence what came of it."""
        facts = {trial.uid: trial.run for trial in trials if trial.uid and trial.run is not None}
        if not facts:
            return ""
        try:
            return self._try(facts)
        finally:
            self._client.close()

    def _try(self, facts: Mapping[str, RunFacts]) -> str:
        """Tells the server, again while it does not answer."""
        give_up_at = self._clock() + MARKS_PATIENCE
        while True:
            try:
                changed = self._mark(facts)
            except TrackerError as error:
                wait = self._backoff.draw_wait()
                if error.is_refusal or self._clock() + wait > give_up_at:
                    return f"runs in MLflow may not be up to date: {error}"
                self._sleep(wait)
            else:
                return f"{changed} runs in MLflow were brought up to date" if changed else ""

    def _mark(self, facts: Mapping[str, RunFacts]) -> int:
        """Tells what differs; returns how many runs that were."""
        experiment_id = self._client.find_or_create_experiment(self._tracker.experiment)
        known = self._client.search_runs(experiment_id, {TAG_EXPERIMENT_UID: self._experiment_uid}, most=MOST_RUNS)
        changed = 0
        for run in known:
            wanted = facts.get(run.tags.get(TAG_TRIAL_UID, ""))
            if wanted is not None:
                changed += self._bring_up_to_date(run, wanted)
        return changed

    def _bring_up_to_date(self, run: FoundRun, wanted: RunFacts) -> bool:
        is_marked = TAG_BEST in run.tags
        if run.status == wanted.status and is_marked == wanted.is_best:
            return False
        if run.status != wanted.status:
            end_ms = (run.end_ms or int(self._wall() * 1000)) if wanted.status.is_over else None
            self._client.update_run(run.run_id, wanted.status, end_ms)
        if is_marked and not wanted.is_best:
            self._client.delete_tag(run.run_id, TAG_BEST)
        elif wanted.is_best and not is_marked:
            self._client.set_tag(run.run_id, TAG_BEST, "true")
        return True
