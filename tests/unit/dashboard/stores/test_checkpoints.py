"""The sizes of checkpoints, as their manifests say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from podtune.api.resources.trial import Checkpoint
from podtune.dashboard.stores.checkpoints import StoredCheckpoint, read_sizes
from podtune.dashboard.stores.limits import LimitedStore, ReadLimits
from podtune.storage.checkpoint.address import parse_checkpoint_uri
from podtune.storage.errors import Unreachable
from tests.unit.dashboard.stores.stored_trial import UID, StoredTrial, make_file, store_locally


@pytest.fixture
def stored(tmp_path: Path) -> StoredTrial:
    return store_locally(tmp_path)


def read(
    stored: StoredTrial,
    checkpoints: Sequence[Checkpoint],
    limits: ReadLimits | None = None,
    former: Sequence[str] = (),
) -> list[StoredCheckpoint]:
    store = LimitedStore(stored.store, limits or ReadLimits(), lambda: 0.0)
    return read_sizes(store, stored.address, [f"team/{uid}/" for uid in (*former, UID)], checkpoints)


def test_what_an_earlier_checkpoint_holds_is_counted_but_not_as_new(stored: StoredTrial) -> None:
    files = (
        make_file("a", 100, object="pod-1/3/data/a"),
        make_file("b", 20),
        make_file("c", 7, object="pod-1/9/packs/0-0"),
    )
    (found,) = read(stored, [stored.store_checkpoint(9, *files)])
    assert (found.size, found.added, found.files, found.created) == (127, 27, 3, "2026-01-01T10:05:00Z")


def test_what_is_wrong_with_one_is_said_and_the_others_are_read(stored: StoredTrial) -> None:
    good, gone, other = (stored.store_checkpoint(step, make_file("a", step)) for step in (1, 2, 3))
    stored.store.delete([parse_checkpoint_uri(stored.address, gone.uri).manifest])
    stored.store.put_bytes(parse_checkpoint_uri(stored.address, other.uri).manifest, b"{}")
    strange = stored.store_checkpoint(4, make_file("a", 4), uid="e-2")
    elsewhere = good.model_copy(update={"uri": "s3://others/team/e-1/digits-0/pod-1/5"})
    found = read(stored, [good, gone, other, strange, elsewhere])
    assert [each.problem for each in found] == [
        "in another store",
        "in another experiment’s part of the store",
        "its manifest is not the one that was committed",
        "no longer in the store",
        "",
    ]
    assert [each.size for each in found] == [None, None, None, None, 1]


def test_one_from_before_a_restore_is_read_in_the_folder_of_then(stored: StoredTrial) -> None:
    kept = [stored.store_checkpoint(4, make_file("a", 4), uid="e-0"), stored.store_checkpoint(5, make_file("a", 5))]
    assert [(each.size, each.problem) for each in read(stored, kept, former=["e-0"])] == [(5, ""), (4, "")]


def test_beyond_the_limits_nothing_more_is_read(stored: StoredTrial) -> None:
    kept = [stored.store_checkpoint(step, make_file("a", step)) for step in range(1, 6)]
    size = len(stored.store.get_bytes(parse_checkpoint_uri(stored.address, kept[0].uri).manifest, 1 << 20))
    found = read(stored, kept, ReadLimits(bytes=2 * size + 1))
    assert [each.size for each in found] == [5, 4, None, None, None]
    assert {each.problem for each in found[2:]} == {"not read: there are more than 0 MiB"}


def test_a_store_that_is_not_there_is_no_problem_of_one_checkpoint(
    stored: StoredTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = stored.store_checkpoint(1, make_file("a", 1))

    def refuse(key: str, limit: int) -> bytes:
        raise Unreachable(f"nobody answers for {key}")

    monkeypatch.setattr(stored.store, "get_bytes", refuse)
    with pytest.raises(Unreachable):
        read(stored, [checkpoint])
