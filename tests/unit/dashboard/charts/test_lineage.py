"""The family tree of a population: exploits, ancestry, and the schedule of parameters along it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.dashboard.charts.lineage.exploits import ExploitReader
from podtune.dashboard.charts.lineage.schedule import draw_schedule
from podtune.dashboard.charts.lineage.stretches import Lineage, Population, read_population, trace_lineage
from podtune.dashboard.charts.lineage.tree import COLOURS, MOST_LANES, UNVALUED, draw_family_tree, fit_colours
from podtune.dashboard.trial_rows import ExperimentRows, collect_rows
from tests.unit.dashboard.archives import (
    BASE,
    Manifest,
    done,
    experiment_body,
    make_source,
    read_page,
    serve,
    trial_body,
)

PAGE = f"{BASE}/scheduler"
PARAMETERS = [
    {"name": "lr", "float": {"min": 0.001, "max": 1, "scale": "log"}},
    {"name": "width", "int": {"min": 1, "max": 64}},
    {"name": "batch", "choice": {"values": [16, 32, 64, 128]}},
]
START = {"lr": "0.01", "width": "10", "batch": "32"}


def make_time(minute: int) -> str:
    return f"2026-01-01T{10 + minute // 60:02}:{minute % 60:02}:00Z"


def exploit(
    number: int,
    donor: int,
    checkpoint: int,
    left: int,
    *,
    minute: int = 0,
    told: str = "",
    action: str = "EXPLOIT",
    **changes: str,
) -> Manifest:
    """An entry of the ledger; `told` is what its sentence says of the parameters."""
    return {
        "number": number,
        "time": make_time(minute or number),
        "attempt": 1,
        "step": left,
        "action": action,
        "message": f"clones trial {donor} (accuracy 0.9) at epoch {left}: accuracy 0.6 is rank 4 of 4{told}",
        "inputs": {
            "value": "0.6",
            "donorValue": "0.9",
            "donor": f"digits-{donor}",
            "checkpoint": str(checkpoint),
            **changes,
        },
    }


def curve(steps: Sequence[int], values: Sequence[float | None] | None = None) -> Manifest:
    shown = list(values) if values is not None else [round(step / 100, 4) for step in steps]
    seconds = [60 * step for step in steps]
    return {"results": len(steps), "every": 1, "steps": list(steps), "seconds": seconds, "values": [shown]}


def member(index: int, steps: Sequence[int], *ledger: Manifest, value: float = 0.5, **status: Any) -> Manifest:
    body = trial_body(index, dict(START))
    facts = done(value, curve=curve(steps), ledger=list(ledger), iteration=steps[-1] if steps else 0)
    return {**body, "status": facts | status}


def collect(trials: Sequence[Manifest], scheduler: Manifest | None = None) -> ExperimentRows:
    source = make_source(trials, make_experiment(scheduler))
    (view,) = source.list_experiments()
    return collect_rows(view, source.list_trials(view.namespace, view.name))


def make_experiment(scheduler: Manifest | None = None) -> Manifest:
    return experiment_body(parameters=PARAMETERS, scheduler=scheduler or {"pbt": {"interval": 5}})


def trace(population: Population, index: int) -> Lineage:
    lineage = trace_lineage(population, f"digits-{index}")
    assert lineage is not None
    return lineage


def name_ancestors(lineage: Lineage) -> list[tuple[str, float, float]]:
    return [(each.stretch.row.name, each.stretch.start, each.end) for each in lineage.ancestors]


def make_family() -> list[Manifest]:
    """Trial 1 cloned 0 at iteration 5, and 2 cloned 1 at 10, which took it back from 12; 3 did nothing."""
    first = exploit(1, 0, 5, 5, minute=5, told="; perturbed: lr 0.01 → 0.012", lr="0.01 → 0.012")
    second = exploit(1, 1, 10, 12, minute=10, told="; perturbed: lr 0.012 → 0.3, width 10 → 12, batch 32 → 64")
    second["inputs"] |= {"lr": "0.01 → 0.3", "width": "10 → 12", "batch": "32 → 64"}
    now = {"lr": "0.3", "width": "12", "batch": "64"}
    return [
        member(0, range(1, 13)),
        member(1, range(1, 13), first, value=0.6, parameters={**START, "lr": "0.012"}),
        member(2, [*range(1, 13), 11, 12, 13], second, value=0.95, parameters=now),
        member(3, range(1, 9)),
    ]


async def test_the_page_has_the_ancestry_of_the_best_trial_and_its_schedule() -> None:
    async with serve(make_source(make_family(), make_experiment())) as client:
        page = await read_page(client, PAGE)
        overview = await read_page(client, f"{BASE}/")
    assert "Family tree</a>" in overview
    text = " ".join(page.split())
    assert "digits-0</a> <small>to 5 →</small>" in text
    assert "digits-1</a> <small>to 10 →</small>" in text
    assert "0.012 → 0.3 (resampled); width 10 → 12 (× 1.2); batch 32 → 64 (to its neighbour)" in text
    assert "0.6 &lt; 0.9" in text
    assert "Schedule of digits-2" in text
    assert page.count("<figure>") == 3


async def test_an_address_names_the_trial_whose_ancestry_is_shown_and_its_files_show_the_same() -> None:
    async with serve(make_source(make_family(), make_experiment())) as client:
        page = " ".join((await read_page(client, f"{PAGE}?trial=digits-1")).split())
        points = json.loads(await read_page(client, f"{PAGE}/family.json?trial=digits-1"))
        family = await read_page(client, f"{PAGE}/family.svg?trial=digits-1&theme=dark")
        schedule = await read_page(client, f"{PAGE}/schedule.svg?trial=digits-2")
        await read_page(client, f"{PAGE}?trial=digits-9", status=404)
        await read_page(client, f"{PAGE}/schedule.svg?trial=digits-3", status=404)
        await read_page(client, f"{PAGE}/brackets.svg", status=404)
    assert "Schedule of digits-1" in page
    assert 'class="chosen" x="0" dx="-10" dy="0.34em" y="37.5%">1<' in page
    assert "outlined: the ancestry of digits-1" in family
    assert [ET.fromstring(text).tag.rpartition("}")[2] for text in (family, schedule)] == ["svg", "svg"]
    assert points["labels"] == ["gave up at iteration", "scores", "lr", "width", "batch"]
    name, word, xs, ys, left, scores, lr, *_ = points["items"][1]
    assert (name, word) == ("digits-2", "continued from iteration 10 of digits-1")
    assert (left[0], scores[0], lr[0]) == ("12", "0.6 < 0.9", "0.012 → 0.3 (resampled)")
    assert (ys[0], ys[-1]) == (375, 625)
    assert xs[0] == xs[-1] > min(xs)


async def test_a_population_without_results_and_other_schedulers_have_no_tree() -> None:
    async with serve(make_source([trial_body(0)], make_experiment())) as client:
        assert "the tree begins with the first result" in await read_page(client, PAGE)
        await read_page(client, f"{PAGE}/family.svg", status=404)
        assert json.loads(await read_page(client, f"{PAGE}/family.json"))["items"] == []
    async with serve(make_source()) as client:
        page = await read_page(client, PAGE)
        assert "fifo, has neither brackets nor exploits" in page
        assert f'href="{BASE}/scheduler"' not in page


async def test_names_of_trials_and_values_are_escaped() -> None:
    trials = make_family()
    trials[2]["status"]["ledger"][0]["inputs"]["donor"] = "<script>"
    async with serve(make_source(trials, make_experiment())) as client:
        page = await read_page(client, PAGE)
        family = await read_page(client, f"{PAGE}/family.svg")
    assert "<script>alert" not in page
    assert "&lt;script&gt; is not among the trials of this experiment" in page
    assert "<script" not in family


def test_a_chain_of_clones_leads_to_the_trial_that_began_it() -> None:
    population = read_population(collect(make_family()))
    assert name_ancestors(trace(population, 2)) == [
        ("digits-0", 0, 5),
        ("digits-1", 5, 10),
        ("digits-2", 10, 13),
    ]
    assert trace(population, 2).lack == ""
    assert name_ancestors(trace(population, 3)) == [("digits-3", 0, 8)]


def test_the_schedule_has_the_values_that_the_weights_were_trained_with() -> None:
    experiment = collect(make_family())
    lineage = trace(read_population(experiment), 2)
    values = [each.configuration and each.configuration["lr"] for each in lineage.ancestors]
    assert values == ["0.01", "0.012", "0.3"]
    schedule = draw_schedule(experiment, lineage)
    assert schedule is not None
    assert schedule.names == ["lr", "width", "batch"]
    assert schedule.gaps == 0
    assert draw_schedule(experiment, trace(read_population(experiment), 3)) is None


def test_what_a_donor_had_and_no_longer_has_on_record_is_told_by_the_decision_on_its_clone() -> None:
    # Trial 0 has cloned others since, so that its own status no longer says what it ran with at iteration 5.
    trials = make_family()
    trials[0] = member(0, [*range(1, 11), 6, 7, 8, 4, 5, 6], parameters={**START, "lr": "0.9"})
    trials[1]["status"]["ledger"][0]["message"] = trials[1]["status"]["ledger"][0]["message"].replace(
        "lr 0.01", "lr 0.02"
    )
    lineage = trace(read_population(collect(trials)), 1)
    assert lineage.ancestors[0].configuration == {"lr": "0.02", "width": "10", "batch": "32"}


def test_exploits_that_left_the_ledger_are_seen_where_a_curve_falls() -> None:
    trials = [member(0, range(1, 21)), member(1, [*range(1, 11), 6, 7, 8, 9, 10], parameters={**START, "lr": "0.5"})]
    population = read_population(collect(trials))
    assert [(each.is_unexplained, each.start, each.end) for each in population.stretches["digits-1"]] == [
        (False, 0, 10),
        (True, 6, 10),
    ]
    assert population.unexplained == 1
    assert trace(population, 1).lack == "digits-1 has cloned another trial before"


def test_a_trial_with_other_parameters_than_it_was_made_with_has_cloned_another_even_if_nothing_else_says_so() -> None:
    population = read_population(collect([member(0, range(1, 9), parameters={**START, "lr": "0.5"})]))
    assert trace(population, 0).lack == "digits-0 has cloned another trial before"
    changed = member(0, range(1, 9), parameters={**START, "lr": "0.5"}, overrides={"lr": "0.5"})
    assert trace(read_population(collect([changed])), 0).lack == ""


def test_an_exploit_that_was_undone_and_one_that_waits_are_no_part_of_what_was_trained() -> None:
    undo = exploit(2, 0, 5, 5, action="UNDO")
    pending = exploit(1, 0, 6, 8, lr="0.01 → 0.012", told="; perturbed: lr 0.01 → 0.012")
    clone = {"donor": "digits-0", "checkpoint": {"step": 6, "uri": "s3://b/6", "digest": "sha256:1"}}
    trials = [
        member(0, range(1, 9)),
        member(1, range(1, 9), exploit(1, 0, 5, 5), undo),
        member(2, range(1, 9), pending, clone=clone, parameters={**START, "lr": "0.012"}),
    ]
    population = read_population(collect(trials))
    assert population.exploits[0].is_undone or population.exploits[1].is_undone
    assert name_ancestors(trace(population, 1)) == [("digits-1", 0, 8)]
    assert [(each.start, each.end) for each in population.stretches["digits-2"]] == [(0, 8), (6, 6)]
    tree = draw_family_tree(population.experiment, "digits-1")
    assert tree is not None
    assert [arc.exploit.row.name for arc in tree.arcs] == ["digits-2"]


def test_a_trial_that_its_user_had_start_from_another_ones_checkpoint_descends_from_it() -> None:
    restore = exploit(1, 0, 6, 0, action="RESTORE")
    population = read_population(collect([member(0, range(1, 9)), member(1, range(7, 12), restore)]))
    assert name_ancestors(trace(population, 1)) == [("digits-0", 0, 6), ("digits-1", 6, 11)]
    assert population.exploits[0].is_chosen_by_user


@pytest.mark.parametrize(
    ("scheduler", "name", "donor", "new", "how"),
    [
        ({"pbt": {"interval": 5}}, "lr", "0.01", "0.012", "× 1.2"),
        ({"pbt": {"interval": 5}}, "lr", "0.0142814", "0.011425155330114084", "× 0.8"),
        ({"pbt": {"interval": 5}}, "lr", "0.9", "1.0", "× 1.2"),  # moved back to its bound
        ({"pbt": {"interval": 5}}, "lr", "0.01", "0.5", "resampled"),
        ({"pbt": {"interval": 5, "perturbationFactors": {"up": 2, "down": 0.5}}}, "lr", "0.01", "0.02", "× 2"),
        ({"pbt": {"interval": 5}}, "width", "7", "8", "× 1.2"),
        ({"pbt": {"interval": 5}}, "width", "7", "40", "resampled"),
        ({"pbt": {"interval": 5}}, "batch", "64", "128", "to its neighbour"),
        ({"pbt": {"interval": 5}}, "batch", "16", "128", "resampled"),
        ({"pb2": {"interval": 5}}, "lr", "0.01", "0.5", "by the model"),
    ],
)
def test_how_a_value_was_found_is_told_from_the_donors(
    scheduler: Manifest, name: str, donor: str, new: str, how: str
) -> None:
    entry = exploit(1, 0, 5, 5, told=f"; perturbed: {name} {donor} → {float(new):g}")
    entry["inputs"][name] = f"3 → {new}"
    experiment = collect([member(0, range(1, 9)), member(1, range(1, 9), entry)], scheduler)
    (found,) = ExploitReader(experiment).list_exploits(experiment.rows[1])
    (change,) = found.changes
    assert (change.own, change.donor, change.new, change.how) == ("3", donor, new, how)


def test_a_sentence_that_was_cut_says_nothing_of_the_parameters_it_leaves_out() -> None:
    told = "; perturbed: lr 0.01 → 0.012, and 1 more"
    entry = exploit(1, 0, 5, 5, told=told, lr="0.5 → 0.012", batch="16 → 128")
    experiment = collect([member(0, range(1, 9)), member(1, range(1, 9), entry)])
    (found,) = ExploitReader(experiment).list_exploits(experiment.rows[1])
    assert [(each.name, each.donor, each.how) for each in found.changes] == [
        ("lr", "0.01", "× 1.2"),
        ("batch", "", ""),
    ]


def test_an_exploit_that_waited_for_its_checkpoint_has_its_scores_in_its_sentence_alone() -> None:
    entry = exploit(1, 0, 5, 5)
    del entry["inputs"]["value"], entry["inputs"]["donorValue"]
    experiment = collect([member(0, range(1, 9)), member(1, range(1, 9), entry)])
    (found,) = ExploitReader(experiment).list_exploits(experiment.rows[1])
    assert (found.value, found.donor_value) == (0.6, 0.9)


def test_decisions_that_no_program_has_written_are_passed_over() -> None:
    broken = exploit(1, 0, 5, 5)
    broken["inputs"] = {"donor": "digits-0", "checkpoint": "soon"}
    itself = exploit(2, 1, 5, 5)
    population = read_population(collect([member(0, range(1, 9)), member(1, range(1, 9), broken, itself)]))
    assert len(population.exploits) == 1
    assert trace(population, 1).ancestors[-1].stretch.row.name == "digits-1"


def test_of_a_large_population_the_ancestors_and_the_best_are_drawn_each_in_its_place() -> None:
    many = [member(index, range(1, 4), value=0.1 + index / 1000) for index in range(MOST_LANES + 80)]
    many[150] = member(150, range(1, 4), exploit(1, 0, 2, 2), value=0.99)
    tree = draw_family_tree(collect(many), "digits-150")
    assert tree is not None
    indexes = [lane.row.view.index for lane in tree.lanes]
    assert len(indexes) == MOST_LANES
    assert indexes == sorted(indexes)
    assert {0, 150, 199} <= set(indexes)
    assert len(tree.arcs) == 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.sampled_from([1.0, -1.0]))
def test_better_values_never_have_a_worse_colour(values: list[float], sign: float) -> None:
    colours = fit_colours(values, sign)
    levels = [colours.find_level(value) for value in sorted(values, key=lambda value: sign * value)]
    assert levels == sorted(levels)
    assert all(0 <= level < COLOURS for level in levels)
    assert colours.find_level(None) == UNVALUED


Drawn = tuple[list[Manifest], list[list[tuple[str, float]]]]


@st.composite
def populations(draw: st.DrawFn) -> Drawn:
    """A population that trains in rounds and clones at their ends, and where each trial's weights really come from."""
    count = draw(st.integers(2, 5))
    steps: list[list[int]] = [[] for _ in range(count)]
    at = [0] * count
    ledgers: list[list[Manifest]] = [[] for _ in range(count)]
    truth: list[list[tuple[str, float]]] = [[(f"digits-{index}", 0.0)] for index in range(count)]
    for minute in range(1, draw(st.integers(1, 5)) + 1):
        for index in range(count):
            length = draw(st.integers(2, 6))
            steps[index] += range(at[index] + 1, at[index] + length + 1)
            at[index] += length
        order = draw(st.permutations(range(count)))
        clones = draw(st.integers(0, count // 2))
        for recipient, donor in zip(order[:clones], order[clones:], strict=False):
            entry = exploit(len(ledgers[recipient]) + 1, donor, at[donor], at[recipient], minute=minute)
            ledgers[recipient].append(entry)
            truth[recipient] = [*truth[donor], (f"digits-{recipient}", float(at[donor]))]
            at[recipient] = at[donor]
    for index in range(count):
        steps[index].append(at[index] + 1)
    trials = [member(index, steps[index], *ledgers[index]) for index in range(count)]
    return trials, truth


@settings(max_examples=40)
@given(populations())
def test_an_ancestry_is_where_the_weights_come_from(
    drawn: Drawn,
) -> None:
    trials, truth = drawn
    population = read_population(collect(trials))
    for index, expected in enumerate(truth):
        lineage = trace(population, index)
        assert [(each.stretch.row.name, each.stretch.start) for each in lineage.ancestors] == expected
        assert lineage.lack == ""


@settings(max_examples=40)
@given(populations(), st.data())
def test_an_ancestry_is_a_chain_that_ends_in_a_root_or_says_what_it_lacks(drawn: Drawn, data: st.DataObject) -> None:
    trials, _ = drawn
    for trial in trials:  # ledgers forget, and clocks of two operators may differ
        ledger = trial["status"]["ledger"]
        trial["status"]["ledger"] = ledger[data.draw(st.integers(0, len(ledger))) :]
        for entry in trial["status"]["ledger"]:
            entry["time"] = make_time(data.draw(st.integers(0, 9)))
    population = read_population(collect(trials))
    for index in range(len(trials)):
        lineage = trace(population, index)
        times = [found.entry.time for found in lineage.exploits]
        assert times == sorted(set(times))
        for before, after in zip(lineage.ancestors, lineage.ancestors[1:], strict=False):
            assert after.stretch.exploit is not None
            assert after.stretch.exploit.donor == before.stretch.row.name
            assert before.end == after.stretch.start
        root = lineage.ancestors[0].stretch
        assert bool(lineage.lack) == (root.is_unexplained or root.exploit is not None)
        assert root.start == 0 or lineage.lack
    tree = draw_family_tree(population.experiment, "digits-0")
    assert tree is not None


def test_styles_of_the_tree_are_on_its_page_alone() -> None:
    templates = Path(__file__).parents[4] / "operator/podtune/dashboard/templates"
    named = [path.name for path in templates.rglob("*.html") if "scheduler.css" in path.read_text()]
    assert named == ["page.html"]
