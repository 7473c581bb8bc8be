"""The sidecar: from the start of the training program to the final commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Protocol, TextIO

from podtune.agent.checkpoints.uploader import Uploader
from podtune.agent.delivery.operator_client import OperatorClient, OperatorConnection
from podtune.agent.delivery.sender import ControlFileWriter, Sender
from podtune.agent.event_log import EventLog
from podtune.agent.results.log_stream import LogStream, ResultParser
from podtune.agent.results.poller import Poller
from podtune.agent.results.result_reader import ResultReader, ResultTaker, prepare_directory
from podtune.agent.results.stdout_results import make_log_parser
from podtune.agent.segments.segment_uploader import SegmentUploader
from podtune.agent.settings import Settings
from podtune.agent.sidecar.drain import Drain
from podtune.agent.state.attempt import HEARTBEAT, SHARED_HEARTBEAT, Attempt
from podtune.agent.state.follower import FollowerAttempt
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.shards import Commit, GatherShards, StoreShard, commit_alone
from podtune.storage.object_store import ObjectStore
from podtune.storage.stores import make_store

if TYPE_CHECKING:
    from podtune.agent.trackers.run_mirror import RunMirror

_LAST_SECONDS = 60.0
"""How long an upload that is late is waited for where the process goes on."""
_POLL = 0.15
"""Seconds between two looks at the results file."""
_SHORTEST_POLL = 0.004
"""The same in a pod that is reused, where a trial has just begun or ended."""
_FIRST_WAIT = 0.05
"""Seconds that such a pod waits with its first word of a trial: of a short one it then says all at once."""


class Closeable(Protocol):
    """Something that is closed when it is over."""

    def close(self) -> None:
        """Ends it."""


class Sidecar:
    """Everything that runs beside one training program."""

    def __init__(
        self,
        settings: Settings,
        log: EventLog,
        rng: Random,
        output: TextIO,
        make_store: Callable[[StoreAddress], ObjectStore] = make_store,
        *,
        client: OperatorConnection | None = None,
        connect: Callable[[Settings], OperatorConnection] = OperatorClient,
        is_checked: bool = False,
        log_since: str = "",
        endpoint: Closeable | None = None,
    ) -> None:
        """Puts the parts together.

        Args:
            settings: The attempt, and how to reach all that it needs.
            log: The agent's own log.
            rng: Source of jitter.
            output: Where results go that the operator may still miss.
            make_store: Makes the store.
            client: The operator; a connection of its own where there is none yet.
            connect: Makes a connection.
            is_checked: Whether the store was looked at already.
            log_since: RFC 3339 time from which on the program's output is this attempt's; empty for all of it.
            endpoint: What writes results for the program, closed when that has ended; None where it writes its own.
        """
        store = settings.checkpoint_store
        make_attempt = FollowerAttempt if settings.follows else Attempt
        heartbeat = SHARED_HEARTBEAT if settings.reuse else HEARTBEAT
        self.attempt = make_attempt(settings.attempt, settings.objective, store is not None, heartbeat=heartbeat)
        self._settings = settings
        self._log = log
        self._connect = connect
        self._endpoint = endpoint
        self._pollers = list(_make_pollers(settings, log))
        object_store = make_store(settings.store.store) if settings.store is not None else None
        self._segments: SegmentUploader | None = None
        if settings.store is not None and object_store is not None and _keeps_segments(settings):
            self._segments = SegmentUploader(
                self.attempt,
                settings=settings,
                address=settings.store,
                store=object_store,
                log=log,
                rng=Random(rng.random()),
            )
        self._mirror = self._make_mirror(rng)
        self._result_reader = ResultReader(
            self.attempt,
            settings=settings,
            log=log,
            clock=time.time,
            segments=self._segments.results if self._segments else None,
            takers=list(self._list_takers()),
        )
        self._sender = Sender(
            self.attempt,
            client=client or connect(settings),
            control=ControlFileWriter(settings.directory),
            log=log,
            rng=Random(rng.random()),
            first_wait=_FIRST_WAIT if settings.reuse else 0.0,
        )
        self._log_stream = self._make_log_stream(rng, log_since)
        if self._log_stream and self._segments:
            self._segments.expect_log(self._log_stream)
        self._uploader: Uploader | None = None
        if store is not None and object_store is not None:
            self._uploader = Uploader(
                self.attempt,
                settings=settings,
                address=store,
                store=object_store,
                commit=_commit(settings),
                log=log,
                rng=Random(rng.random()),
                is_checked=is_checked,
            )
        self._drain = Drain(
            self.attempt,
            settings=settings,
            result_reader=self._result_reader,
            log_stream=self._log_stream,
            uploader=self._uploader,
            segments=self._segments,
            mirror=self._mirror,
            log=log,
            output=output,
        )

    def _make_mirror(self, rng: Random) -> RunMirror | None:
        """What passes results on to a tracking server, if there is one; of a gang, rank 0 does."""
        settings = self._settings
        if settings.tracker is None or settings.follows or not settings.trial_uid:
            return None
        from podtune.agent.trackers.run_mirror import RunMirror  # noqa: PLC0415 - takes a while, and few trials need it

        return RunMirror(
            self.attempt, settings=settings, tracker=settings.tracker, log=self._log, rng=Random(rng.random())
        )

    def _list_takers(self) -> Iterator[ResultTaker]:
        """Who passes results on to trackers."""
        if self._mirror is not None:
            yield self._mirror
        if self._segments is not None and self._segments.event_files is not None:
            yield self._segments.event_files

    def _make_log_stream(self, rng: Random, since: str) -> LogStream | None:
        """What reads the program's output, where it holds results or is stored."""
        settings = self._settings
        results: ResultParser | None = None
        if settings.stdout_pattern is not None and not settings.follows:
            parser = make_log_parser(settings.stdout_pattern, settings.stdout_last)
            results = ResultParser(self.attempt, parser, self._result_reader)
        recorder = self._segments.logs if self._segments else None
        if results is None and recorder is None:
            return None
        return LogStream(
            self.attempt,
            results=results,
            recorder=recorder,
            client=self._connect(settings),
            log=self._log,
            rng=Random(rng.random()),
            since=since,
        )

    def run(self, wait_for_end: Callable[[float], bool]) -> None:
        """Runs until the program has ended and all that is left is delivered, or time is up.

        Where the pod is reused, also until the operator has told what it is to run next (`attempt.next`).

        Args:
            wait_for_end: Waits up to so many seconds, and returns whether the program has ended.
        """
        try:
            prepare_directory(self._settings.directory)
        except OSError as error:
            self._log.error("shared directory can't be prepared", message=str(error))
        self._log.info("agent started", store=self._settings.store.store.where if self._settings.store else "")
        was_running = self._result_reader.begin()
        if self._segments and was_running:
            self._segments.resume()
        self._result_reader.poll()
        for thread in self._list_threads():
            thread.start()
        for poller in self._pollers:
            poller.start()
        if self._settings.reuse:
            self._run_shared(wait_for_end)
            return
        while not wait_for_end(_POLL):
            self._result_reader.poll()
        if self._endpoint:
            self._endpoint.close()
        for poller in self._pollers:
            poller.close()
        self._drain.run()
        if isinstance(self.attempt, FollowerAttempt) and self.attempt.ignored:
            message = "results of a gang come from rank 0; those of this rank count for nothing"
            self._log.info("results ignored", results=self.attempt.ignored, message=message)

    def close(self) -> None:
        """Ends what `run` has left behind, where the process goes on: a sender still speaks, an upload may be late."""
        with self.attempt.changed:
            self.attempt.fenced = True
            self.attempt.changed.notify_all()
        for thread in self._list_threads():
            if thread.ident is not None:
                thread.join(_LAST_SECONDS)

    def _list_threads(self) -> Iterator[threading.Thread]:
        if not self._settings.follows:
            yield self._sender
        yield from filter(None, (self._log_stream, self._uploader, self._segments, self._mirror))

    def _run_shared(self, wait_for_end: Callable[[float], bool]) -> None:
        """Runs until the pod has got another trial, or its program has ended."""
        started = time.monotonic()
        while not self.attempt.has_left and not self.attempt.restore_failure:
            if wait_for_end(_compute_pause(time.monotonic() - started)):
                self._drain.run()
                return
            self._result_reader.poll()
        self._drain.start()
        while not self.attempt.next:
            self._drain.hand_over_if_stored()
            with self.attempt.changed:
                self.attempt.changed.wait_for(lambda: self.attempt.next is not None or self._drain.may_hand_over, _POLL)
            if wait_for_end(0):
                self._drain.run()
                return
        self._result_reader.close()
        self._log.info("attempt handed over", seq=self.attempt.outbox.last_seq)


