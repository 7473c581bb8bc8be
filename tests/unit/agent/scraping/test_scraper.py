"""The agent beside a program that serves metrics; what serves them is the client library of Prometheus."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from podtune.agent.scraping import scraper
from podtune.agent.scraping.scraper import MAX_EXPOSITION, fetch_exposition
from podtune.agent.settings import AgentSettingsError, Settings
from tests.unit.agent.running_agent import RunningAgent, StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps, wait_until


def scrape(port: int, **settings: object) -> dict[str, str]:
    body = {"port": port, "period": 0.01, "timeAttribute": "epoch", **settings}
    return {"PODTUNE_SCRAPE": json.dumps(body), "PODTUNE_OBJECTIVE_METRIC": "loss/split/val"}


class Program:
    """A program that tells Prometheus how it is doing."""

    def __init__(self, port: int = 0) -> None:
        registry = CollectorRegistry()
        self._loss = Gauge("loss", "", ["split"], registry=registry)
        self._epoch = Gauge("epoch", "", registry=registry)
        self._server, self._thread = start_http_server(port, "127.0.0.1", registry)
        self.port = self._server.server_port

    def train(self, epoch: int, loss: float) -> None:
        self._epoch.set(epoch)
        self._loss.labels("train").set(loss / 2)
        self._loss.labels("val").set(loss)

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def program() -> Iterator[Program]:
    running = Program()
    yield running
    running.end()


def list_results(operator: StubOperator) -> list[tuple[object, object, object]]:
    results = [operator.results[seq].metrics for seq in sorted(operator.results)]
    return [(result["epoch"], result["loss/split/val"], result["loss/split/train"]) for result in results]


def test_what_a_program_serves_reaches_the_operator_once(
    program: Program, start_agent: StartAgent, operator: StubOperator
) -> None:
    agent = start_agent(scrape(program.port))
    for epoch in (1, 2, 3):
        program.train(epoch, 1 / epoch)
        operator.wait_for_results(epoch)
    assert agent.end().seq == 3
    assert list_results(operator) == [(epoch, 1 / epoch, 0.5 / epoch) for epoch in (1, 2, 3)]
    assert "warning" not in agent.log.getvalue()


def test_an_agent_that_is_started_again_counts_nothing_twice(
    program: Program, start_agent: StartAgent, operator: StubOperator, environ: dict[str, str]
) -> None:
    program.train(1, 0.5)
    (Path(environ["PODTUNE_DIR"]) / "results.jsonl").write_bytes(dumps(**{"loss/split/val": 0.5, "epoch": 1, "a": "b"}))
    agent = start_agent(scrape(program.port))
    operator.wait_for_results(1)
    program.train(2, 0.5)
    operator.wait_for_results(2)
    assert agent.end().seq == 2
    assert operator.results[2].metrics["epoch"] == 2


def test_the_agent_waits_for_a_program_that_serves_late(start_agent: StartAgent, operator: StubOperator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    agent = start_agent(scrape(port))
    program = Program(port)
    program.train(1, 0.5)
    operator.wait_for_results(1)
    program.end()
    assert agent.end().seq == 1
    assert "warning" not in agent.log.getvalue(), "that nobody listens is no news"


def test_values_that_are_set_one_after_the_other_come_together(
    program: Program, start_agent: StartAgent, operator: StubOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.train(1, 0.5)
    fetch = scraper.fetch_exposition
    asked: list[str] = []

    def set_the_rest(port: int, path: str) -> str:
        text = fetch(port, path)
        if not asked:
            program.train(1, 0.25)  # right after the scrape
        asked.append(text)
        return text

    monkeypatch.setattr(scraper, "fetch_exposition", set_the_rest)
    agent = start_agent(scrape(program.port))
    operator.wait_for_results(1)
    agent.end()
    assert list_results(operator) == [(1, 0.25, 0.125)]


def test_in_a_gang_rank_0_alone_is_scraped(program: Program, start_agent: StartAgent) -> None:
    program.train(1, 0.5)
    agent = start_agent({**scrape(program.port), "PODTUNE_RANK": "1", "PODTUNE_REPLICAS": "2"})
    agent.end()
    assert (agent.directory / "results.jsonl").read_bytes() == b""


# What else may listen there


@contextmanager
def serve(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[int]:
    """Serves one answer to all requests; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def test_a_redirect_is_not_followed() -> None:
    with (
        serve(lambda handler: send(handler, 302, Location="http://169.254.169.254/")) as port,
        pytest.raises(OSError, match=r"answered 302, to http://169\.254\.169\.254/; results\.scrape\.path"),
    ):
        fetch_exposition(port, "/metrics")


def test_an_answer_without_end_is_given_up() -> None:
    def send_on(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200)
        with suppress(ConnectionError):  # it is closed in the end
            while True:
                handler.wfile.write(b"loss 1\n" * 10_000)

    with serve(send_on) as port, pytest.raises(OSError, match=f"longer than {MAX_EXPOSITION} bytes"):
        fetch_exposition(port, "/")


def test_so_is_one_that_comes_drop_by_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraper, "_TIMEOUT", 0.2)
    is_over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, 200)
        while not is_over.wait(0.05):
            handler.wfile.write(b"#")

    with serve(drip) as port:
        with pytest.raises(TimeoutError, match="not there within"):
            fetch_exposition(port, "/")
        is_over.set()


def test_a_wrong_path_is_told_in_the_agents_log(program: Program, start_agent: StartAgent) -> None:
    with serve(lambda handler: send(handler, 404)) as port:
        agent = start_agent(scrape(port))
        wait_until(lambda: "answered 404" in agent.log.getvalue())
        agent.end()
    lines = map(json.loads, agent.log.getvalue().splitlines())
    line = next(line for line in lines if line["level"] == "warning")
    assert (line["event"], line["port"], line["path"]) == ("scrape failed", port, "/metrics")


def test_a_server_that_hangs_up_is_told_of_from_the_second_time_on(start_agent: StartAgent) -> None:
    agents: list[RunningAgent] = []
    counted: list[int] = []

    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        counted.append(sum(agent.log.getvalue().count("scrape failed") for agent in agents))
        handler.close_connection = True

    with serve(hang_up) as port:
        agent = start_agent(scrape(port))
        agents.append(agent)
        wait_until(lambda: "scrape failed" in agent.log.getvalue())
        agent.end()
    assert counted[:2] == [0, 0], "once, it may be the program's end"
    assert "RemoteDisconnected" in agent.log.getvalue()


def test_what_is_there_instead_of_the_objective_is_told_at_the_end(
    program: Program, start_agent: StartAgent, operator: StubOperator
) -> None:
    agent: RunningAgent = start_agent({**scrape(program.port), "PODTUNE_OBJECTIVE_METRIC": "accuracy"})
    program.train(3, 0.5)
    assert agent.end().seq == 1
    result = operator.results[1].metrics
    assert (result["epoch"], result["loss/split/val"]) == (3, 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "not a JSON object"),
        ('{"port": 0}', "port is 0"),
        ('{"port": 80, "path": "x"}', "path is 'x'"),
        ('{"port": 80, "period": 0}', "period is 0"),
        ('{"port": 80, "timeAttribute": 1}', "timeAttribute is 1"),
    ],
)
def test_wrong_settings_are_named(environ: dict[str, str], text: str, words: str) -> None:
    with pytest.raises(AgentSettingsError, match=f"PODTUNE_SCRAPE is .*{words}"):
        Settings.from_environ(environ | {"PODTUNE_SCRAPE": text})
