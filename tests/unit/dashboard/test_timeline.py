"""The timeline: what trials were doing when, told from their statuses, and where GPU time went."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.cli.client.resources import read_experiment, read_trial
from podtune.dashboard.charts.timeline.clock import list_time_ticks
from podtune.dashboard.charts.timeline.collection import Timeline, read_history, trace_experiment
from podtune.dashboard.charts.timeline.counts import (
    MOST_COLUMNS,
    count_changes,
    count_codes,
    draw_activities,
    draw_states,
    encode_changes,
)
from podtune.dashboard.charts.timeline.history import trace_trial
from podtune.dashboard.charts.timeline.lanes import TimelineQuery, draw_lanes
from podtune.dashboard.charts.timeline.purposes import Purpose, divide_time, draw_purposes
from podtune.dashboard.charts.timeline.spans import STATES_BY_ACTIVITY, Activity, Mark, Span
from podtune.dashboard.trial_rows import STATE_WORDS, ExperimentRows, collect_rows
from tests.unit.dashboard.archives import (
    BASE,
    STOPPED,
    Manifest,
    done,
    experiment_body,
    make_many,
    make_source,
    read_page,
    serve,
    trial_body,
)
from tests.unit.dashboard.live.live_api import EXPERIMENTS, TRIALS, LiveApi, make_cluster, team_experiment, team_trial

PAGE = f"{BASE}/timeline"
RETRY = "container trial exited with code 1; will be retried from the checkpoint of iteration 4"
HOUR = 3600.0


def at(minutes: float) -> str:
    """A time so many minutes after ten o'clock."""
    moment = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp() + 60 * minutes
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


def decide(number: int, minutes: float, action: str, attempt: int, message: str = "", **inputs: str) -> Manifest:
    entry = {"number": number, "time": at(minutes), "attempt": attempt, "step": 6, "action": action}
    return entry | {"message": message, "inputs": inputs}


def use(training: float, pods: float | None = None, **more: Any) -> Manifest:
    """Usage in minutes."""
    pod_seconds = round(60 * (training if pods is None else pods))
    return {"trainingSeconds": round(60 * training), "podSeconds": pod_seconds, "gpuSeconds": pod_seconds} | more


def collect(trials: Sequence[Manifest], status: Manifest | None = None, **spec: Any) -> ExperimentRows:
    source = make_source(trials, experiment_body(status=status, **spec))
    view = source.find_experiment("team", "digits")
    assert view is not None
    return collect_rows(view, source.list_trials("team", "digits"))


def trace(**status: Any) -> Sequence[Span]:
    return trace_trial(collect([trial_body(0, **status)]).rows[0]).spans


def tell(**status: Any) -> list[tuple[str, float, float]]:
    """What a trial did, with minutes after ten o'clock."""
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp()
    return [
        (str(span.activity), round((span.begin - ten) / 60, 2), round((span.end - ten) / 60, 2))
        for span in trace(**status)
    ]


def find_timeline(trials: Sequence[Manifest], now: float | None = None) -> Timeline:
    timeline = trace_experiment(collect(trials), now)
    assert timeline is not None
    return timeline


def test_a_stopped_trial_starts_trains_and_stores_what_it_has() -> None:
    stop = decide(1, 50, "STOP", 1)
    status = done(0.5, startTime=at(10), completionTime=at(52), ledger=[stop], usage=use(40, 46))
    # The pod was on a node for 46 minutes, two of which lie after the program's end.
    assert tell(**status) == [("starting", 6, 10), ("training", 10, 50), ("saving", 50, 52)]


