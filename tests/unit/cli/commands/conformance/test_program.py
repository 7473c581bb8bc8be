"""What checks run in pods: accepted by API server and operator, and what the checks believe of it is so."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from podtune.api.pods.pod_template import AGENT_UID
from podtune.cli import main as cli
from podtune.cli.commands.conformance.catalog import CHECKS
from podtune.cli.commands.conformance.checks import ConformanceCheck, Observed, Rig
from podtune.cli.commands.conformance.program import (
    CHECK_PROGRAM,
    EPOCHS,
    RELAY_PROGRAM,
    CheckImage,
    compute_value,
    make_check_experiment,
    make_relay,
)

OPERATOR = Path(__file__).parents[5] / "operator"
IMAGE = CheckImage("podtune-agent:1", "Always", ("registry",))
STORE = {"bucket": "models", "credentialsSecret": "keys"}
PATIENCE = 30.0


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_experiment_is_one_that_api_server_and_operator_take(check: ConformanceCheck, tmp_path: Path) -> None:
    manifest = make_check_experiment(check.name, IMAGE, check.environment, STORE if check.needs else None)
    file = tmp_path / "experiment.json"
    file.write_text(json.dumps(manifest))
    assert cli.main(["validate", str(file)]) == 0
    for pod in (manifest["spec"]["trialTemplate"]["spec"], make_relay("relay", IMAGE, "s3", 9000)["spec"]):
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["containers"][0]["imagePullPolicy"] == "Always"
        assert pod["securityContext"]["runAsUser"] != AGENT_UID
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


@contextmanager
def started(directory: Path, attempt: int = 1, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The program, as in a pod whose shared directory this is."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHECK_PROGRAM],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(OPERATOR),
            "PODTUNE_DIR": str(directory),
            "PODTUNE_ATTEMPT": str(attempt),
            "EPOCHS": str(EPOCHS),
            "EPOCH_SECONDS": "0",
            **environment,
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_results(directory: Path) -> list[dict[str, Any]]:
    file = directory / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [result for result in map(json.loads, lines) if "epoch" in result]


def await_results(directory: Path, count: int) -> list[dict[str, Any]]:
    end = time.monotonic() + PATIENCE
    while len(found := read_results(directory)) < count:
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def ask(directory: Path, **wanted: bool) -> None:
    """Writes the agent's requests, as it does: the file is replaced."""
    file = directory / "control.json"
    (directory / "control.new").write_text(json.dumps(wanted))
    (directory / "control.new").replace(file)


def list_stored(results: list[dict[str, Any]]) -> list[int]:
    """The epochs with a checkpoint."""
    return [result["epoch"] for result in results if any("checkpoint" in key for key in result)]


def test_it_comes_to_the_same_value_whatever_interrupts_it(tmp_path: Path) -> None:
    with started(tmp_path, HOLD_AT="4") as process:
        results = await_results(tmp_path, 3)
        assert list_stored(results) == [1, 2, 3]
        ask(tmp_path, shouldStop=True)
        assert process.wait(PATIENCE) == 0
    checkpoint = next(value for key, value in results[-1].items() if "checkpoint" in key)
    resumed = tmp_path / "resumed"
    resumed.mkdir()
    (tmp_path / "checkpoints" / checkpoint).rename(resumed / "restored")
    (resumed / "restore.json").write_text("{}")
    with started(resumed, attempt=2, HOLD_AT="4") as process:
        assert process.wait(PATIENCE) == 0
    last = read_results(resumed)[-1]
    assert (last["epoch"], last["value"], last["start"]) == (EPOCHS, compute_value(EPOCHS), 3)


def test_a_request_releases_it_and_only_from_the_present_hold(tmp_path: Path) -> None:
    with started(tmp_path, HOLD_AT=f"4 {EPOCHS}", RELEASED_BY_REQUEST="1") as process:
        assert list_stored(await_results(tmp_path, 3)) == [1, 2], "else the operator would not ask it"
        ask(tmp_path, shouldCheckpoint=True)
        assert list_stored(await_results(tmp_path, EPOCHS - 1)) == [1, 2, 4, 5, 6]
        ask(tmp_path, shouldCheckpoint=True)
        assert process.wait(PATIENCE) == 0
    assert list_stored(read_results(tmp_path)) == [1, 2, 4, 5, 6, EPOCHS]


def test_it_crashes_when_it_is_to(tmp_path: Path) -> None:
    with started(tmp_path, HOLD_AT="4", RELEASED_BY_REQUEST="1", THEN="crash") as process:
        await_results(tmp_path, 3)
        ask(tmp_path, shouldCheckpoint=True)
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert "was to crash" in process.stderr.read()


def test_the_relay_passes_on_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()

        def answer() -> None:
            connection, _ = there.accept()
            with connection:
                connection.sendall(connection.recv(100)[::-1])

        threading.Thread(target=answer, daemon=True).start()
        ours = [sys.executable, "-c", RELAY_PROGRAM, "127.0.0.1", str(there.getsockname()[1]), str(port)]
        process = subprocess.Popen(ours)
        try:
            with closing(connect(port)) as connection:
                connection.sendall(b"abc")
                assert connection.recv(100) == b"cba"
                assert connection.recv(100) == b"", "the end is passed on, too"
        finally:
            process.kill()
            process.wait()


def connect(port: int) -> socket.socket:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), PATIENCE)
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.parametrize("check", [c for c in CHECKS if "RELEASED_BY_REQUEST" in c.environment], ids=lambda c: c.name)
def test_no_checkpoint_is_asked_for_while_the_last_epoch_has_one(check: ConformanceCheck) -> None:
    """The operator would answer for the program, which would wait for ever."""

    def observe(epoch: int, stored: int) -> Observed:
        return Observed({}, {"status": {"iteration": epoch, "checkpoint": {"step": stored}}}, [])

    rig = Rig(Mock(), "checks", "podtune-system", IMAGE, check.name, check.environment)
    held = [int(epoch) for epoch in check.environment["HOLD_AT"].split()]
    waits = [step for step in check.steps if step.words.startswith("the program waits")]
    assert len(waits) == len(held)
    for step, epoch in zip(waits, held, strict=True):
        assert not step.until(rig, observe(epoch - 2, epoch - 2))
        assert not step.until(rig, observe(epoch - 1, epoch - 3))
        assert step.until(rig, observe(epoch - 1, epoch - 2))
