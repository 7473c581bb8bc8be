"""The times of results that the agent fills in: over attempts, restarts of the agent, and whatever the clock does."""

import json
import math
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.results.read_times import FILE, ReadTimes
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.restore_info import RestoreInfo, read_restore_info
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import MetricValue, Restored, read_number
from podtune.storage.directory import Directory
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps

BEGAN = 1_700_000_000.0


def seconds_in(metrics: Mapping[str, MetricValue], name: str) -> float:
    seconds = read_number(metrics, name)
    assert seconds is not None
    return seconds


def times_of(
    attempt: Attempt, *results: tuple[Mapping[str, MetricValue], float], checkpoint: str | None = None
) -> list[tuple[float, float]]:
    """The times of results, each given by its values and when it was read, in seconds since the program began."""
    told = []
    for metrics, time in results:
        attempt.add(ResultLine(metrics, checkpoint), BEGAN + time)
        last = attempt.outbox.last.metrics
        told.append((seconds_in(last, "time_this_iter_s"), seconds_in(last, "time_total_s")))
    return told


REF = {"uri": "s3://b/3", "digest": "sha256:3", "step": 3}


@pytest.fixture
def attempt() -> Attempt:
    attempt = Attempt("pod-1", "loss", has_store=True)
    attempt.begin(BEGAN)
    return attempt


def test_times_count_from_the_programs_begin_and_from_the_result_before(attempt: Attempt) -> None:
    told = times_of(attempt, ({"loss": 3.0}, 1.5), ({"loss": 2.0}, 4.0004), ({"loss": 1.0}, 4.25))
    assert told == [(1.5, 1.5), (2.5, 4.0), (0.25, 4.25)]


def test_what_an_attempt_goes_on_from_counts(attempt: Attempt) -> None:
    attempt.set_restored(Restored(CheckpointRef("s3://b/9", "sha256:9", 9)), 9, 81.5)
    assert times_of(attempt, ({"loss": 3.0}, 1.5), ({"loss": 2.0}, 4.0)) == [(1.5, 83.0), (2.5, 85.5)]


def test_what_a_program_measures_itself_stays(attempt: Attempt) -> None:
    own = {"loss": 1.0, "time_total_s": 100, "time_this_iter_s": 0.5}
    assert times_of(attempt, (own, 2.0), ({"loss": 1.0}, 3.0)) == [(0.5, 100), (1.0, 3.0)]


@pytest.mark.parametrize("value", ["soon", True, -1.0, math.nan, math.inf, 1 << 62])
def test_what_is_no_time_does_not(attempt: Attempt, value: MetricValue) -> None:
    assert times_of(attempt, ({"time_total_s": value, "time_this_iter_s": value}, 2.0)) == [(2.0, 2.0)]


def test_a_checkpoint_is_taken_with_the_time_of_its_result(attempt: Attempt) -> None:
    times_of(attempt, ({"loss": 1.0}, 2.0), checkpoint="a")
    times_of(attempt, ({"loss": 1.0, "time_total_s": 50.0}, 3.0), checkpoint="b")
    assert attempt.checkpoints.start().time_total == 2.0
    attempt.checkpoints.give_up()
    assert attempt.checkpoints.start().time_total == 50.0


@given(st.lists(st.floats(-1e6, 1e6)))
def test_the_total_never_falls_whatever_the_clock_does(moments: list[float]) -> None:
    attempt = Attempt("pod-1", "loss", has_store=False)
    attempt.begin(BEGAN)
    told = times_of(attempt, *[({"loss": 1.0}, moment) for moment in moments])
    totals = [0.0, *(total for _, total in told)]
    assert totals == sorted(totals)
    assert [this for this, _ in told] == [round(b - a, 3) for a, b in pairwise(totals)]