def test_a_retry_waits_for_as_long_as_the_program_did_not_run() -> None:
    curve = {"results": 9, "every": 4, "steps": [1, 5, 9], "seconds": [360, 1800, 3240], "values": [[0.1, 0.2, 0.3]]}
    status = done(
        0.5,
        attempt=2,
        failures=1,
        startTime=at(0),
        completionTime=at(90),
        ledger=[decide(1, 30, "RETRY", 1, RETRY, user="1")],
        usage=use(70, 75),
        curve=curve,
    )
    assert tell(**status) == [("training", 0, 30), ("waiting", 30, 50), ("training", 50, 90)]
    first, _, second = trace(**status)
    assert (first.mark, first.attempt, second.attempt) == (Mark.FAILURE, 1, 2)
    # By the curve, iteration 4 had been reached after 24 minutes.
    assert first.lost_from is not None
    assert first.end - first.lost_from == 6 * 60
    assert second.lost_from is None


def test_a_preempted_attempt_without_a_checkpoint_is_lost_as_a_whole() -> None:
    entry = decide(1, 30, "RETRY", 1, "preempted; will be retried from scratch (no checkpoint)", disruption="1")
    first = trace(**done(0.5, attempt=2, startTime=at(0), completionTime=at(90), ledger=[entry], usage=use(70)))[0]
    assert (first.mark, first.lost_from) == (Mark.DISRUPTION, first.begin)


def test_a_pause_lasts_until_the_trial_is_promoted() -> None:
    ledger = [decide(1, 20, "PAUSE", 1), decide(2, 60, "PROMOTE", 1), decide(3, 90, "STOP", 2)]
    status = done(0.5, attempt=2, startTime=at(0), completionTime=at(91), ledger=ledger, usage=use(45))
    assert tell(**status)[:3] == [("training", 0, 20), ("paused", 20, 60), ("waiting", 60, 65)]


def test_several_beginnings_that_are_not_on_record_are_not_made_up() -> None:
    retries = [decide(1, 20, "RETRY", 1, RETRY, user="1"), decide(2, 40, "RETRY", 2, RETRY, user="2")]
    spans = trace(**done(0.5, attempt=3, startTime=at(0), completionTime=at(90), ledger=retries, usage=use(60)))
    assert [(span.activity, span.is_exact) for span in spans] == [
        (Activity.TRAINING, True),
        (Activity.TRAINING, False),
        (Activity.TRAINING, False),
    ]


def test_attempts_that_have_left_the_ledger_are_not_on_record() -> None:
    ledger = [decide(9, 60, "CONTINUE", 4)]
    gaps = done(0.5, attempt=4, startTime=at(0), completionTime=at(90), ledger=ledger, usage=use(60))
    assert tell(**gaps) == [("unknown", 0, 60), ("training", 60, 90)]
    assert "30m of training" in trace(**gaps)[0].sentence
    # Where it was nearly all training, that is how it is shown.
    mostly = trace(**(gaps | {"usage": use(85)}))
    assert [(span.activity, span.is_exact) for span in mostly] == [
        (Activity.TRAINING, False),
        (Activity.TRAINING, True),
    ]


def test_an_evaluation_follows_on_the_training() -> None:
    evaluation = {"step": 9, "uri": "s3://b/9", "reason": "Completed", "since": at(60), "attempt": 2}
    status = done(
        0.5,
        attempt=2,
        startTime=at(0),
        completionTime=at(80),
        ledger=[decide(1, 60, "EVALUATE", 1)],
        usage=use(65),
        evaluation=evaluation | {"trainingSeconds": 3600},
    )
    assert tell(**status) == [("training", 0, 60), ("waiting", 60, 75), ("evaluating", 75, 80)]


def test_a_trial_that_runs_again_waits_until_its_condition_says_so() -> None:
    running = {"type": "Running", "status": "True", "reason": "Training", "lastTransitionTime": at(40)}
    status = {
        "state": "RUNNING",
        "attempt": 2,
        "startTime": at(0),
        "ledger": [decide(1, 30, "RETRY", 1, RETRY, user="1")],
        "conditions": [running],
    }
    # An archive has it as pending; what it says of when it ran is the same.
    told = tell(**status)
    assert told[:2] == [("training", 0, 30), ("waiting", 30, 40)]
    assert told[2][0] == "training"


