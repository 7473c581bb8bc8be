from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from podtune.cli.client.api_client import Change
from podtune.cli.client.resources import TrialView
from podtune.cli.errors import CliError
from podtune.cli.views import watch_view
from podtune.cli.views.formats import format_age
from podtune.cli.views.live.rungs import RungStand, count_stands
from podtune.cli.views.numbers import format_number
from podtune.cli.views.progress import EXPERIMENT_CHANGED, TRIALS_CHANGED, Inbox, Progress, follow
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, FakeApi, experiment, trial
from tests.unit.dashboard.live.live_api import LiveApi

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


def _add_others(progress: Progress, *items: dict[str, Any]) -> None:
    """More trials, so that some of what trials have in common is no longer common to all."""
    other = trial(11, **TRAINING | {"lastResult": {"epoch": "12", "accuracy": "0.5", "loss": "0.25"}})
    other["spec"]["parameters"] = {"activation": "relu", "hidden_units": "128", "learning_rate": "0.004212345678"}
    other["status"]["pod"]["node"] = "n3"
    for item in (other, *items):
        progress.apply(TRIALS_CHANGED, Change("MODIFIED", item))


def test_the_picture_shows_progress_counts_best_and_each_running_trial(progress: Progress) -> None:
    _add_others(progress)
    drawn = _drawn(progress)
    assert drawn.startswith("digits  Running  4m\n"), "the counts are said below"
    assert "5 of 24 trials done  about 14m left\n" in drawn
    assert "1 pending   2 running   1 paused   4 done (3 stopped early)   1 failed" in drawn
    assert "best accuracy 0.9722 by digits-4  learning_rate 0.004212, hidden_units 128, activation relu" in drawn
    header, *rows = (line.split() for line in drawn.splitlines()[-3:])
    names = "TRIAL epoch accuracy BEST learning_rate hidden_units activation loss ATTEMPT NODE"
    assert " ".join(header) == names, "all of them train, so what they do is no column"
    assert rows == [
        ["digits-7", "9/27", "0.9611", "0.9640", "0.01235", "64", "tanh", "0.1000", "2", "n2"],
        ["digits-11", "12/27", "0.5000", "0.9640", "0.004212", "128", "relu", "0.2500", "2", "n3"],
    ]


def test_a_metric_that_is_called_as_a_parameter_has_a_column_of_its_own(progress: Progress) -> None:
    _add_others(progress, trial(7, **TRAINING | {"lastResult": {"hidden_units": "63.5", "accuracy": "0.9"}}))
    header, row = _drawn(progress).splitlines()[-3:-1]
    assert "hidden_units  activation  hidden_units (result)" in header
    assert [value in row.split() for value in ("64", "63.50")] == [True, True]


@pytest.mark.parametrize("value", ["[red]", "[/red]", "[relu,tanh]", ":smile:"])
def test_what_looks_like_markup_is_shown_as_it_is(progress: Progress, value: str) -> None:
    item = trial(7, **TRAINING)
    item["spec"]["parameters"]["activation"] = value
    _add_others(progress, item)
    assert value in _drawn(progress).splitlines()[-2]


def test_without_a_limit_there_is_no_bar() -> None:
    seen = Progress()
    item = experiment("digits", trials={"total": 5, "terminated": 3, "running": 2})
    item["spec"]["search"]["maxTrials"] = "unlimited"
    _list(seen, EXPERIMENT_CHANGED, item)
    assert "3 trials done, unlimited" in _drawn(seen)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ["digits", "vision-resnet50-imagenet-sweep-of-november"])
def test_nothing_is_cut_where_a_terminal_is_narrow(name: str, width: int) -> None:
    seen = Progress()
    _list(seen, EXPERIMENT_CHANGED, experiment(name, **RUNNING))
    first, second = trial(7, name, **TRAINING), trial(11, name, **TRAINING)
    second["spec"]["parameters"] |= {"learning_rate": "0.1", "activation": "relu"}
    _list(seen, TRIALS_CHANGED, first, second)
    lines = _drawn(seen, width).splitlines()
    assert max(map(len, lines)) <= width
    start = next(place for place, line in enumerate(lines) if line.startswith("TRIAL"))
    header, row = lines[start].split(), lines[start + 1].split()
    assert header[:4] == ["TRIAL", "epoch", "accuracy", "BEST"]
    assert row[1:4] == ["9/27", "0.9611", "0.9640"]
    if row[0] == "…-7":
        assert f"in the names below, … stands for {name}" in " ".join(" ".join(lines).split())
    else:
        assert row[0] == f"{name}-7"
    left_out = " ".join(lines[start + 3 :]).partition("no room for ")[2].split(", ")
    assert {"learning_rate", "activation"} <= {*header, *left_out}, "a column is there as a whole, or named as left out"
    assert width < 200 or left_out == [""]


