"""Reads the results: lines of the results file, and matches on standard output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from podtune.agent.event_log import EventLog, LogThrottle
from podtune.agent.results.read_times import ReadTimes
from podtune.agent.results.results_file import ResultsFile
from podtune.agent.settings import Settings
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.restore_info import RestoreInfo, read_restore_info
from podtune.agent.state.result_line import BadLine, ResultLine, parse_line
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import Restored, Result, encode_result
from podtune.storage.checkpoint.local_tree import UnusableTree, delete_tree
from podtune.storage.directory import Directory
from podtune.storage.segments.segment_stream import SegmentStream
from podtune.trial import layout
from podtune.trial.sharing import DIRECTORY_MODE, FILE_MODE


class ResultTaker(Protocol):
    """Takes results that somebody else is to hear of."""

    def append(self, result: Result) -> None:
        """Takes the next result; never waits."""


class ResultReader:
    """Puts results into the attempt, in the order in which they are read.

    `take` may be called by any thread, all else by one.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        settings: Settings,
        log: EventLog,
        clock: Callable[[], float],
        segments: SegmentStream | None = None,
        takers: Sequence[ResultTaker] = (),
    ) -> None:
        """Takes nothing in yet.

        Args:
            attempt: Where results go.
            settings: The attempt's.
            log: Where to tell of trouble.
            clock: Seconds since the epoch.
            segments: Where results go as well, to be stored; None where they are not.
            takers: What passes them on to trackers.
        """
        self._attempt = attempt
        self._objective = settings.objective
        self._log = log
        self._clock = clock
        self._segments = segments
        self._takers = takers
        self._directory = settings.directory
        self._has_store = settings.store is not None
        self._leaves_to_rank_0 = settings.follows and settings.stores_alone
        self._file = ResultsFile(settings.directory)
        self._times = ReadTimes(settings.directory)
        self._expects_restore = settings.restores
        self._bad_lines = LogThrottle()
        self._file_errors = LogThrottle()
        self._discarded = LogThrottle()

    def begin(self) -> bool:
        """The program begins now, or has begun when an earlier process of this agent was started.

        Returns:
            Whether there was one.
        """
        now = self._clock()
        try:
            began = self._times.open(now)
        except OSError as error:
            self._complain_of_times(error)
            began = now
        with self._attempt.changed:
            self._attempt.begin(began)
        return began < now

    def poll(self) -> bool:
        """Takes what has been added to the file; returns whether all of it was taken.

        The rest stays in the file while too many results are on their way.
        """
        if self._attempt.restored is None:
            self._learn_start(first_result=False)
        while not self._is_full():
            lines = self._read()
            if not lines:
                return True
            self._take_lines(lines)
        return False

    def finish(self) -> None:
        """Takes the last line, where the program has ended in the midst of it."""
        self._take_lines(self._file.finish())

    def close(self) -> None:
        """Nothing more is read."""
        self._file.close()
        self._times.close()

    def take(self, line: ResultLine) -> None:
        """Takes one result in."""
        for problem in line.problems:
            self._complain(problem)
        if self._attempt.restored is None:
            self._learn_start(first_result=True)
        with self._attempt.changed:
            added = self._attempt.add(line, self._read_time())
            if added.result is not None and self._segments is not None:
                record = f"{encode_result(added.result)}\n".encode()
                self._segments.append(added.result.seq, added.result.time, record)
            if added.result is not None:
                for taker in self._takers:
                    taker.append(added.result)
            self._attempt.changed.notify_all()
        if added.given_up is not None:
            self._discard(added.given_up)

    def _read_time(self) -> float:
        """When the result that comes next was read."""
        now = self._clock()
        try:
            return self._times.record_next(now)
        except OSError as error:
            self._complain_of_times(error)
            return now

    def _take_lines(self, lines: Iterable[bytes]) -> None:
        for text in lines:
            try:
                line = parse_line(text, self._objective)
            except BadLine as error:
                self._complain(str(error))
                continue
            self.take(line)

    def _discard(self, checkpoint: PendingCheckpoint) -> None:
        """Frees the disk of a checkpoint that will not be stored."""
        message = "checkpoints are written faster than they can be stored; take them less often"
        if self._leaves_to_rank_0:
            message = "checkpoints.ranks is RankZero: those of other ranks are not stored"
        elif not self._has_store:
            message = "the experiment has no checkpoints.store, so a retry starts from scratch"
        if self._discarded.should_log():
            self._log.warning("checkpoint given up", step=checkpoint.step, message=message, times=self._discarded.count)
        try:
            delete_tree(self._directory, (layout.CHECKPOINTS, checkpoint.name))
        except (UnusableTree, OSError) as error:
            self._log.warning("checkpoint stays on disk", checkpoint=checkpoint.name, message=str(error))

    def _is_full(self) -> bool:
        with self._attempt.changed:
            return self._attempt.outbox.is_full

    def _read(self) -> list[bytes]:
        oversized = self._file.oversized
        try:
            lines = self._file.read_lines()
        except OSError as error:
            if self._file_errors.should_log():
                self._log.warning("results file can't be read", message=str(error), times=self._file_errors.count)
            return []
        if self._file.oversized > oversized:
            self._complain("a line is too long; it was passed over")
        return lines

    def _complain_of_times(self, error: OSError) -> None:
        message = f"{error}; after a restart, the agent dates results by when it reads them again"
        self._log.warning("times of results can't be kept", message=message)

    def _complain(self, problem: str) -> None:
        if self._bad_lines.should_log():
            self._log.warning("bad line in the results", message=problem, times=self._bad_lines.count)

    def _learn_start(self, first_result: bool) -> None:
        """Finds out where iterations go on; by the first result at the latest, for the restore is over by then."""
        info = self._read_info()
        if info is None and self._expects_restore and not first_result:
            return
        info = info or RestoreInfo()
        with self._attempt.changed:
            if self._attempt.restored is None:
                self._attempt.set_restored(info.restored, info.iteration, info.time_total)
                self._attempt.changed.notify_all()

    def _read_info(self) -> RestoreInfo | None:
        try:
            return read_restore_info(self._directory)
        except (OSError, ValueError) as error:
            self._log.error("restore info can't be read", message=str(error))
            return RestoreInfo(Restored(message=f"what was restored is unknown: {error}"))


def prepare_directory(directory: Directory) -> None:
    """Makes what both users of the shared directory write to, so that neither locks the other out.

    Raises:
        OSError: The directory can't be written to.
    """
    directory.join(layout.CHECKPOINTS).make(DIRECTORY_MODE)
    with suppress(FileExistsError), directory.make_file(layout.RESULTS, FILE_MODE):
        pass