@pytest.mark.parametrize(
    ("reason", "activity"), [("PullingImage", Activity.STARTING), ("BackingOff", Activity.WAITING)]
)
def test_a_pending_trial_says_what_it_waits_for(reason: str, activity: Activity) -> None:
    ledger = [decide(1, 30, "RETRY", 1, RETRY, user="1")]
    spans = trace(state="PENDING", reason=reason, message="so it is", attempt=2, startTime=at(0), ledger=ledger)
    assert (spans[-1].activity, spans[-1].sentence) == (activity, "so it is")


def test_what_nothing_is_on_record_of_is_not_drawn() -> None:
    assert trace(state="PENDING") == ()
    assert trace_experiment(collect([trial_body(0)])) is None


def test_time_goes_on_where_trials_are_under_way_and_nowhere_else() -> None:
    trials = [trial_body(0, **done(0.5)), trial_body(1, state="RUNNING", attempt=1, startTime="2026-01-01T11:00:00Z")]
    late = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    assert find_timeline(trials, late).range.end == late
    ended = collect(trials, status={"state": "Complete", "completionTime": "2026-01-01T12:00:00Z"})
    over = trace_experiment(ended, late)
    assert over is not None
    assert over.range.end < late


minutes = st.integers(0, 600)
actions = st.sampled_from(
    [
        "CONTINUE",
        "PAUSE",
        "PROMOTE",
        "START",
        "EXPLOIT",
        "UNDO",
        "RETRY",
        "RESTART",
        "RESUME",
        "STOP",
        "FAIL",
        "EVALUATE",
    ]
)


@st.composite
def draw_status(draw: st.DrawFn) -> Manifest:
    """Any status, also one that no operator has written."""
    entries, attempt = [], 1
    for number in range(1, draw(st.integers(0, 5)) + 1):
        attempt += draw(st.integers(0, 2))
        kind = draw(st.sampled_from(["user", "disruption", "rung"]))
        entries.append(decide(number, draw(minutes), draw(actions), attempt, RETRY, **{kind: "1"}))
    training = draw(minutes)
    status: Manifest = {
        "state": draw(st.sampled_from(["PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR"])),
        "attempt": attempt,
        "failures": draw(st.integers(0, 1)),
        "ledger": entries,
        "lastResult": draw(
            st.sampled_from([{}, {"time_total_s": "900.5"}, {"time_total_s": "nan"}, {"accuracy": "1"}])
        ),
    }
    if draw(st.booleans()):
        status["startTime"] = at(draw(minutes))
    if status["state"] in ("TERMINATED", "ERROR"):
        status["completionTime"] = at(draw(minutes))
    if draw(st.booleans()):
        status["usage"] = use(training, training + draw(minutes))
    if draw(st.booleans()):
        status["conditions"] = [
            {"type": "Running", "status": draw(st.sampled_from(["True", "False"])), "reason": "Training"}
            | {"lastTransitionTime": at(draw(minutes))}
        ]
    if draw(st.booleans()):
        status["evaluation"] = {"step": 4, "uri": "s3://b/4", "reason": "Completed", "since": at(draw(minutes))} | {
            "attempt": 2,
            "trainingSeconds": 60 * draw(minutes),
        }
    return status


@given(draw_status())
def test_a_history_has_no_gaps_and_no_overlaps(status: Manifest) -> None:
    spans = trace(**status)
    for before, after in pairwise(spans):
        assert before.end == after.begin
    for span in spans:
        assert span.begin <= span.end
        assert span.lost_from is None or span.begin <= span.lost_from <= span.end