def _make_pollers(settings: Settings, log: EventLog) -> Iterator[Poller]:
    """What reads results where a script leaves them that knows nothing of Podtune; in a gang, that of rank 0 counts."""
    if settings.scrape and not settings.follows:
        from podtune.agent.scraping.scraper import Scraper  # noqa: PLC0415 - few trials need it

        yield Scraper(settings.scrape, settings.directory, settings.objective, log)
    if (settings.event_files or settings.wandb_files) and not settings.follows:
        from podtune.agent.metric_files.file_kinds import EVENT_FILE_KIND, WANDB_FILE_KIND  # noqa: PLC0415 - likewise
        from podtune.agent.metric_files.metric_file_reader import MetricFileReader  # noqa: PLC0415 - likewise

        for kind, pattern in ((EVENT_FILE_KIND, settings.event_files), (WANDB_FILE_KIND, settings.wandb_files)):
            if pattern:
                yield MetricFileReader(kind, pattern, settings.directory, settings.objective, log)


def _keeps_segments(settings: Settings) -> bool:
    """Whether anything is stored while the program runs, besides checkpoints and artifacts."""
    return settings.sync.keeps_segments or settings.event_file_table is not None


def _compute_pause(waited: float) -> float:
    """Seconds until the next look: short trials are looked at often."""
    return min(_POLL, max(_SHORTEST_POLL, waited / 20))


def _commit(settings: Settings) -> Commit:
    """How a checkpoint comes to count: in a gang by rank 0, once all ranks have stored their shards."""
    if not settings.shares_checkpoints:
        return commit_alone
    return StoreShard(settings.rank) if settings.follows else GatherShards(settings.replicas)
