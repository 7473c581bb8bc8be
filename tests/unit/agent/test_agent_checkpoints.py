"""Checkpoints on their way from the program into the bucket, and back."""

import errno
import io
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints import uploader
from podtune.agent.checkpoints.restore import NothingRestored, restore
from podtune.agent.event_log import EventLog
from podtune.agent.main import run_restore
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.protocol.messages import NOT_RESTORABLE, LedgerLine, Unstored, parse_final_commit, parse_ledger
from podtune.storage.checkpoint.address import CheckpointAddress
from podtune.storage.errors import BucketNotFound, InvalidCredentials, Unreachable
from podtune.storage.memory_store import MemoryStore
from podtune.trial.snapshot import take_snapshot
from tests.unit.agent.stub_operator import FENCED, dumps, wait_until

STORE = {"PODTUNE_STORE": json.dumps({"bucket": "models", "prefix": "demo", "endpoint": None, "region": "eu-1"})}
ROOT = "demo/experiment-1/digits-7/pod-1"
TAKEN_WITH = {"PODTUNE_CONFIGURATION": "c" * 64}
LOOKS = TAKEN_WITH | {"PODTUNE_FIND_CHECKPOINTS": "true", "PODTUNE_RESTORE_FROM": ""}


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def agent(start_agent, store, operator):
    running = start_agent(STORE | TAKEN_WITH | {"PODTUNE_DRAIN_SECONDS": "1"}, make_store=lambda _: store)
    yield running
    running.end()


@pytest.fixture
def report(agent, tmp_path):
    def report(content, **metrics):
        source = tmp_path / "user"
        (source / "sub").mkdir(parents=True, exist_ok=True)
        (source / "weights").write_text(content)
        (source / "sub" / "state").write_text("state")
        name = take_snapshot(source, agent.directory / "checkpoints")
        agent.write(dumps(_checkpoint=name, **metrics))
        return name

    return report


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(uploader, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(uploader, "PERMANENT_WAIT", 0.05)


def test_a_checkpoint_is_stored_with_its_manifest_last_and_reported(operator, agent, report, store):
    name = report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    (commit,) = operator.commits.values()
    assert (commit.uri, commit.step) == (f"s3://models/{ROOT}/1", 1)
    assert store.operations[-1] == f"put {ROOT}/1/manifest.json"
    assert store.objects[f"{ROOT}/1/data/sub/state"] == b"state"
    assert operator.results[1].checkpoint
    assert "_checkpoint" not in operator.results[1].metrics
    assert json.loads(store.objects[f"{ROOT}/1/manifest.json"])["metric"] == "0.5"
    wait_until(lambda: not (agent.directory / "checkpoints" / name).exists())


def test_the_last_checkpoint_and_the_history_are_stored_at_the_end(agent, report, store, operator):
    operator.acks_commits = False
    report("w1", accuracy=0.5)
    commit = agent.end()
    assert [c.checkpoint.uri for c in commit.checkpoints] == [f"s3://models/{ROOT}/1"]
    assert store.objects[f"{ROOT}/results.jsonl"].startswith(b'{"_checkpoint"')


@pytest.fixture
def backlog(agent, report, store, operator, monkeypatch):
    """Three checkpoints that the bucket takes no earlier than at the program's end."""
    real = store.put_content

    def put_content(key, content):
        wait_until(lambda: agent._sidecar._uploader._ending)
        return real(key, content)

    monkeypatch.setattr(store, "put_content", put_content)
    for step in (1, 2, 3):
        report(f"w{step}", accuracy=step)
    operator.wait_for(lambda: operator.acked_seq == 3)


def test_all_that_wait_when_the_program_ends_are_stored(agent, backlog, operator):
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 2, 3]


def test_of_those_that_wait_only_the_newest_is_stored_when_the_trial_was_told_to_end(agent, backlog, operator, report):
    operator.decision = "PAUSE"
    agent.write(dumps(accuracy=4))  # its answer brings the decision
    wait_until(lambda: agent._sidecar.attempt.wants["shouldStop"])
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 3]
    assert "checkpoint given up" in agent.log.getvalue()


def test_older_ones_leave_time_for_the_newest(agent, backlog, store, operator, monkeypatch):
    real = store.put_content

    def put_content(key, content):
        if "/2/data" in key:
            raise Unreachable("bucket 'models' does not answer")
        return real(key, content)

    monkeypatch.setattr(store, "put_content", put_content)
    monkeypatch.setattr(agent._sidecar._drain, "_seconds", 8.0)  # a slow machine needs some for the newest
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [1, 3]