@given(draw_status(), st.integers(1, 4))
def test_the_purposes_of_a_trial_add_up_to_its_time(status: Manifest, replicas: int) -> None:
    row = collect([trial_body(0, **status)]).rows[0]
    shares = divide_time(row, trace_trial(row), replicas)
    assert all(share >= -1e-9 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(1)


def test_an_evaluation_without_a_gpu_takes_none_of_its_time() -> None:
    evaluation = {"step": 9, "uri": "s3://b/9", "reason": "Completed", "since": at(60), "attempt": 2}
    usage = {"trainingSeconds": 3000, "podSeconds": 4800, "gpuSeconds": 2 * 3600}
    status = done(0.9, attempt=2, usage=usage, evaluation=evaluation | {"trainingSeconds": 2700})
    pods = {"replicas": 1, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}}
    scorer = {"template": {"spec": {"containers": [{"name": "score"}]}}}
    view = read_experiment(experiment_body(trialTemplate=pods, evaluation=scorer))
    plot = draw_purposes(collect_rows(view, [read_trial(trial_body(0, **status))]))
    assert plot is not None
    assert plot.total == 2.0
    hours = {each.purpose: each.hours for each in plot.shares if each.hours}
    assert hours == {Purpose.TRAINED: pytest.approx(1.5), Purpose.HELD: pytest.approx(0.5)}


@given(st.lists(draw_status(), min_size=1, max_size=6))
def test_the_purposes_of_all_trials_add_up_to_the_total(statuses: list[Manifest]) -> None:
    experiment = collect([trial_body(index, **status) for index, status in enumerate(statuses)])
    plot = draw_purposes(experiment)
    used = sum(row.view.status.usage.gpu_seconds for row in experiment.rows if row.view.status.usage is not None)
    if plot is None:
        assert used == 0
        return
    assert plot.total * HOUR == pytest.approx(used)
    assert sum(each.hours for each in plot.shares) == pytest.approx(plot.total)


@given(st.lists(draw_status(), min_size=1, max_size=6))
def test_the_counts_of_states_add_up_to_the_trials_on_record_by_then(statuses: list[Manifest]) -> None:
    experiment = collect([trial_body(index, **status) for index, status in enumerate(statuses)])
    plot, timeline = draw_states(experiment), trace_experiment(experiment)
    if plot is None or timeline is None:
        assert plot is timeline
        return
    assert len(plot.moments) <= MOST_COLUMNS + 1
    for column, moment in enumerate(plot.moments):
        there = sum(trial.begin <= moment for trial in timeline.trials)
        assert sum(area.counts[column] for area in plot.areas) == there
    assert {area.label: area.counts[-1] for area in plot.areas if area.counts[-1]} == count_last(timeline)


