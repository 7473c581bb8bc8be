import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from podtune.agent.delivery.operator_client import Fenced, OperatorClient
from podtune.agent.settings import Settings
from podtune.agent.sidecar import drain
from tests.unit.agent.running_agent import RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator


@pytest.fixture
def operator() -> Iterator[StubOperator]:
    stub = StubOperator()
    yield stub
    stub.release()


@pytest.fixture(autouse=True)
def ends_with_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the threads of agents end that only the end of their process would stop: they would go on asking for ever."""
    is_over = threading.Event()
    make = OperatorClient.__init__

    def make_mortal(client: OperatorClient, settings: Settings) -> None:
        make(client, settings)
        for name in ("post", "stream_log"):
            setattr(client, name, refuse_when_over(client, getattr(client, name)))

    def refuse_when_over(client: OperatorClient, method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: object) -> Any:
            if is_over.is_set():
                client.close()
                raise Fenced("the test is over")
            return method(*arguments)

        return ask

    monkeypatch.setattr(OperatorClient, "__init__", make_mortal)
    yield
    is_over.set()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that answers is waited for on the slowest machine, too."""
    monkeypatch.setattr(drain, "DELIVERY_PATIENCE", 60.0)


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
