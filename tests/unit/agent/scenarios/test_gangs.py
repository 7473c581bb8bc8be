"""The agents of a gang: rank 0 speaks for all, the others store their shards of checkpoints."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from podtune.agent.checkpoints.restore import NotNow, restore
from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.storage.errors import Unreachable
from podtune.storage.segments.reader import read_results
from podtune.trial.checkpoint_copy import copy_checkpoint
from tests.unit.agent.running_agent import RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until
from tests.unit.storage.memory_store import MemoryStore

STORE = {"PODTUNE_STORE": json.dumps({"bucket": "models", "prefix": "demo", "endpoint": None, "region": "eu-1"})}
GANG = STORE | {"PODTUNE_REPLICAS": "2", "PODTUNE_DRAIN_SECONDS": "60"}
ROOT = "demo/experiment-1/digits-7/pod-1"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def rank(start_agent: StartAgent, store: MemoryStore, tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Starts the agent of a rank, each with a shared directory of its own."""
    running = []

    def start(number: int, **overrides: str) -> RunningAgent:
        directory = tmp_path / f"rank-{number}"
        directory.mkdir()
        own = {
            "PODTUNE_DIR": str(directory),
            "PODTUNE_RANK": str(number),
            "PODTUNE_TERMINATION_LOG": str(tmp_path / f"termination-message-{number}"),
        }
        if number:
            own |= {"PODTUNE_POD_UID": f"pod-of-{number}", "PODTUNE_ATTEMPT_ID": "pod-1"}
        agent = start_agent(GANG | own | overrides, make_store=lambda _: store)
        running.append(agent)
        return agent

    yield start
    for agent in running:
        agent.end()


def report(agent: RunningAgent, source: Path, **files: str) -> None:
    source.mkdir(exist_ok=True)
    for name, content in files.items():
        (source / name).write_text(content)
    agent.write(dumps(_checkpoint=copy_checkpoint(source, agent.directory / "checkpoints"), accuracy=0.5))


def test_a_checkpoint_is_reported_by_rank_0_once_all_parts_are_there(
    rank: Callable[..., RunningAgent], store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    leader, follower = rank(0), rank(1)
    report(leader, tmp_path / "zero", shard0="zero")
    wait_until(lambda: f"{ROOT}/1/data/shard0" in store.objects)
    assert not operator.commits
    report(follower, tmp_path / "one", shard1="one")
    operator.wait_for(lambda: operator.commits)
    (commit,) = operator.commits.values()
    assert (commit.uri, commit.step) == (f"s3://models/{ROOT}/1", 1)
    manifest = json.loads(store.objects[f"{ROOT}/1/manifest.json"])
    assert [file["path"] for file in manifest["files"]] == ["shard0", "shard1"]
    assert manifest["attempt"] == "pod-1"
    assert [operator.results[seq].seq for seq in operator.results] == [1], "a follower's result was taken in"


def test_a_follower_needs_no_token_and_counts_what_it_passes_over(
    rank: Callable[..., RunningAgent], operator: StubOperator
) -> None:
    follower = rank(1, PODTUNE_TOKEN_FILE="/nowhere", PODTUNE_RESULTS_URL="http://127.0.0.1:9")
    follower.write(dumps(accuracy=0.1) + dumps(accuracy=0.2))
    follower.end()
    lines = [json.loads(line) for line in follower.log.getvalue().splitlines()]
    (said,) = [line for line in lines if "results" in line]
    assert said["results"] == 2
    assert "come from rank 0" in said["message"]
    assert not operator.results


def test_each_rank_stores_its_own_results(rank: Callable[..., RunningAgent], store: MemoryStore) -> None:
    for number in (0, 1):
        agent = rank(number, PODTUNE_RANK_ZERO_STORES="true")
        agent.write(dumps(accuracy=0.5 + number))
        agent.end()
    stored = [
        (found.attempt, found.rank, found.result.metrics["accuracy"])
        for number in (0, 1)
        for found in read_results(store, "demo/experiment-1/", rank=number)
    ]
    assert stored == [("pod-1", 0, 0.5), ("pod-1", 1, 1.5)]


def test_where_rank_0_stores_alone_the_others_store_no_checkpoints(
    rank: Callable[..., RunningAgent], store: MemoryStore, operator: StubOperator, tmp_path: Path
) -> None:
    alone = {"PODTUNE_RANK_ZERO_STORES": "true"}
    leader, follower = rank(0, **alone), rank(1, **alone)
    report(follower, tmp_path / "one", weights="one")
    report(leader, tmp_path / "zero", weights="zero")
    operator.wait_for(lambda: operator.commits)
    assert store.objects[f"{ROOT}/1/data/weights"] == b"zero"
    wait_until(lambda: not list((follower.directory / "checkpoints").iterdir()))
    assert not [key for key in store.objects if "/parts/" in key]


def test_a_rank_that_can_not_restore_what_the_others_can_fails(
    environ: dict[str, str], store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.checkpoints.restore.RESTORE_PATIENCE", 0.0)
    store.failure = Unreachable("bucket 'models' does not answer")
    candidates = [{"uri": f"s3://models/{ROOT}/1", "digest": "sha256:0", "step": 1}]
    settings = Settings.from_environ(
        environ | GANG | {"PODTUNE_RANK": "1", "PODTUNE_RESTORE_FROM": json.dumps(candidates)}
    )
    log = EventLog(lambda: 1.0, stream=io.StringIO())
    with pytest.raises(NotNow, match="bucket 'models' does not answer"):
        restore(settings, log, Random(1), lambda _: store)


def test_a_rank_that_is_no_number_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(AgentSettingsError, match="PODTUNE_RANK is 'first', not a whole number"):
        Settings.from_environ(environ | {"PODTUNE_RANK": "first"})