def test_what_was_stored_of_a_checkpoint_that_was_given_up_is_not_taken_for_the_next_ones(
    start_agent, store, operator, monkeypatch
):
    agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "20"}, make_store=lambda _: store)
    real = store.put_bytes

    def put_bytes(key, data):
        if key.endswith("/1/manifest.json"):
            raise Unreachable("bucket 'models' does not answer")
        return real(key, data)

    monkeypatch.setattr(store, "put_bytes", put_bytes)
    for number in (1, 2):  # their files differ in nothing but what is in them
        directory = agent.directory / "checkpoints" / str(number)
        directory.mkdir(parents=True)
        (directory / "weights").write_text(f"w{number}")
        os.utime(directory / "weights", ns=(0, 0))
        agent.write(dumps(_checkpoint=str(number), accuracy=number))
    wait_until(lambda: f"{ROOT}/1/data/weights" in store.objects)
    operator.decision = "PAUSE"
    agent.write(dumps(accuracy=3))  # its answer brings the decision
    wait_until(lambda: agent._sidecar.attempt.wants["shouldStop"])
    agent.end()
    assert [commit.step for commit in operator.commits.values()] == [2]
    assert store.objects[f"{ROOT}/2/data/weights"] == b"w2"


def decision(number, action="CONTINUE"):
    inputs = {"rung": str(number)}
    return LedgerLine(number, "2026-01-01T00:00:00Z", 1, number, action, f"at rung {number} – ½", inputs)


def heard(operator):
    """Number of the last decision that the agent says it knows."""
    return operator.reports[-1].ledger if operator.reports else 0


def test_the_decisions_that_the_operator_tells_of_are_stored_once_each(agent, report, store, operator):
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 1)
    operator.ledger.append(decision(2))
    report("w2", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 2)
    agent.end()
    stored = store.objects[f"{ROOT}/ledger.jsonl"].decode().splitlines()
    assert [json.loads(line) for line in stored] == [asdict(decision(1)), asdict(decision(2))]


def test_the_decision_that_ended_the_attempt_is_among_them(agent, report, store, operator):
    """It was taken on the last result, so nothing else would be left to say."""
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    wait_until(lambda: f"{ROOT}/1/manifest.json" in store.objects)
    operator.ledger.append(decision(1, "STOP"))
    agent.end()
    assert json.loads(store.objects[f"{ROOT}/ledger.jsonl"])["action"] == "STOP"


def test_decisions_are_stored_as_they_come_and_the_last_word_says_how_far(agent, report, store, operator):
    """An agent whose node is lost has no time to store anything."""
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    wait_until(lambda: f"{ROOT}/ledger.jsonl" in store.objects)
    operator.ledger.append(decision(2, "STOP"))
    commit = agent.end()
    assert [entry.number for entry in parse_ledger(store.objects[f"{ROOT}/ledger.jsonl"])] == [1, 2]
    assert commit.ledger == 2


def test_decisions_that_could_not_be_stored_are_not_said_to_be(agent, report, store, operator, monkeypatch):
    put = store.put_bytes

    def refuse(key, data):
        if key.endswith("ledger.jsonl"):
            raise Unreachable("no answer")
        put(key, data)

    monkeypatch.setattr(store, "put_bytes", refuse)
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: heard(operator) == 1)
    assert agent.end().ledger == 0


def test_an_operator_that_is_away_at_the_end_is_not_waited_for_long(agent, report, store, operator):
    operator.ledger.append(decision(1))
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits and heard(operator) == 1)
    wait_until(lambda: operator.reports[-1].results == ())
    operator.close()
    started = time.monotonic()
    agent.end()
    assert time.monotonic() - started < uploader.LAST_WORD + 1.0
    assert json.loads(store.objects[f"{ROOT}/ledger.jsonl"])["number"] == 1


def test_a_trial_without_decisions_has_no_ledger(agent, report, store):
    report("w1", accuracy=0.5)
    agent.end()
    assert f"{ROOT}/ledger.jsonl" not in store.objects


