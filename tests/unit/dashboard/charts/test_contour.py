"""Two parameters together: where the objective is good, on the page of the search space."""

from __future__ import annotations

import re
from typing import Any

import pytest

from podtune.dashboard.charts.contour import Contour, draw_contour
from podtune.dashboard.charts.importance.cases import ENDED_STATES
from podtune.dashboard.sources import ArchiveSource
from podtune.dashboard.trial_rows import collect_rows
from tests.unit.dashboard.archives import (
    BASE,
    OPTIMIZERS,
    done,
    experiment_body,
    make_source,
    read_page,
    serve,
    trial_body,
)

PARAMETERS = [
    {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "optimizer", "choice": {"values": list(OPTIMIZERS)}},
    {"name": "layers", "int": {"min": 1, "max": 3}},
]


def make_trial(index: int, **status: Any) -> dict[str, Any]:
    """Three layers with adamw are best, and one with sgd worst."""
    layers, optimizer = 1 + index % 3, OPTIMIZERS[index // 3 % 3]
    value = 0.3 + 0.1 * layers + (0.2 if optimizer == "adamw" else 0.05 if optimizer == "lion" else 0)
    values = {"lr": repr(0.0001 * 10 ** (index % 31 / 10)), "optimizer": optimizer, "layers": str(layers)}
    return trial_body(index, values, **(done(value) | status))


def make_digits(count: int = 90, mode: str = "max") -> ArchiveSource:
    body = experiment_body(parameters=PARAMETERS, objective={"metric": "accuracy", "mode": mode})
    return make_source([make_trial(index) for index in range(count)], body)


def draw(source: ArchiveSource, x: str, y: str) -> Contour:
    view = source.find_experiment("team", "digits")
    assert view is not None
    contour = draw_contour(collect_rows(view, source.list_trials("team", "digits")), 0, x, y)
    assert contour is not None
    return contour


@pytest.mark.parametrize(
    ("mode", "best", "worst"), [("max", ("3", "adamw"), ("1", "sgd")), ("min", ("1", "sgd"), ("3", "adamw"))]
)
def test_cells_have_the_mean_of_their_trials_and_the_best_has_the_last_colour(
    mode: str, best: tuple[str, str], worst: tuple[str, str]
) -> None:
    contour = draw(make_digits(mode=mode), "layers", "optimizer")
    cells = contour.cells
    assert (contour.best, contour.worst) == (cells[0].mean, cells[-1].mean)
    assert len(cells) == 9
    assert {cell.count for cell in cells} == {10}
    assert [(cell.x_text, cell.y_text) for cell in (cells[0], cells[-1])] == [best, worst]
    assert cells[0].level == 5
    assert cells[-1].level == 0
    assert sorted({round(cells[0].mean, 6), round(cells[-1].mean, 6)}) == [0.4, 0.8]


def test_cells_tile_the_plane_and_few_trials_have_large_ones() -> None:
    small, large = draw(make_digits(900), "lr", "optimizer"), draw(make_digits(30), "lr", "optimizer")
    assert (len(small.x.texts), len(large.x.texts)) == (12, 4)
    for contour in (small, large):
        assert {cell.width for cell in contour.cells} <= {83, 84, 250}
        assert sum(cell.width * cell.height for cell in contour.cells) <= 1000 * 1000
        assert sum(cell.count for cell in contour.cells) == contour.trials
    assert small.x.texts[0] == "1e-4 to 1.778e-4"


async def test_the_two_most_important_parameters_come_first_and_others_are_picked() -> None:
    async with serve(make_digits()) as client:
        page = await read_page(client, f"{BASE}/parameters")
        assert set(re.findall(r"<option selected>(\w+)</option>", page)) == {"layers", "optimizer"}
        assert "from 90 trials that have ended; each dot is a trial" in page
        page = await read_page(client, f"{BASE}/parameters?x=lr&y=layers")
        assert re.findall(r"<option selected>(\w+)</option>", page) == ["lr", "layers"]
        picture = await read_page(client, f"{BASE}/charts/contour.svg?x=lr&y=layers&theme=dark")
        assert "digits: accuracy over lr and layers" in picture
        assert picture.count("<rect class=") == page.count('<rect class="level')


async def test_what_can_not_be_drawn_is_said() -> None:
    async with serve(make_digits()) as client:
        assert "Choose two different parameters." in await read_page(client, f"{BASE}/parameters?x=lr&y=lr")
        assert "has no chart &#39;contour&#39;" in await read_page(client, f"{BASE}/charts/contour.svg?x=lr&y=lr", 404)
    async with serve(make_source([make_trial(0, state="RUNNING")], experiment_body(parameters=PARAMETERS))) as client:
        page = await read_page(client, f"{BASE}/parameters")
        assert "No trial that has ended has both lr and optimizer, and a value of accuracy." in page
    async with serve(make_source([make_trial(0)], experiment_body(parameters=PARAMETERS[:1]))) as client:
        assert 'id="contour"' not in await read_page(client, f"{BASE}/parameters")


def test_of_many_trials_the_best_are_drawn() -> None:
    contour = draw(make_digits(2000), "lr", "optimizer")
    assert (contour.trials, contour.drawn) == (2000, 1500)
    assert contour.dots.count("h0") <= 1500


async def test_names_of_parameters_are_never_read_as_html_and_their_links_lead_somewhere() -> None:
    names = ["<script>alert(1)</script>", "a&b=c#d"]
    parameters = [{"name": name, "float": {"min": 0, "max": 1}} for name in names]
    trials = [
        trial_body(index, {names[0]: repr(index / 40), names[1]: repr(index * 7 % 40 / 40)}, **done(index / 40))
        for index in range(40)
    ]
    async with serve(make_source(trials, experiment_body(parameters=parameters))) as client:
        page = await read_page(client, f"{BASE}/parameters")
        assert "<script>alert" not in page
        for link in re.findall(r'href="\.\./\.\./\.\./([^"]*(?:contour|importance)[^"]*)"', page):
            text = await read_page(client, "/" + link.replace("&amp;", "&"))
            assert "<script>alert" not in text


def test_one_cell_has_a_colour_too() -> None:
    contour = draw(make_digits(1), "lr", "optimizer")
    assert [cell.count for cell in contour.cells] == [1]


async def test_the_trial_below_the_pointer_is_found_where_its_dot_was_drawn() -> None:
    async with serve(make_digits()) as client:
        page = await read_page(client, f"{BASE}/parameters?x=optimizer&y=lr")
        plot = page[page.index('class="plot tall contour"') :]
        assert 'data-x="optimizer" data-x-low="-0.5" data-x-high="2.5" data-x-log="0" data-x-cells="3"' in plot
        assert 'data-value="accuracy" data-most="1500"' in plot
        assert re.search('data-y="lr" .* data-y-log="1" data-y-cells=""', plot)
        script = await read_page(client, "/static/scripts/plots.js")
    # The script spreads dots beside choices as `place_dot` does: by these numbers.
    assert "((number * 0.618034) % 1) - 0.5) * 0.6 / Number(cells)" in script
    assert 'const ENDED = new Set(["done", "stopped"])' in script
    assert {str(state) for state in ENDED_STATES} == {"done", "stopped"}
