"""Stores of other packages: found by their entry points, and held to the errors that agents know."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from podtune.storage import plugins
from podtune.storage.address import PluginAddress
from podtune.storage.content import BytesContent, ContentChanged, FileSlice
from podtune.storage.errors import NotFound, RequestRejected, StoreError, StoreSettingsError
from podtune.storage.object_store import MultipartStore, ObjectStore
from podtune.storage.stores import make_store
from podtune.testing.stores import ObjectStoreConformance
from tests.entry_points import make_installation
from tests.unit.storage.memory_store import MemoryStore


class Shelf(MemoryStore):
    """What another package might provide."""

    def __init__(self, settings: dict[str, Any], prefix: str, credentials: Path | None) -> None:
        super().__init__()
        self.told = (settings, prefix, credentials)
        if "room" in settings and not isinstance(settings["room"], int):
            raise ValueError(f"room {settings['room']!r} is not a number; write one without quotes")
        if settings.get("burns"):
            self.__dict__.update(put_content=self.burn, list=self.burn)

    def burn(self, *_: Any) -> Any:
        raise KeyError("shelf on fire")


class Chair:
    def __init__(self, **_: Any) -> None:
        pass


installed = make_installation(
    *(EntryPoint(name.lower(), f"{__name__}:{name}", "podtune.stores") for name in ("Shelf", "Chair", "Nothing"))
)


class TestPluginStore(ObjectStoreConformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return make_store(PluginAddress("shelf"))


def test_a_plugin_is_told_its_settings_and_where_its_secret_is() -> None:
    made = plugins.load_store(PluginAddress("shelf", "team", '{"room": 3}', "/etc/podtune/credentials/key"))
    assert isinstance(made, Shelf)
    assert made.told == ({"room": 3}, "team", Path("/etc/podtune/credentials/key"))
    alone = plugins.load_store(PluginAddress("shelf"))
    assert isinstance(alone, Shelf)
    assert alone.told == ({}, "", None)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "table",
            "{}",
            r"store plugin 'table' is not installed in the agent's image \(installed: chair, nothing, shelf\)",
        ),
        ("shelf", '{"room": "3"}', "refuses its settings: room '3' is not a number; write one without quotes"),
        ("nothing", "{}", "can't be created .*AttributeError.*; tell its author"),
        ("chair", "{}", "made a Chair, which is not an ObjectStore; tell its author"),
    ],
)
def test_what_can_not_be_made_is_told_when_it_is_first_used_and_by_every_method(
    name: str, settings: str, said: str
) -> None:
    store = make_store(PluginAddress(name, settings=settings))
    for _ in range(2):
        with pytest.raises(StoreSettingsError, match=said) as caught:
            store.check()
        assert caught.value.permanent
    with pytest.raises(StoreSettingsError, match=said):
        list(store.list(""))


def test_whatever_a_plugin_raises_becomes_an_error_that_agents_know() -> None:
    store = make_store(PluginAddress("shelf", settings='{"burns": true}'))
    with pytest.raises(RequestRejected, match=r"failed while storing a \(KeyError: 'shelf on fire'\); tell its author"):
        store.put_content("a", BytesContent(b"1"))
    with pytest.raises(RequestRejected, match="failed while listing"):
        list(store.list(""))
    with pytest.raises(NotFound):
        store.get_bytes("a", 1)


def test_what_reading_content_raises_is_passed_on(tmp_path: Path) -> None:
    store = make_store(PluginAddress("shelf"))
    (tmp_path / "file").write_bytes(b"short")
    with (tmp_path / "file").open("rb") as file, pytest.raises(ContentChanged):
        store.put_content("a", FileSlice(file.fileno(), 0, 100))
    with (tmp_path / "file").open("rb") as file:
        file.close()
        with pytest.raises(ValueError, match="closed file"):
            store.put("a", file, 5)
    assert not issubclass(ContentChanged, StoreError)


def test_a_plugin_is_asked_for_no_parts() -> None:
    assert not isinstance(make_store(PluginAddress("shelf")), MultipartStore)
