"""Checkpoints on their way back from the bucket to the program."""

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints.restore import NothingRestored, restore
from podtune.agent.event_log import EventLog
from podtune.agent.main import run_restore
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.state.restore_info import RestoreInfo
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.messages import NOT_RESTORABLE
from podtune.storage.errors import AccessDenied, BucketNotFound, InvalidCredentials, StoreError, Unreachable
from tests.unit.agent.running_agent import ROOT, STORE, TAKEN_WITH, RunningAgent, TakeCheckpoint
from tests.unit.agent.stub_operator import StubOperator
from tests.unit.storage.memory_store import MemoryStore

LOOKS = TAKEN_WITH | {"PODTUNE_FIND_CHECKPOINTS": "true", "PODTUNE_RESTORE_FROM": ""}

Restored = tuple[RestoreInfo, Path]


def listed(commits: list[CheckpointRef]) -> str:
    """The checkpoints to restore from, as the operator names them."""
    return json.dumps([{"uri": c.uri, "digest": c.digest, "step": c.step} for c in commits])


class TestRestore:
    @pytest.fixture
    def commits(self, operator: StubOperator, agent: RunningAgent, report: TakeCheckpoint) -> list[CheckpointRef]:
        for step in (1, 2):
            report(f"w{step}", accuracy=step)
            operator.wait_for_commits(step)
        agent.end()
        return [operator.commits[f"s3://models/{ROOT}/{step}"] for step in (2, 1)]

    @pytest.fixture
    def run(self, environ: dict[str, str], store: MemoryStore, commits: list[CheckpointRef]) -> Callable[..., Restored]:
        def run(**overrides: str) -> Restored:
            variables = environ | STORE | {"PODTUNE_RESTORE_FROM": listed(commits)} | overrides
            sleeps: list[float] = []
            info = restore(
                Settings.from_environ(variables), EventLog(lambda: 0.0, stream=io.StringIO()), Random(1),
                make_store=lambda _: store, sleep=sleeps.append,
            )  # fmt: skip
            return info, Path(environ["PODTUNE_DIR"]) / "restored"

        return run

    def test_the_newest_is_restored(self, run: Callable[..., Restored], operator: StubOperator) -> None:
        info, restored = run()
        assert (info.restored.step, info.iteration, info.restored.message) == (2, 2, "")
        assert info.time_total == operator.results[2].metrics["time_total_s"]
        assert info.time_total > 0
        assert (restored / "weights").read_text() == "w2"
        assert (restored / "sub" / "state").read_text() == "state"
        assert oct((restored / "weights").stat().st_mode & 0o777) == "0o644"

    def test_an_attempt_that_is_to_look_finds_what_was_taken_with_its_configuration(
        self, run: Callable[..., Restored], operator: StubOperator
    ) -> None:
        info, restored = run(**LOOKS)
        newest = operator.commits[f"s3://models/{ROOT}/2"]
        assert (info.restored.checkpoint, info.restored.metric) == (newest, 2.0)
        assert (restored / "weights").read_text() == "w2"

    def test_a_damaged_one_that_it_finds_falls_back_to_the_one_before(
        self, run: Callable[..., Restored], store: MemoryStore
    ) -> None:
        store.objects[f"{ROOT}/2/data/weights"] = b"wX"
        info, restored = run(**LOOKS)
        assert (info.restored.step, (restored / "weights").read_text()) == (1, "w1")
        assert "weights is damaged" in info.restored.message

    @pytest.mark.parametrize(
        "other", [{"PODTUNE_CONFIGURATION": "d" * 64}, {"PODTUNE_CONFIGURATION": ""}, {"PODTUNE_EXPERIMENT_UID": "u-2"}]
    )
    def test_it_finds_nothing_of_another_configuration_or_experiment(
        self, run: Callable[..., Restored], other: dict[str, str]
    ) -> None:
        info, restored = run(**LOOKS | other)
        assert (info.restored.checkpoint, restored.exists()) == (None, False)

    def test_what_it_was_given_comes_after_what_it_finds(
        self, run: Callable[..., Restored], operator: StubOperator, commits: list[CheckpointRef]
    ) -> None:
        info, _ = run(**LOOKS | {"PODTUNE_CONFIGURATION": "d" * 64, "PODTUNE_RESTORE_FROM": listed(commits)})
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
    def test_a_damaged_one_falls_back_to_the_one_before(
        self, run: Callable[..., Restored], store: MemoryStore, key: str, content: bytes | None, said: str
    ) -> None:
        if content is None:
            del store.objects[f"{ROOT}/2/{key}"]
        else:
            store.objects[f"{ROOT}/2/{key}"] = content
        info, restored = run()
        assert info.restored.step == 1
        assert said in info.restored.message
        assert (restored / "weights").read_text() == "w1"

    def test_nothing_whole_means_a_fresh_start(self, run: Callable[..., Restored], store: MemoryStore) -> None:
        store.objects.clear()
        info, restored = run()
        assert (info.restored.step, info.restored.uri) == (0, "")
        assert info.restored.message.count("manifest is missing") == 2
        assert not restored.exists()

    @pytest.mark.parametrize("or_fail", ["true", ""])
    def test_a_store_that_stays_away_is_no_reason_to_begin_afresh(
        self,
        store: MemoryStore,
        environ: dict[str, str],
        commits: list[CheckpointRef],
        monkeypatch: pytest.MonkeyPatch,
        or_fail: str,
    ) -> None:
        monkeypatch.setattr("podtune.agent.checkpoints.restore.RESTORE_PATIENCE", 0.0)
        store.failure = Unreachable("bucket 'models' does not answer")
        settings = self.settings(environ, commits, or_fail)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "bucket 'models' does not answer" in settings.termination_log.read_text()

    @pytest.mark.parametrize("error", [AccessDenied, InvalidCredentials, BucketNotFound])
    @pytest.mark.parametrize("or_fail", ["true", ""])
    def test_nor_is_one_that_can_not_be_read(
        self,
        store: MemoryStore,
        environ: dict[str, str],
        commits: list[CheckpointRef],
        or_fail: str,
        error: type[StoreError],
    ) -> None:
        store.failure = error("bucket 'models' can't be read; mend it")
        settings = self.settings(environ, commits, or_fail)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert settings.termination_log.read_text() == "bucket 'models' can't be read; mend it"

    def test_nor_is_one_that_takes_longer_than_it_may(
        self, store: MemoryStore, environ: dict[str, str], commits: list[CheckpointRef]
    ) -> None:
        settings = self.settings(environ | {"PODTUNE_SYNC": json.dumps({"timeout": 1e-6})}, commits)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "longer than checkpoints.sync.timeout" in settings.termination_log.read_text()
        assert not (Path(environ["PODTUNE_DIR"]) / "restored").exists()

    def test_nor_is_a_full_disk(
        self, store: MemoryStore, environ: dict[str, str], commits: list[CheckpointRef], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def write(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("podtune.storage.checkpoint.download.Download.run", write)
        settings = self.settings(environ, commits)
        assert self.exit_code(settings, store) == os.EX_TEMPFAIL
        assert "No space left on device" in settings.termination_log.read_text()

    def settings(self, environ: dict[str, str], commits: list[CheckpointRef], or_fail: str = "") -> Settings:
        variables = {
            "PODTUNE_RESTORE_FROM": listed(commits),
            "PODTUNE_RESTORE_OR_FAIL": or_fail,
            "PODTUNE_TERMINATION_LOG": environ["PODTUNE_TERMINATION_LOG"] + "-of-the-restore-container",
        }
        return Settings.from_environ(environ | STORE | variables)

    def exit_code(self, settings: Settings, store: MemoryStore) -> int:
        return run_restore(settings, EventLog(lambda: 0.0, stream=io.StringIO()), make_store=lambda _: store)

    def test_an_attempt_that_is_to_be_a_clone_fails_where_nothing_is_whole(
        self, run: Callable[..., Restored], store: MemoryStore
    ) -> None:
        store.objects.clear()
        with pytest.raises(NothingRestored, match="manifest is missing"):
            run(PODTUNE_RESTORE_OR_FAIL="true")

    def test_the_kubelet_is_told_why_a_clone_could_not_be_restored(
        self, store: MemoryStore, environ: dict[str, str], commits: list[CheckpointRef]
    ) -> None:
        store.objects.clear()
        settings = self.settings(environ, commits[:1], "true")
        assert self.exit_code(settings, store) == NOT_RESTORABLE
        assert settings.termination_log.read_text() == "step 2 was not restored: its manifest is missing"

    def test_a_clone_that_is_whole_is_restored_from_the_donors_place(
        self, run: Callable[..., Restored], environ: dict[str, str]
    ) -> None:
        info, restored = run(PODTUNE_RESTORE_OR_FAIL="true", PODTUNE_TRIAL="digits-8", PODTUNE_POD_UID="pod-2")
        assert (info.restored.step, info.restored.uri) == (2, f"s3://models/{ROOT}/2")
        assert (restored / "weights").read_text() == "w2"

    def test_a_checkpoint_in_another_bucket_is_refused(
        self, run: Callable[..., Restored], commits: list[CheckpointRef]
    ) -> None:
        uri = f"s3://other/{ROOT}/2"
        info, _ = run(PODTUNE_RESTORE_FROM=json.dumps([{"uri": uri, "digest": commits[0].digest, "step": 2}]))
        assert f"'{uri}' is not in the store, s3://models" in info.restored.message

    def test_a_malformed_list_is_an_error(self, run: Callable[..., Restored]) -> None:
        with pytest.raises(AgentSettingsError, match="PODTUNE_RESTORE_FROM"):
            run(PODTUNE_RESTORE_FROM='[{"uri": 1}]')
