"""How checkpoints and artifacts are stored: the options of `checkpoints`."""

import io
import json
import threading
from random import Random

import pytest

from podtune.agent.checkpoints import uploader
from podtune.agent.checkpoints.restore import restore
from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.sync_settings import ArtifactSettings, SyncSettings
from podtune.storage.checkpoint import file_upload
from podtune.storage.errors import Unreachable
from podtune.storage.memory_store import MemoryStore
from podtune.trial.snapshot import take_snapshot
from tests.unit.agent.stub_operator import dumps, wait_until

STORE = {"PODTUNE_STORE": json.dumps({"bucket": "models"})}
ROOT = "experiment-1/digits-7/pod-1"


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(uploader, "FIRST_WAIT", 0.02)


@pytest.fixture
def start(start_agent, store):
    agents = []

    def start(sync, **environ):
        agents.append(start_agent(STORE | {"PODTUNE_SYNC": json.dumps(sync)} | environ, make_store=lambda _: store))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


def report(agent, files, tmp_path, **metrics):
    source = tmp_path / "user"
    source.mkdir(exist_ok=True)
    for name, content in files.items():
        (source / name).write_bytes(content)
    wait_until((agent.directory / "checkpoints").exists)
    agent.write(dumps(_checkpoint=take_snapshot(source, agent.directory / "checkpoints"), **metrics))


def test_all_options_are_read():
    text = json.dumps({
        "layout": "Packed", "reuseUnchanged": False, "exclude": ["*.tmp"], "timeout": 60, "retries": 3,
        "artifacts": {"include": ["logs/*"], "exclude": ["x"], "period": 10, "onCheckpoint": False},
    })  # fmt: skip
    found = SyncSettings.from_json(text)
    assert (found.options.packs, found.options.reuses, found.options.exclude) == (True, False, ("*.tmp",))
    assert (found.timeout, found.retries) == (60, 3)
    assert found.artifacts == ArtifactSettings(("logs/*",), ("x",), 10, False)
    assert SyncSettings.from_json("") == SyncSettings()


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"timeout": "x"}', '{"exclude": 1}', '{"artifacts": 1}', '{"retries": -1}']
)
def test_wrong_settings_are_named(environ, text):
    with pytest.raises(AgentSettingsError, match="PODTUNE_SYNC is"):
        Settings.from_environ(environ | {"PODTUNE_SYNC": text})