def count_last(timeline: Timeline) -> dict[str, int]:
    """How many trials are in each state at the end."""
    lasts = (trial.history.final or STATES_BY_ACTIVITY[trial.history.spans[-1].activity] for trial in timeline.trials)
    return dict(Counter(STATE_WORDS[last] for last in lasts))


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 1)), max_size=20),
    st.sampled_from([0.5, 4.0, 32.0]),
)
def test_what_is_counted_at_a_time_is_what_covers_it(spans: list[tuple[int, int, int]], width: float) -> None:
    known = [(float(min(begin, end)), float(max(begin, end)), kind) for begin, end, kind in spans]
    codes = [encode_changes([(begin, kind, 1), (end, kind, -1)], width) for begin, end, kind in known]
    last = int(100 // width)
    for kind, counts in enumerate(count_changes([count_codes(codes)], 2, 0, last)):
        for column in range(last):  # the last one has what is after it as well
            moment = column * width
            assert counts[column] == sum(begin <= moment < end and kind == other for begin, end, other in known)


def test_histories_of_trials_that_have_not_changed_are_kept() -> None:
    source = make_source(list(make_many(3)))
    view = source.find_experiment("team", "digits")
    assert view is not None
    trials = source.list_trials("team", "digits")
    before = collect_rows(view, trials)
    earlier = list(read_history.read_all(before))
    changed = [replace(trials[0], state="ERROR"), *trials[1:]]
    after = collect_rows(view, changed, before)
    later = read_history.read_all(after)
    assert [one is other for one, other in zip(earlier, later, strict=True)] == [False, True, True]
    plot, anew = draw_states(after), draw_states(collect_rows(view, changed))
    assert plot == anew


def test_lost_training_is_what_the_last_result_leaves_out() -> None:
    retry = decide(1, 30, "RETRY", 1, RETRY, user="1")
    status = done(0.5, attempt=2, failures=1, startTime=at(0), completionTime=at(90), ledger=[retry])
    status |= {"usage": use(80, 100), "lastResult": {"time_total_s": "3600"}}
    plot = draw_purposes(collect([trial_body(0, **status)]))
    assert plot is not None
    hours = {each.purpose: round(60 * each.hours) for each in plot.shares}
    assert hours == {Purpose.TRAINED: 60, Purpose.LOST: 20, Purpose.HELD: 20}


def test_a_failed_trial_has_trained_for_itself() -> None:
    status = done(0.5, state="ERROR", failures=1, startTime=at(0), completionTime=at(90), usage=use(90))
    row = collect([trial_body(0, **(status | {"lastResult": {"time_total_s": "3600"}}))]).rows[0]
    shares = divide_time(row, trace_trial(row))
    assert shares[Purpose.FAILED] == pytest.approx(2 / 3)
    assert shares[Purpose.LOST] == pytest.approx(1 / 3)


def test_clones_have_no_training_time_of_their_own() -> None:
    exploit = decide(1, 30, "EXPLOIT", 1)
    status = done(0.5, attempt=2, failures=1, startTime=at(0), completionTime=at(90), ledger=[exploit], usage=use(90))
    experiment = collect([trial_body(0, **(status | {"lastResult": {"time_total_s": "60"}}))])
    plot = draw_purposes(experiment)
    assert plot is not None
    assert (plot.untold, [each.hours for each in plot.shares if each.purpose is Purpose.LOST]) == (1, [0])


def test_the_pods_of_a_gang_train_together() -> None:
    roles = [{"name": "driver"}, {"name": "worker", "replicas": 3}]
    experiment = collect([trial_body(0, **done(0.5, usage=use(90, 400)))], trialTemplate={"roles": roles})
    assert experiment.ranks == 4
    row = experiment.rows[0]
    assert divide_time(row, trace_trial(row), 4)[Purpose.HELD] == pytest.approx(0.1)


def test_a_span_of_time_has_the_trials_that_were_there() -> None:
    times = [(0, 30), (20, 60), (50, 90)]
    trials = [
        trial_body(index, **done(0.5, startTime=at(begin), completionTime=at(end), usage=use(end - begin)))
        for index, (begin, end) in enumerate(times)
    ]
    timeline = find_timeline(trials)
    query = TimelineQuery(begin=timeline.range.begin + 31 * 60, end=timeline.range.begin + 45 * 60)
    lanes = draw_lanes(timeline, query)
    assert [lane.row.name for lane in lanes.lanes] == ["digits-1"]
    bar = lanes.lanes[0].bars[0]
    assert (bar.x, bar.width) == (0, 100)


def test_attempts_are_grouped_by_the_node_of_their_pod() -> None:
    retry = decide(1, 30, "RETRY", 1, RETRY, user="1")
    body = done(0.5, attempt=2, startTime=at(0), completionTime=at(90), ledger=[retry], usage=use(70))
    body |= {"failedNodes": [{"node": "node-b", "time": at(30)}]}
    experiment = collect([trial_body(0, **body), trial_body(1, **done(0.5))])
    timeline = trace_experiment(experiment)
    assert timeline is not None
    groups = draw_lanes(timeline, TimelineQuery(by_node=True)).groups
    assert [(group.heading, [(lane.row.name, lane.attempt) for lane in group.lanes]) for group in groups] == [
        ("node-b", [("digits-0", 1)]),
        ("", [("digits-1", 1), ("digits-0", 2)]),
    ]


@pytest.mark.parametrize("length", [5, 90, 3600, 20_000, 86_400, 3_000_000, 90_000_000])
def test_times_along_an_axis_are_few_and_in_order(length: float) -> None:
    ticks = list_time_ticks(1_767_225_601.5, 1_767_225_601.5 + length)
    assert 1 <= len(ticks) <= 9
    assert [tick.place for tick in ticks] == sorted(tick.place for tick in ticks)
    assert all(0 <= tick.place <= 1 for tick in ticks)


async def test_the_page_shows_lanes_numbers_and_their_tables() -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, PAGE)
    assert "What trials were doing" in page
    assert "Where GPU time went" in page
    assert "An export has no pods" in page
    assert 'href="../../../experiments/team/digits/trials/digits-1"' in page


