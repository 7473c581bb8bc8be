"""How long news may wait among many."""

from __future__ import annotations

from podtune.runner.experiment.status_write_throttle import LONGEST_WAIT, StatusWriteThrottle


def test_among_few_nothing_waits_longer() -> None:
    throttle = StatusWriteThrottle()
    throttle.update("one", 3)
    assert throttle.stretch_trial_wait(2.0, throttle_above=3) == 2.0
    assert throttle.stretch_experiment_wait(1.0, throttle_above=1) == 1.0


def test_among_many_news_wait_as_many_times_longer() -> None:
    throttle = StatusWriteThrottle()
    for number in range(6):
        throttle.update(f"uid-{number}", 5)
    assert throttle.stretch_trial_wait(2.0, throttle_above=10) == 6.0
    assert throttle.stretch_experiment_wait(1.0, throttle_above=2) == 3.0


def test_no_wait_grows_for_ever() -> None:
    throttle = StatusWriteThrottle()
    throttle.update("one", 100_000)
    assert throttle.stretch_trial_wait(2.0, throttle_above=10) == LONGEST_WAIT
    assert throttle.stretch_trial_wait(2 * LONGEST_WAIT, throttle_above=10) == 2 * LONGEST_WAIT, (
        "which is what was asked for alone"
    )


def test_only_what_goes_on_at_present_counts() -> None:
    throttle = StatusWriteThrottle()
    for trials in (50, 8, None, 4, 0):
        for number in range(10):
            throttle.update(f"uid-{number}", trials)
        assert throttle.stretch_trial_wait(1.0, throttle_above=10) == min(max(1.0, float(trials or 0)), LONGEST_WAIT)
        assert throttle.stretch_experiment_wait(1.0, throttle_above=5) == (1.0 if trials is None else 2.0)
