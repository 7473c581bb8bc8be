"""The bucket of an experiment, opened with the caller's rights."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podtune.cli.client import store_access, volume_access
from podtune.cli.client.api_client import Api
from podtune.cli.client.reader_pod import ReaderPlan
from podtune.cli.client.resources import ExperimentView, read_experiment
from podtune.cli.client.store_access import StoreOptions, open_experiment_store, open_store_of
from podtune.cli.errors import CliError
from podtune.kube import paths
from podtune.kube.errors import make_refusal
from podtune.kube.manifests import Manifest
from podtune.storage.address import (
    AnyAddress,
    AzureAddress,
    FileAddress,
    GcsAddress,
    PluginAddress,
    S3Address,
    VolumeAddress,
)
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment
from tests.unit.storage.memory_store import MemoryStore

SECRET = {"accessKeyID": "key", "secretAccessKey": "hush"}


def view(checkpoints: Manifest | None = None, **store: Any) -> ExperimentView:
    """An experiment that stores in a bucket, or as it is said."""
    made = experiment()
    made["spec"]["checkpoints"] = {"store": {"bucket": "models", **store}} if checkpoints is None else checkpoints
    return read_experiment(made)


def encode(values: Mapping[str, str]) -> Manifest:
    return {"data": {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def test_the_secret_lies_in_files_as_long_as_the_store_is_open(api: FakeApi) -> None:
    api.objects[paths.secret(NAMESPACE, "podtune-s3")] = encode(SECRET | {"more": "?"})
    with open_experiment_store(api, view(credentialsSecret="podtune-s3"), StoreOptions()) as opened:
        assert isinstance(opened.address, S3Address)
        directory = Path(opened.address.credentials)
        assert directory.name == "podtune-s3", "messages name the Secret by it"
        assert directory.parent.stat().st_mode & 0o077 == 0
        assert {file.name: file.read_text() for file in directory.iterdir()} == SECRET
    assert not directory.exists()


def test_own_credentials_are_used_where_they_are_asked_for(api: FakeApi) -> None:
    options = StoreOptions(own_credentials=True)
    with open_experiment_store(api, view(credentialsSecret="podtune-s3"), options) as opened:
        assert opened.address == S3Address("models")
    assert api.asked == []


def test_own_credentials_are_used_where_the_secret_may_not_be_read(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str, params: Mapping[str, str] | None = None) -> Manifest:
        raise make_refusal(403, "Forbidden", "not for you")

    monkeypatch.setattr(api, "get", refuse)
    with open_experiment_store(api, view(credentialsSecret="podtune-s3"), StoreOptions()) as opened:
        assert opened.address == S3Address("models")
    assert capsys.readouterr().err == (
        "Secret podtune-s3 can't be read (the API server says 403: not for you); your own credentials are used\n"
    )


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_authorities_are_those_of_the_manifest(api: FakeApi, kind: str) -> None:
    if kind == "Secret":
        api.objects[paths.secret(NAMESPACE, "ca")] = encode({"ca.pem": "PEM"})
    else:
        api.objects[paths.config_map(NAMESPACE, "ca")] = {"data": {"ca.pem": "PEM"}}
    bundle = {"kind": kind, "name": "ca", "key": "ca.pem"}
    with open_experiment_store(api, view(caBundle=bundle), StoreOptions()) as opened:
        assert isinstance(opened.address, S3Address)
        assert Path(opened.address.ca_file).read_text() == "PEM"
    with (
        pytest.raises(CliError, match=r"'ca' has no key 'ca.crt'"),
        open_experiment_store(api, view(caBundle={"kind": kind, "name": "ca"}), StoreOptions()),
    ):
        pass


def test_what_the_command_line_says_takes_the_place_of_the_manifest(api: FakeApi) -> None:
    store = view(prefix="demo", endpoint="http://s3:9000", region="eu-1", addressing="Path")
    with open_experiment_store(api, store, StoreOptions()) as opened:
        assert opened.address == S3Address("models", "demo", "http://s3:9000", "eu-1", "Path")
    options = StoreOptions("http://localhost:9000", "us-2")
    with open_experiment_store(api, store, options) as opened:
        assert opened.address == S3Address("models", "demo", "http://localhost:9000", "us-2", "Path")


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({}, "experiment digits has no checkpoints.store"),
        ({"store": {"box": "x"}}, "names no store that is known"),
        (
            {"store": {"volume": {"claimName": "weights"}}},
            "experiment digits does not say which image reads claim weights; name the agent's with --agent-image",
        ),
    ],
)
def test_without_a_store_that_is_known_there_is_nothing_to_open(api: FakeApi, written: Manifest, problem: str) -> None:
    with (
        pytest.raises(CliError, match=problem),
        open_experiment_store(api, view(written), StoreOptions()),
    ):
        pass


@pytest.mark.parametrize(
    ("store", "address", "secret", "taken"),
    [
        (
            {"gcs": {"bucket": "models"}, "prefix": "demo", "endpoint": "http://gcs:1"},
            GcsAddress("models", "demo", "http://gcs:1"),
            {"serviceAccountKey": "{}", "more": "?"},
            {"serviceAccountKey"},
        ),
        (
            {"azure": {"account": "lab", "container": "models"}},
            AzureAddress("models", "lab"),
            {"accountKey": "hush", "sasToken": "sv", "more": "?"},
            {"accountKey", "sasToken"},
        ),
        (
            {"plugin": {"name": "shelf", "settings": {"room": 3}}, "prefix": "demo"},
            PluginAddress("shelf", "demo", '{"room": 3}'),
            {"password": "hush", "more": "?"},
            {"password", "more"},
        ),
    ],
)
def test_other_kinds_of_stores_are_opened_with_their_own_secrets(
    api: FakeApi,
    store: dict[str, Any],
    address: GcsAddress | AzureAddress | PluginAddress,
    secret: dict[str, str],
    taken: set[str],
) -> None:
    api.objects[paths.secret(NAMESPACE, "key")] = encode(secret)
    written = view({"store": {**store, "credentialsSecret": "key"}})
    with open_experiment_store(api, written, StoreOptions()) as opened:
        assert isinstance(opened.address, type(address))
        assert {file.name for file in Path(opened.address.credentials).iterdir()} == taken
        assert replace(opened.address, credentials="") == address
    with open_experiment_store(api, written, StoreOptions(own_credentials=True)) as opened:
        assert opened.address == address


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("s3://models/a", S3Address("models", endpoint="http://localhost:9")),
        ("gs://models/a", GcsAddress("models", endpoint="http://localhost:9")),
        ("az://models/a", AzureAddress("models", "lab", endpoint="http://localhost:9")),
        ("file:///tmp/a", FileAddress("/")),
    ],
)
def test_an_uri_says_which_store_is_opened(uri: str, address: AnyAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lab")
    with open_store_of(uri, StoreOptions("http://localhost:9"), open_no_api) as opened:
        assert opened.address == address
        assert opened.address.holds(uri)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("az://models/a", "does not say of which storage account it is; set AZURE_STORAGE_ACCOUNT_NAME"),
        ("plugin://shelf/a", "says nothing of the plugin's settings; name its Trial or Experiment"),
    ],
)
def test_an_uri_that_says_too_little_is_refused_with_the_remedy(
    uri: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(CliError, match=said), open_store_of(uri, StoreOptions(), open_no_api):
        pass


def test_what_is_not_installed_is_named(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (store_access, volume_access):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    volume = view({"store": {"volume": {"claimName": "weights"}}})
    for open_one in (
        open_store_of("s3://models/demo/9", StoreOptions(), open_no_api),
        open_store_of("gs://models/demo/9", StoreOptions(), open_no_api),
        open_experiment_store(api, volume, StoreOptions()),
    ):
        with pytest.raises(CliError, match=r"pip install 'podtune\[cli,store\]'"), open_one:
            pass


def open_no_api() -> tuple[Api, str]:
    raise AssertionError("a bucket is opened without the API server")


class TestVolumes:
    """What the pod is made of through which a volume is read."""

    @pytest.fixture
    def plans(self, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[ReaderPlan]:
        made: list[ReaderPlan] = []

        @contextmanager
        def open_volume(opened: Api, plan: ReaderPlan) -> Iterator[MemoryStore]:
            assert opened is api
            made.append(plan)
            yield MemoryStore()

        monkeypatch.setattr(volume_access, "open_volume", open_volume)
        return made

    def add_experiment(self, api: FakeApi, name: str, claim: str, image: str = "agent:1") -> ExperimentView:
        made = experiment(name, agentImage=image)
        made["metadata"]["uid"] = f"uid-of-{name}"
        template = {"nodeSelector": {"of": name}}
        made["spec"] |= {
            "checkpoints": {"store": {"volume": {"claimName": claim}, "prefix": "team"}},
            "trialTemplate": {"spec": template},
        }
        api.add_experiment(made)
        return read_experiment(made)

    def test_of_an_experiment_it_has_its_image_and_its_place(self, api: FakeApi, plans: list[ReaderPlan]) -> None:
        digits = self.add_experiment(api, "digits", "weights")
        with open_experiment_store(api, digits, StoreOptions()) as opened:
            assert opened.address == VolumeAddress("weights", "team")
        assert plans == [
            ReaderPlan(NAMESPACE, VolumeAddress("weights", "team"), "agent:1", "digits", "uid-of-digits",
                       {"nodeSelector": {"of": "digits"}})
        ]  # fmt: skip

    def test_the_command_line_may_name_another_image(self, api: FakeApi, plans: list[ReaderPlan]) -> None:
        digits = self.add_experiment(api, "digits", "weights", image="")
        with open_experiment_store(api, digits, StoreOptions(agent_image="mirror/agent:1")):
            pass
        assert plans[0].image == "mirror/agent:1"

    @pytest.mark.parametrize(("uid", "user"), [("uid-of-mine", "mine"), ("uid-of-one-that-is-gone", "mine")])
    def test_of_an_uri_it_is_that_of_its_experiment_or_of_another_on_the_volume(
        self, api: FakeApi, plans: list[ReaderPlan], uid: str, user: str
    ) -> None:
        self.add_experiment(api, "elsewhere", "another")
        self.add_experiment(api, "other", "weights")
        self.add_experiment(api, "mine", "weights")
        uri = f"volume://weights/team/{uid}/mine-0/pod-1/9"
        with open_store_of(uri, StoreOptions(), lambda: (api, NAMESPACE)) as opened:
            assert opened.address.find_key(uri) == f"team/{uid}/mine-0/pod-1/9"
        assert [(plan.experiment, plan.address.claim) for plan in plans] == [(user, "weights")]
