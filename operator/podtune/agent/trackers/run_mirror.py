"""The thread that passes a trial's results on to a tracking server, without holding up training.

Results wait in memory while the server does not answer, up to a limit. At the end of the attempt the rest may take some
seconds more, and then it is given up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from random import Random

from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.agent.trackers.mirrored_run import MirroredRun, count_values
from podtune.agent.trackers.mlflow_client import MlflowClient, TrackerError
from podtune.agent.trackers.tracker_settings import TrackerSettings
from podtune.protocol.messages import Result
from podtune.protocol.tracking import RunFacts, RunStatus
from podtune.storage.backoff import ExponentialBackoff

TRACKER_PERIOD = 5.0
"""Seconds from one look at what is new to the next."""
TRACKER_SECONDS = 10.0
"""How long the rest may take, once the program has ended."""
MAX_MIRRORED_VALUES = 50_000
"""Values of metrics that wait for the server; of more, the oldest results are left out."""
_AT_ONCE = 200
"""Results that are logged together."""
_STATUS_SECONDS = 3.0
"""How long the operator is asked, once the program has ended, how it has."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_POLL = 0.2


class RunMirror(threading.Thread):
    """Keeps a trial's run up to date.

    Attributes:
        is_finished: Whether nothing more is told, be it that all is or that time is up; hold `changed`.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        settings: Settings,
        tracker: TrackerSettings,
        log: EventLog,
        rng: Random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name="tracker", daemon=True)
        client = MlflowClient(tracker.uri, tracker.read_credentials, ca_file=tracker.ca_file)
        self._client = client
        self._run = MirroredRun(client, settings, tracker)
        self._attempt = attempt
        self._reuse = settings.reuse
        self._log = log
        self._rng = rng
        self._clock = clock
        self._period = TRACKER_PERIOD
        self._backoff = ExponentialBackoff(_FIRST_WAIT, _LONGEST_WAIT, rng)
        self._failures = LogThrottle()
        self._refusals = LogThrottle()
        self._lock = threading.Lock()
        self._waiting: deque[Result] = deque()
        self._values = 0
        self._left_out = 0
        self._told_left_out = 0
        self._last_facts: RunFacts | None = None
        self._ending = threading.Event()
        self.is_finished = False

    def append(self, result: Result) -> None:
        """Takes the next result; never waits."""
        with self._lock:
            self._waiting.append(result)
            self._values += count_values([result])
            while self._values > MAX_MIRRORED_VALUES and len(self._waiting) > 1:
                self._values -= count_values([self._waiting.popleft()])
                self._left_out += 1

    def finish(self) -> None:
        """The program has ended: the rest is told."""
        self._ending.set()

    def run(self) -> None:
        """Works until the rest is told, time is up, or the attempt is fenced."""
        wait = self._rng.uniform(0.0, min(1.0, self._period))
        while not self._ending.wait(wait) and not self._attempt.fenced:
            is_done = self._try(self._tell_news)
            wait = self._period if is_done else self._backoff.draw_wait()
        ended = time.monotonic()
        self._backoff.reset()
        with self._attempt.changed:  # what was known before is old by now
            self._last_facts, self._attempt.run = self._attempt.run, None
            self._attempt.ask()
            self._attempt.changed.notify_all()
        while not self._attempt.fenced:
            if self._try(lambda: self._tell_end(time.monotonic() - ended)):
                break
            if time.monotonic() - ended > TRACKER_SECONDS:
                message = f"MLflow was not told all within {TRACKER_SECONDS:g} s; `podtune results` has what is stored"
                self._log.warning("run not complete", message=message, results=len(self._waiting))
                break
            time.sleep(min(_POLL, self._backoff.draw_wait()))
        self._client.close()
        with self._attempt.changed:
            self.is_finished = True
            self._attempt.changed.notify_all()

    def _try(self, tell: Callable[[], bool]) -> bool:
        """Tells something; returns whether that was all."""
        try:
            is_done = tell()
        except TrackerError as error:
            if self._failures.should_log():
                self._log.warning("MLflow not reached", message=str(error), times=self._failures.count)
            return False
        self._backoff.reset()
        self._failures = LogThrottle()
        return is_done

    def _tell_news(self) -> bool:
        """Tells what is new."""
        if not self._run.is_open:
            self._run.open(self._clock())
        self._drop_known()
        while self._log_some():
            if self._attempt.fenced:
                return False
        with self._attempt.changed:
            facts = self._attempt.run
        if facts is not None and facts.is_best != self._run.is_best:
            self._run.mark_best(facts.is_best)
        if self._left_out > self._told_left_out:
            self._told_left_out = self._left_out
            message = "MLflow has not answered for too long; the oldest results that wait for it are left out"
            self._log.warning("results left out", message=message, results=self._left_out)
            self._run.tell_left_out(self._left_out)
        return True

    def _tell_end(self, waited: float) -> bool:
        """Tells what is left, and how the attempt has ended, once the operator knows."""
        self._tell_news()
        status = self._find_status(waited)
        if status is None:
            return False
        self._tell_news()
        self._run.close(status, self._clock())
        return True

    def _find_status(self, waited: float) -> RunStatus | None:
        """How the attempt has ended; None while the operator may still say so."""
        with self._attempt.changed:
            facts, is_done = self._attempt.run, self._attempt.done
            is_known = facts is not None and (self._reuse or facts.status is not RunStatus.RUNNING)
            if not is_known and waited < _STATUS_SECONDS:
                self._attempt.ask()
                self._attempt.changed.notify_all()
                return None
        facts = facts or self._last_facts
        if facts is not None and facts.status is not RunStatus.RUNNING:
            return facts.status
        return RunStatus.FINISHED if is_done else RunStatus.SCHEDULED

    def _drop_known(self) -> None:
        """Leaves out what an earlier process of this agent has logged."""
        with self._lock:
            while self._waiting and self._waiting[0].seq <= self._run.known:
                self._values -= count_values([self._waiting.popleft()])

    def _log_some(self) -> bool:
        """Logs the oldest results that wait; returns whether there were any."""
        with self._lock:
            chosen = [self._waiting[at] for at in range(min(_AT_ONCE, len(self._waiting)))]
        if not chosen:
            return False
        try:
            self._run.log(chosen)
        except TrackerError as error:
            if not error.is_refusal:
                raise
            if self._refusals.should_log():
                self._log.warning("results refused", message=str(error), results=len(chosen))
        with self._lock:
            for _ in range(len(chosen)):
                if self._waiting and self._waiting[0].seq <= chosen[-1].seq:
                    self._values -= count_values([self._waiting.popleft()])
        return True
