"""Plugins: what is installed is used, and whatever is wrong with one is a sentence for its user.

The page about them is tested apart; these are stand-ins for packages that go wrong.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from podtune.cluster.decoders import decode_experiment
from podtune.tuning.admission import find_problem
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.schedulers.fifo import Fifo
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.rejection import RejectionSearcher
from tests.entry_points import install, make_installation
from tests.unit.tuning.manifests import EVERY_KIND, experiment

made_with: list[dict[str, Any]] = []


def good(**arguments: Any) -> RandomSearcher:
    made_with.append(arguments)
    return RandomSearcher(arguments["parameters"], arguments["seed"])


def scheduler(**arguments: Any) -> Fifo:
    made_with.append(arguments)
    return Fifo()


def no_searcher(**arguments: Any) -> object:
    return object()


def broken(**arguments: Any) -> object:
    raise RuntimeError("out of order")


def picky(**arguments: Any) -> object:
    raise ValueError("steps is missing; give a whole number")


class StopsOnly(Fifo):
    pauses = False

    def __init__(self, **arguments: Any) -> None:
        """Takes whatever it is given."""


class NoTime(StopsOnly):
    @property
    def time_attribute(self) -> str:
        raise KeyError("epoch")


class WrongTime(StopsOnly):
    time_attribute = None  # type: ignore[assignment]


HERE = __name__
installed = make_installation(
    *(EntryPoint(name, f"{HERE}:{name}", "podtune.searchers") for name in ("good", "no_searcher", "broken", "picky")),
    EntryPoint("absent", "no_such_package:make", "podtune.searchers"),
    EntryPoint("pausing", f"{HERE}:scheduler", "podtune.schedulers"),
    EntryPoint("stopping", f"{HERE}:StopsOnly", "podtune.schedulers"),
    EntryPoint("no_scheduler", f"{HERE}:no_searcher", "podtune.schedulers"),
    EntryPoint("no_time", f"{HERE}:NoTime", "podtune.schedulers"),
    EntryPoint("wrong_time", f"{HERE}:WrongTime", "podtune.schedulers"),
    EntryPoint("no_stopper", f"{HERE}:no_searcher", "podtune.stoppers"),
)


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made_with.clear()


def search(name: str, **settings: Any) -> dict[str, Any]:
    return {"algorithm": "plugin", "plugin": {"name": name, "settings": settings}, "maxTrials": 9, "seed": 5}


def test_a_searcher_is_made_with_what_the_manifest_says_of_sampled_parameters() -> None:
    fixed = {"name": "constant", "fixed": {"value": 1}}
    spec = experiment(parameters=[*EVERY_KIND, fixed], search=search("good", steps=3))
    searcher = make_searcher(spec)
    assert isinstance(searcher, RejectionSearcher)
    assert isinstance(searcher.inner, RandomSearcher)
    made = made_with.pop()
    assert [parameter.name for parameter in made["parameters"]] == [manifest["name"] for manifest in EVERY_KIND]
    assert (made["objective"], made["settings"], made["seed"]) == (spec.objective, {"steps": 3}, 5)
    proposed = searcher.ask(0, [])
    assert proposed.configuration["constant"] == 1


def test_a_scheduler_is_made_with_what_the_manifest_says() -> None:
    spec = experiment(scheduler={"plugin": {"name": "pausing", "settings": {"rungs": [1, 3]}}})
    assert isinstance(make_scheduler(spec), Fifo)
    assert made_with == [{"objective": spec.objective, "settings": {"rungs": [1, 3]}, "seed": 7}]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("good", ""),
        (
            "better",
            "'better' is not installed in the operator's image (installed: absent, broken, good, no_searcher, picky)",
        ),
        ("absent", "'absent' (no_such_package:make) can't be created (ModuleNotFoundError: No module named"),
        ("broken", "can't be created (RuntimeError: out of order); tell its author"),
        ("picky", "'picky' refuses its settings: steps is missing; give a whole number"),
        ("no_searcher", "'no_searcher' made a object, which is not a Searcher; tell its author"),
    ],
)
def test_a_searcher_that_cant_be_used_is_a_problem_told(name: str, said: str) -> None:
    problem = find_problem(experiment(search=search(name)))
    assert said in problem
    assert problem.startswith("spec.search.plugin: ") == bool(said)


def test_a_scheduler_that_cant_be_used_is_a_problem_told() -> None:
    said = find_problem(experiment(scheduler={"plugin": {"name": "x"}}))
    assert "installed: no_scheduler, no_time, pausing, stopping, wrong_time" in said
    said = find_problem(experiment(scheduler={"plugin": {"name": "no_scheduler"}}))
    assert said == "spec.scheduler.plugin: 'no_scheduler' made a object, which is not a Scheduler; tell its author"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_time", "'no_time' has no time_attribute (KeyError: 'epoch'); tell its author"),
        ("wrong_time", "'wrong_time' has the time_attribute None; tell its author"),
    ],
)
def test_so_is_one_that_does_not_say_what_it_measures_time_by(name: str, said: str) -> None:
    assert find_problem(experiment(scheduler={"plugin": {"name": name}})) == f"spec.scheduler.plugin: {said}"


def test_a_stopper_that_cant_be_used_is_a_problem_told_with_its_place() -> None:
    rules = [{"any": [{"iterations": 3}, {"plugin": {"name": "no_stopper"}}]}]
    said = find_problem(experiment(stop={"trial": rules}))
    expected = "spec.stop.trial[0].any[1].plugin: 'no_stopper' made a object, which is not a Stopper; tell its author"
    assert said == expected
    assert find_problem(experiment(stop={"trial": [{"plugin": {"name": "x"}}]})).startswith(
        "spec.stop.trial[0].plugin: 'x' is not installed in the operator's image (installed: no_stopper)"
    )


def test_a_scheduler_that_may_pause_needs_a_store() -> None:
    said = find_problem(experiment(scheduler={"plugin": {"name": "pausing"}}))
    assert said.startswith("spec.checkpoints.store: is missing, but scheduler plugin 'pausing' resumes trials")
    store = {"store": {"bucket": "bucket"}}
    assert find_problem(experiment(scheduler={"plugin": {"name": "pausing"}}, checkpoints=store)) == ""
    assert find_problem(experiment(scheduler={"plugin": {"name": "stopping"}})) == ""


def test_without_any_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert "(installed: none)" in find_problem(experiment(search=search("good")))


def test_the_operator_takes_it_for_a_spec_that_can_never_work() -> None:
    body = {
        "metadata": {"name": "e", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": experiment(search=search("better")).model_dump(by_alias=True, exclude_none=True, mode="json"),
    }
    read = decode_experiment(body)
    assert read.spec is None
    assert read.problem.startswith("spec.search.plugin: 'better' is not installed in the operator's image")


def test_a_grid_of_entangled_conditions_is_a_problem_told() -> None:
    parents = [{"name": f"p{place}", "choice": {"values": [0, 1]}} for place in range(24)]
    children = [
        {"name": f"c{place}", "choice": {"values": [0, 1]}, "when": {f"p{place}": [1], f"p{(place * 7 + 1) % 24}": [1]}}
        for place in range(24)
    ]
    space = [*parents, *children]
    for algorithm in ("grid", "bruteForce"):
        said = find_problem(experiment(parameters=space, search={"algorithm": algorithm, "maxTrials": 9}))
        assert said.startswith(f"spec.search.algorithm: {algorithm} can't enumerate this space: the conditions (when)")
        assert said.endswith("make them simpler, or use random")
    assert find_problem(experiment(parameters=space, search={"algorithm": "random", "maxTrials": 9})) == ""
