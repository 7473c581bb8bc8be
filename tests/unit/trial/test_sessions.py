"""What a training program sees of `podtune.trial`, in a pod and alone."""

import atexit
import enum
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podtune import trial
from podtune.trial import layout, sessions

TRIAL_NAMES = [
    "CurrentTrial",
    "params",
    "report",
    "restored_checkpoint",
    "seed",
    "should_checkpoint",
    "should_stop",
    "stream",
]


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("PODTUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    trial._sessions.clear()
    yield
    trial._sessions.clear()


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory shared with the agent."""
    directory = tmp_path / "podtune"
    directory.mkdir()
    monkeypatch.setenv("PODTUNE_DIR", str(directory))
    return directory


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    directory = tmp_path / "mine"
    (directory / "sub").mkdir(parents=True)
    (directory / "weights").write_text("w")
    (directory / "sub" / "state").write_text("s")
    (directory / "weights").chmod(0o600)
    (directory / "sub").chmod(0o700)
    return directory


def lines(pod: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (pod / "results.jsonl").read_text().splitlines()]


def control(pod: Path, **wants: bool) -> None:
    (pod / "new").write_text(json.dumps(wants))
    (pod / "new").replace(pod / "control.json")


def test_these_are_the_public_names() -> None:
    assert trial.__all__ == TRIAL_NAMES
    assert all(getattr(trial, name).__doc__ for name in TRIAL_NAMES)


def test_importing_it_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; import podtune.trial; print(*{m.partition('.')[0] for m in sys.modules} - sys.stdlib_module_names)"
    )
    environ = {"PYTHONPATH": str(Path(trial.__file__).parents[2])}
    output = subprocess.run([sys.executable, "-S", "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert set(output.stdout.split()) == {"podtune", "__main__"}


class TestInAPod:
    def test_parameters_have_their_own_types(self, pod: Path) -> None:
        (pod / "parameters.json").write_text('{"lr": 0.1, "units": 64, "name": "1", "on": true, "sizes": [64]}')
        assert trial.params() == {"lr": 0.1, "units": 64, "name": "1", "on": True, "sizes": [64]}
        assert trial.params({"lr": 9.0, "more": 2}) == trial.params() | {"more": 2}

    def test_without_the_file_the_environment_tells_the_parameters(
        self, pod: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PODTUNE_PARAM_lr", "0.1")
        assert trial.params() == {"lr": 0.1}

    def test_a_result_is_one_line(self, pod: Path) -> None:
        trial.report({"epoch": 1, "val": {"loss": 0.5}, "ok": True, "note": "ü"})
        trial.report({"epoch": 2})
        assert lines(pod) == [{"epoch": 1, "val/loss": 0.5, "ok": True, "note": "ü"}, {"epoch": 2}]

    def test_scalars_of_numpy_and_the_like_are_plain(self, pod: Path) -> None:
        class Mood(enum.StrEnum):
            GOOD = "good"

        trial.report({"a": np.float32(0.5), "b": np.int64(3), "c": np.array([2.5]), "d": np.True_, "e": Mood.GOOD})
        assert lines(pod) == [{"a": 0.5, "b": 3, "c": 2.5, "d": True, "e": "good"}]

    def test_nan_and_infinity_are_values(self, pod: Path) -> None:
        trial.report({"a": math.nan, "b": -math.inf})
        (line,) = lines(pod)
        assert math.isnan(line["a"])
        assert line["b"] == -math.inf

    @pytest.mark.parametrize("value", [None, [1], np.zeros(3), object(), 1j])
    def test_another_value_is_an_error_that_names_its_key(self, pod: Path, value: object) -> None:
        with pytest.raises(TypeError, match="'val/x'"):
            trial.report({"ok": 1, "val": {"x": value}})
        assert not (pod / "results.jsonl").exists()

    @pytest.mark.parametrize("metrics", [{"": 1}, {1: 1}, {"_checkpoint": "x"}, {"a/b": 1, "a": {"b": 2}}])
    def test_a_bad_key_is_an_error(self, pod: Path, metrics: dict[Any, Any]) -> None:
        with pytest.raises(ValueError, match="metric"):
            trial.report(metrics)

    def test_a_checkpoint_is_whole_and_readable_before_its_line_is_there(
        self, pod: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[dict[str, Any]] = []
        monkeypatch.setattr(sessions.PodSession, "_append", lambda self, line: seen.append(dict(line)))
        before = os.umask(0o077)
        try:
            trial.report({"epoch": 1}, checkpoint=checkpoint)
        finally:
            os.umask(before)
        copy = pod / "checkpoints" / seen[0]["_checkpoint"]
        assert (copy / "weights").read_text() == "w"
        assert (copy / "sub" / "state").read_text() == "s"
        modes = {path.name: path.stat().st_mode & 0o777 for path in [copy.parent, copy, *copy.rglob("*")]}
        assert modes.pop("weights") == modes.pop("state") == 0o644
        assert set(modes.values()) == {0o777}
        assert (checkpoint / "weights").stat().st_mode & 0o777 == 0o600

    def test_the_program_may_write_to_its_directory_again(self, pod: Path, checkpoint: Path) -> None:
        trial.report({"epoch": 1}, checkpoint=checkpoint)
        (checkpoint / "weights").write_text("w2")
        trial.report({"epoch": 2}, checkpoint=str(checkpoint))
        kept = [(pod / "checkpoints" / line["_checkpoint"] / "weights").read_text() for line in lines(pod)]
        assert kept == ["w", "w2"]

    def test_a_checkpoint_that_can_not_be_copied_leaves_nothing(self, pod: Path, checkpoint: Path) -> None:
        os.mkfifo(checkpoint / "pipe")
        with pytest.raises((ValueError, OSError), match="pipe"):
            trial.report({"epoch": 1}, checkpoint=checkpoint)
        assert list((pod / "checkpoints").iterdir()) == []
        with pytest.raises(NotADirectoryError, match="weights"):
            trial.report({"epoch": 1}, checkpoint=checkpoint / "weights")
        assert not (pod / "results.jsonl").exists()

    def test_the_results_file_is_open_to_the_agent(self, pod: Path) -> None:
        before = os.umask(0o077)
        try:
            trial.report({"epoch": 1})
        finally:
            os.umask(before)
        assert (pod / "results.jsonl").stat().st_mode & 0o777 == 0o666

    def test_a_restored_checkpoint_counts_only_when_it_is_whole(self, pod: Path) -> None:
        assert trial.restored_checkpoint() is None
        (pod / "restored").mkdir()
        assert trial.restored_checkpoint() is None
        (pod / "restore.json").write_text("{}")
        assert trial.restored_checkpoint() == pod / "restored"
        (pod / "restored").rmdir()
        assert trial.restored_checkpoint() is None

    def test_the_agents_requests_are_followed(self, pod: Path) -> None:
        assert (trial.should_stop(), trial.should_checkpoint()) == (False, False)
        control(pod, shouldStop=True, shouldCheckpoint=True)
        assert (trial.should_stop(), trial.should_checkpoint()) == (True, True)

    def test_a_checkpoint_answers_the_request_for_one(self, pod: Path, checkpoint: Path) -> None:
        control(pod, shouldCheckpoint=True)
        assert trial.should_checkpoint()
        trial.report({"epoch": 1}, checkpoint=checkpoint)
        assert not trial.should_checkpoint()
        control(pod, shouldCheckpoint=False)
        assert not trial.should_checkpoint()
        control(pod, shouldCheckpoint=True)
        assert trial.should_checkpoint()

    def test_a_request_that_comes_again_while_nobody_looks_is_a_new_one(self, pod: Path, checkpoint: Path) -> None:
        control(pod, shouldCheckpoint=True)
        trial.report({"epoch": 1}, checkpoint=checkpoint)
        assert not trial.should_checkpoint()
        control(pod, shouldCheckpoint=False)
        control(pod, shouldCheckpoint=True)
        assert trial.should_checkpoint()

    def test_garbage_in_the_control_file_is_no_wish(self, pod: Path) -> None:
        for text in ("", "[]", "{", '{"shouldStop": "yes"}'):
            (pod / "control.json").write_text(text)
            assert not trial.should_stop()


class TestAlone:
    @pytest.fixture(autouse=True)
    def nowhere(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(layout, "DIRECTORY", str(tmp_path / "no-such-directory"))

    def test_parameters_come_from_the_environment_and_the_defaults(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PODTUNE_PARAM_lr", "1e-3")
        monkeypatch.setenv("PODTUNE_PARAM_units", "64")
        monkeypatch.setenv("PODTUNE_PARAM_on", "true")
        monkeypatch.setenv("PODTUNE_PARAM_act", "relu")
        monkeypatch.setenv("PODTUNE_PARAM_sizes", "[64, 32]")
        monkeypatch.setenv("PODTUNE_PARAM_tag", "[draft]")
        expected = {"lr": 0.001, "units": 64, "on": True, "act": "relu", "sizes": [64, 32], "tag": "[draft]"}
        assert trial.params() == expected
        assert trial.params({"lr": 1.0, "depth": 2}) == expected | {"depth": 2}

    def test_results_are_printed(self, capsys: pytest.CaptureFixture[str], checkpoint: Path) -> None:
        trial.report({"epoch": 1, "accuracy": 0.123456789, "note": "ok"}, checkpoint=checkpoint)
        assert capsys.readouterr().out == "epoch 1  accuracy 0.123457  note ok\n"

    def test_mistakes_are_found_here_already(self, checkpoint: Path) -> None:
        with pytest.raises(TypeError, match="'x'"):
            trial.report({"x": None})
        with pytest.raises(NotADirectoryError):
            trial.report({"x": 1}, checkpoint=checkpoint / "weights")

    def test_the_seed_is_the_trials_or_the_programs_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert trial.seed() == 0
        assert trial.seed(7) == 7
        monkeypatch.setenv("PODTUNE_SEED", "247054594")
        trial._sessions.clear()
        assert trial.seed(7) == 247054594

    def test_nothing_is_restored_or_asked_for(self) -> None:
        assert trial.restored_checkpoint() is None
        assert not trial.should_checkpoint()
        assert not trial.should_stop()


class TestSayingThatItIsDone:
    """Only a normal end that can mean nothing else says so."""

    def run(self, pod: Path, code: str, sends: signal.Signals | None = None) -> bool:
        environ = {"PODTUNE_DIR": str(pod), "PYTHONPATH": str(Path(trial.__file__).parents[2])}
        command = [sys.executable, "-c", f"import signal, sys, time\nfrom podtune import trial\n{code}"]
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with process:
            if sends:
                process.stdout.readline()
                process.send_signal(sends)
            process.wait(60)
        return any(line.get("_done") for line in lines(pod))

    def test_a_normal_end(self, pod: Path) -> None:
        assert self.run(pod, "trial.report({'a': 1})")

    def test_an_exception(self, pod: Path) -> None:
        assert not self.run(pod, "trial.report({'a': 1})\nraise RuntimeError")

    def test_a_normal_end_where_sigterm_is_trapped(self, pod: Path) -> None:
        assert not self.run(pod, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntrial.report({'a': 1})")

    def test_a_trapped_sigterm(self, pod: Path) -> None:
        rest = "print(flush=True)\nwhile True:\n    time.sleep(0.05)"  # `signal.pause` may begin after the signal
        code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntrial.report({'a': 1})\n"
        assert not self.run(pod, code + rest, sends=signal.SIGTERM)

    def test_a_program_that_stops_because_it_was_asked_to(self, pod: Path) -> None:
        control(pod, shouldStop=True)
        code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\ntrial.report({'a': 1})\n"
        assert self.run(pod, code + "assert trial.should_stop()")

    def test_a_program_that_says_so(self, pod: Path) -> None:
        code = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        assert self.run(pod, code + "trial.report({'a': 1}, done=True)")
