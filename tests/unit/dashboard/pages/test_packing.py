"""Pages that are compressed: each part once, however often it is sent."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.dashboard.pages import packing
from podtune.dashboard.pages.packing import PagePacker

MARKS = st.sampled_from([b"<path", b"M100", b"M1", b"<pat", b"M100M100", b"", b"\n", "’".encode()])
PAGES = st.lists(st.one_of(MARKS, st.binary(max_size=40), st.integers(1, 20_000).map(lambda count: b"M7 9h0" * count)))


def make_page(dots: int, seed: int = 1) -> bytes:
    rng = random.Random(seed)
    path = "".join(f"M{rng.randrange(2000)} {rng.randrange(1000)}h0" for _ in range(dots))
    return f'<svg><path d="{path}"/></svg><p>{dots} trials</p>'.encode()


class Compressed:
    """Counts what goes through zlib."""

    def __init__(self) -> None:
        self.bytes = 0
        self._make = zlib.compressobj

    def compressobj(self, *arguments: Any) -> Compressed:
        self._object = self._make(*arguments)
        return self

    def compress(self, data: bytes) -> bytes:
        self.bytes += len(data)
        return self._object.compress(data)

    def flush(self, *arguments: Any) -> bytes:
        return self._object.flush(*arguments)


@pytest.fixture
def compressed(monkeypatch: pytest.MonkeyPatch) -> Compressed:
    counted = Compressed()
    monkeypatch.setattr(packing.zlib, "compressobj", counted.compressobj)  # type: ignore[attr-defined]
    return counted


@given(st.lists(PAGES.map(b"".join), min_size=1, max_size=4))
def test_what_is_unpacked_is_the_page(pages: list[bytes]) -> None:
    packer = PagePacker()
    for page in [*pages, *pages]:
        assert gzip.decompress(packer.pack(page)) == page


def test_a_dot_more_costs_little(compressed: Compressed) -> None:
    packer, pages = PagePacker(), [make_page(10_000), make_page(10_001)]
    packer.pack(pages[0])
    first, compressed.bytes = compressed.bytes, 0
    assert gzip.decompress(packer.pack(pages[1])) == pages[1]
    assert first > 100_000
    assert compressed.bytes < first / 10


def test_what_is_kept_is_limited(monkeypatch: pytest.MonkeyPatch, compressed: Compressed) -> None:
    packer, pages = PagePacker(), [make_page(10_000, seed) for seed in range(3)]
    monkeypatch.setattr(packing, "MOST_KEPT", len(pages[0]))
    for page in pages:
        packer.pack(page)
    compressed.bytes = 0
    packer.pack(pages[2])
    assert compressed.bytes < len(pages[2]) / 10  # the newest are kept
    packer.pack(pages[0])
    assert compressed.bytes > len(pages[0]) / 2
