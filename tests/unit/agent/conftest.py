from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.unit.agent.running_agent import RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator


@pytest.fixture
def operator() -> Iterator[StubOperator]:
    stub = StubOperator()
    yield stub
    stub.close()


@pytest.fixture
def environ(tmp_path: Path, operator: StubOperator) -> dict[str, str]:
    directory = tmp_path / "podtune"
    directory.mkdir()
    (tmp_path / "token").write_text("secret\n")
    return {
        "PODTUNE_DIR": str(directory),
        "PODTUNE_TERMINATION_LOG": str(tmp_path / "termination-log"),
        "PODTUNE_RESULTS_URL": operator.url,
        "PODTUNE_TOKEN_FILE": str(tmp_path / "token"),
        "PODTUNE_NAMESPACE": "ml",
        "PODTUNE_EXPERIMENT": "digits",
        "PODTUNE_TRIAL": "digits-7",
        "PODTUNE_POD_UID": "pod-1",
        "PODTUNE_EXPERIMENT_UID": "experiment-1",
        "PODTUNE_OBJECTIVE_METRIC": "accuracy",
    }


@pytest.fixture
def start_agent(environ: dict[str, str]) -> StartAgent:
    def start(overrides: Mapping[str, str] = MappingProxyType({}), **options: Any) -> RunningAgent:
        return RunningAgent(environ | dict(overrides), **options)

    return start
