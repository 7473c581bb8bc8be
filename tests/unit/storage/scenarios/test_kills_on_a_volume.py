"""An agent may be killed between any two system calls: what was acknowledged is there, and nothing half is seen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from podtune.storage.address import VolumeAddress
from podtune.storage.content import BytesContent
from podtune.storage.volume.store import VolumeStore

KEYS = ("a", "dir/a", "dir/b", "dir/sub/a")
PART = 10
CALLS = ("mkdir", "pwrite", "fsync", "rename", "unlink", "rmdir", "copy_file_range")

Step = tuple[str, str, bytes]
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "parts", "delete", "copy"]), st.sampled_from(KEYS), st.binary(max_size=35)),
    min_size=1,
    max_size=8,
)


class Killed(BaseException):
    """The process is no more; no cleaning up happens either."""


@contextmanager
def kill_after(calls: int) -> Iterator[None]:
    """Lets so many calls that change a volume happen, and none after them."""
    left = calls

    def guard(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left <= 0:
                raise Killed
            left -= 1
            return real(*arguments, **options)

        return call

    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(patch.object(os, name, guard(getattr(os, name))))
        yield


def apply_step(step: Step, objects: dict[str, bytes]) -> dict[str, bytes]:
    """What there is after a step."""
    kind, key, data = step
    if kind == "delete":
        return {other: content for other, content in objects.items() if other != key}
    if kind == "copy":
        return objects | {key: objects["dir/b"]} if "dir/b" in objects else objects
    return objects | {key: data}


def carry_out(store: VolumeStore, step: Step, objects: dict[str, bytes]) -> None:
    kind, key, data = step
    if kind == "put":
        store.put_bytes(key, data)
    elif kind == "delete":
        store.delete([key])
    elif kind == "copy" and "dir/b" in objects:
        store.copy("dir/b", key)
    elif kind == "parts":
        upload = store.start_upload(key, PART)
        pieces = [data[start : start + PART] for start in range(0, max(1, len(data)), PART)]
        parts = [store.put_part(upload, number, BytesContent(piece)) for number, piece in enumerate(pieces, 1)]
        store.complete_upload(upload, parts)


def read_all(store: VolumeStore) -> dict[str, bytes]:
    return {key: store.get_bytes(key, 1000) for key in store.list("")}


@given(steps=STEPS, calls=st.integers(0, 60))
def test_a_kill_loses_nothing_that_was_acknowledged_and_shows_nothing_half(steps: list[Step], calls: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = VolumeStore(VolumeAddress("c", directory=directory))
        before: dict[str, bytes] = {}
        after = before
        try:
            with kill_after(calls):
                for step in steps:
                    before, after = after, apply_step(step, after)
                    carry_out(store, step, before)
                    before = after
        except Killed:
            pass
        found = read_all(VolumeStore(VolumeAddress("c", directory=directory)))
        assert found in (before, after)
        for upload in list(store.list_uploads("")):
            store.abort_upload(upload)
        assert read_all(store) == found
        left = [path.name for path in Path(directory).rglob("*") if path.is_file()]
        assert len(left) == len(found), "nothing unfinished is left"