async def test_a_link_restores_the_span_the_filter_and_the_grouping() -> None:
    query = "from=2026-01-01T10:30:00&to=2026-01-01T11:00:00&by=node&state=done&size=25"
    async with serve(make_source()) as client:
        page = await read_page(client, f"{PAGE}?{query}")
    assert 'value="2026-01-01T10:30:00"' in page
    assert 'value="2026-01-01T11:00:00"' in page
    assert query.replace("&", "&amp;") in page
    assert re.search(r'value="done" checked', page)
    assert "digits-3" not in re.sub(r"(?s)<form.*?</form>", "", page)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("from=yesterday", "from is &#39;yesterday&#39;; write a time as 2026-01-31T15:30:00, in UTC"),
        ("from=2026-01-02T00:00:00&to=2026-01-01T00:00:00", "and from is not before it; exchange them"),
        ("state=lazy", "state is &#39;lazy&#39;; take one of done, stopped"),
        ("page=one", "page is &#39;one&#39;; write a whole number from 1 on"),
        ("size=7", "size is &#39;7&#39;; take one of 25, 50, 100, 200"),
    ],
)
async def test_a_wrong_address_is_told_and_the_rest_is_shown(query: str, problem: str) -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, f"{PAGE}?{query}", status=400)
        assert problem in page
        assert "digits-1" in page
        assert (await client.get(f"{BASE}/charts/timeline.svg?{query}")).status == 400


async def test_a_page_beyond_the_last_and_a_span_without_trials_say_so() -> None:
    async with serve(make_source(list(make_many(60)))) as client:
        assert "page 2 of 2" in await read_page(client, f"{PAGE}?page=99")
        assert "No trial in this span of time" in await read_page(client, f"{PAGE}?state=failed")


async def test_pages_of_many_trials_stay_small() -> None:
    async with serve(make_source(list(make_many(3000)))) as client:
        page = await read_page(client, PAGE)
        overview = await read_page(client, f"{BASE}/")
    assert "1–50 of 3,000 trials" in page
    assert len(page) < 200_000
    assert "States over time" in overview


async def test_without_a_start_there_is_nothing_to_draw_yet() -> None:
    async with serve(make_source([trial_body(0)])) as client:
        assert "Nothing to draw yet" in await read_page(client, PAGE)
        assert "States over time" not in await read_page(client, f"{BASE}/")
        for chart in ("timeline", "activities", "states", "purposes"):
            assert (await client.get(f"{BASE}/charts/{chart}.svg")).status == 404


@pytest.mark.parametrize("chart", ["timeline", "timeline.svg?by=node", "activities", "states", "purposes"])
async def test_charts_are_pictures_in_both_themes(chart: str) -> None:
    address = f"{BASE}/charts/{chart}" if "?" in chart else f"{BASE}/charts/{chart}.svg"
    async with serve(make_source()) as client:
        for theme, colour in (("light", "#ffffff"), ("dark", "#12171e")):
            text = await read_page(client, f"{address}{'&' if '?' in chart else '?'}theme={theme}")
            assert text.startswith("<svg") or "<svg xmlns" in text
            assert f'fill="{colour}"' in text