def test_a_store_problem_is_reported_early_and_withdrawn_once_it_is_mended(operator, agent, report, store):
    store.failure = InvalidCredentials("bucket 'models' refuses the credentials; correct the Secret")
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.reports and operator.reports[-1].store_problem is not None)
    problem = operator.reports[-1].store_problem
    assert (problem.reason, problem.permanent) == ("InvalidCredentials", True)
    store.failure = None
    operator.wait_for(lambda: operator.commits and operator.reports[-1].store_problem is None)


def test_a_missing_bucket_is_reported_before_there_is_a_checkpoint(operator, start_agent):
    agent = start_agent(STORE, make_store=lambda _: MemoryStore(bucket_exists=False))
    operator.wait_for(lambda: operator.reports and operator.reports[-1].store_problem is not None)
    assert operator.reports[-1].store_problem.reason == "BucketNotFound"
    assert agent.end().store_problem.reason == "BucketNotFound"


def test_a_store_that_stays_away_is_told_in_the_final_commit(agent, report, store):
    store.failure = Unreachable("bucket 'models' does not answer")
    report("w1", accuracy=0.5)
    commit = agent.end()
    assert commit.store_problem.reason == "Unreachable"
    assert commit.checkpoints == ()
    assert commit.acked_seq == 1


@pytest.fixture(params=["link", "link inside", "missing", "pipe"])
def bad_checkpoint(request, agent, tmp_path):
    """Name of a checkpoint that is none, and a secret that it may lead to."""
    trick = request.param
    (tmp_path / "token-of-the-agent").mkdir()
    (tmp_path / "token-of-the-agent" / "token").write_text("very secret")
    bad = agent.directory / "checkpoints" / "bad"
    wait_until(bad.parent.exists)
    if trick == "link":
        bad.symlink_to(tmp_path / "token-of-the-agent")
    elif trick != "missing":
        bad.mkdir()
        if trick == "pipe":
            os.mkfifo(bad / "weights")
        else:
            (bad / "weights").symlink_to(tmp_path / "token-of-the-agent" / "token")
    yield "bad"
    assert (tmp_path / "token-of-the-agent" / "token").exists()


def test_a_checkpoint_that_can_not_be_trusted_is_refused_and_the_next_one_stored(
    operator, agent, report, store, bad_checkpoint
):
    agent.write(dumps(accuracy=0.1, _checkpoint=bad_checkpoint))
    operator.wait_for(lambda: any(report.store_problem for report in operator.reports))
    report("good", accuracy=0.2)
    operator.wait_for(lambda: operator.commits)
    assert [commit.step for commit in operator.commits.values()] == [2]
    assert b"very secret" not in b"".join(store.objects.values())


def test_only_kept_checkpoints_stay(operator, agent, report, store):
    for step in range(1, 5):
        report(f"w{step}", accuracy=step)
        operator.wait_for(lambda step=step: len(operator.commits) == step)
    operator.kept = (f"s3://models/{ROOT}/3", f"s3://models/{ROOT}/4")
    agent.write(dumps(accuracy=5))
    gone = [f"{ROOT}/{step}/{name}" for step in (1, 2) for name in ("manifest.json", "data/weights")]
    wait_until(lambda: not any(key in store.objects for key in gone))
    assert store.objects[f"{ROOT}/1/data/sub/state"], "the kept ones refer to it"
    assert {f"{ROOT}/3/manifest.json", f"{ROOT}/4/manifest.json"} <= set(store.objects)


def test_what_the_last_checkpoint_makes_superfluous_goes_before_the_end(operator, agent, report, store):
    report("w1", accuracy=1)
    operator.wait_for(lambda: len(operator.commits) == 1)
    operator.kept = (f"s3://models/{ROOT}/2",)
    report("w2", accuracy=2)
    agent.end()
    assert f"{ROOT}/1/manifest.json" not in store.objects
    assert f"{ROOT}/2/manifest.json" in store.objects


def test_an_unchanged_file_is_stored_once_also_by_the_next_attempt(operator, agent, report, store, start_agent):
    report("w1", accuracy=1)
    operator.wait_for(lambda: operator.commits)
    operator.kept = tuple(operator.commits)
    agent.end()
    store.operations.clear()
    again = start_agent(STORE | {"PODTUNE_POD_UID": "pod-2"}, make_store=lambda _: store)
    operator.wait_for(lambda: operator.reports and operator.reports[-1].attempt == "pod-2")
    again.write(dumps(accuracy=2))
    operator.wait_for(lambda: operator.acked_seq >= 2)
    report("w1", accuracy=3)
    again.end()
    stored = [operation for operation in store.operations if "pod-2" in operation and "/data/" in operation]
    assert stored == []


