import io
import threading
from random import Random

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.settings import Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.protocol.messages import parse_final_commit
from tests.unit.agent.stub_operator import StubOperator


@pytest.fixture
def operator():
    stub = StubOperator()
    yield stub
    stub.close()


class RunningAgent:
    """A sidecar in a thread of the test."""

    def __init__(self, environ, **options):
        self.settings = Settings.from_environ(environ)
        self.directory = self.settings.directory.root
        self.log = io.StringIO()
        self.output = io.StringIO()
        self._ended = threading.Event()
        self._sidecar = Sidecar(
            self.settings, EventLog(lambda: 1.0, stream=self.log), Random(1), self.output, **options
        )
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._sidecar.run(self._ended.wait)
        except BaseException as error:
            self._failure = error
            raise

    def write(self, data: bytes):
        with (self.directory / "results.jsonl").open("ab") as file:
            file.write(data)

    def end(self, seconds=30.0):
        """What the kubelet does after the program has ended; returns the final commit."""
        self._ended.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the agent did not end"
        assert self._failure is None
        return parse_final_commit(self.settings.termination_log.read_text())


@pytest.fixture
def environ(tmp_path, operator):
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
def start_agent(environ):
    def start(overrides=None, **options):
        return RunningAgent(environ | (overrides or {}), **options)

    return start
