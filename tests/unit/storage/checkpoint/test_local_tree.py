import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from podtune.storage.checkpoint import local_tree
from podtune.storage.checkpoint.local_tree import MissingTree, UnusableTree, delete_tree, open_tree
from podtune.storage.directory import Directory


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "shared" / "c1" / "sub").mkdir(parents=True)
    (tmp_path / "shared" / "c1" / "b").write_text("bb")
    (tmp_path / "shared" / "c1" / "sub" / "a").write_text("a")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "shared" / "c1"


def test_files_are_listed_and_read(tree: Path) -> None:
    with open_tree(Directory(tree.parent), ("c1",)) as opened:
        assert [(file.path, file.size) for file in opened.list_files()] == [("b", 2), ("sub/a", 1)]
        with opened.open("sub/a") as stream:
            assert stream.read() == b"a"


def make_node(path: Path, kind: int, device: int = 0) -> None:
    """Makes what is neither a file nor a link; the test is skipped where this may not be done."""
    try:
        os.mknod(path, kind | 0o666, device)
    except PermissionError as error:
        pytest.skip(f"only root with CAP_MKNOD may make a device: {error}")


@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a directory", "pipe", "socket", "device", "disk"])
def test_what_is_no_file_is_refused(tree: Path, tmp_path: Path, kind: str) -> None:
    bad = tree / "sub" / "bad"
    if kind == "pipe":
        os.mkfifo(bad)
    elif kind == "socket":
        make_node(bad, stat.S_IFSOCK)
    elif kind == "device":
        make_node(bad, stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero, which never ends
    elif kind == "disk":
        make_node(bad, stat.S_IFBLK, os.makedev(7, 0))
    else:
        bad.symlink_to({"link": tmp_path / "secret", "dangling link": Path("nowhere")}.get(kind, tmp_path))
    with open_tree(Directory(tree.parent), ("c1",)) as opened:
        with pytest.raises(UnusableTree, match="sub/bad is"):
            opened.list_files()
        with pytest.raises(UnusableTree, match="sub/bad"), opened.open("sub/bad"):
            pass


def test_a_directory_that_became_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    with open_tree(Directory(tree.parent), ("c1",)) as opened:
        opened.list_files()
        (tree / "sub" / "a").unlink()
        (tree / "sub").rmdir()
        (tmp_path / "a").write_text("secret")
        (tree / "sub").symlink_to(tmp_path)
        with pytest.raises(UnusableTree, match="sub is a link"), opened.open("sub/a"):
            pass


def test_a_link_on_the_way_to_the_directory_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "shared2").mkdir()
    (tmp_path / "shared2" / "checkpoints").symlink_to(tree.parent)
    with (
        pytest.raises(UnusableTree, match="checkpoints is a link"),
        open_tree(Directory(tmp_path / "shared2"), ("checkpoints", "c1")),
    ):
        pass


def test_a_missing_directory_is_told_from_a_bad_one(tree: Path) -> None:
    with pytest.raises(MissingTree, match="c2 does not exist"), open_tree(Directory(tree.parent), ("c2",)):
        pass
    with pytest.raises(UnusableTree, match="b is a link or has"), open_tree(Directory(tree.parent), ("c1", "b")):
        pass


def test_names_that_are_no_unicode_are_refused(tree: Path) -> None:
    os.close(os.open(os.fsencode(tree) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    with open_tree(Directory(tree.parent), ("c1",)) as opened, pytest.raises(UnusableTree, match="not valid Unicode"):
        opened.list_files()


def test_endless_nesting_is_refused(tree: Path) -> None:
    deep = tree
    for _ in range(40):
        deep /= "d"
        deep.mkdir()
    with open_tree(Directory(tree.parent), ("c1",)) as opened, pytest.raises(UnusableTree, match="nested too deeply"):
        opened.list_files()


def list_paths(tree: Path, excluded: Callable[[str], bool] = lambda _: False) -> list[str]:
    with open_tree(Directory(tree.parent), ("c1",)) as opened:
        return [file.path for file in opened.list_files(excluded)]


def test_so_many_files_are_listed_and_no_more(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_tree, "MAX_FILES", 3)
    (tree / "sub" / "c").touch()
    assert list_paths(tree) == ["b", "sub/a", "sub/c"]
    (tree / "sub" / "d").touch()
    with pytest.raises(UnusableTree, match="c1 holds more than 3 files; pack them"):
        list_paths(tree)
    assert list_paths(tree, lambda path: path == "sub/d") == ["b", "sub/a", "sub/c"], "what is left out counts not"


def test_a_directory_of_any_size_is_not_held_in_memory(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are directories without files counted as files, nor is one of them passed over."""
    monkeypatch.setattr(local_tree, "MAX_FILES", 3)
    looked_at: list[str] = []
    for number in range(50):
        (tree / "sub" / f"d{number}").mkdir()

    def note(path: str) -> bool:
        looked_at.append(path)
        return False

    with pytest.raises(UnusableTree, match="c1 holds more than 3 files"):
        list_paths(tree, note)
    assert len([path for path in looked_at if path.startswith("sub/")]) == 4


def test_deleting_takes_links_away_and_not_what_they_lead_to(tree: Path, tmp_path: Path) -> None:
    (tree / "sub" / "link").symlink_to(tmp_path / "secret")
    (tree / "directory").symlink_to(tmp_path)
    delete_tree(Directory(tree.parent), ("c1",))
    assert not tree.exists()
    assert (tmp_path / "secret").read_text() == "secret"
    delete_tree(Directory(tree.parent), ("c1",))


def test_nothing_is_left_open(tree: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_tree(Directory(tree.parent), ("c1",)) as opened:
        opened.list_files()
        with opened.open("sub/a"):
            pass
    with pytest.raises(UnusableTree), open_tree(Directory(tree.parent), ("c1", "b")):
        pass
    delete_tree(Directory(tree.parent), ("c1",))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # what tests before have left may be closed meanwhile