def test_counts_of_iterations_have_one_column(progress: Progress) -> None:
    watched = experiment("digits", **RUNNING)
    watched["spec"] |= {"scheduler": {"fifo": {}}, "stop": {}}
    _list(progress, EXPERIMENT_CHANGED, watched)
    counted = {"training_iteration": "9", "epoch": "9", "batch": "9", "accuracy": "0.9611"}
    _list(progress, TRIALS_CHANGED, trial(7, **TRAINING | {"lastResult": counted}))
    header, row = (line.split() for line in _drawn(progress).splitlines()[-2:])
    assert header[:4] == ["TRIAL", "epoch", "accuracy", "BEST"]
    assert row[:2] == ["digits-7", "9"]
    assert {"training_iteration", "batch"}.isdisjoint(header)


def test_the_picture_says_how_many_trials_stand_at_which_rung(progress: Progress) -> None:
    stand = {"1": "0.5", "3": "0.7"}
    _list(
        progress,
        TRIALS_CHANGED,
        trial(1, state="TERMINATED", reason="StoppedByScheduler", scheduler={"rungs": {"1": "0.2"}}),
        trial(2, state="TERMINATED", reason="StoppedByScheduler", scheduler={"rungs": {"1": "0.3"}}),
        trial(7, **TRAINING, scheduler={"rungs": stand}),
        trial(8, state="PAUSED", scheduler={"rungs": stand | {"9": "0.8"}}),
        trial(9),
    )
    lines = _drawn(progress).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("rungs (epoch)"))
    assert [line.split() for line in lines[start : start + 4]] == [
        ["rungs", "(epoch)", "start", "1", "3", "9"],
        ["running", "0", "0", "1", "0"],
        ["waiting", "1", "0", "0", "1"],
        ["ended", "0", "2", "0", "0"],
    ]
    narrow = _drawn(progress, 22).splitlines()
    assert any(line.split() == ["rungs", "(epoch)", "…", "3", "9"] for line in narrow), "the highest rungs stay"


