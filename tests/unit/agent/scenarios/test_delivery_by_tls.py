"""Results go by TLS to the operator that made the pod, and to nobody else."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import pytest

from podtune.agent.delivery.operator_client import LogRequest, OperatorClient, OperatorError
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.protocol.messages import Report
from podtune.results.tls.authorities import Authorities, issue_leaf, make_authority, renew
from podtune.results.tls.chain import load_chain, make_server_context
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import StubOperator, dumps

VARIABLE = "PODTUNE_RESULTS_AUTHORITIES"


@pytest.fixture
def authorities() -> Authorities:
    return renew(None, datetime.now(UTC))


@pytest.fixture
def context(authorities: Authorities) -> ssl.SSLContext:
    context = make_server_context()
    leaf = issue_leaf(authorities.signing, "127.0.0.1", datetime.now(UTC))
    load_chain(context, leaf.certificate, leaf.key)
    return context


@pytest.fixture
def operator(context: ssl.SSLContext) -> Iterator[StubOperator]:
    stub = StubOperator(tls=context)
    yield stub
    stub.release()


@pytest.fixture
def environ(environ: dict[str, str], authorities: Authorities) -> dict[str, str]:
    return {**environ, VARIABLE: authorities.trusted}


def test_results_arrive_over_one_connection(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent()
    for epoch in range(1, 6):
        agent.write(dumps(epoch=epoch))
        operator.wait_for_results(epoch)
    agent.end()
    assert operator.taken == [1, 2, 3, 4, 5]
    assert len(operator._connections) == 1, "the others would have cost a handshake each"


def test_a_pod_goes_on_when_the_second_authority_signs(
    operator: StubOperator, start_agent: StartAgent, authorities: Authorities, context: ssl.SSLContext
) -> None:
    agent = start_agent()
    agent.write(dumps(epoch=1))
    operator.wait_for_results(1)
    leaf = issue_leaf(authorities.following, "127.0.0.1", datetime.now(UTC))
    load_chain(context, leaf.certificate, leaf.key)
    agent.write(dumps(epoch=2))
    operator.wait_for_results(2)
    operator.faults = ["busy"]  # after which it connects anew
    agent.write(dumps(epoch=3))
    operator.wait_for_results(3)
    agent.end()
    assert len(operator._connections) == 2
    assert "not believed" not in agent.log.getvalue()


def test_a_server_of_another_authority_gets_neither_results_nor_token(
    operator: StubOperator, start_agent: StartAgent
) -> None:
    other = make_authority(datetime.now(UTC))
    agent = start_agent({VARIABLE: other.certificate, "PODTUNE_DRAIN_SECONDS": "0.5"})
    agent.write(dumps(accuracy=0.5))
    commit = agent.end()
    assert operator.reports == []
    assert (commit.seq, commit.acked_seq) == (1, 0)
    (printed,) = agent.output.getvalue().splitlines()
    assert json.loads(printed.removeprefix("podtune-result "))["metrics"]["accuracy"] == 0.5
    said = [json.loads(line) for line in agent.log.getvalue().splitlines()]
    message = next(line["message"] for line in said if line["event"] == "report not delivered")
    assert f"the certificate of {operator.url} is not believed" in message
    assert "a new pod is given those" in message


def test_an_agent_that_is_to_use_tls_never_speaks_plain_http(environ: dict[str, str]) -> None:
    plain = StubOperator()
    try:
        url = plain.url.replace("http://", "https://")
        client = OperatorClient(Settings.from_environ({**environ, "PODTUNE_RESULTS_URL": url}))
        with pytest.raises(OperatorError, match="SSL"):
            client.post(Report(attempt="pod-1"))
        assert plain.reports == []
    finally:
        plain.release()


def test_a_log_that_is_waited_for_can_be_interrupted(operator: StubOperator, environ: dict[str, str]) -> None:
    reached, over = threading.Event(), threading.Event()

    def print_lines(_: object) -> Iterable[bytes]:
        yield b"first\n"
        over.wait(60)

    operator.log_lines = print_lines
    client = OperatorClient(Settings.from_environ(environ))
    lines: list[bytes] = []
    ended: list[Exception] = []

    def read() -> None:
        try:
            with client.stream_log(LogRequest(), lambda: False) as stream:
                for line in stream:
                    lines.append(line)
                    reached.set()
        except OperatorError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert reached.wait(60)
    client.interrupt_log()
    reader.join(30)
    over.set()
    assert not reader.is_alive()
    assert lines == [b"first"]
    assert [str(error) for error in ended if "ended early" in str(error)]


@pytest.mark.parametrize(
    ("value", "words"), [("", "is not set"), ("nothing", "certificates in PEM")], ids=["missing", "none"]
)
def test_authorities_that_can_not_be_read_are_named(
    operator: StubOperator, environ: dict[str, str], value: str, words: str
) -> None:
    with pytest.raises(AgentSettingsError, match=f"{VARIABLE}.*{words}"):
        Settings.from_environ({**environ, VARIABLE: value})
