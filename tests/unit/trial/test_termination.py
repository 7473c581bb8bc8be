"""A program that says nothing of SIGTERM ends on it, although it is the first process of its container."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from podtune import trial

AS_FIRST = "import os\nfrom podtune.trial import termination\ntermination.FIRST_PROCESS = os.getpid()\n"
BEGIN = """
import signal, sys, time
from podtune import trial

def rest():
    while True:  # not `signal.pause`: a signal that comes right before it is waited for in vain
        time.sleep(0.05)
"""
WAIT = "print(flush=True)\nrest()\n"


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """The directory shared with the agent."""
    (tmp_path / "podtune").mkdir()
    return tmp_path / "podtune"


def run(pod: Path, code: str, *, first: bool = True) -> tuple[int, str]:
    """Runs a program, sends SIGTERM once it has printed a line, and returns its exit code and what it printed then."""
    environ = {"PODTUNE_DIR": str(pod), "PYTHONPATH": str(Path(trial.__file__).parents[2])}
    command = [sys.executable, "-c", BEGIN + (AS_FIRST if first else "") + code]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    return process.returncode, rest


def results(pod: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (pod / "results.jsonl").read_text().splitlines()]


def test_it_ends_and_cleans_up(pod: Path) -> None:
    code = "trial.report({'a': 1})\ntry:\n    print(flush=True)\n    rest()\nfinally:\n    print('cleaned up')"
    assert run(pod, code) == (143, "cleaned up\n")
    assert results(pod) == [{"a": 1}], "it has not said that it is done"


def test_it_is_not_said_to_be_done_if_it_ends_normally_afterwards(pod: Path) -> None:
    code = "trial.report({'a': 1})\ntry:\n    print(flush=True)\n    rest()\nexcept SystemExit:\n    pass"
    assert run(pod, code)[0] == 0
    assert results(pod) == [{"a": 1}]


def test_a_program_that_ends_by_itself_is_said_to_be_done(pod: Path) -> None:
    environ = {"PODTUNE_DIR": str(pod), "PYTHONPATH": str(Path(trial.__file__).parents[2])}
    code = f"{AS_FIRST}from podtune import trial\ntrial.report({{'a': 1}})"
    subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=60)
    assert results(pod) == [{"a": 1}, {"_done": True}]


def test_its_own_handler_counts_whenever_it_was_set(pod: Path) -> None:
    own = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    assert run(pod, f"{own}trial.params()\n{WAIT}")[0] == 7
    assert run(pod, f"trial.params()\n{own}{WAIT}")[0] == 7


def test_a_program_that_ignores_it_is_left_alone(pod: Path) -> None:
    ignore = "import time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntrial.params()\n"
    assert run(pod, f"{ignore}print(flush=True)\ntime.sleep(0.5)\nprint('goes on')") == (0, "goes on\n")


def test_any_other_process_is_ended_by_the_signal_itself(pod: Path) -> None:
    assert run(pod, f"trial.params()\n{WAIT}", first=False)[0] == -signal.SIGTERM


def test_a_checkpoint_that_is_being_handed_over_is_there_before_the_program_ends(pod: Path) -> None:
    code = """
import pathlib, time
from podtune.trial import sessions
take = sessions.copy_checkpoint
def slowly(*args):
    print(flush=True)
    while not termination.has_begun():
        time.sleep(0.01)
    return take(*args)
sessions.copy_checkpoint = slowly
pathlib.Path(os.environ["PODTUNE_DIR"], "mine").mkdir()
trial.report({'a': 1}, checkpoint=os.environ["PODTUNE_DIR"] + "/mine")
print("goes on")
"""
    assert run(pod, code) == (143, "")
    (result,) = results(pod)
    assert result["a"] == 1
    assert "_checkpoint" in result


def test_a_result_may_be_reported_while_it_ends(pod: Path) -> None:
    code = (
        "trial.params()\ntry:\n    print(flush=True)\n    rest()\n"
        "finally:\n    trial.report({'a': 1})\n    print('reported')"
    )
    assert run(pod, code) == (143, "reported\n")


def test_its_workers_end_as_they_would_without_it(pod: Path) -> None:
    code = """
trial.params()
read, write = os.pipe()
worker = os.fork()
if worker == 0:
    os.write(write, b"begun")
    rest()
os.read(read, 5)
os.kill(worker, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == -signal.SIGTERM
"""
    assert run(pod, code + WAIT)[0] == 143


def test_a_program_that_waits_for_its_next_trial_leaves_its_loop(pod: Path) -> None:
    code = """
os.environ["PODTUNE_REUSE"] = "true"
waiting = sys.modules["podtune.trial.stream"].time
sleep = waiting.sleep
def sleep_aloud(seconds):
    print(flush=True)
    sleep(seconds)
waiting.sleep = sleep_aloud
for this in trial.stream():
    this.params()
print("left the loop")
"""
    exit_code, printed = run(pod, code)
    assert (exit_code, printed.strip()) == (0, "left the loop")
