"""Segments on a real S3 server."""

from pathlib import Path

import pytest

from podtune.protocol.messages import Result, encode_result
from podtune.storage.address import S3Address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.s3.store import S3Store
from podtune.storage.segments.reader import read_results
from podtune.storage.segments.segment import RESULT_STREAM, SegmentHeader
from podtune.storage.segments.segment_log import SMALLEST_SEGMENT
from podtune.storage.segments.segment_stream import SegmentStream


@pytest.fixture
def address(s3_server: tuple[str, Path], bucket: str) -> S3Address:
    return S3Address(bucket, "demo", endpoint=s3_server[0])


def test_results_grow_in_the_bucket_are_read_and_the_middle_is_deleted(address: S3Address) -> None:
    store, trial = S3Store(address), TrialAddress(address, "uid", "digits-0")
    for number in (1, 2):
        attempt = f"pod/{number}"
        header = SegmentHeader("ml", "digits", "digits-0", attempt, number)
        stream = SegmentStream(store, trial.segments(attempt, RESULT_STREAM, 0), header, 4 * SMALLEST_SEGMENT)
        for seq in range(1, 41):
            result = Result(seq, 100.0 * number + seq, {"text": "x" * 250, "more": "y" * 250}, seq)
            stream.append(seq, result.time, f"{encode_result(result)}\n".encode())
            stream.store_changes(lambda: False)
    found = list(read_results(store, address.experiment_prefix("uid")))
    assert [stored.number for stored in found] == sorted(stored.number for stored in found)
    for number in (1, 2):
        seqs = [stored.result.seq for stored in found if stored.number == number]
        assert (seqs[0], seqs[-1]) == (1, 40)
        assert len(seqs) + sum(stored.missed for stored in found if stored.number == number) == 40
    assert len(list(store.list(f"{trial.prefix}"))) <= 2 * 4
