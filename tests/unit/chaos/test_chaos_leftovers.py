"""What `make chaos` removes of campaigns, and what it leaves to those that still run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from e2e.chaos import leftovers
from e2e.chaos.api import ApiFailure
from e2e.chaos.pods import volumes

DEAD = 1 << 30  # no process has this id


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(volumes, "_ROOT", tmp_path)
    return tmp_path


class Namespaces:
    """An API server with namespaces that are gone some requests after they were deleted, and volumes."""

    def __init__(self, *names: str) -> None:
        self.names = dict.fromkeys(names, False)
        self.volumes = {f"{name}-weights" for name in names}
        self.emptied: list[str] = []

    async def request(self, method: str, path: str, body: object = None, **_: Any) -> dict[str, Any]:
        words = path.split("/")
        if "persistentvolumes" in words:
            found = {"items": [{"metadata": {"name": name}} for name in sorted(self.volumes)]}
            self.volumes -= {words[-1]} if method == "DELETE" else set()
            return found
        if method == "GET":
            found = {"items": [{"metadata": {"name": name}} for name in self.names]}
            self.names = {name: going for name, going in self.names.items() if not going}
            return found
        if words[-1] == "pods":
            self.emptied.append(words[-2])
        elif self.names[words[-1]]:
            raise ApiFailure(409, "it is going already")
        else:
            self.names[words[-1]] = True
        return {}


async def test_namespaces_are_emptied_and_waited_for() -> None:
    api = Namespaces("chaos-1-calls", "chaos-1-kills")
    await leftovers.remove_leftovers(api)  # type: ignore[arg-type]
    assert api.names == {}
    assert api.emptied == ["chaos-1-calls", "chaos-1-kills"]
    assert api.volumes == set()


def test_files_are_removed_but_those_of_a_campaign_that_still_runs(root: Path) -> None:
    (volumes.home() / "pod").mkdir()
    (root / str(DEAD) / "pod").mkdir(parents=True)
    other = root / str(os.getppid())
    other.mkdir()
    volumes.remove_leftovers()
    assert list(root.iterdir()) == [other]
