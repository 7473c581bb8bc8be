"""What an agent does in a directory of the program's never leads out of it, whatever links the program puts there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from podtune.agent.delivery.sender import ControlFileWriter
from podtune.agent.results.results_file import ResultsFile
from podtune.agent.state.restore_info import RestoreInfo, read_restore_info
from podtune.storage.checkpoint.local_cache import FOLDER, LocalCache
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.manifest import ManifestFile
from podtune.storage.directory import Directory, NotAFile


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a program must not have the agent touch."""
    directory = tmp_path / "secrets"
    directory.mkdir()
    for name in ("token", "results.jsonl", "restore.json"):
        (directory / name).write_text('{"step": 1}\n')
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "podtune"
    (directory / "trials" / "digits-1-1").mkdir(parents=True)
    return directory


def listed(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


def opened(directory: Directory) -> None:
    with directory.open_file("token"):
        pass


def made(directory: Directory) -> None:
    with directory.make_file("new"):
        pass


def tree_of(directory: Directory) -> None:
    with open_tree(directory, ()) as tree:
        tree.list_files()


USES = {
    "opening a file": opened,
    "making a file": made,
    "making a directory": lambda directory: directory.join("new").make(0o777),
    "replacing a file": lambda directory: directory.replace_file("token", b"forged"),
    "looking at a file": lambda directory: directory.stat("token"),
    "listing": lambda directory: directory.list(),
    "renaming": lambda directory: directory.rename("token", "taken"),
    "deleting": lambda directory: directory.unlink("token"),
    "removing": lambda directory: directory.remove("token"),
    "reading results": lambda directory: ResultsFile(directory).read_lines(),
    "reading what was restored": read_restore_info,
    "writing what was restored": lambda directory: RestoreInfo().write(directory),
    "writing requests": lambda directory: ControlFileWriter(directory).write({"shouldStop": True}),
    "storing artifacts": tree_of,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("swapped", ["trials", "trials/digits-1-1"])
def test_a_directory_that_was_swapped_for_a_link_is_not_entered(
    root: Path, outside: Path, swapped: str, use: Callable[[Directory], object]
) -> None:
    place = root / swapped
    place.rename(root / "moved")
    place.symlink_to(outside if "/" in swapped else outside.parent)
    if swapped == "trials":
        outside.rename(outside.with_name("digits-1-1"))
        outside = outside.with_name("digits-1-1")
    before = listed(outside)
    with pytest.raises(OSError, match=r"[Nn]ot a directory|symbolic links"):
        use(Directory(root, ("trials", "digits-1-1")))
    assert listed(outside) == before


def test_a_link_in_the_place_of_a_file_is_replaced_or_refused_and_never_followed(root: Path, outside: Path) -> None:
    directory = Directory(root)
    for name in ("restore.json", ".restore.json", "control.json", "results.jsonl", "restored"):
        (root / name).symlink_to(outside / "token")
    before = listed(outside)
    RestoreInfo(iteration=9).write(directory)
    assert read_restore_info(directory) == RestoreInfo(iteration=9)
    ControlFileWriter(directory).write({"shouldStop": True})
    with pytest.raises(OSError, match=r"results\.jsonl"):
        ResultsFile(directory).read_lines()
    with pytest.raises(FileExistsError), directory.make_file("results.jsonl"):
        pass
    directory.remove("restored")
    assert listed(outside) == before
    assert not (root / "restored").is_symlink()


def test_a_link_to_a_directory_is_removed_and_not_what_it_leads_to(root: Path, outside: Path) -> None:
    (root / "restored").symlink_to(outside)
    (root / "own").mkdir()
    (root / "own" / "link").symlink_to(outside)
    before = listed(outside)
    Directory(root).remove("restored")
    Directory(root).remove("own")
    Directory(root).remove("own")
    assert listed(outside) == before
    assert [path.name for path in root.iterdir()] == ["trials"]


def test_a_pipe_is_no_file_and_holds_nobody_up(root: Path) -> None:
    os.mkfifo(root / "results.jsonl")
    with pytest.raises(NotAFile, match=r"results\.jsonl is not a regular file"):
        Directory(root).take_file("results.jsonl")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\0b"])
def test_a_name_leads_nowhere_else(root: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of"):
        Directory(root, (name,))
    with pytest.raises(ValueError, match="not the name of"):
        Directory(root).unlink(name)


def test_a_volume_that_others_use_too_leads_nowhere_else(tmp_path: Path, outside: Path) -> None:
    """A template may mount the trial's scratch volume."""
    content = (outside / "token").read_bytes()
    file = ManifestFile("weights", len(content), "0" * 64)
    scratch = tmp_path / "scratch"
    (scratch / FOLDER).mkdir(parents=True)
    (scratch / FOLDER / f"{file.sha256}-{file.size}-0").symlink_to(outside / "token")
    with (tmp_path / "copy").open("w+b") as copy:
        assert not LocalCache(scratch).fetch(file, copy.fileno())
        assert copy.read() == b""


def test_what_is_made_has_its_mode_at_once_whatever_the_umask(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a program that finds it in between could not write to it."""
    seen = {}
    make_directory, open_file = os.mkdir, os.open

    def make_and_look(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        make_directory(name, mode, dir_fd=dir_fd)
        seen[name] = os.stat(name, dir_fd=dir_fd).st_mode & 0o777

    def open_and_look(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        file = open_file(name, flags, mode, dir_fd=dir_fd)
        seen[name] = os.fstat(file).st_mode & 0o777
        return file

    before = os.umask(0o077)
    try:
        monkeypatch.setattr("os.mkdir", make_and_look)
        monkeypatch.setattr("os.open", open_and_look)
        Directory(root, ("checkpoints",)).make(0o777)
        with Directory(root).make_file("results.jsonl", 0o666):
            pass
        assert os.umask(0o077) == 0o077, "the umask is what it was"
    finally:
        os.umask(before)
    assert (seen["checkpoints"], seen["results.jsonl"]) == (0o777, 0o666)
