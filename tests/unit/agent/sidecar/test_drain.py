"""The end of an attempt in time that passes only where somebody waits: minutes of it take none here."""

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Self, cast

import pytest

from podtune.agent.checkpoints.uploader import Uploader
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import ResultReader
from podtune.agent.settings import Settings
from podtune.agent.sidecar import drain
from podtune.agent.sidecar.drain import Drain
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import CheckpointCommit, FinalCommit, parse_final_commit

COMMIT = CheckpointCommit(CheckpointRef("s3://b/1", "sha256:1", 1), 1)


Drained = tuple[FinalCommit, float, "SlowUploader"]


class Waiting:
    """A condition whose waiting moves the clock, to what happens next or to the end of patience."""

    def __init__(self) -> None:
        self.now = 0.0
        self.coming: list[tuple[float, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        end = self.now + timeout
        while not predicate():
            due = min((event for event in self.coming if event[0] <= end), default=None)
            if due is None:
                self.now = end
                return predicate()
            self.coming.remove(due)
            self.now, happen = max(self.now, due[0]), due[1]
            happen()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def notify_all(self) -> None:
        pass


class SlowUploader:
    """Has one checkpoint in flight, which is stored so many seconds after the program's end."""

    def __init__(self, attempt: Attempt, seconds: float, waiting: Waiting) -> None:
        self._attempt = attempt
        self._then: Callable[[], None] = lambda: None
        self.is_finished = self.is_cancelled = False
        waiting.coming.append((seconds, self._store))

    def _store(self) -> None:
        self._attempt.commit(COMMIT)
        self._then()
        self.is_finished = True

    def call_when_stored(self, then: Callable[[], None]) -> None:
        self._then = then

    def finish(self) -> None:
        pass

    def hurry(self) -> None:
        pass

    def cancel(self) -> None:
        self.is_cancelled = self.is_finished = True


@pytest.fixture
def end(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[int, float], Drained]:
    """Ends an attempt whose last checkpoint takes so many seconds; what it has said then, and when."""

    def end(drain_seconds: int, takes: float) -> Drained:
        waiting = Waiting()
        monkeypatch.setattr(drain, "time", waiting)
        attempt = Attempt("pod-1", "loss", has_store=True)
        monkeypatch.setattr(attempt, "changed", waiting)
        attempt.begin(0.0)
        attempt.add(ResultLine({"loss": 1.0}, "a"), 1.0)
        attempt.checkpoints.start()
        settings = Settings.from_environ(environ | {"PODTUNE_DRAIN_SECONDS": str(drain_seconds)})
        uploader = SlowUploader(attempt, takes, waiting)
        Drain(
            attempt,
            settings=settings,
            result_reader=cast("ResultReader", SimpleNamespace(poll=lambda: True, finish=lambda: None)),
            log_stream=None,
            uploader=cast("Uploader", uploader),
            segments=None,
            log=EventLog(lambda: 1.0, stream=io.StringIO()),
            output=io.StringIO(),
        ).run()
        return parse_final_commit(settings.termination_log.read_text()), waiting.now, uploader

    return end


@pytest.mark.parametrize(("drain_seconds", "takes"), [(20, 15), (600, 25), (600, 590), (86_399, 7_200)])
def test_the_last_checkpoint_is_waited_for_as_long_as_the_experiment_allows(
    end: Callable[[int, float], Drained], drain_seconds: int, takes: int
) -> None:
    commit, seconds, uploader = end(drain_seconds, takes)
    assert (commit.checkpoints, commit.store_problem, commit.unstored) == ((COMMIT,), None, None)
    assert not uploader.is_cancelled
    assert takes <= seconds <= takes + drain.DELIVERY_PATIENCE, (
        "no longer than it took, and than an operator that is away"
    )


@pytest.mark.parametrize(("drain_seconds", "takes"), [(1, 15), (600, 620)])
def test_one_that_takes_longer_is_given_up_and_said_to_be(
    end: Callable[[int, float], Drained], drain_seconds: int, takes: int
) -> None:
    commit, seconds, uploader = end(drain_seconds, takes)
    assert uploader.is_cancelled
    assert commit.checkpoints == ()
    assert (commit.unstored.step, commit.unstored.waits) == (1, True)
    message = f"the last checkpoint could not be stored in {drain_seconds} s; raise checkpoints.drain"
    assert (commit.store_problem.reason, commit.store_problem.message) == ("OutOfTime", message)
    assert seconds == drain_seconds