def test_an_agent_that_is_started_again_tells_the_same_times(
    operator: StubOperator, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent()
    for epoch in (1, 2, 3):
        agent.write(dumps(epoch=epoch))
        operator.wait_for_results(epoch)
    agent.end()
    before = dict(operator.results)
    operator.forget_after(1)
    again = start_agent({"PODTUNE_TERMINATION_LOG": str(tmp_path / "log-of-the-next-container")})
    operator.wait_for(lambda: operator.acked_seq == 3)
    again.write(dumps(epoch=4))
    operator.wait_for(lambda: operator.acked_seq == 4)
    again.end()
    assert {seq: operator.results[seq] for seq in before} == before
    totals = [seconds_in(operator.results[seq].metrics, "time_total_s") for seq in (1, 2, 3, 4)]
    assert totals == sorted(totals)
    assert totals[-1] > totals[0]


def test_without_a_place_for_times_results_come_all_the_same(
    operator: StubOperator, start_agent: StartAgent, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "podtune" / FILE).symlink_to(tmp_path / "elsewhere")
    agent = start_agent()
    agent.write(dumps(epoch=1))
    operator.wait_for(lambda: operator.acked_seq == 1)
    agent.end()
    assert seconds_in(operator.results[1].metrics, "time_total_s") >= 0
    assert (tmp_path / "elsewhere").read_bytes() == b""
    assert "times of results can't be kept" in agent.log.getvalue()


class TestReadTimes:
    @pytest.fixture
    def directory(self, tmp_path: Path) -> Directory:
        return Directory(tmp_path)

    def test_each_process_knows_what_those_before_it_have_read(self, directory: Directory) -> None:
        first, second, third = (ReadTimes(directory) for _ in range(3))
        assert first.open(10.0) == 10.0
        assert [first.record_next(now) for now in (11.0, 12.0)] == [11.0, 12.0]
        assert second.open(20.0) == 10.0
        assert [second.record_next(now) for now in (20.5, 20.5, 21.0)] == [11.0, 12.0, 21.0]
        assert third.open(30.0) == 10.0
        assert [third.record_next(30.0) for _ in range(4)] == [11.0, 12.0, 21.0, 30.0]

    def test_times_do_not_fall(self, directory: Directory) -> None:
        times = ReadTimes(directory)
        times.open(10.0)
        assert [times.record_next(now) for now in (12.0, 11.0, 13.0)] == [12.0, 12.0, 13.0]

    @pytest.mark.parametrize(
        ("written", "left"),
        [
            (struct.pack("<3d", 1.0, 2.0, 3.0) + b"half", [2.0, 3.0, 9.0]),
            (struct.pack("<3d", 1.0, math.nan, 3.0), [9.0, 9.0, 9.0]),
            (struct.pack("<3d", 1.0, 2.0, 1.5), [2.0, 9.0, 9.0]),
            (struct.pack("<2d", 1.0, -math.inf), [9.0, 9.0, 9.0]),
        ],
    )
    def test_what_is_no_time_ends_the_file(
        self, directory: Directory, tmp_path: Path, written: bytes, left: list[float]
    ) -> None:
        (tmp_path / FILE).write_bytes(written)
        times = ReadTimes(directory)
        assert times.open(9.0) == 1.0
        assert [times.record_next(9.0) for _ in range(3)] == left
        again = ReadTimes(directory)
        again.open(10.0)
        assert [again.record_next(10.0) for _ in range(3)] == left

    @given(st.binary(max_size=64))
    def test_no_bytes_break_it(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        root = tmp_path_factory.mktemp("times")
        (root / FILE).write_bytes(data)
        times = ReadTimes(Directory(root))
        found = [times.open(9.0), *(times.record_next(9.0) for _ in range(10))]
        assert found == sorted(found)


def test_what_was_restored_without_a_time_begins_at_none(tmp_path: Path) -> None:
    (tmp_path / "restore.json").write_text('{"restored": {}, "iteration": 3}')
    assert read_restore_info(Directory(tmp_path)) == RestoreInfo(Restored(), 3, time_total=0.0)


def test_an_agent_counts_on_from_the_time_of_what_was_restored(
    operator: StubOperator, start_agent: StartAgent, environ: dict[str, str], tmp_path: Path
) -> None:
    info = {"restored": {"checkpoint": REF}, "iteration": 3, "time_total": 8000.5}
    (tmp_path / "podtune" / "restore.json").write_text(json.dumps(info))
    agent = start_agent({"PODTUNE_RESTORE_FROM": json.dumps([REF])})
    agent.write(dumps(epoch=4))
    operator.wait_for(lambda: operator.acked_seq == 1)
    agent.end()
    metrics = operator.results[1].metrics
    assert metrics["time_total_s"] == pytest.approx(8000.5 + seconds_in(metrics, "time_this_iter_s"), abs=0.01)


@pytest.mark.parametrize("value", ['"1"', "-1", "NaN", "true", "1" + "0" * 400])
def test_what_was_restored_with_what_is_no_time_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "restore.json").write_text(f'{{"restored": {{}}, "iteration": 3, "time_total": {value}}}')
    with pytest.raises(ValueError, match=r"time_total in restore\.json"):
        read_restore_info(Directory(tmp_path))
