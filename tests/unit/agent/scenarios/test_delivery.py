"""What reaches the operator, whatever happens on the way."""

import json
import os
import re
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from podtune.agent.delivery.sender import ControlFileWriter
from podtune.agent.delivery.termination_message import TerminationLog
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.state.outbox import Outbox
from podtune.protocol.messages import FinalCommit, StoreProblem, parse_final_commit
from podtune.storage.directory import Directory
from tests.unit.agent.running_agent import StartAgent
from tests.unit.agent.stub_operator import (
    BUSY,
    FENCED,
    GARBLED,
    LOST_REPLY,
    LOST_REQUEST,
    NO_TOKEN,
    StubOperator,
    dumps,
    wait_until,
)

DELIVERY_PATIENCE = 60.0
"""As tests of agents have it."""
COMMAND = f"""
import sys
from podtune.agent import entry
from podtune.agent.sidecar import drain

drain.DELIVERY_PATIENCE = {DELIVERY_PATIENCE}
sys.exit(entry.start())
"""


def start_command(environ: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run"],
        env=environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_results_arrive_numbered_and_with_the_iteration(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent()
    agent.write(dumps(epoch=1, accuracy=0.5) + dumps(epoch=2, accuracy=0.75))
    operator.wait_for(lambda: operator.acked_seq == 2)
    commit = agent.end()
    metrics = dict(operator.results[2].metrics)
    assert float(metrics.pop("time_this_iter_s")) <= float(metrics.pop("time_total_s"))
    assert metrics == {"epoch": 2, "accuracy": 0.75, "training_iteration": 2}
    assert operator.results[2].step == 2
    assert (commit.attempt, commit.seq, commit.acked_seq) == ("pod-1", 2, 2)
    assert commit.last.metrics["accuracy"] == 0.75
    assert operator.reports[0].restored.step == 0


def test_a_program_that_writes_nothing_ends_at_once(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent({"PODTUNE_DRAIN_SECONDS": "120"})
    operator.wait_for(lambda: operator.reports)
    commit = agent.end(DELIVERY_PATIENCE / 2)
    assert (commit.seq, commit.last) == (0, None)


@pytest.mark.parametrize(
    "faults",
    [[BUSY] * 3, [NO_TOKEN] * 2, [LOST_REQUEST] * 3, [LOST_REPLY] * 3, [GARBLED], [LOST_REPLY, BUSY, LOST_REQUEST]],
)
def test_each_result_arrives_once_and_in_order_despite(
    faults: list[str], operator: StubOperator, start_agent: StartAgent
) -> None:
    operator.faults = list(faults)
    agent = start_agent()
    for epoch in range(1, 6):
        agent.write(dumps(epoch=epoch))
    operator.wait_for(lambda: operator.acked_seq == 5)
    commit = agent.end()
    assert operator.taken == [1, 2, 3, 4, 5]
    assert commit.acked_seq == 5
    assert agent.output.getvalue() == ""


def test_an_operator_that_forgot_gets_the_results_again(operator: StubOperator, start_agent: StartAgent) -> None:
    operator.durable_seq = 2
    agent = start_agent()
    agent.write(b"".join(dumps(epoch=epoch) for epoch in range(1, 6)))
    operator.wait_for(lambda: operator.acked_seq == 5)
    operator.forget_after(2)
    agent.write(dumps(epoch=6))
    operator.wait_for(lambda: operator.acked_seq == 6)
    agent.end()
    assert [operator.results[seq].metrics["epoch"] for seq in range(1, 7)] == [1, 2, 3, 4, 5, 6]


def test_an_operator_that_is_away_finds_everything_in_the_log_and_the_final_commit(
    environ: dict[str, str], operator: StubOperator, start_agent: StartAgent
) -> None:
    operator.close()
    agent = start_agent({"PODTUNE_DRAIN_SECONDS": "0.3"})
    agent.write(dumps(accuracy=0.5) + dumps(accuracy=0.75))
    commit = agent.end()
    assert (commit.seq, commit.acked_seq, commit.last.metrics["accuracy"]) == (2, 0, 0.75)
    printed = [line.removeprefix("podtune-result ") for line in agent.output.getvalue().splitlines()]
    assert [json.loads(line)["metrics"]["accuracy"] for line in printed] == [0.5, 0.75]


def test_an_operator_that_comes_back_gets_everything(
    environ: dict[str, str], operator: StubOperator, start_agent: StartAgent
) -> None:
    port = operator.port
    operator.close()
    agent = start_agent()
    agent.write(dumps(epoch=1))
    wait_until(lambda: "no answer" in agent.log.getvalue())
    back = StubOperator(port)
    back.wait_for(lambda: back.acked_seq == 1)
    agent.end()
    back.release()


def test_a_fenced_attempt_falls_silent(operator: StubOperator, start_agent: StartAgent) -> None:
    operator.faults = [FENCED]
    agent = start_agent()
    agent.write(dumps(epoch=1))
    wait_until(lambda: "fenced" in agent.log.getvalue())
    commit = agent.end()
    assert operator.results == {}
    assert commit.acked_seq == 0


def test_bad_lines_are_passed_over(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent()
    agent.write(b'{"epoch": 1}\nnonsense\n[1]\n{}\n\n{"epoch": ' + b"9" * 300_000 + b'}\n{"epoch": 2, "x": [1]}\n')
    operator.wait_for(lambda: operator.acked_seq == 2)
    agent.end()
    assert [operator.results[seq].metrics["epoch"] for seq in (1, 2)] == [1, 2]
    assert "is not JSON" in agent.log.getvalue()
    assert "too long" in agent.log.getvalue()


def test_a_last_line_without_its_end_counts(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent()
    agent.write(b'{"epoch": 1}\n{"epoch": 2}')
    commit = agent.end()
    assert operator.acked_seq == commit.seq == 2


def test_decisions_reach_the_program(operator: StubOperator, start_agent: StartAgent) -> None:
    agent = start_agent()
    control = agent.directory / "control.json"
    wait_until(control.exists)
    assert json.loads(control.read_text()) == {"shouldCheckpoint": False, "shouldStop": False}
    operator.decision, operator.should_checkpoint = "STOP", True
    agent.write(dumps(epoch=1))
    wait_until(lambda: json.loads(control.read_text()) == {"shouldCheckpoint": True, "shouldStop": True})
    agent.end()


def test_iterations_go_on_from_the_restored_checkpoint(
    operator: StubOperator, start_agent: StartAgent, environ: dict[str, str], tmp_path: Path
) -> None:
    ref = {"uri": "s3://b/p/9", "digest": "sha256:9", "step": 9}
    info = {"restored": {"checkpoint": ref}, "iteration": 9}
    (tmp_path / "podtune" / "restore.json").write_text(json.dumps(info))
    agent = start_agent({"PODTUNE_RESTORE_FROM": json.dumps([ref])})
    agent.write(dumps(epoch=10))
    operator.wait_for(lambda: operator.acked_seq == 1)
    commit = agent.end()
    assert operator.results[1].step == 10
    assert operator.reports[-1].restored.step == commit.restored.step == 9


def test_a_link_in_place_of_the_results_is_not_followed(
    operator: StubOperator, start_agent: StartAgent, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_bytes(dumps(secret=1))
    (tmp_path / "podtune" / "results.jsonl").symlink_to(tmp_path / "elsewhere")
    agent = start_agent()
    wait_until(lambda: "results file can't be read" in agent.log.getvalue())
    assert agent.end().seq == 0


def test_the_command_ends_cleanly_on_sigterm(operator: StubOperator, environ: dict[str, str]) -> None:
    process = start_command(environ | {"PODTUNE_DRAIN_SECONDS": "120"})
    operator.wait_for(lambda: operator.reports)
    with Path(environ["PODTUNE_DIR"], "results.jsonl").open("ab") as file:
        file.write(dumps(epoch=1, accuracy=float("nan")))
    process.terminate()
    output, log = process.communicate(timeout=DELIVERY_PATIENCE / 2)
    assert (process.returncode, output) == (0, b"")
    assert operator.acked_seq == 1
    assert json.loads(Path(environ["PODTUNE_TERMINATION_LOG"]).read_text())["acked_seq"] == 1
    assert json.loads(log.splitlines()[-1])["event"] == "agent ends"


def test_a_missing_variable_is_named(environ: dict[str, str]) -> None:
    del environ["PODTUNE_NAMESPACE"]
    process = subprocess.run(
        [sys.executable, "-m", "podtune.agent.entry", "run"],
        env=environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == 2
    assert b"PODTUNE_NAMESPACE is not set" in process.stderr


def test_an_agent_that_was_killed_and_started_again_delivers_the_rest_once(
    operator: StubOperator, environ: dict[str, str]
) -> None:
    results = Path(environ["PODTUNE_DIR"], "results.jsonl")
    with start_command(environ) as killed:
        operator.wait_for(lambda: operator.reports)
        results.write_bytes(dumps(epoch=1) + dumps(epoch=2))
        operator.wait_for(lambda: operator.acked_seq == 2)
        killed.kill()
    with results.open("ab") as file:
        file.write(dumps(epoch=3))
    with start_command(environ) as again:
        operator.wait_for(lambda: operator.acked_seq == 3)
        again.terminate()
        again.communicate(timeout=60)
    assert operator.taken == [1, 2, 3]
    assert [operator.results[seq].metrics["epoch"] for seq in (1, 2, 3)] == [1, 2, 3]
    assert parse_final_commit(Path(environ["PODTUNE_TERMINATION_LOG"]).read_text()).seq == 3


def test_an_agent_that_is_killed_while_it_ends_has_left_its_final_commit(
    operator: StubOperator, environ: dict[str, str]
) -> None:
    operator.close()
    log = Path(environ["PODTUNE_TERMINATION_LOG"])
    with start_command(environ) as process:
        results = Path(environ["PODTUNE_DIR"], "results.jsonl")
        wait_until(results.exists)
        results.write_bytes(dumps(epoch=1))
        process.terminate()
        wait_until(lambda: log.exists() and log.read_text())
        process.kill()
    commit = parse_final_commit(log.read_text())
    assert (commit.seq, commit.acked_seq, commit.last.metrics["epoch"]) == (1, 0, 1)


def test_a_token_that_was_renewed_is_used(
    operator: StubOperator, environ: dict[str, str], start_agent: StartAgent
) -> None:
    operator.token = "renewed"
    agent = start_agent()
    agent.write(dumps(epoch=1))
    wait_until(lambda: "401" in agent.log.getvalue())
    agent.settings.token_file.write_text("renewed")
    operator.wait_for(lambda: operator.acked_seq == 1)
    agent.end()


def test_what_does_not_fit_into_memory_stays_in_the_file_until_it_is_its_turn(
    operator: StubOperator, start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.results.results_file.READ_SIZE", 64)
    monkeypatch.setattr("podtune.agent.state.attempt.Outbox", lambda: Outbox(capacity=5))
    operator.durable_seq = 0
    agent = start_agent()
    agent.write(b"".join(dumps(epoch=epoch) for epoch in range(1, 101)))
    wait_until(lambda: operator.acked_seq >= 5)
    assert operator.acked_seq < 20
    operator.durable_seq = None
    operator.wait_for(lambda: operator.acked_seq == 100)
    agent.end()
    assert operator.taken == list(range(1, 101))


def test_what_does_not_fit_into_memory_is_printed_when_the_operator_stays_away(
    operator: StubOperator, start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podtune.agent.results.results_file.READ_SIZE", 64)
    monkeypatch.setattr("podtune.agent.state.attempt.Outbox", lambda: Outbox(capacity=5))
    operator.close()
    agent = start_agent({"PODTUNE_DRAIN_SECONDS": "0.2"})
    agent.write(b"".join(dumps(epoch=epoch) for epoch in range(1, 101)))
    commit = agent.end()
    printed = [json.loads(line.removeprefix("podtune-result ")) for line in agent.output.getvalue().splitlines()]
    assert [result["metrics"]["epoch"] for result in printed] == list(range(1, 101))
    assert (commit.seq, commit.last.metrics["epoch"]) == (100, 100)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PODTUNE_RESULTS_URL", "podtune-results:8080"),
        ("PODTUNE_RESULTS_URL", "http://host:port"),
        ("PODTUNE_STORE", '{"prefix": "x"}'),
        ("PODTUNE_STDOUT_PATTERN", "(?P<open"),
        ("PODTUNE_STDOUT_PATTERN", "no group"),
        ("PODTUNE_DRAIN_SECONDS", "soon"),
        ("PODTUNE_DRAIN_SECONDS", "nan"),
        ("PODTUNE_TRIAL", ""),
    ],
)
def test_a_wrong_variable_is_named(environ: dict[str, str], name: str, value: str) -> None:
    with pytest.raises(AgentSettingsError, match=name):
        Settings.from_environ(environ | {name: value})


def test_variables_come_as_an_argument_too_and_the_environment_counts_more(environ: dict[str, str]) -> None:
    trial = {name: environ.pop(name) for name in ("PODTUNE_TRIAL", "PODTUNE_EXPERIMENT")}
    environ["PODTUNE_EXPERIMENT"] = "digits-again"
    settings = Settings.from_environ(environ, json.dumps(trial))
    assert (settings.trial, settings.experiment) == ("digits-7", "digits-again")


@pytest.mark.parametrize("argument", ["", "[]", '{"PODTUNE_TRIAL": 7}', "{"])
def test_an_argument_that_is_no_object_of_texts_is_shown(environ: dict[str, str], argument: str) -> None:
    with pytest.raises(AgentSettingsError, match=f"the argument is {re.escape(repr(argument))}"):
        Settings.from_environ(environ, argument)


def bound_token(claims: object) -> str:
    """A token as the API server makes it: three parts, the second of them the claims, without padding."""
    return ".".join(urlsafe_b64encode(part).decode().rstrip("=") for part in (b"{}", json.dumps(claims).encode(), b"s"))


def test_the_attempt_is_the_pod_that_the_token_is_bound_to(environ: dict[str, str]) -> None:
    del environ["PODTUNE_POD_UID"]
    for uid in ("pod-1", "pod-12", "pod-123"):  # every length of padding
        claims = {"aud": ["podtune.dev/results"], "kubernetes.io": {"pod": {"name": "digits-7-1", "uid": uid}}}
        Path(environ["PODTUNE_TOKEN_FILE"]).write_text(bound_token(claims) + "\n")
        assert Settings.from_environ(environ).attempt == uid


@pytest.mark.parametrize("token", ["", "secret", "a.b.c", "a.!!.c", bound_token({"kubernetes.io": {"pod": None}})])
def test_a_token_that_names_no_pod_is_a_mistake_in_the_settings(environ: dict[str, str], token: str) -> None:
    del environ["PODTUNE_POD_UID"]
    Path(environ["PODTUNE_TOKEN_FILE"]).write_text(token)
    with pytest.raises(AgentSettingsError, match=r"PODTUNE_POD_UID is not set, and the token in .* names no pod"):
        Settings.from_environ(environ)


def test_the_control_file_replaces_a_link_and_does_not_follow_it(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "control.json").symlink_to(tmp_path / "target")
    control = ControlFileWriter(Directory(tmp_path))
    assert control.write({"shouldStop": True})
    assert not control.write({"shouldStop": True})
    assert json.loads((tmp_path / "control.json").read_text()) == {"shouldStop": True}
    assert (tmp_path / "target").read_text() == "untouched"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control.json", "target"]


@pytest.mark.parametrize("writers", [1, 2])
def test_a_shorter_final_commit_leaves_nothing_of_the_longer_one(tmp_path: Path, writers: int) -> None:
    """In a warm pod each attempt has a writer of its own."""
    log = TerminationLog(tmp_path / "log")
    log.write(FinalCommit("pod-1", seq=1, acked_seq=0, store_problem=StoreProblem("Unreachable", "m" * 300, False)))
    log = log if writers == 1 else TerminationLog(tmp_path / "log")
    log.write(FinalCommit("pod-1", seq=1, acked_seq=1))
    assert parse_final_commit((tmp_path / "log").read_text()) == FinalCommit("pod-1", seq=1, acked_seq=1)