def test_two_checkpoints_at_one_iteration_do_not_overwrite_each_other(operator, agent, report, store):
    report("w1", training_iteration=3)
    operator.wait_for(lambda: len(operator.commits) == 1)
    report("w2", training_iteration=3)
    operator.wait_for(lambda: len(operator.commits) == 2)
    assert store.objects[f"{ROOT}/3/data/weights"] == b"w1"
    assert store.objects[f"{ROOT}/3.2/data/weights"] == b"w2"


def test_a_fenced_attempt_stores_nothing(operator, agent, report, store):
    operator.wait_for(lambda: operator.reports)
    operator.faults = [FENCED]
    agent.write(dumps(accuracy=0))
    wait_until(lambda: "fenced" in agent.log.getvalue())
    report("w1", accuracy=0.5)
    agent.end()
    assert store.objects == {}


def test_a_restarted_agent_tells_of_checkpoints_that_it_stored_before(operator, agent, report, start_agent, store):
    report("w1", accuracy=0.5)
    operator.wait_for(lambda: operator.commits)
    before = dict(operator.commits)
    agent.end()
    operator.commits.clear()
    again = start_agent(STORE, make_store=lambda _: store)
    operator.wait_for(lambda: operator.commits)
    again.end()
    assert operator.commits == before
    assert operator.taken == [1]


