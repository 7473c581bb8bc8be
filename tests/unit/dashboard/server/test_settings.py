"""What `podtune-dashboard` may be told, and what it says of mistakes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from podtune.dashboard import main as entry
from podtune.dashboard.addresses import make_host_rule
from podtune.dashboard.pricing import GpuPrice
from podtune.dashboard.server.settings import ServerSettings
from podtune.dashboard.stores.access import MountedStore
from podtune.storage.address import S3Address


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServerSettings]:
    """The settings that a server would have started with."""
    served: list[ServerSettings] = []
    monkeypatch.setattr(entry, "run_server", served.append)
    monkeypatch.setattr(entry, "configure_logging", lambda _: None)
    return served


def test_without_options_all_namespaces_are_served_to_who_logs_in(served: list[ServerSettings]) -> None:
    assert entry.main([]) == 0
    assert not served[0].is_open
    assert not served[0].offers_actions
    assert served[0].namespaces == ()
    assert served[0].allowed_hosts is None
    assert served[0].session == timedelta(hours=12)
    assert not served[0].proxy.user_header


def test_every_option_is_an_environment_variable(served: list[ServerSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PORT": "0",
        "PREFIX": "/podtune/",
        "NAMESPACES": "a, b,a",
        "TITLE": "prod",
        "ACTIONS": "true",
        "SESSION_HOURS": "0.5",
        "LOG_LEVEL": "WARNING",
        "GPU_PRICE": "2.5",
        "CURRENCY": "EUR",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"PODTUNE_DASHBOARD_{name}", value)
    assert entry.main([]) == 0
    settings = served[0]
    assert (settings.port, settings.prefix, settings.namespaces) == (0, "/podtune", ("a", "b"))
    assert (settings.title, settings.offers_actions, settings.log_level) == ("prod", True, "warning")
    assert settings.session == timedelta(minutes=30)
    assert settings.price == GpuPrice(2.5, "EUR")


def _write_store(store: dict[str, Any], **facts: Any) -> str:
    return json.dumps([{"namespace": "team", "directory": "/etc/read", "store": store} | facts])


def test_each_store_has_a_namespace_and_the_directory_of_its_secret(served: list[ServerSettings]) -> None:
    assert entry.main(["--stores", _write_store({"bucket": "models", "prefix": "team"})]) == 0
    assert served[0].stores == (MountedStore("team", S3Address("models", "team", credentials="/etc/read")),)
    assert entry.main([]) == 0
    assert served[1].stores == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--open", "--actions"], "--actions needs the viewers' own tokens, and --open asks for none"),
        (["--session-hours", "0"], "--session-hours is 0; use more than 0, and at most 168"),
        (["--port", "70000"], "--port is 70000; use a number from 0 to 65535"),
        (["--prefix", "podtune"], "--prefix is 'podtune'; use a path such as /podtune"),
        (["--prefix", "/a/../b"], "--prefix is '/a/../b'; use a path"),
        (["--log-level", "loud"], "--log-level is 'loud'; use debug, info, warning, error"),
        (["--tls-key", "key.pem"], "--tls-certificate and --tls-key belong together"),
        (["--tls-key", "/no/key.pem", "--tls-certificate", "/no/tls.pem"], "the TLS files can't be used"),
        (["--proxy-user-header", "X-User"], "--proxy-user-header is believed over mutual TLS alone"),
        (["--proxy-user-header", "X User"], "use the name of a header, such as X-Forwarded-User"),
        (["--proxy-groups-header", "X-Groups"], "--proxy-groups-header needs --proxy-user-header"),
        (["--proxy-user-header", "X-User", "--open"], "leave out one of the two"),
        (["--proxy-authority", "ca.pem"], "--proxy-authority does nothing without --proxy-user-header"),
        (["--nonsense"], "No such option"),
        (["--stores", "[{}]", "--open"], "--stores are read for viewers with a token, and --open asks for none"),
        (["--stores", "{"], "--stores is no JSON"),
        (["--stores", "{}"], "--stores is no JSON list"),
        (["--stores", "[{}]"], "--stores, entry 1 is not an object with directory, namespace, store"),
        (["--stores", _write_store({}, namespace=7)], "--stores, entry 1: namespace is not a text"),
        (["--stores", _write_store({})], "--stores, entry 1: store names no bucket"),
        (["--stores", _write_store({"azure": {"container": "c"}})], "names no bucket, gcs bucket or azure container"),
        (["--stores", _write_store({"bucket": "b", "credentialsSecret": "s"})], "store has credentialsSecret; of"),
    ],
)
def test_a_mistake_is_said_with_its_remedy(
    served: list[ServerSettings], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(options) in (1, 2)
    assert f"podtune-dashboard: {said}" in (errors := capsys.readouterr().err) or said in errors
    assert not served


def test_a_missing_kubeconfig_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "configure_logging", lambda _: None)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert entry.main(["--open", "--port", "0", "--address", "127.0.0.1"]) == 1
    assert "no kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("allowed", "host", "is_answered"),
    [
        (None, "evil.example", True),
        ((), "localhost:8080", True),
        ((), "10.0.0.1:8080", True),
        ((), "[::1]:8080", True),
        ((), "evil.example", False),
        (("podtune.example",), "Podtune.example:443", True),
        (("podtune.example",), "evil.example", False),
    ],
)
def test_an_open_dashboard_answers_to_no_foreign_name(
    allowed: tuple[str, ...] | None, host: str, is_answered: bool
) -> None:
    assert make_host_rule(allowed)(host) == is_answered
