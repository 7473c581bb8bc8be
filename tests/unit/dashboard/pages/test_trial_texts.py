"""A trial's log and manifest: read on request, with the rights of whoever asks, and never more than a page can hold."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from aiohttp.test_utils import TestClient, TestServer

from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.live.object_reader import LAST_LINES, MOST_BYTES, MOST_READING, KubeconfigReader
from podtune.dashboard.pages import meanwhile, trial_texts
from podtune.kube import paths
from podtune.kube.errors import Unanswered, make_refusal
from podtune.kube.manifests import Manifest
from tests.unit.dashboard.archives import BASE, Client, experiment_body, make_source, read_page, serve, trial_body
from tests.unit.dashboard.live.live_api import EXPERIMENTS, TRIALS, LiveApi, make_cluster, team_experiment, team_trial

TRIAL = f"{BASE}/trials/digits-0"
POD = "digits-0-2"
WAIT = 30
LOG = paths.log_of(paths.pod("team", POD))
RUNNING: Mapping[str, Any] = {
    "state": "RUNNING",
    "reason": "Training",
    "attempt": 2,
    "pod": {"name": POD, "uid": "p-1", "node": "gpu-7"},
    "folder": "s3://models/team/digits-0/",
}


@pytest.fixture
def api() -> LiveApi:
    api = LiveApi()
    api.lists(EXPERIMENTS, team_experiment())
    api.lists(TRIALS, team_trial(0, **RUNNING), team_trial(1))
    api.objects[paths.pod("team", POD)] = {"metadata": {"name": POD}, "spec": {"containers": [{"name": "trial"}]}}
    api.logs[LOG] = ["epoch 1", "<script>alert(1)</script>"]
    return api


@pytest.fixture
async def client(api: LiveApi) -> AsyncIterator[Client]:
    source = make_cluster(api)
    source.start()
    app = make_app(source, AppSettings(reader=KubeconfigReader(lambda: api)))
    async with TestClient(TestServer(app)) as client:
        yield client
    source.stop()
    api.ends()


def read_text(page: str) -> str:
    found = re.search(r'<pre id="text"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found, page
    return html.unescape(found[1])


async def test_a_log_is_read_on_request_alone_and_its_last_lines_only(client: Client, api: LiveApi) -> None:
    page = await read_page(client, TRIAL)
    assert 'href="../../../../experiments/team/digits/trials/digits-0/log">show the last lines' in page
    assert not [path for path, _ in api.asked if path == LOG]
    page = await read_page(client, f"{TRIAL}/log")
    assert read_text(page) == "epoch 1\n<script>alert(1)</script>"
    assert "<script>alert" not in page
    assert "All its lines, as of now." in page
    asked = {"container": "trial", "tailLines": str(LAST_LINES), "limitBytes": str(MOST_BYTES)}
    assert [params for path, params in api.asked if path == LOG] == [asked]


async def test_of_a_long_log_the_page_says_that_it_is_the_end(client: Client, api: LiveApi) -> None:
    api.logs[LOG] = [f"line {number}" for number in range(LAST_LINES + 50)]
    page = await read_page(client, f"{TRIAL}/log")
    assert "The last 200 lines" in page
    assert len(read_text(page).splitlines()) == LAST_LINES


async def test_pages_that_were_asked_for_are_not_asked_for_again_with_each_change(client: Client) -> None:
    assert 'id="live"' in await read_page(client, TRIAL)
    assert 'id="live"' not in await read_page(client, f"{TRIAL}/log")
    assert 'id="live"' not in await read_page(client, f"{TRIAL}/manifest")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (make_refusal(403, "Forbidden", "you cannot get pods/log"), "403: you cannot get pods/log; you need the right"),
        (make_refusal(404, "NotFound", "pod not found"), "the pod digits-0-2 of digits-0 is gone"),
        (make_refusal(400, "BadRequest", "container is waiting to start"), "digits-0 has no log yet"),
        (Unanswered("the API server is not there"), "the API server is not there"),
    ],
)
async def test_what_cannot_be_read_is_explained(client: Client, api: LiveApi, answer: Exception, words: str) -> None:
    api.logs[LOG] = answer
    page = await read_page(client, f"{TRIAL}/log")
    assert words in html.unescape(page)
    assert '<pre id="text"' not in page
    assert "kubectl podtune logs digits-0 -n team --follow" in page


@pytest.mark.parametrize(
    ("name", "text"), [("log", "epoch 1"), ("pod", "no Events of it"), ("manifest", "kind: Trial")]
)
async def test_a_page_says_whom_it_asks_until_there_is_an_answer(
    client: Client, api: LiveApi, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    method = {"log": "read_log", "pod": "read_events", "manifest": "read_manifest"}[name]
    api.objects[paths.trial("team", "digits-0")] = team_trial(0, **RUNNING)
    monkeypatch.setattr(meanwhile, "ANNOUNCE_AFTER", 0.01)
    answers, read_now = threading.Event(), getattr(KubeconfigReader, method)

    def read_late(*asked: Any, **named: Any) -> Any:
        answers.wait(WAIT)
        return read_now(*asked, **named)

    monkeypatch.setattr(KubeconfigReader, method, read_late)
    async with client.get(f"{TRIAL}/{name}") as response:
        said = (await response.content.readuntil(b"No answer yet.")).decode()
        answers.set()
        rest = (await response.content.read()).decode()
    assert "Asking the API server" in said
    assert text in rest
    assert (said + rest).count("<h1") == 1


async def test_an_api_server_that_is_silent_does_not_hold_the_page(
    client: Client, api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_texts, "LONGEST_ASKING", 0.01)
    answers = threading.Event()
    monkeypatch.setattr(api, "read_lines", lambda *_: iter([str(answers.wait(WAIT))]))
    for _ in range(MOST_READING):
        assert "has not answered within 0.01 seconds" in await read_page(client, f"{TRIAL}/log")
    # Those threads still wait: others do not join them, and a page that draws a chart is not held.
    page = await read_page(client, f"{TRIAL}/log", 503)
    assert "Other pages are waiting for the API server to answer" in page
    assert 'id="live"' not in page
    assert await asyncio.wait_for(asyncio.to_thread(lambda: "drawn"), WAIT) == "drawn"
    answers.set()
    async with asyncio.timeout(WAIT):
        while (await client.get(f"{TRIAL}/log")).status == 503:
            pass


async def test_the_events_of_a_pod_tell_pulling_from_starting(client: Client, api: LiveApi) -> None:
    told = [("Scheduled", "00", ""), ("Pulling", "02", "main"), ("Pulled", "44", "main"), ("Started", "58", "main")]
    for reason, second, container in told:
        time = f"2026-01-01T12:00:{second}Z"
        api.objects[f"{paths.core_events('team')}/{reason}"] = {
            "reason": reason,
            "message": "<b>",
            "involvedObject": {"fieldPath": f"spec.containers{{{container}}}" if container else ""},
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
    assert 'digits-0/pod">Its Events</a>' in await read_page(client, TRIAL)
    assert not [path for path, _ in api.asked if path == paths.core_events("team")]
    page = await read_page(client, f"{TRIAL}/pod")
    assert "From its node to its last container’s start it took 58s, of which pulling an image took 42s." in page
    assert page.count("<tr>") == 1 + len(told)
    assert "<b>" not in page.partition("</header>\n  <div")[2]
    asked = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={POD}"}
    assert [params for path, params in api.asked if path == paths.core_events("team")] == [asked]


async def test_events_that_are_gone_or_may_not_be_read_are_explained(
    client: Client, api: LiveApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "The cluster has no Events of it any more" in await read_page(client, f"{TRIAL}/pod")

    def refuse(path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        raise make_refusal(403, "Forbidden", "you cannot list events")

    monkeypatch.setattr(api, "list_all", refuse)
    assert "403: you cannot list events; you need the right" in await read_page(client, f"{TRIAL}/pod")
    assert "digits-1 has no pod yet" in await read_page(client, f"{BASE}/trials/digits-1/pod")


async def test_a_trial_without_a_pod_has_no_link_to_a_log(client: Client) -> None:
    assert "show the last lines" not in await read_page(client, f"{BASE}/trials/digits-1")
    assert "digits-1 has no pod yet" in await read_page(client, f"{BASE}/trials/digits-1/log")
    await read_page(client, f"{BASE}/trials/digits-9/log", 404)


async def test_each_rank_of_a_gang_has_its_log() -> None:
    api = LiveApi()
    other = paths.pod("team", "digits-0-2-1")
    api.objects[other] = {"metadata": {"name": POD}, "spec": {"containers": [{"name": "trial"}]}}
    api.logs[paths.log_of(other)] = ["I am rank 1"]
    gang = {"replicas": 3, "spec": {"containers": [{"name": "trial", "image": "i"}]}}
    api.lists(EXPERIMENTS, team_experiment() | {"spec": experiment_body(trialTemplate=gang)["spec"]})
    api.lists(TRIALS, team_trial(0, **{**RUNNING, "pod": {"name": f"{POD}-0", "uid": "p-1", "node": "gpu-7"}}))
    source = make_cluster(api)
    source.start()
    async with TestClient(TestServer(make_app(source, AppSettings(reader=KubeconfigReader(lambda: api))))) as client:
        page = await read_page(client, f"{TRIAL}/log?rank=1")
        assert read_text(page) == "I am rank 1"
        assert re.findall(r'log\?rank=(\d)"(?: aria-current="true")?>rank', page) == ["1", "2"]
        assert "only one pod" not in await read_page(client, f"{TRIAL}/log?rank=7")
        refusal = await read_page(client, f"{TRIAL}/log?rank=chief", 400)
        assert "rank is &#39;chief&#39;; write a whole number from 0 on" in refusal
    source.stop()
    api.ends()


async def test_an_archive_has_no_pods_and_says_where_logs_are_kept() -> None:
    kept = experiment_body(logs={"keep": "8Mi"})
    async with serve(make_source([trial_body(0, **RUNNING)], kept)) as client:
        page = await read_page(client, TRIAL)
        assert "show the last lines" not in page
        assert "<code>s3://models/team/digits-0/</code>" in page
        assert "<code>kubectl podtune logs digits-0 -n team --stored</code>" in page
        await read_page(client, f"{TRIAL}/log", 404)
    async with serve(make_source([trial_body(0, **RUNNING)])) as client:
        assert "logs.keep</code> stores none" in await read_page(client, TRIAL)


async def test_a_manifest_is_what_the_api_server_has_without_its_own_notes(client: Client, api: LiveApi) -> None:
    trial = team_trial(0, **RUNNING)
    trial["metadata"] |= {
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"},
    }
    api.objects[paths.trial("team", "digits-0")] = trial
    written = yaml.safe_load(read_text(await read_page(client, f"{TRIAL}/manifest")))
    assert written["kind"] == "Trial"
    assert written["spec"] == trial["spec"]
    assert written["status"]["pod"]["node"] == "gpu-7"
    assert written["metadata"]["annotations"] == {"team": "a"}
    assert "managedFields" not in written["metadata"]
    answer = await client.get(f"{TRIAL}/manifest.yaml")
    assert yaml.safe_load(await answer.text()) == written
    assert answer.headers["Content-Disposition"] == 'attachment; filename="digits-0.yaml"'


async def test_a_manifest_that_may_not_be_read_is_explained(client: Client) -> None:
    assert "not found" in await read_page(client, f"{TRIAL}/manifest")
    await read_page(client, f"{TRIAL}/manifest.yaml", 404)


async def test_an_archive_has_the_manifests_of_its_trials() -> None:
    async with serve(make_source([trial_body(0, message="<b>")])) as client:
        assert 'digits-0/manifest">Manifest</a>' in await read_page(client, TRIAL)
        page = await read_page(client, f"{TRIAL}/manifest")
    assert yaml.safe_load(read_text(page))["spec"]["experiment"] == "digits"
    assert "<b>" not in page


async def test_a_foreign_archives_names_say_nothing_to_browsers_but_a_name() -> None:
    trial = trial_body(0)
    trial["metadata"]["name"] = 'a"; filename="b.exe\r\nSet-Cookie: c=d'
    async with serve(make_source([trial])) as client:
        answer = await client.get(f"{BASE}/trials/{quote(trial['metadata']['name'], safe='')}/manifest.yaml")
        assert answer.status == 200
    name = "a___filename__b.exe__Set-Cookie__c_d.yaml"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert "Set-Cookie" not in answer.headers


async def test_without_a_reader_a_cluster_shows_neither(api: LiveApi) -> None:
    source = make_cluster(api)
    source.start()
    async with serve(source) as client:
        page = await read_page(client, TRIAL)
        assert "Manifest</a>" not in page
        assert "show the last lines" not in page
        await read_page(client, f"{TRIAL}/log", 404)
        assert "does not show manifests" in await read_page(client, f"{TRIAL}/manifest")
    source.stop()
    api.ends()
