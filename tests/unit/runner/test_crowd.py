"""How long news may wait among many."""

from __future__ import annotations

from podtune.runner.crowd import LONGEST_WAIT, Crowd


def test_among_few_nothing_waits_longer() -> None:
    crowd = Crowd()
    crowd.settle("one", 3)
    assert crowd.wait_among_trials(2.0, few=3) == 2.0
    assert crowd.wait_among_experiments(1.0, few=1) == 1.0


def test_among_many_news_wait_as_many_times_longer() -> None:
    crowd = Crowd()
    for number in range(6):
        crowd.settle(f"uid-{number}", 5)
    assert crowd.wait_among_trials(2.0, few=10) == 6.0
    assert crowd.wait_among_experiments(1.0, few=2) == 3.0


def test_no_wait_grows_for_ever() -> None:
    crowd = Crowd()
    crowd.settle("one", 100_000)
    assert crowd.wait_among_trials(2.0, few=10) == LONGEST_WAIT
    assert crowd.wait_among_trials(2 * LONGEST_WAIT, few=10) == 2 * LONGEST_WAIT, "which is what was asked for alone"


def test_only_what_goes_on_at_present_counts() -> None:
    crowd = Crowd()
    for trials in (50, 8, None, 4, 0):
        for number in range(10):
            crowd.settle(f"uid-{number}", trials)
        assert crowd.wait_among_trials(1.0, few=10) == min(max(1.0, float(trials or 0)), LONGEST_WAIT)
        assert crowd.wait_among_experiments(1.0, few=5) == (1.0 if trials is None else 2.0)
