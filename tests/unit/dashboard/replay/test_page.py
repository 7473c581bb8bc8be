"""The page of a moment, the parts of it that a script asks for, and its picture."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

from tests.unit.dashboard.archives import (
    BASE,
    done,
    experiment_body,
    list_trials,
    make_source,
    read_page,
    serve,
    trial_body,
)

STARTED = "2026-01-01T10:00:00Z"


def decide(number: int, minute: int, action: str, message: str, **inputs: str) -> dict[str, Any]:
    time = f"2026-01-01T10:{minute:02}:00Z"
    return {
        "number": number,
        "time": time,
        "attempt": 1,
        "step": number,
        "action": action,
        "message": message,
        "inputs": inputs,
    }


def curve(*values: float) -> dict[str, Any]:
    steps = list(range(1, len(values) + 1))
    seconds = [60 * step for step in steps]
    return {"results": len(steps), "every": 1, "steps": steps, "seconds": seconds, "values": [list(values)]}


def make_trials() -> list[dict[str, Any]]:
    """Two trials: the first fails once and is stopped at 10:20; the second starts at 10:10 and is the best."""
    first = [
        decide(1, 5, "RETRY", "exited with <b>code 1</b>", user="1"),
        decide(2, 12, "CONTINUE", "continued at rung 1", rung="1", cutoff="0.123456789"),
        decide(3, 20, "STOP", "stopped at rung 3", rung="3"),
    ]
    ends = {"startTime": STARTED, "completionTime": "2026-01-01T10:20:00Z"}
    second = {"startTime": "2026-01-01T10:10:00Z", "completionTime": "2026-01-01T10:40:00Z"}
    added = trial_body(1, **done(0.9, curve=curve(0.7, 0.9), **second))
    added["spec"]["proposal"] = {"number": 1, "source": "Initial"}
    stopped = done(0.6, reason="StoppedByScheduler", curve=curve(0.4, 0.5, 0.6), ledger=first, **ends)
    return [trial_body(0, **stopped), added]


def read_facts(page: str) -> list[str]:
    return [re.sub("<[^>]*>", "", cell).strip() for cell in re.findall("<dd[^>]*>(.*?)</dd>", cut(page, "then"))]


def cut(page: str, part: str) -> str:
    """A part of the page, to where the next one begins."""
    return page[page.index(f'data-part="{part}"') :].split("data-part=")[1]


def read_jumps(page: str) -> dict[str, str | None]:
    links = re.findall(r'data-jump="(\w+)"(?: href="[^"]*\?at=(\d+)")?', page)
    return {kind: second or None for kind, second in links}


async def test_a_moment_shows_what_was_known_and_decided_and_where_the_search_looked() -> None:
    async with serve(make_source(make_trials())) as client:
        page = await read_page(client, f"{BASE}/replay?at=900")
        assert read_facts(page) == ["0.5", "digits-0", "2", "2"]
        assert "15m<small> after the start" in page
        assert "1 Jan 10:15:00 UTC" in page
        assert "after decision 2 of 3" in page
        told = cut(page, "decisions")
        assert "continued at rung 1" in told
        assert ">0.1235</dd>" in told
        assert "exited with &lt;b&gt;code 1&lt;/b&gt;" in told
        assert "stopped at rung 3" not in page
        newest = cut(page, "newest-table")
        assert re.findall("trials/(digits-[0-9]+)", newest) == ["digits-1", "digits-0"]
        assert "from search.initial" in newest
        assert "by the search algorithm" in newest


async def test_what_came_later_is_nowhere_on_the_page() -> None:
    async with serve(make_source(make_trials())) as client:
        page = await read_page(client, f"{BASE}/replay?at=480")
        assert read_facts(page)[:3] == ["0.4", "digits-0", "1"]
        main = page[page.index("<main") :]
        for later in ("digits-1", "0.9<", "continued", "stopped at", "Completed"):
            assert later not in main, later
        start = await read_page(client, f"{BASE}/replay?at=0")
        assert "Nothing had been decided yet" in start


async def test_without_a_moment_it_is_the_end_with_the_numbers_of_the_overview() -> None:
    async with serve(make_source(list_trials())) as client:
        page = await read_page(client, f"{BASE}/replay")
        overview = await read_page(client, f"{BASE}/")
        assert read_facts(page)[:3] == ["0.9889", "digits-1", "6"]
        pattern = re.compile(r'<span class="state (\w+)"><i></i>[^<]*</span>(?:</a>)? <span class="count">([\d,]+)<')
        states = dict(pattern.findall(cut(page, "then")))
        assert states == dict(pattern.findall(overview[: overview.index('id="progress"')]))
        assert sum(map(int, states.values())) == 6
        assert read_facts(await read_page(client, f"{BASE}/replay?at=999999"))[:3] == ["0.9889", "digits-1", "6"]


async def test_links_lead_from_decision_to_decision_without_a_script() -> None:
    async with serve(make_source(make_trials())) as client:
        page = await read_page(client, f"{BASE}/replay?at=720")
        jumps = read_jumps(page)
        assert (jumps["previous"], jumps["next"], jumps["stop"], jumps["failure"]) == ("300", "1200", "1200", None)
        assert "exploit" not in jumps
        followed = ["0"]
        while (second := read_jumps(await read_page(client, f"{BASE}/replay?at={followed[-1]}"))["next"]) is not None:
            followed.append(second)
        assert followed == ["0", "300", "720", "1200"]
        assert '<input type="range" id="at" name="at" min="0" max="2400" step="1" value="720"' in page
        valuetext = re.search('aria-valuetext="([^"]+)"', page)
        assert valuetext is not None
        assert valuetext[1] == "12m after the start: 2 trials, 2 running; best accuracy 0.5; 2 decisions"


async def test_an_experiment_without_decisions_is_gone_through_by_starts_and_ends() -> None:
    trials = [trial_body(0, **done(0.5)), trial_body(1, **done(0.6, startTime="2026-01-01T10:30:00Z"))]
    async with serve(make_source(trials)) as client:
        jumps = read_jumps(await read_page(client, f"{BASE}/replay?at=100"))
        assert (jumps["previous"], jumps["next"]) == ("0", "1800")


async def test_a_script_gets_the_parts_and_the_whole_record() -> None:
    async with serve(make_source(make_trials())) as client:
        page = await read_page(client, f"{BASE}/replay?at=900&x=units&y=lr")
        parts = await read_page(client, f"{BASE}/replay/moment?at=900&x=units&y=lr")
        assert 'data-second="900"' in parts
        names = set(re.findall('data-part="([a-z-]+)"', page)) - {"cursor"}
        assert set(re.findall('data-part="([a-z-]+)"', parts)) == names
        for name in ("then", "decisions", "newest-table", "curve-table"):
            assert read_facts(parts) == read_facts(page)
            assert re.findall("trials/digits-[0-9]+", cut(parts, name)) == re.findall(
                "trials/digits-[0-9]+", cut(page, name)
            )
        tape = json.loads(await read_page(client, f"{BASE}/replay/tape.json?x=units&y=lr"))
        assert tape["length"] == 2400
        assert tape["stops"]["step"] == [300, 720, 1200]
        assert tape["made"] == [0, 600]
        # What the page has of the drawing at the end is what a script reveals.
        end = await read_page(client, f"{BASE}/replay?x=units&y=lr")
        assert f'd="{tape["curves"][0]}"' in end
        assert f'd="{tape["best"]}"' in end
        assert f'd="{"".join(tape["dots"])}"' in end


async def test_a_moment_can_be_kept_as_a_picture() -> None:
    async with serve(make_source(make_trials())) as client:
        for theme in ("light", "dark"):
            picture = await read_page(client, f"{BASE}/replay/picture.svg?at=900&theme={theme}")
            ElementTree.fromstring(picture)
            assert "digits, 15m after the start" in picture
            assert "2 trials, 2 running; best accuracy 0.5; 2 decisions" in picture


async def test_axes_are_chosen_and_kept() -> None:
    async with serve(make_source(make_trials())) as client:
        page = await read_page(client, f"{BASE}/replay?at=900&x=units&y=number+of+the+trial")
        assert "<option selected>units</option>" in page
        assert "<option selected>number of the trial</option>" in page
        assert '<input type="hidden" name="x" value="units">' in page
        assert "at=1200&amp;x=units&amp;y=number+of+the+trial" in page
        assert "Choose two different axes" in await read_page(client, f"{BASE}/replay?x=lr&y=lr")


async def test_before_the_first_start_there_is_nothing_to_replay() -> None:
    async with serve(make_source([trial_body(0)])) as client:
        assert "Nothing to replay yet" in await read_page(client, f"{BASE}/replay")
        await read_page(client, f"{BASE}/replay/moment", 404)
        await read_page(client, f"{BASE}/replay/tape.json", 404)
        await read_page(client, f"{BASE}/replay/picture.svg", 404)


async def test_trials_without_values_or_parameters_that_change_have_no_charts() -> None:
    body = experiment_body(parameters=[{"name": "lr", "fixed": {"value": 1}}])
    trial = trial_body(0, {"lr": "1"}, state="RUNNING", startTime=STARTED)
    async with serve(make_source([trial], body)) as client:
        page = await read_page(client, f"{BASE}/replay")
        assert "No trial has reported accuracy" in page
        assert "no parameter that changes" in page
        assert "No scheduler, stopper or user has stepped in" in page
        ElementTree.fromstring(await read_page(client, f"{BASE}/replay/picture.svg"))
