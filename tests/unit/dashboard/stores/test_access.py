"""Which stores a dashboard reads, and for whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from podtune.cli.client import store_access
from podtune.cli.client.resources import ExperimentView, read_experiment
from podtune.cli.errors import CliError
from podtune.dashboard.access.session import LoginSession
from podtune.dashboard.access.viewer import Viewer
from podtune.dashboard.access.visit import VISIT, Visit
from podtune.dashboard.server.store_settings import read_stores
from podtune.dashboard.stores.access import MountedStores, OwnStores
from podtune.storage.address import AzureAddress, GcsAddress, S3Address
from podtune.storage.patience import OF_PEOPLE, Patience
from tests.unit.cli.cli_fakes import FakeApi
from tests.unit.dashboard.archives import experiment_body

SERVER = "https://s3.example.com"
BUCKET = {"bucket": "models", "endpoint": SERVER}


def view(store: dict[str, Any] | None, namespace: str = "team") -> ExperimentView:
    body = experiment_body(checkpoints={"store": store} if store else {})
    body["metadata"]["namespace"] = namespace
    return read_experiment(body)


def ask(session: LoginSession | None) -> web.Request:
    request = make_mocked_request("GET", "/")
    source: Any = None
    request[VISIT] = Visit(Viewer("alice"), session, source)
    return request


WITH_TOKEN = ask(LoginSession("t", 1))


def mount(directory: Path, **store: Any) -> MountedStores:
    entry = {"namespace": "team", "directory": str(directory), "store": store}
    return MountedStores(read_stores(json.dumps([entry])))


def open_address(stores: MountedStores, experiment: ExperimentView, request: web.Request = WITH_TOKEN) -> object:
    with stores.open(request, experiment) as opened:
        return opened.address


def test_a_page_waits_for_a_server_no_longer_than_people_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Patience | None] = []
    monkeypatch.setattr(store_access, "make_store", lambda _, patience: given.append(patience))
    open_address(mount(tmp_path, **BUCKET), view(BUCKET))
    with OwnStores(FakeApi).open(WITH_TOKEN, view(BUCKET)):
        assert given == [OF_PEOPLE, OF_PEOPLE]


def test_an_experiment_is_read_with_the_secret_that_is_mounted_for_its_store(tmp_path: Path) -> None:
    secret = tmp_path / "team-read"
    secret.mkdir()
    stores = mount(secret, **BUCKET, region="eu-west-1")
    experiment = view({**BUCKET, "prefix": "team/a", "credentialsSecret": {"name": "writer"}})
    assert stores.find_obstacle(experiment) == ""
    address = S3Address("models", "team/a", SERVER, "eu-west-1", credentials=str(secret))
    assert open_address(stores, experiment) == address
    (secret / "ca.crt").write_text("PEM")
    assert open_address(stores, view({**BUCKET, "endpoint": f"{SERVER}/"})) == S3Address(
        "models", "", SERVER, "eu-west-1", credentials=str(secret), ca_file=str(secret / "ca.crt")
    )


@pytest.mark.parametrize(
    ("store", "wanted", "kind"),
    [
        ({"gcs": {"bucket": "models"}}, {"gcs": {"bucket": "models"}}, GcsAddress),
        ({"azure": {"container": "c", "account": "a"}}, {"azure": {"container": "c", "account": "a"}}, AzureAddress),
    ],
)
def test_other_clouds_are_read_likewise(
    tmp_path: Path, store: dict[str, Any], wanted: dict[str, Any], kind: type
) -> None:
    assert isinstance(open_address(mount(tmp_path, **store), view(wanted)), kind)


@pytest.mark.parametrize(
    ("mounted", "wanted"),
    [
        (BUCKET, {**BUCKET, "endpoint": "https://theirs.example.com"}),
        (BUCKET, {"bucket": "models"}),
        (BUCKET, {**BUCKET, "bucket": "others"}),
        ({**BUCKET, "prefix": "team"}, {**BUCKET, "prefix": "team2"}),
        ({**BUCKET, "prefix": "team"}, BUCKET),
        ({"azure": {"container": "c", "account": "a"}}, {"azure": {"container": "c", "account": "b"}}),
        ({"gcs": {"bucket": "models"}}, {"bucket": "models"}),
    ],
)
def test_a_manifest_can_not_have_the_secret_shown_to_another_server(
    tmp_path: Path, mounted: dict[str, Any], wanted: dict[str, Any]
) -> None:
    with pytest.raises(CliError, match=r"is none of the stores .* add it to dashboard\.stores"):
        open_address(mount(tmp_path, **mounted), view(wanted))


def test_other_namespaces_do_not_share_it(tmp_path: Path) -> None:
    assert "no store of namespace other" in mount(tmp_path, **BUCKET).find_obstacle(view(BUCKET, "other"))


@pytest.mark.parametrize("request_", [ask(None), make_mocked_request("GET", "/")])
def test_who_comes_by_a_proxys_word_alone_is_asked_for_a_token(tmp_path: Path, request_: web.Request) -> None:
    with pytest.raises(CliError, match="logged in with a token"):
        open_address(mount(tmp_path, **BUCKET), view(BUCKET), request_)


@pytest.mark.parametrize(
    ("store", "words"),
    [
        (None, "digits has no checkpoints.store"),
        ({"volume": {"claimName": "models"}}, "is a volume, which takes a pod"),
        ({"plugin": {"name": "ours"}}, "is a plugin’s"),
    ],
)
def test_what_no_dashboard_reads_is_said(tmp_path: Path, store: dict[str, Any] | None, words: str) -> None:
    for stores in (mount(tmp_path, **BUCKET), OwnStores(FakeApi)):
        assert words in stores.find_obstacle(view(store))


@pytest.mark.parametrize("store", [{"gcs": {"bucket": "b"}}, {"azure": {"container": "c", "account": "a"}}])
def test_a_users_token_is_shown_to_no_server_that_a_manifest_names(store: dict[str, Any]) -> None:
    assert OwnStores(FakeApi).find_obstacle(view(store)) == ""
    assert "your token would be shown to" in OwnStores(FakeApi).find_obstacle(view({**store, "endpoint": SERVER}))
    assert OwnStores(FakeApi).find_obstacle(view(BUCKET)) == ""


def test_on_a_workstation_it_is_the_users_own_credentials_that_read() -> None:
    api = FakeApi()
    with OwnStores(lambda: api).open(
        make_mocked_request("GET", "/"), view({**BUCKET, "credentialsSecret": "writer"})
    ) as opened:
        assert opened.address == S3Address("models", "", SERVER)
    assert api.asked == []
