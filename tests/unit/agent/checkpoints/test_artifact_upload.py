"""Files beside checkpoints: when they are stored, and which."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints.artifact_upload import ArtifactUpload, make_artifact_upload
from podtune.agent.checkpoints.upload_task import TaskContext
from podtune.agent.sync_settings import ArtifactSettings, SyncSettings
from podtune.storage.errors import Unreachable
from podtune.storage.object_store import Reader
from tests.unit.agent.running_agent import ROOT, StartAgent, take_checkpoint
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore


class TestArtifacts:
    def artifacts(self, store: MemoryStore) -> dict[str, bytes]:
        return {
            key.removeprefix(f"{ROOT}/artifacts/"): data for key, data in store.objects.items() if "/artifacts/" in key
        }

    def test_are_stored_at_the_end_but_for_our_own_files_and_the_excluded(
        self, start: StartAgent, store: MemoryStore, tmp_path: Path
    ) -> None:
        agent = start({"artifacts": {"exclude": ["*.tmp"], "period": 600}})
        (agent.directory / "logs").mkdir()
        (agent.directory / "logs" / "train.log").write_bytes(b"epoch 1")
        (agent.directory / "logs" / "x.tmp").write_bytes(b"no")
        (agent.directory / "figure.png").write_bytes(b"png")
        take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
        agent.end()
        assert self.artifacts(store) == {"logs/train.log": b"epoch 1", "figure.png": b"png"}

    def test_are_stored_every_period_and_only_what_has_changed(
        self, start: StartAgent, store: MemoryStore, tmp_path: Path
    ) -> None:
        agent = start({"artifacts": {"include": ["logs/*"], "period": 0.05}})
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "same").write_bytes(b"same")
        (tmp_path / "logs" / "grows").write_bytes(b"1")
        (tmp_path / "logs").rename(agent.directory / "logs")  # whole: no pass may see an empty file
        wait_until(lambda: len(self.artifacts(store)) == 2)
        (agent.directory / "logs" / "grows").write_bytes(b"1 and more")
        wait_until(lambda: self.artifacts(store)["logs/grows"] == b"1 and more")
        assert store.operations.count(f"put {ROOT}/artifacts/logs/same") == 1

    def test_of_a_name_that_is_taken_again_are_stored_again(
        self, context: TaskContext, store: MemoryStore, tmp_path: Path
    ) -> None:
        task = make_task(context, ArtifactSettings(period=600))
        assert task is not None
        log = Path(context.settings.directory.root) / "train.log"
        log.write_bytes(b"one")
        times = (log.stat().st_atime_ns, log.stat().st_mtime_ns)
        task.run()
        log.unlink()
        task.run()
        log.write_bytes(b"two")
        os.utime(log, ns=times)
        task.run()
        assert self.artifacts(store) == {"train.log": b"two"}

    @pytest.mark.parametrize("on_checkpoint", [True, False])
    def test_are_stored_after_a_checkpoint_if_that_is_wanted(
        self, start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path, on_checkpoint: bool
    ) -> None:
        agent = start({"artifacts": {"period": 600, "onCheckpoint": on_checkpoint}})
        (agent.directory / "log").write_bytes(b"1")
        take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        if on_checkpoint:
            wait_until(lambda: self.artifacts(store) == {"log": b"1"})
        agent.write(dumps(accuracy=2))
        operator.wait_for(lambda: operator.acked_seq == 2)
        assert bool(self.artifacts(store)) == on_checkpoint

    def test_links_are_passed_over_and_told_of(self, start: StartAgent, store: MemoryStore, tmp_path: Path) -> None:
        agent = start({"artifacts": {"period": 0.05}})
        (tmp_path / "secret").write_text("very secret")
        (agent.directory / "link").symlink_to(tmp_path / "secret")
        (agent.directory / "log").write_bytes(b"1")
        wait_until(lambda: self.artifacts(store) == {"log": b"1"})
        wait_until(lambda: "link is a symbolic link" in agent.log.getvalue())
        assert b"very secret" not in b"".join(store.objects.values())

    def test_a_store_that_is_away_is_tried_again_and_a_checkpoint_is_not_held_up(
        self, start: StartAgent, store: MemoryStore, operator: StubOperator, tmp_path: Path
    ) -> None:
        real = store.put

        def fail(key: str, source: Reader, size: int) -> None:
            if "/artifacts/" in key:
                raise Unreachable("gone")
            real(key, source, size)

        store.put = fail
        agent = start({"artifacts": {"period": 0.05}})
        (agent.directory / "log").write_bytes(b"1")
        wait_until(lambda: "artifacts not stored" in agent.log.getvalue())
        take_checkpoint(agent, {"a": b"1"}, tmp_path, accuracy=1)
        operator.wait_for(lambda: operator.commits)
        store.put = real
        wait_until(lambda: self.artifacts(store) == {"log": b"1"})


def make_task(context: TaskContext, artifacts: ArtifactSettings | None) -> ArtifactUpload | None:
    settings = replace(context.settings, sync=SyncSettings(artifacts=artifacts))
    return make_artifact_upload(replace(context, settings=settings), Random(1))


def test_nothing_is_stored_unless_it_is_wanted(context: TaskContext) -> None:
    assert make_task(context, None) is None


@pytest.mark.parametrize("on_checkpoint", [True, False])
def test_a_pass_is_due_after_the_period_or_a_checkpoint(context: TaskContext, on_checkpoint: bool) -> None:
    task = make_task(context, ArtifactSettings(period=600, on_checkpoint=on_checkpoint))
    assert 590 < (task.due_in or 0) <= 600
    task.on_checkpoint_stored()
    assert (task.due_in == 0) == on_checkpoint


def test_a_pass_leaves_off_for_a_checkpoint_and_goes_on_after_it(
    context: TaskContext, take: Callable[[int, bytes], Path], store: MemoryStore
) -> None:
    task = make_task(context, ArtifactSettings(period=600))
    (Path(context.settings.directory.root) / "log").write_bytes(b"1")
    take(1, b"w1")
    task.run()
    assert (task.due_in, store.objects) == (0, {})
    context.attempt.checkpoints.start()
    task.run()
    assert store.objects == {f"{ROOT}/artifacts/log": b"1"}
    assert (task.due_in or 0) > 590