class TestRestore:
    @pytest.fixture
    def commits(self, operator, agent, report):
        for step in (1, 2):
            report(f"w{step}", accuracy=step)
            operator.wait_for(lambda step=step: len(operator.commits) == step)
        agent.end()
        return [operator.commits[f"s3://models/{ROOT}/{step}"] for step in (2, 1)]

    @pytest.fixture
    def run(self, environ, store, commits):
        def run(**overrides):
            items = [{"uri": c.uri, "digest": c.digest, "step": c.step} for c in commits]
            variables = environ | STORE | {"PODTUNE_RESTORE_FROM": json.dumps(items)} | overrides
            sleeps = []
            info = restore(
                Settings.from_environ(variables), EventLog(lambda: 0.0, stream=io.StringIO()), Random(1),
                make_store=lambda _: store, sleep=sleeps.append,
            )  # fmt: skip
            return info, Path(environ["PODTUNE_DIR"]) / "restored"

        run.given = json.dumps([{"uri": c.uri, "digest": c.digest, "step": c.step} for c in commits])
        return run

    def test_the_newest_is_restored(self, run, operator):
        info, restored = run()
        assert (info.restored.step, info.iteration, info.restored.message) == (2, 2, "")
        assert info.time_total == operator.results[2].metrics["time_total_s"] > 0
        assert (restored / "weights").read_text() == "w2"
        assert (restored / "sub" / "state").read_text() == "state"
        assert oct((restored / "weights").stat().st_mode & 0o777) == "0o644"

    def test_an_attempt_that_is_to_look_finds_what_was_taken_with_its_configuration(self, run, operator):
        info, restored = run(**LOOKS)
        newest = operator.commits[f"s3://models/{ROOT}/2"]
        assert (info.restored.checkpoint, info.restored.metric) == (newest, 2.0)
        assert (restored / "weights").read_text() == "w2"

    def test_a_damaged_one_that_it_finds_falls_back_to_the_one_before(self, run, store):
        store.objects[f"{ROOT}/2/data/weights"] = b"wX"
        info, restored = run(**LOOKS)
        assert (info.restored.step, (restored / "weights").read_text()) == (1, "w1")
        assert "weights is damaged" in info.restored.message

    @pytest.mark.parametrize(
        "other", [{"PODTUNE_CONFIGURATION": "d" * 64}, {"PODTUNE_CONFIGURATION": ""}, {"PODTUNE_EXPERIMENT_UID": "u-2"}]
    )
    def test_it_finds_nothing_of_another_configuration_or_experiment(self, run, other):
        info, restored = run(**LOOKS | other)
        assert (info.restored.checkpoint, restored.exists()) == (None, False)

    def test_what_it_was_given_comes_after_what_it_finds(self, run, operator):
        info, _ = run(**LOOKS | {"PODTUNE_CONFIGURATION": "d" * 64, "PODTUNE_RESTORE_FROM": run.given})
        assert info.restored.checkpoint == operator.commits[f"s3://models/{ROOT}/2"]

    @pytest.mark.parametrize(
        ("key", "content", "said"),
        [
            ("data/weights", b"wX", "weights is damaged"),
            ("data/weights", b"w2 and more", "weights is damaged"),
            ("data/weights", None, "weights is missing"),
            ("manifest.json", None, "manifest is missing"),
            ("manifest.json", b"{}", "not the one that was committed"),
        ],
    )
    def test_a_damaged_one_falls_back_to_the_one_before(self, run, store, key, content, said):
        if content is None:
            del store.objects[f"{ROOT}/2/{key}"]
        else:
            store.objects[f"{ROOT}/2/{key}"] = content
        info, restored = run()
        assert info.restored.step == 1
        assert said in info.restored.message
        assert (restored / "weights").read_text() == "w1"

    def test_nothing_whole_means_a_fresh_start(self, run, store):
        store.objects.clear()
        info, restored = run()
        assert (info.restored.step, info.restored.uri) == (0, "")
        assert info.restored.message.count("manifest is missing") == 2
        assert not restored.exists()

    @pytest.mark.parametrize("or_fail", ["true", ""])
    def test_a_store_that_stays_away_is_no_reason_to_begin_afresh(self, store, environ, commits, monkeypatch, or_fail):
        monkeypatch.setattr("podtune.agent.checkpoints.restore.RESTORE_PATIENCE", 0.0)
        store.failure = Unreachable("bucket 'models' does not answer")
        settings = self.settings(environ, commits, or_fail)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "bucket 'models' does not answer" in settings.termination_log.read_text()

    def test_nor_is_one_that_takes_longer_than_it_may(self, store, environ, commits):
        settings = self.settings(environ | {"PODTUNE_SYNC": json.dumps({"timeout": 1e-6})}, commits)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "longer than checkpoints.sync.timeout" in settings.termination_log.read_text()
        assert not (Path(environ["PODTUNE_DIR"]) / "restored").exists()

    def test_nor_is_a_full_disk(self, store, environ, commits, monkeypatch):
        def write(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("podtune.storage.checkpoint.download.Download.run", write)
        settings = self.settings(environ, commits)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "No space left on device" in settings.termination_log.read_text()

    def settings(self, environ, commits, or_fail=""):
        items = [{"uri": c.uri, "digest": c.digest, "step": c.step} for c in commits]
        variables = {
            "PODTUNE_RESTORE_FROM": json.dumps(items),
            "PODTUNE_RESTORE_OR_FAIL": or_fail,
            "PODTUNE_TERMINATION_LOG": environ["PODTUNE_TERMINATION_LOG"] + "-of-the-restore-container",
        }
        return Settings.from_environ(environ | STORE | variables)

    def exit_code(self, settings, store):
        return run_restore(settings, EventLog(lambda: 0.0, stream=io.StringIO()), make_store=lambda _: store)

    def test_an_attempt_that_is_to_be_a_clone_fails_where_nothing_is_whole(self, run, store):
        store.objects.clear()
        with pytest.raises(NothingRestored, match="manifest is missing"):
            run(PODTUNE_RESTORE_OR_FAIL="true")

    def test_the_kubelet_is_told_why_a_clone_could_not_be_restored(self, store, environ, commits):
        store.objects.clear()
        settings = self.settings(environ, commits[:1], "true")
        assert self.exit_code(settings, store) == NOT_RESTORABLE
        assert settings.termination_log.read_text() == "step 2 was not restored: its manifest is missing"

    def test_a_clone_that_is_whole_is_restored_from_the_donors_place(self, run, environ):
        info, restored = run(PODTUNE_RESTORE_OR_FAIL="true", PODTUNE_TRIAL="digits-8", PODTUNE_POD_UID="pod-2")
        assert (info.restored.step, info.restored.uri) == (2, f"s3://models/{ROOT}/2")
        assert (restored / "weights").read_text() == "w2"

    def test_a_checkpoint_in_another_bucket_is_refused(self, run, commits):
        uri = CheckpointAddress("other", f"{ROOT}/2").uri
        info, _ = run(PODTUNE_RESTORE_FROM=json.dumps([{"uri": uri, "digest": commits[0].digest, "step": 2}]))
        assert "bucket 'other'" in info.restored.message

    def test_a_malformed_list_is_an_error(self, run):
        with pytest.raises(AgentSettingsError, match="PODTUNE_RESTORE_FROM"):
            run(PODTUNE_RESTORE_FROM='[{"uri": 1}]')


def test_without_a_store_checkpoints_do_not_fill_the_disk(operator, start_agent, tmp_path):
    agent = start_agent()
    (tmp_path / "mine").mkdir()
    wait_until((agent.directory / "checkpoints").exists)
    name = take_snapshot(tmp_path / "mine", agent.directory / "checkpoints")
    agent.write(dumps(accuracy=1, _checkpoint=name))
    operator.wait_for(lambda: operator.acked_seq == 1)
    agent.end()
    assert not operator.results[1].checkpoint
    assert list((agent.directory / "checkpoints").iterdir()) == []
    assert "no checkpoints.store" in agent.log.getvalue()


def test_checkpoints_that_come_too_fast_do_not_fill_the_disk(agent, report, store, operator):
    store.failure = Unreachable("bucket 'models' does not answer")
    names = [report(f"w{step}", accuracy=step) for step in range(1, 9)]
    wait_until(lambda: len(list((agent.directory / "checkpoints").iterdir())) <= 5)
    store.failure = None
    operator.wait_for(lambda: f"s3://models/{ROOT}/8" in operator.commits)
    assert not (agent.directory / "checkpoints" / names[1]).exists()
    assert "take them less often" in agent.log.getvalue()


class TestTheEnd:
    def write_checkpoint(self, agent, accuracy=0.5):
        directory = agent.directory / "checkpoints" / "last"
        directory.mkdir(parents=True)
        (directory / "weights").write_text("w")
        agent.write(dumps(_checkpoint="last", accuracy=accuracy))

    @pytest.mark.parametrize(
        "problem", [BucketNotFound("bucket 'models' does not exist"), Unreachable("bucket 'models' does not answer")]
    )
    def test_a_bucket_that_comes_back_within_the_drain_gets_the_last_checkpoint(
        self, start_agent, store, operator, monkeypatch, problem
    ):
        """Somebody may mend it by then, and this is the last time that the checkpoint can be stored."""
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "60"}, make_store=lambda _: store)
        real, failures = store.put_content, []

        def put_content(key, content):
            if not agent._sidecar._uploader._ending or len(failures) < 3:
                failures.append(key)
                raise problem
            return real(key, content)

        monkeypatch.setattr(store, "put_content", put_content)
        self.write_checkpoint(agent)
        commit = agent.end()
        assert commit.store_problem is None
        assert f"{ROOT}/1/manifest.json" in store.objects

    def test_time_that_is_over_names_the_field_that_gives_more(self, start_agent, store, operator, monkeypatch):
        def put_content(key, content):
            raise Unreachable("bucket 'models' does not answer")

        monkeypatch.setattr(store, "put_content", put_content)
        monkeypatch.setattr(uploader.Uploader, "_report", lambda *_: None)  # no other problem is told
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "1"}, make_store=lambda _: store)
        self.write_checkpoint(agent)
        final = agent.end()
        assert final.store_problem.message == "the last checkpoint could not be stored in 1 s; raise checkpoints.drain"
        assert (final.unstored.seq, final.unstored.waits) == (1, True), "the operator says what is lost"

    def test_an_agent_that_is_killed_later_has_said_that_the_last_checkpoint_is_stored(
        self, start_agent, store, monkeypatch
    ):
        """Storing the rest takes its time, too: what its last word calls lost would be told to people."""
        agent = start_agent(STORE | {"PODTUNE_DRAIN_SECONDS": "60"}, make_store=lambda _: store)
        said = {}

        def hear(method):
            def store_and_hear(key, *content):
                wait_until(agent.settings.termination_log.exists)  # the program has ended
                said[key] = parse_final_commit(agent.settings.termination_log.read_text()).unstored
                return method(key, *content)

            return store_and_hear

        for method in ("put", "put_content"):
            monkeypatch.setattr(store, method, hear(getattr(store, method)))
        self.write_checkpoint(agent)
        agent.end()
        assert said == {
            f"{ROOT}/1/data/weights": Unstored(since=1, seq=1, step=1, waits=True),
            f"{ROOT}/results.jsonl": None,
        }
