"""Which scalars make a result, and what else it has."""

from __future__ import annotations

from typing import Any

from podtune.agent.metric_files.logged_results import LoggedResults, ReadPosition


class Log:
    """A file that scalars are read from."""

    def __init__(self, objective: str = "val/loss") -> None:
        self.results = LoggedResults(objective)
        self.position = 0

    def add(self, name: str, value: float, step: int, position: int = 0) -> dict[str, Any] | None:
        self.position = position or self.position + 10
        result = self.results.take(name, value, step, ReadPosition("f", self.position))
        return None if result is None else dict(result)


def test_each_value_of_the_objective_is_a_result_with_the_latest_of_all_else() -> None:
    log = Log()
    assert log.add("lr", 0.1, 1) is None
    assert log.add("val/loss", 0.5, 1) is None
    assert log.add("val/accuracy", 0.7, 1) is None, "what follows at the same step belongs to it"
    first = log.add("lr", 0.2, 2)
    assert first == {
        "val/loss": 0.5,
        "step": 1,
        "lr": 0.1,
        "val/accuracy": 0.7,
        "_readFrom": {"file": "f", "position": 20},
    }
    log.add("val/loss", 0.4, 2)
    second = log.results.complete()
    assert second is not None
    assert (second["val/loss"], second["step"], second["lr"], second["val/accuracy"]) == (0.4, 2, 0.2, 0.7)
    assert log.results.complete() is None


def test_a_script_that_logs_no_steps_has_a_result_for_each_value() -> None:
    log = Log()
    log.add("val/loss", 0.5, 0)
    first = log.add("val/loss", 0.4, 0)
    second = log.results.complete()
    assert first is not None
    assert second is not None
    assert (first["val/loss"], second["val/loss"]) == (0.5, 0.4)


def test_what_was_written_before_is_not_written_again() -> None:
    log = Log()
    log.results.learn({"val/loss": 0.5, "_readFrom": {"file": "f", "position": 20}})
    for line in ({"val/loss": 0.5}, {"_readFrom": 7}, {"_readFrom": {"file": 1, "position": "x"}}):
        log.results.learn(line)
    log.add("lr", 0.1, 1)
    log.add("val/loss", 0.5, 1)
    log.add("val/loss", 0.4, 2)
    result = log.results.complete()
    assert result is not None
    assert (result["val/loss"], result["step"], result["lr"]) == (0.4, 2, 0.1)
    log.add("val/loss", 0.4, 2, position=30)
    assert log.results.complete() is None, "it was read a second time"


def test_a_tag_that_is_called_step_does_not_hide_the_step() -> None:
    log = Log()
    log.add("step", 99.5, 3)
    log.add("val/loss", 0.5, 3)
    result = log.results.complete()
    assert result is not None
    assert result["step"] == 3


def test_what_there_was_instead_of_the_objective_is_told_at_the_end() -> None:
    log = Log("loss")
    assert log.results.build_rest() is None
    log.add("train/loss", 0.5, 7)
    assert log.results.build_rest() == {"step": 7, "train/loss": 0.5, "_readFrom": {"file": "", "position": 0}}
    assert log.results.build_rest() is None
    other = Log("train/loss")
    other.add("train/loss", 0.5, 7)
    other.results.complete()
    assert other.results.build_rest() is None
