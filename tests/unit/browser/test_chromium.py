"""The browser of the tests: what is there is taken, what is missing is installed, or it is said how to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.browser import chromium
from e2e.browser.chromium import LIBRARY_PACKAGE, PACKAGES, ensure_chromium, main
from e2e.devcluster.building import packages
from e2e.devcluster.errors import ClusterError


class Machine:
    """A machine of which only one folder of programs is known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[Sequence[str]] = []

    def add(self, name: str) -> str:
        program = self.folder / name
        program.touch(0o755)
        return str(program)

    def run(self, command: Sequence[str], **_: Any) -> str:
        self.ran.append(command)
        if "chromium" in command:
            self.add("chromium")
        return ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "SYSTEM_PATH", "")
    monkeypatch.setattr(packages, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(packages, "run", machine.run)
    monkeypatch.setattr(chromium, "LIBRARY", "libc.so.6")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return machine


@pytest.mark.parametrize("name", ["chromium", "google-chrome", "chromium-browser"])
def test_one_that_is_there_is_taken(machine: Machine, name: str) -> None:
    machine.add("apt-get")
    program = machine.add(name)
    assert ensure_chromium() == program
    assert not machine.ran


def test_where_there_is_none_debian_has_one_with_the_font_of_the_pages(machine: Machine) -> None:
    machine.add("apt-get")
    assert ensure_chromium() == str(machine.folder / "chromium")
    update, install = machine.ran
    assert update[:2] == ["apt-get", "update"]
    assert [*install[:2], *install[-2:]] == ["apt-get", "install", *PACKAGES]


def test_what_drives_the_browser_is_installed_beside_one_that_is_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.add("apt-get")
    program = machine.add("chromium")
    monkeypatch.setattr(chromium, "LIBRARY", "libmissing.so.1")
    assert ensure_chromium() == program
    _, install = machine.ran
    assert install[-1] == LIBRARY_PACKAGE
    assert "chromium" not in install
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match=r"^Playwright can't start without libmissing\.so\.1") as refusal:
        ensure_chromium()
    assert str(refusal.value).endswith("as root: apt-get install -y -q --no-install-recommends libatomic1")


@pytest.mark.parametrize(("has_apt", "user"), [(False, 0), (True, 1000)])
def test_who_may_not_install_it_is_told_the_command(
    machine: Machine,
    has_apt: bool,
    user: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if has_apt:
        machine.add("apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert main() == 1
    said = capsys.readouterr().err
    assert said.startswith("error: there is no chromium, google-chrome or chromium-browser on PATH")
    assert "as root: apt-get install -y -q --no-install-recommends chromium fonts-inter" in said
    assert not machine.ran
