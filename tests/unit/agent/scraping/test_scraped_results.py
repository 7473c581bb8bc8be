"""Which scrapes are results."""

from __future__ import annotations

import math
from collections.abc import Mapping

from podtune.agent.scraping.exposition import parse_exposition
from podtune.agent.scraping.scraped_results import ScrapedResults
from podtune.protocol.messages import MetricValue


def take(results: ScrapedResults, text: str) -> Mapping[str, MetricValue] | None:
    """Takes a scrape, and confirms the result that it makes."""
    result = results.take(results.read(parse_exposition(text.replace("; ", "\n"))))
    if result is not None:
        results.confirm()
    return result


def test_only_what_is_new_of_the_objective_is_a_result() -> None:
    results = ScrapedResults("loss")
    assert take(results, "epoch 1") is None
    assert take(results, "epoch 1; loss 0.5; lr 0.1") == {"loss": 0.5, "epoch": 1.0, "lr": 0.1}
    assert take(results, "epoch 2; loss 0.5; lr 0.2") is None
    assert take(results, "epoch 3; loss 0.25") == {"loss": 0.25, "epoch": 3.0}
    assert str(take(results, "loss NaN")) == "{'loss': nan}"
    assert take(results, "loss NaN") is None, "it stays as it is"
    assert take(results, "loss +Inf") == {"loss": math.inf}


def test_with_a_time_attribute_the_same_value_later_is_a_result_too() -> None:
    results = ScrapedResults("loss", "epoch")
    assert take(results, "loss 0.5") is None, "its time is not known"
    first = take(results, "lr 0.1; loss 0.5; epoch 1")
    assert list((first or {}).items()) == [("loss", 0.5), ("epoch", 1), ("lr", 0.1)]
    assert take(results, "lr 0.2; loss 0.5; epoch 1") is None
    assert take(results, "loss 0.5; epoch 2") == {"loss": 0.5, "epoch": 2}
    assert take(results, "loss 0.4; epoch 2.5") == {"loss": 0.4, "epoch": 2.5}


def test_a_metric_that_the_program_has_not_set_yet_is_no_result() -> None:
    results = ScrapedResults("loss", "epoch")
    assert take(results, "loss 0.0; epoch 1") is None
    assert take(results, "loss 0.5; epoch 1") == {"loss": 0.5, "epoch": 1}
    assert take(results, "loss 0.0; epoch 2") == {"loss": 0, "epoch": 2}, "it has become 0"


def test_labels_are_a_part_of_the_name() -> None:
    text = 'loss{split="val set",fold="1"} 0.5; loss{split="train"} 0.4; loss{a="x=y"} 0.3'
    result = take(ScrapedResults("loss/fold/1/split/val_set"), text)
    assert result == {"loss/fold/1/split/val_set": 0.5, "loss/split/train": 0.4, "loss/a/x_y": 0.3}


def test_what_says_nothing_of_training_is_left_out_unless_it_is_the_objective() -> None:
    text = (
        'loss 1; python_info{version="3"} 1; process_cpu_seconds_total 2; steps_created 1.7e9; steps_total 3; '
        's_bucket{le="1"} 1; s_count 2; s_sum 3'
    )
    assert take(ScrapedResults("loss"), text) == {"loss": 1, "steps_total": 3, "s_count": 2, "s_sum": 3}
    result = take(ScrapedResults("process_cpu_seconds_total"), text)
    assert result is not None
    assert next(iter(result)) == "process_cpu_seconds_total"


def test_a_result_has_the_objective_however_many_metrics_there_are() -> None:
    many = "; ".join(f"m{number} 1" for number in range(500))
    result = take(ScrapedResults("loss", "epoch"), f"{many}; {'long' * 50} 1; epoch 3; loss 0.5")
    assert result is not None
    assert list(result)[:3] == ["loss", "epoch", "m0"]
    assert len(result) == 63


def test_an_agent_that_is_started_again_goes_on_where_it_was() -> None:
    results = ScrapedResults("loss", "epoch", {"loss": 0.5, "epoch": 2, "lr": 0.1})
    assert take(results, "loss 0.5; epoch 2") is None
    assert take(results, "loss 0.5; epoch 3") == {"loss": 0.5, "epoch": 3}


def test_what_there_was_instead_of_the_objective_is_told_at_the_end() -> None:
    results = ScrapedResults("accuracy", "epoch")
    assert results.build_rest() is None
    assert take(results, "acc 0.5; epoch 3; accuracy 0") is None
    assert results.build_rest() == {"epoch": 3, "acc": 0.5}
    take(results, "accuracy 0.5; epoch 4")
    assert results.build_rest() is None
    without_time = ScrapedResults("accuracy", "epoch")
    assert take(without_time, "accuracy 0.5") is None
    assert without_time.build_rest() == {"accuracy": 0.5}


def test_a_result_that_could_not_be_written_is_one_still() -> None:
    results = ScrapedResults("loss")
    metrics = {"loss": 0.5}
    assert results.take(metrics) == results.take(metrics) == {"loss": 0.5}
    results.confirm()
    assert results.take(metrics) is None