async def test_the_overview_has_the_states_with_their_last_numbers() -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, f"{BASE}/")
    section = re.search(r'(?s)aria-labelledby="states".*?</section>', page)
    assert section is not None
    told = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", section[0]))
    assert all(words in told for words in ("Completed 2", "Stopped early 1", "Running 1"))
    assert "Timeline of each trial" in told


async def test_what_an_attempt_said_is_escaped() -> None:
    entry = STOPPED | {"message": "<script>alert(1)</script>"}
    trial = trial_body(0, **done(0.61, ledger=[entry]))
    async with serve(make_source([trial])) as client:
        page = await read_page(client, PAGE)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_activities_end_with_their_trials() -> None:
    plot = draw_activities(collect([trial_body(0, **done(0.5))]))
    assert plot is not None
    assert [(area.key, area.counts[0], area.counts[-1]) for area in plot.areas] == [("training", 1, 0)]


def test_a_page_of_many_shows_the_time_that_its_lanes_took() -> None:
    trials = [
        trial_body(index, **done(0.5, startTime=at(10 * index), completionTime=at(10 * index + 30), usage=use(30)))
        for index in range(60)
    ]
    timeline = find_timeline(trials)
    pages = [draw_lanes(timeline, TimelineQuery(page=page, size=25)) for page in (1, 2, 3)]
    assert [(page.begin - timeline.range.begin) / 60 for page in pages] == [0, 250, 500]
    assert [(page.end - page.begin) / 60 for page in pages] == [270, 270, 120]
    # A span that is asked for holds for all pages.
    asked = TimelineQuery(begin=timeline.range.begin, end=timeline.range.end, page=2, size=25)
    assert draw_lanes(timeline, asked).begin == timeline.range.begin


async def test_links_lead_to_other_spans_and_back() -> None:
    async with serve(make_source(list(make_many(60)))) as client:
        page = await read_page(client, f"{PAGE}?from=2026-01-01T10:20:00&to=2026-01-01T10:40:00&by=node")
    links = dict(re.findall(r'data-link="(\w+)" href="[^"]*timeline\??([^"]*)"', page))
    span = {key: re.findall(r"T(\d\d:\d\d)", query) for key, query in links.items()}
    assert span == {
        "earlier": ["10:10", "10:30"],
        "later": ["10:30", "10:50"],
        "in": ["10:25", "10:35"],
        "out": ["10:10", "10:50"],
        "all": ["10:00", "11:30"],
        "fit": [],
    }
    assert all("by=node" in query for query in links.values())


async def test_in_a_cluster_waits_begin_when_trials_were_made_and_time_goes_on() -> None:
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp()
    trial = team_trial(0, state="RUNNING", attempt=1, startTime=at(30), pod={"name": "p", "node": "gpu-7"})
    trial["metadata"]["creationTimestamp"] = at(0)
    api = LiveApi()
    api.lists(EXPERIMENTS, team_experiment(state="Running", startTime=at(0)))
    api.lists(TRIALS, trial)
    source = make_cluster(api)
    source.start()
    try:
        async with serve(source, clock=lambda: ten + 7200.0) as client:
            page = await read_page(client, PAGE)
            by_node = await read_page(client, f"{PAGE}?by=node")
            overview, one = [await read_page(client, f"{BASE}/{path}") for path in ("", "trials/digits-0")]
    finally:
        source.stop()
        api.ends()
    assert "<dt>Has run for</dt><dd>2h</dd>" in overview
    assert "<dt>Has taken</dt><dd>1h30m</dd>" in one
    assert "waiting for 30m from 1 Jan 10:00:00" in page
    assert "training for 1h30m from 1 Jan 10:30:00 (attempt 1 on gpu-7)" in page
    assert "An export has no pods" not in page
    assert "gpu-7 <small>1 attempt</small>" in by_node
