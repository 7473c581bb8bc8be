"""Which posts of a Trainer become results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podtune.agent.endpoint.trainer_status import StatusReader

EVALUATION = {"eval_loss": 0.5, "eval_runtime": 1.5}


def read(posts: Iterable[Mapping[str, Any]], objective: str = "eval_loss") -> list[dict[str, Any]]:
    """The results of posts; one with `last` is that at the end of training."""
    reader = StatusReader(objective)
    results = []
    for post in posts:
        metrics = dict(post)
        result = reader.take(metrics, metrics.pop("last", False))
        if result is not None:
            reader.confirm()
            results.append(dict(result))
    return results


def at(step: int, epoch: float = 0.0, **metrics: float) -> dict[str, float]:
    return {**metrics, "current_step": step, "total_steps": 100, "current_epoch": epoch or step / 25}


def test_each_evaluation_is_one_result_however_often_it_is_posted() -> None:
    posts: list[dict[str, Any]] = [
        {"total_steps": 100},
        at(5, loss=2.0),
        at(12, loss=2.0, **EVALUATION),
        at(17, loss=1.0, **EVALUATION),
        at(22, loss=1.0, eval_loss=0.5, eval_runtime=1.6),
    ]
    results = read(posts)
    assert [(result["current_step"], result["eval_loss"], result["loss"]) for result in results] == [
        (12, 0.5, 2.0),
        (22, 0.5, 1.0),
    ], "the second has found the same, and took another time"
    assert "total_steps" not in results[0]


def test_what_is_logged_in_training_can_be_the_objective() -> None:
    posts = [at(5, loss=2.0, epoch=0.2), at(6, loss=2.0, epoch=0.2), at(12, loss=1.5, epoch=0.4, **EVALUATION)]
    assert [result["current_step"] for result in read(posts, "loss")] == [5, 12]


def test_an_evaluation_after_the_last_step_is_a_result_of_that_step() -> None:
    last: dict[str, Any] = {"eval_loss": 0.4, "eval_runtime": 1.4, "epoch": 4.0, "last": True}
    posts = [at(96, loss=1.0, **EVALUATION), last]
    assert [(result["current_step"], result["eval_loss"]) for result in read(posts)] == [(96, 0.5), (100, 0.4)]
    short = [{"total_steps": 100}, last]
    assert [result["current_step"] for result in read(short)] == [100], "training was over before a post was due"


def test_training_that_was_stopped_early_is_not_said_to_have_reached_the_last_step() -> None:
    posts = [at(50, **EVALUATION), {"eval_loss": 0.6, "eval_runtime": 1.4, "epoch": 2.2, "last": True}]
    assert [result["current_step"] for result in read(posts)] == [50, 55]


def test_without_the_objective_people_see_at_the_end_what_there_is_instead() -> None:
    posts = [at(5, loss=2.0), at(10, loss=1.0), {"loss": 1.0, "train_runtime": 9.0, "epoch": 4.0, "last": True}]
    (result,) = read(posts, "accuracy")
    assert result.keys() == {"loss", "train_runtime", "epoch", "current_step"}
    assert read([{"total_steps": 100}, {"last": True}], "accuracy") == []


def test_a_result_that_could_not_be_written_is_made_again() -> None:
    reader = StatusReader("eval_loss")
    assert reader.take(dict(at(5, **EVALUATION)), is_last=False)
    again = reader.take(dict(at(6, **EVALUATION)), is_last=False)
    assert again is not None
    assert again["current_step"] == 6


def test_programs_that_name_no_steps_report_whatever_is_new() -> None:
    assert read([{"accuracy": 0.5}, {"accuracy": 0.5}, {"accuracy": 0.7}], "accuracy") == [
        {"accuracy": 0.5},
        {"accuracy": 0.7},
    ]
