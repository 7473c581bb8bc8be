"""The commands that read an Experiment, on the directory of a run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from podtune.cli import main as cli
from podtune.cli.client.run_directory import LOCAL_NAMESPACE, RunDirectoryApi
from podtune.cli.errors import CliError
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube import paths
from tests.unit.local.experiments import COUNT, PATIENCE, STORE, follow, make_manifest, make_run

Podtune = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run that has ended: two trials that count to four."""
    path = tmp_path_factory.mktemp("laptop")
    follow(make_run(make_manifest(COUNT % 'echo "epoch $i"', checkpoints=STORE), path))
    return path / "run"


@pytest.fixture
def podtune(capsys: pytest.CaptureFixture[str]) -> Podtune:
    def call(*words: str | Path, expect: int = 0) -> str:
        code = cli.main([str(word) for word in words])
        written = capsys.readouterr()
        assert code == expect, written.err
        return written.err if expect else written.out

    return call


def test_an_experiment_is_named_by_the_runs_directory(run: Path, podtune: Podtune) -> None:
    described = json.loads(podtune("describe", run, "-o", "json"))
    assert described["state"] == "Complete"
    assert "tiny-1" in podtune("describe", run)
    assert "TERMINATED" in podtune("describe", run)
    best = json.loads(podtune("best", run, "-o", "json"))
    assert Path(best["checkpoint"].removeprefix("file://")).is_relative_to(run / "store")
    assert best["trial"] in podtune("trials", run)
    assert podtune("wait", run) == "tiny: all 2 trials are done\n"
    assert podtune("watch", run).endswith("tiny: all 2 trials are done\n")


def test_a_trial_is_named_by_that_and_its_own_name(run: Path, podtune: Podtune) -> None:
    assert "tiny-1" in podtune("why", run / "tiny-1")
    assert "tiny-0" in podtune("compare", run / "tiny-0", "tiny-1")
    assert "score" in podtune("curve", run / "tiny-0", run / "tiny-1")
    assert podtune("logs", run / "tiny-0").splitlines() == ["epoch 1", "epoch 2", "epoch 3", "epoch 4"]
    assert podtune("logs", run / "tiny-0", "--follow").splitlines()[-1] == "epoch 4"
    assert len(podtune("results", run / "tiny-0").splitlines()) == 5


def test_checkpoints_are_read_from_the_runs_folder(run: Path, podtune: Podtune, tmp_path: Path) -> None:
    assert "tiny-1" in podtune("checkpoints", "list", run)
    assert podtune("checkpoints", "verify", run / "tiny-0")
    podtune("checkpoints", "download", run / "tiny-1", tmp_path / "best")
    assert (tmp_path / "best/step").read_text() == "4\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("describe", "{run}/../nothing/here"), "is no run's directory, nor is"),
        (("describe", "{run}", "-n", "vision"), "is read without a cluster; leave out -n"),
        (("why", "{run}/tiny-9"), "no Trial 'tiny-9'"),
        (("compare", "{run}/tiny-0", "elsewhere/tiny-1"), "are of different runs"),
        (("dashboard", "{run}/store"), "is no run's directory"),
    ],
)
def test_a_path_that_is_no_runs_is_told(run: Path, podtune: Podtune, words: tuple[str, ...], message: str) -> None:
    assert message in podtune(*(word.format(run=run) for word in words), expect=1)


def test_nothing_is_changed_by_it(run: Path) -> None:
    api = RunDirectoryApi(run)
    with pytest.raises(CliError, match=r"can only be read; `podtune run --resume .*run` goes on with it"):
        api.patch(paths.trial(LOCAL_NAMESPACE, "tiny-0"), {})


@pytest.fixture
def shown(run: Path) -> Iterator[ClusterSource]:
    """What the dashboard shows of it."""
    source = ClusterSource(lambda: RunDirectoryApi(run, lambda _: time.sleep(0.02)), LOCAL_NAMESPACE, title="run")
    source.start()
    yield source
    source.stop()


def test_a_dashboard_hears_of_what_is_written_meanwhile(run: Path, shown: ClusterSource) -> None:
    (view,) = shown.list_experiments()
    before = shown.find_revision(LOCAL_NAMESPACE, view.name)
    assert (view.state, len(shown.list_trials(LOCAL_NAMESPACE, view.name))) == ("Complete", 2)
    body = json.loads((run / "trials/tiny-0.json").read_text())
    body["metadata"]["name"], body["spec"]["index"] = "tiny-2", 2
    (run / "new.json").write_text(json.dumps(body))
    (run / "new.json").replace(run / "trials/tiny-2.json")
    try:
        asyncio.run(asyncio.wait_for(shown.wait_for_news(LOCAL_NAMESPACE, view.name, before), PATIENCE))
        assert len(shown.list_trials(LOCAL_NAMESPACE, view.name)) == 3
    finally:
        (run / "trials/tiny-2.json").unlink()