def test_the_picture_says_which_gpus_are_used_and_waited_for(progress: Progress) -> None:
    watched = experiment("digits", **RUNNING | {"usage": {"gpuHours": 3.25, "podHours": 3.25}})
    watched["spec"]["parameters"][2]["choice"]["values"] = ["relu", "tanh"]
    container = {"name": "t", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    watched["spec"]["trialTemplate"] = {"spec": {"containers": [container]}}
    _list(progress, EXPERIMENT_CHANGED, watched)
    waiting = trial(12, state="PENDING", reason="Unschedulable", limits={"nvidia.com/gpu": "4"})
    progress.apply(TRIALS_CHANGED, Change("MODIFIED", waiting))
    assert "GPUs 4 in use   4 waited for   3.2 GPU-hours so far" in _drawn(progress)
    watched["status"] |= {"state": "Complete", "completionTime": "2026-01-01T10:04:00Z"}
    progress.apply(EXPERIMENT_CHANGED, Change("MODIFIED", watched))
    assert "\n3.2 GPU-hours\n" in _drawn(progress)


def test_when_the_experiment_has_ended_the_best_trials_are_left(progress: Progress) -> None:
    ended = RUNNING | {"state": "Complete", "completionTime": "2026-01-01T10:04:00Z"}
    _list(progress, EXPERIMENT_CHANGED, experiment("digits", **ended))
    values = ("0.5", "nan", "0.9", "0.7")
    _list(
        progress,
        TRIALS_CHANGED,
        *(trial(index, state="TERMINATED", bestValue=value) for index, value in enumerate(values)),
    )
    assert [line.split()[0] for line in _drawn(progress).splitlines()[-3:]] == ["digits-2", "digits-3", "digits-0"]


def test_more_trials_than_a_terminal_has_lines_for_are_counted(progress: Progress) -> None:
    _list(progress, TRIALS_CHANGED, *(trial(index, **TRAINING) for index in range(30)))
    console = Console(width=100, height=24, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(watch_view.render(progress, NOW, 100, 24))
    lines = capture.get().splitlines()
    assert len(lines) <= 24
    assert sum(line.startswith("digits-") for line in lines) == 10
    assert any("20 more trials running" in line for line in lines)


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
        "best accuracy 0.9722 (digits-4)",
        "10:05:00 digits-7 TERMINATED StoppedByScheduler",
    ]


def test_the_live_table_leaves_its_last_state_standing(progress: Progress) -> None:
    console = Console(width=120, force_terminal=True, color_system=None)
    with console.capture() as capture:
        last = watch_view.show_live(iter([progress]), console, lambda: NOW)
    assert last is progress
    assert "digits-11" in capture.get()


def test_trials_may_come_while_the_live_table_is_drawn(progress: Progress, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count(100)

    def count_while_others_come(trials: Iterable[TrialView]) -> list[RungStand]:
        for _ in trials:
            progress.apply(TRIALS_CHANGED, Change("ADDED", trial(next(numbers), **TRAINING)))
        return count_stands(trials)

    monkeypatch.setattr(watch_view, "count_stands", count_while_others_come)
    console = Console(width=120, force_terminal=True, color_system=None)
    with console.capture() as capture:
        watch_view.show_live(iter([progress]), console, lambda: NOW)
    assert "digits-11" in capture.get()
    assert len(progress.trials) > 3


@pytest.mark.parametrize("width", [60, 200])
def test_the_picture_says_why_trials_have_failed(progress: Progress, width: int) -> None:
    said = "container trial exited with code 2 (last line of its log: train.py: error: unrecognized arguments: --lrr=1)"
    failed = {"state": "ERROR", "reason": "MaxFailuresExceeded", "message": said}
    _list(progress, TRIALS_CHANGED, *(trial(index, **failed) for index in range(2)), trial(7, **TRAINING))
    drawn = _drawn(progress, width)
    assert max(map(len, drawn.splitlines())) <= width
    assert f"digits-1 {said}" in " ".join(drawn.split())
    assert "more `podtune describe`" not in drawn
    _list(progress, TRIALS_CHANGED, *(trial(index, **failed) for index in range(9)))
    assert "7 more `podtune describe` shows all" in " ".join(_drawn(progress, width).split())


def test_programs_that_report_but_once_have_no_columns_for_what_comes_over_time(progress: Progress) -> None:
    once: dict[str, Any] = {"state": "TERMINATED", "reason": "Completed", "bestValue": "0.9", "attempt": 1}
    last = {"accuracy": "0.9", "training_iteration": "1"}
    body = experiment("digits", **RUNNING | {"state": "Complete", "completionTime": "2026-01-01T10:04:00Z"})
    body["spec"].pop("scheduler")
    body["spec"].pop("stop")
    _list(progress, EXPERIMENT_CHANGED, body)
    _list(progress, TRIALS_CHANGED, *(trial(index, lastResult=last, **once) for index in range(2)))
    assert _drawn(progress).splitlines()[-3].split() == ["TRIAL", "accuracy"]
    _list(
        progress, TRIALS_CHANGED, *(trial(i, lastResult=last | {"training_iteration": "2"}, **once) for i in range(2))
    )
    assert _drawn(progress).splitlines()[-3].split() == ["TRIAL", "training_iteration", "accuracy", "BEST"]


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


def test_who_closes_the_inbox_ends_the_wait_and_the_watches() -> None:
    api, inbox = LiveApi(), Inbox()
    before = set(threading.enumerate())
    states = follow(api, NAMESPACE, "digits", inbox)
    api.lists(paths.experiments(NAMESPACE), experiment("digits", **RUNNING))
    api.lists(paths.trials(NAMESPACE))
    assert next(states).is_known
    watches = set(threading.enumerate()) - before
    inbox.close(TimeoutError("long enough"))
    with pytest.raises(TimeoutError, match="long enough"):
        list(states)
    for path in (paths.experiments(NAMESPACE), paths.trials(NAMESPACE)):
        api.tells(path, Change("SYNCED", {}))
    for watch in watches:
        watch.join(60)
    assert not any(watch.is_alive() for watch in watches)


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
    [("0.123456789", "0.1235"), ("9", "9"), ("128", "128"), ("1234567", "1234567"), ("relu", "relu"), ("nan", "nan"),
     ("inf", "inf"), ("1e-07", "1e-7"), ("12345.6", "12346"), ("", "")],
)  # fmt: skip
def test_numbers_are_shortened_to_what_matters_in_a_table(text: str, shown: str) -> None:
    assert format_number(text) == shown
