"""The thread that talks to the operator, and hands its instructions on to the program."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from random import Random

from podtune.agent.delivery.operator_client import Fenced, OperatorConnection, OperatorError
from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.state.attempt import Attempt
from podtune.protocol.messages import Reply
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.directory import Directory
from podtune.trial import layout

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 8.0
LONGEST_WAIT_DRAINING = 0.5
"""Time is short once the program has ended, and an operator that comes back is worth asking."""


class ControlFileWriter:
    """Replaces the file whole whenever an instruction changes. Not thread-safe."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._written: dict[str, bool] | None = None

    def write(self, wants: Mapping[str, bool]) -> bool:
        """Makes the file say this; returns whether it had to be written.

        Raises:
            OSError: It can't be written; the next call tries again.
        """
        if dict(wants) == self._written:
            return False
        self._directory.replace_file(layout.CONTROL, json.dumps(dict(wants)).encode())
        self._written = dict(wants)
        return True


class Sender(threading.Thread):
    """Posts reports whenever there is something to say, until it is fenced.

    An operator that is away is asked again for as long as the pod lives: training does not depend on it.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        client: OperatorConnection,
        control: ControlFileWriter,
        log: EventLog,
        rng: Random,
        first_wait: float = 0.0,
    ) -> None:
        """Prepares the thread; the first report waits `first_wait` seconds, in case the attempt is over by then."""
        super().__init__(name="sender", daemon=True)
        self._attempt = attempt
        self._client = client
        self._control = control
        self._log = log
        self._backoff = ExponentialBackoff(_FIRST_WAIT, _LONGEST_WAIT, rng)
        self._first_wait = first_wait
        self._failures = LogThrottle()

    def run(self) -> None:
        """Sends until the attempt is fenced, or its pod has got another one."""
        with self._attempt.changed:
            self._attempt.changed.wait_for(lambda: self._attempt.hands_over, self._first_wait)
        while self._attempt.next is None:
            with self._attempt.changed:
                while (wait := self._attempt.compute_next_report_time() - time.monotonic()) > 0:
                    if self._attempt.fenced:
                        return
                    self._attempt.changed.wait(wait)
                report = self._attempt.build_report(time.monotonic())
            try:
                reply = self._client.post(report)
            except Fenced as error:
                self._log.warning("fenced", message=str(error))
                with self._attempt.changed:
                    self._attempt.fenced = True
                    self._attempt.changed.notify_all()
                return
            except OperatorError as error:
                self._pause(error)
                continue
            self._take(reply)

    def _take(self, reply: Reply) -> None:
        if self._failures.count:
            self._log.info("operator answers again", times=self._failures.count)
            self._failures = LogThrottle()
        self._backoff.reset()
        with self._attempt.changed:
            self._attempt.take_reply(reply, time.monotonic())
            wants, is_over = self._attempt.wants, self._attempt.next is not None
            self._attempt.changed.notify_all()
        if is_over:
            return  # the program may be deleting the directory already
        try:
            if self._control.write(wants):
                self._log.info("control file written", wants=dict(wants))
        except OSError as error:
            self._log.warning("control file can't be written", message=str(error))

    def _pause(self, error: OperatorError) -> None:
        if self._failures.should_log():
            self._log.warning("report not delivered", message=str(error), times=self._failures.count)
        wait = max(self._backoff.draw_wait(), error.retry_after or 0.0)
        until = time.monotonic() + wait
        with self._attempt.changed:
            self._attempt.record_lost_report()
            while (left := until - time.monotonic()) > 0:
                if self._attempt.phase == "Draining" and left > LONGEST_WAIT_DRAINING:
                    until = time.monotonic() + LONGEST_WAIT_DRAINING
                    continue
                self._attempt.changed.wait(left)
