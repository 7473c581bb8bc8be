import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.logs.line_clipper import LineClipper

LONGEST = 8


def clip(line: bytes) -> bytes:
    if len(line) <= LONGEST:
        return line
    return line[:4] + f"[podtune: {len(line) - LONGEST} bytes of this line are left out]".encode() + line[-4:]


@given(st.lists(st.binary(max_size=24)), st.lists(st.integers(0, 60)), st.booleans())
def test_each_line_keeps_its_head_and_tail_however_the_bytes_are_cut(
    lines: list[bytes], cuts: list[int], is_whole: bool
) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"\n".join(lines) + (b"\n" if is_whole else b"")
    clipper = LineClipper(LONGEST)
    found: list[bytes] = []
    for cut in cuts:
        piece, data = data[:cut], data[cut:]
        found += clipper.feed(piece)
    found += clipper.feed(data)
    found += clipper.finish()
    expected = list(map(clip, lines)) if lines else [b""] * is_whole
    if not is_whole and expected and not lines[-1]:
        expected.pop()  # nothing follows the last line break
    assert found == expected


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_line_of_any_length_takes_no_more_room_than_the_longest(size: int) -> None:
    clipper = LineClipper(LONGEST)
    for _ in range(1000):
        assert clipper.feed(b"x" * size) == []
        assert len(clipper._rest) <= LONGEST
