"""What reader and pod say to each other, cut off, garbled or made up."""

from __future__ import annotations

import io

import pytest

from podtune.storage.errors import AccessDenied, RequestRejected
from podtune.storage.volume import reading_protocol as protocol
from podtune.storage.volume.reading_protocol import Garbled, ReadRequest, parse_request, read_pieces

ANSWER = protocol.encode_piece(b"one\ntwo") + protocol.encode_piece(b"") + protocol.encode_end()


@pytest.mark.parametrize(
    "request_", [ReadRequest("get", "a/ä b", 3, 9), ReadRequest("get", "a"), ReadRequest("list", "")]
)
def test_a_request_comes_through(request_: ReadRequest) -> None:
    assert parse_request(request_.encode()) == request_


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}\n",
        b"no\n",
        b"[]\n",
        b'{"operation": "put", "key": "a"}\n',
        b'{"operation": "get"}\n',
        b'{"operation": "get", "key": "a", "start": -1}\n',
        b'{"operation": "get", "key": "a", "size": "all"}\n',
        b'{"operation": "get", "key": "a"}',
    ],
)
def test_another_line_is_no_request(line: bytes) -> None:
    with pytest.raises(Garbled):
        parse_request(line)


def test_an_answer_comes_through_piece_by_piece() -> None:
    assert list(read_pieces(io.BytesIO(ANSWER + b"more"))) == [b"one\ntwo", b""]


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_an_answer_that_is_cut_off_anywhere_is_noticed(length: int) -> None:
    with pytest.raises(Garbled):
        list(read_pieces(io.BytesIO(ANSWER[:length])))


def test_a_piece_that_is_too_large_is_not_read() -> None:
    with pytest.raises(Garbled):
        list(read_pieces(io.BytesIO(b'{"bytes": 1000000000000, "sha256": ""}\n')))


def test_errors_come_through_by_kind() -> None:
    with pytest.raises(AccessDenied, match="not yours"):
        list(read_pieces(io.BytesIO(protocol.encode_error(AccessDenied("not yours")))))
    with pytest.raises(RequestRejected, match="new"):
        list(read_pieces(io.BytesIO(b'{"error": "OfALaterVersion", "message": "new"}\n')))