def test_checkpoints_are_packed_and_left_out_of_as_was_asked(start, store, operator, tmp_path):
    agent = start({"layout": "Packed", "exclude": ["*.tmp"]})
    report(agent, {"a": b"1", "b": b"2", "c.tmp": b"3"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: operator.commits)
    assert set(store.objects) == {f"{ROOT}/1/packs/0-0", f"{ROOT}/1/manifest.json"}
    assert store.objects[f"{ROOT}/1/packs/0-0"] == b"12"


def test_a_checkpoint_is_given_up_after_as_many_retries_and_the_next_one_stored(start, store, operator, tmp_path):
    agent = start({"retries": 2})
    store.failure = Unreachable("bucket 'models' does not answer")
    report(agent, {"a": b"1"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: any("after 2 retries" in (r.store_problem.message if r.store_problem else "")
                                  for r in operator.reports))  # fmt: skip
    store.failure = None
    report(agent, {"a": b"2"}, tmp_path, accuracy=2)
    operator.wait_for(lambda: operator.commits)
    assert [commit.step for commit in operator.commits.values()] == [2]


def test_an_upload_that_takes_too_long_is_broken_off_and_goes_on_where_it_was(start, store, operator, tmp_path):
    agent = start({"timeout": 0}, PODTUNE_DRAIN_SECONDS="1")
    report(agent, {"a": b"1"}, tmp_path, accuracy=1)
    operator.wait_for(lambda: any(report.store_problem for report in operator.reports))
    problem = next(report.store_problem for report in operator.reports if report.store_problem)
    assert problem.reason == "TimedOut"
    assert "checkpoints.sync.timeout of 0 s; raise it" in problem.message


def test_what_is_stored_in_parts_is_given_up_when_the_time_is_over(start, store, operator, tmp_path, monkeypatch):
    monkeypatch.setattr(file_upload, "WHOLE", 10)
    monkeypatch.setattr(file_upload, "CHUNK", 10)
    started = threading.Event()
    real = store.put_part

    def slowly(upload, number, content):
        started.set()
        wait_until(lambda: agent._sidecar._uploader._cancel_token.is_cancelled)
        return real(upload, number, content)

    store.put_part = slowly
    agent = start({}, PODTUNE_DRAIN_SECONDS="1")
    report(agent, {"a": b"x" * 100}, tmp_path, accuracy=1)
    assert started.wait(10)
    commit = agent.end()
    assert store.uploads == {}
    assert commit.checkpoints == ()
    assert commit.store_problem is not None
    assert f"{ROOT}/results.jsonl" in store.objects


def test_uploads_that_an_earlier_attempt_left_are_aborted(start, store, operator, tmp_path):
    store.start_upload("experiment-1/digits-7/pod-0/1/data/a")
    other = store.start_upload("experiment-1/digits-70/pod-0/1/data/a")
    agent = start({})
    operator.kept = (f"s3://models/{ROOT}/1",)
    report(agent, {"a": b"1"}, tmp_path, accuracy=1)
    wait_until(lambda: list(store.uploads) == [other])


class TestArtifacts:
    def artifacts(self, store):
        return {
            key.removeprefix(f"{ROOT}/artifacts/"): data for key, data in store.objects.items() if "/artifacts/" in key
        }

    def test_are_stored_at_the_end_but_for_our_own_files_and_the_excluded(self, start, store, tmp_path):
        agent = start({"artifacts": {"exclude": ["*.tmp"], "period": 600}})
        (agent.directory / "logs").mkdir()
        (agent.directory / "logs" / "train.log").write_bytes(b"epoch 1")
        (agent.directory / "logs" / "x.tmp").write_bytes(b"no")
        (agent.directory / "figure.png").write_bytes(b"png")
        report(agent, {"a": b"1"}, tmp_path, accuracy=1)
        agent.end()
        assert self.artifacts(store) == {"logs/train.log": b"epoch 1", "figure.png": b"png"}

    def test_are_stored_every_period_and_only_what_has_changed(self, start, store):
        agent = start({"artifacts": {"include": ["logs/*"], "period": 0.05}})
        (agent.directory / "logs").mkdir()
        (agent.directory / "logs" / "same").write_bytes(b"same")
        (agent.directory / "logs" / "grows").write_bytes(b"1")
        wait_until(lambda: len(self.artifacts(store)) == 2)
        (agent.directory / "logs" / "grows").write_bytes(b"1 and more")
        wait_until(lambda: self.artifacts(store)["logs/grows"] == b"1 and more")
        assert store.operations.count(f"put {ROOT}/artifacts/logs/same") == 1

    @pytest.mark.parametrize("on_checkpoint", [True, False])
    def test_are_stored_after_a_checkpoint_if_that_is_wanted(self, start, store, operator, tmp_path, on_checkpoint):
        agent = start({"artifacts": {"period": 600, "onCheckpoint": on_checkpoint}})
        (agent.directory / "log").write_bytes(b"1")
        report(agent, {"a": b"1"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        if on_checkpoint:
            wait_until(lambda: self.artifacts(store) == {"log": b"1"})
        agent.write(dumps(accuracy=2))
        operator.wait_for(lambda: operator.acked_seq == 2)
        assert bool(self.artifacts(store)) == on_checkpoint

    def test_links_are_passed_over_and_told_of(self, start, store, tmp_path):
        agent = start({"artifacts": {"period": 0.05}})
        (tmp_path / "secret").write_text("very secret")
        (agent.directory / "link").symlink_to(tmp_path / "secret")
        (agent.directory / "log").write_bytes(b"1")
        wait_until(lambda: self.artifacts(store) == {"log": b"1"})
        wait_until(lambda: "link is a symbolic link" in agent.log.getvalue())
        assert b"very secret" not in b"".join(store.objects.values())

    def test_a_store_that_is_away_is_tried_again_and_a_checkpoint_is_not_held_up(
        self, start, store, operator, tmp_path
    ):
        real = store.put

        def fail(key, source, size):
            if "/artifacts/" in key:
                raise Unreachable("gone")
            real(key, source, size)

        store.put = fail
        agent = start({"artifacts": {"period": 0.05}})
        (agent.directory / "log").write_bytes(b"1")
        wait_until(lambda: "artifacts not stored" in agent.log.getvalue())
        report(agent, {"a": b"1"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        store.put = real
        wait_until(lambda: self.artifacts(store) == {"log": b"1"})


class TestScratch:
    def test_what_an_attempt_has_stored_is_there_for_the_next_one(self, start, store, operator, tmp_path, environ):
        (tmp_path / "scratch").mkdir()
        scratch = {"PODTUNE_SCRATCH": str(tmp_path / "scratch")}
        agent = start({}, **scratch)
        report(agent, {"weights": b"w" * 1000}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        agent.end()
        (commit,) = operator.commits.values()
        candidates = [{"uri": commit.uri, "digest": commit.digest, "step": commit.step}]
        fetched = []
        real = store.get
        store.get = lambda key, *rest: fetched.append(key) or real(key, *rest)
        variables = environ | STORE | scratch | {"PODTUNE_RESTORE_FROM": json.dumps(candidates)}
        log = io.StringIO()
        info = restore(
            Settings.from_environ(variables), EventLog(lambda: 0.0, stream=log), Random(1), make_store=lambda _: store
        )
        assert info.restored.step == 1
        assert fetched == []
        assert json.loads(log.getvalue())["local_bytes"] == 1000
        assert (agent.directory / "restored" / "weights").read_bytes() == b"w" * 1000

    def test_a_volume_that_can_not_be_written_to_is_told_and_does_no_harm(self, start, operator, tmp_path):
        agent = start({}, PODTUNE_SCRATCH=str(tmp_path / "nothing" / "here"))
        report(agent, {"weights": b"w"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        wait_until(lambda: "can't keep the checkpoint on the scratch volume" in agent.log.getvalue())
