from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from podtune.cli.client.api_client import Change
from podtune.cli.errors import CliError
from podtune.cli.views import watch_view
from podtune.cli.views.formats import format_age, format_number
from podtune.cli.views.progress import EXPERIMENT_CHANGED, TRIALS_CHANGED, Progress, follow
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial

NOW = datetime(2026, 1, 1, 10, 5, tzinfo=UTC)


def _list(progress: Progress, source: str, *items: dict[str, Any]) -> None:
    progress.apply(source, Change("RELISTED", {}))
    for item in items:
        progress.apply(source, Change("ADDED", item))
    progress.apply(source, Change("SYNCED", {}))


@pytest.fixture
def progress() -> Progress:
    known = Progress()
    _list(known, EXPERIMENT_CHANGED, experiment("digits", **RUNNING))
    _list(known, TRIALS_CHANGED, trial(11, **TRAINING), trial(7, **TRAINING), trial(8))
    return known


def _drawn(progress: Progress | None, width: int = 160) -> str:
    console = Console(width=width, record=True, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(watch_view.render(progress, NOW, width))
    return capture.get()


def test_the_picture_shows_progress_counts_best_and_each_running_trial(progress: Progress) -> None:
    drawn = _drawn(progress)
    assert "digits  Running  4m  5 of 24 trials done, 2 running" in drawn
    assert "5 of 24 trials done\n" in drawn
    assert "1 pending   2 running   1 paused   4 done (3 stopped early)   1 failed" in drawn
    assert "best accuracy 0.9722222222222222 by digits-4  learning_rate 0.0042123, hidden_units 128" in drawn
    rows = [line.split() for line in drawn.splitlines()[-3:]]
    assert " ".join(rows[0]) == "TRIAL DOING learning_rate hidden_units activation epoch loss accuracy BEST NODE"
    assert [row[0] for row in rows[1:]] == ["digits-7", "digits-11"]
    assert rows[1][1:] == ["Training,", "attempt", "2", "0.012346", "64", "tanh", "9", "0.1", "0.96111", "0.964", "n2"]


def test_a_metric_that_is_called_as_a_parameter_has_a_column_of_its_own(progress: Progress) -> None:
    shown = TRAINING | {"lastResult": {"hidden_units": "63.5", "accuracy": "0.9"}}
    _list(progress, TRIALS_CHANGED, trial(7, **shown))
    header, row = _drawn(progress).splitlines()[-2:]
    assert header.split()[2:7] == ["learning_rate", "hidden_units", "activation", "hidden_units", "(result)"]
    assert [value in row.split() for value in ("64", "63.5")] == [True, True]


@pytest.mark.parametrize("value", ["[red]", "[/red]", "[relu,tanh]", ":smile:"])
def test_what_looks_like_markup_is_shown_as_it_is(progress: Progress, value: str) -> None:
    item = trial(7, **TRAINING)
    item["spec"]["parameters"]["activation"] = value
    _list(progress, TRIALS_CHANGED, item)
    assert value in _drawn(progress).splitlines()[-1]


def test_without_a_limit_there_is_no_bar() -> None:
    seen = Progress()
    item = experiment("digits", trials={"total": 5, "terminated": 3, "running": 2})
    item["spec"]["search"]["maxTrials"] = "unlimited"
    _list(seen, EXPERIMENT_CHANGED, item)
    assert "3 trials done, unlimited" in _drawn(seen)


def test_the_picture_fits_a_narrow_terminal(progress: Progress) -> None:
    assert max(map(len, _drawn(progress, 60).splitlines())) <= 60


def test_where_it_is_narrow_what_was_reached_stays(progress: Progress) -> None:
    header, row = (line.split() for line in _drawn(progress, 60).splitlines()[-3:-1])
    assert header == ["TRIAL", "DOING", "accuracy", "BEST"]
    assert row == ["digits-7", "Training,", "attempt", "2", "0.96111", "0.964"]


LOST = {"type": "CheckpointsStored", "status": "False", "reason": "NoSuchBucket", "message": "the bucket is missing"}
REFUSED = {
    "state": "PENDING",
    "reason": "InvalidOverrides",
    "message": "spec.overrides.hidden_units: 7 is below min 16; raise it",
}


@pytest.mark.parametrize("width", [60, 200])
def test_the_picture_names_what_waits_for_a_correction(progress: Progress, width: int) -> None:
    kept = {"type": "CheckpointsKept", "status": "False", "reason": "CheckpointsLost", "message": "1 of 2 was lost"}
    progress.apply(EXPERIMENT_CHANGED, Change("MODIFIED", experiment("digits", **RUNNING | {"conditions": [kept]})))
    _list(
        progress,
        TRIALS_CHANGED,
        trial(7, **TRAINING | {"conditions": [LOST]}),
        *(trial(index, **REFUSED) for index in range(8, 20)),
        trial(20, state="PENDING", reason="Queued", message="waiting for a free slot (maxConcurrentTrials)"),
        trial(21, state="ERROR", reason="MaxFailuresExceeded", conditions=[LOST]),
    )
    drawn = _drawn(progress, width)
    said = " ".join(drawn.split())
    assert max(map(len, drawn.splitlines())) <= width
    assert "CheckpointsKept is False (CheckpointsLost): 1 of 2 was lost" in said
    assert "digits-7 CheckpointsStored is False (NoSuchBucket): the bucket is missing" in said
    assert "digits-8 InvalidOverrides: spec.overrides.hidden_units: 7 is below min 16; raise it" in said
    assert "5 more `podtune describe` shows all" in said
    assert "digits-20" not in said, "it waits for nobody"
    assert "digits-21" not in said, "it has ended"


def test_a_line_is_written_when_something_goes_wrong_and_when_it_is_mended(progress: Progress) -> None:
    written: list[str] = []

    def states() -> Iterator[Progress]:
        yield progress
        progress.apply(TRIALS_CHANGED, Change("MODIFIED", trial(7, **TRAINING | {"conditions": [LOST]})))
        progress.apply(EXPERIMENT_CHANGED, Change("MODIFIED", experiment("digits", **RUNNING | {"conditions": [LOST]})))
        yield progress
        yield progress
        progress.apply(TRIALS_CHANGED, Change("MODIFIED", trial(7, **TRAINING)))
        yield progress

    watch_view.show_lines(states(), written.append, lambda: NOW)
    doing = f"10:05:00 digits-7 RUNNING Training: {TRAINING['message']}"
    lost = "CheckpointsStored is False (NoSuchBucket): the bucket is missing"
    assert written[4:] == [f"{doing}; {lost}", f"10:05:00 digits {lost}", doing]


@pytest.mark.parametrize(("time", "shown"), [("epoch", False), ("time_total_s", True)])
def test_times_take_no_column_unless_the_scheduler_goes_by_them(time: str, shown: bool) -> None:
    seen = Progress()
    watched = experiment("digits", **RUNNING)
    watched["spec"]["scheduler"] = {"asha": {"timeAttribute": time, "maxTime": 27}}
    _list(seen, EXPERIMENT_CHANGED, watched)
    times = {"training_iteration": "9", "time_this_iter_s": "60.5", "time_total_s": "541.25"}
    _list(seen, TRIALS_CHANGED, trial(7, **TRAINING | {"lastResult": {**TRAINING["lastResult"], **times}}))
    assert ("541.2" in _drawn(seen)) == shown
    assert "60.5" not in _drawn(seen)
    assert "0.9611" in _drawn(seen)


def test_before_anything_is_known_the_picture_says_so() -> None:
    assert "waiting for the experiment" in _drawn(None)
    seen = Progress()
    _list(seen, EXPERIMENT_CHANGED, experiment("digits"))
    assert "waiting for the operator" in _drawn(seen)


def test_lines_are_written_for_what_changes_and_nothing_else(progress: Progress) -> None:
    written: list[str] = []

    def states() -> Iterator[Progress]:
        yield progress
        yield progress  # nothing has changed
        progress.apply(TRIALS_CHANGED, Change("MODIFIED", trial(7, **TRAINING | {"lastResult": {"accuracy": "0.97"}})))
        yield progress  # a result is no change of state
        progress.apply(TRIALS_CHANGED, Change("MODIFIED", trial(7, state="TERMINATED", reason="StoppedByScheduler")))
        yield progress

    watch_view.show_lines(states(), written.append, lambda: NOW)
    doing = f"RUNNING Training: {TRAINING['message']}"
    assert written == [
        f"10:05:00 digits-11 {doing}",
        f"10:05:00 digits-7 {doing}",
        "10:05:00 digits-8 PENDING",
        "10:05:00 digits Running: 5/24 trials done, 2 running, 1 pending, 1 paused, 1 failed; "
        "best accuracy 0.9722222222222222 (digits-4)",
        "10:05:00 digits-7 TERMINATED StoppedByScheduler",
    ]


def test_the_live_table_leaves_its_last_state_standing(progress: Progress) -> None:
    console = Console(width=120, force_terminal=True, color_system=None)
    with console.capture() as capture:
        last = watch_view.show_live(iter([progress]), console, lambda: NOW)
    assert last is progress
    assert "digits-11" in capture.get()


def test_what_was_deleted_while_nobody_watched_is_forgotten(progress: Progress) -> None:
    _list(progress, TRIALS_CHANGED, trial(7, **TRAINING))
    assert list(progress.trials) == ["digits-7"]
    progress.apply(TRIALS_CHANGED, Change("DELETED", trial(7)))
    assert progress.trials == {}
    _list(progress, EXPERIMENT_CHANGED)
    assert progress.outcome == (1, "the experiment was deleted")


def test_a_trial_that_is_only_listed_again_has_not_changed(progress: Progress) -> None:
    progress.changed.clear()
    _list(progress, TRIALS_CHANGED, trial(7, **TRAINING), trial(8), trial(11, **TRAINING))
    assert progress.changed == []


def test_following_starts_when_both_lists_are_known_and_ends_with_the_experiment() -> None:
    api = FakeApi()
    done = experiment("digits", conditions=[{"type": "Complete", "status": "True", "message": "done"}])
    api.scripts[paths.experiments(NAMESPACE)] = [
        Change("RELISTED", {}),
        Change("ADDED", experiment("digits", **RUNNING)),
        Change("SYNCED", {}),
        Change("MODIFIED", done),
    ]
    api.scripts[paths.trials(NAMESPACE)] = [Change("RELISTED", {}), Change("SYNCED", {})]
    states = [(state.is_known, state.outcome) for state in follow(api, NAMESPACE, "digits")]
    assert states[-1] == (True, (0, "done"))
    assert all(known for known, _ in states)
    assert dict(api.asked) == {
        paths.experiments(NAMESPACE): {"fieldSelector": "metadata.name=digits"},
        paths.trials(NAMESPACE): {"labelSelector": "podtune.dev/experiment=digits"},
    }


@pytest.mark.parametrize("failure", [Unanswered("the server is gone"), KeyError("metadata")])
def test_a_watch_that_cant_go_on_ends_the_command(failure: Exception) -> None:
    api = FakeApi()
    api.scripts[paths.experiments(NAMESPACE)] = [failure]
    api.scripts[paths.trials(NAMESPACE)] = []
    with pytest.raises(type(failure)):
        list(follow(api, NAMESPACE, "digits"))


def test_an_experiment_that_is_not_there_is_an_error() -> None:
    api = FakeApi()
    api.scripts[paths.experiments(NAMESPACE)] = [Change("RELISTED", {}), Change("SYNCED", {})]
    api.scripts[paths.trials(NAMESPACE)] = []
    with pytest.raises(CliError, match="no Experiment 'digits'"):
        list(follow(api, NAMESPACE, "digits"))


@pytest.mark.parametrize(
    ("elapsed", "written"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (3600 * 48, "2d"), (-5, "0s")],
)
def test_ages_are_written_as_kubectl_does(elapsed: int, written: str) -> None:
    assert format_age((NOW - timedelta(seconds=elapsed)).isoformat(), NOW) == written


@pytest.mark.parametrize(
    ("text", "shown"),
    [("0.123456789", "0.12346"), ("9", "9"), ("128", "128"), ("1234567", "1234567"), ("relu", "relu"), ("nan", "nan"),
     ("inf", "inf"), ("1e-07", "1e-07"), ("", "")],
)  # fmt: skip
def test_numbers_are_shortened_to_what_matters_in_a_table(text: str, shown: str) -> None:
    assert format_number(text) == shown
