"""What notebooks and terminals show."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from podtune.cli.views.progress import Progress
from podtune.client import Client, Experiment
from podtune.client.display import LineDisplay, NoDisplay, NotebookDisplay
from tests.unit.cli.cli_fakes import RUNNING, TRAINING, experiment, trial
from tests.unit.client.conftest import MANIFEST, ClusterApi, condition

COMPLETE = {**RUNNING, "state": "Complete", "conditions": [condition("Complete", "24 trials done")]}
ATTACK = "<script>alert(1)</script>"
CURVE = {"results": 3, "every": 1, "steps": [1, 2, 3], "seconds": [1, 2, 3], "values": [[0.25, None, 0.75]]}


class Kernel:
    """IPython as it is in a kernel of Jupyter, as far as it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drawn: list[str] = []
        self.updated: list[str] = []
        package, display = ModuleType("IPython"), ModuleType("IPython.display")
        package.get_ipython = lambda: SimpleNamespace(kernel=None)  # type: ignore[attr-defined]
        display.HTML = str  # type: ignore[attr-defined]
        display.display = self._display  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def _display(self, drawing: str, *, display_id: bool) -> Any:
        assert display_id
        self.drawn.append(drawing)
        return SimpleNamespace(update=self.updated.append)


class Tags(HTMLParser):
    """The tags of a page, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture
def digits(api: ClusterApi, client: Client) -> Experiment:
    api.add_experiment(experiment(**RUNNING))
    api.add_trial(trial(7, **TRAINING, curve=CURVE))
    return client.get("digits")


def test_a_notebook_has_one_table_that_updates_itself(
    api: ClusterApi, digits: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(monkeypatch)
    monkeypatch.setattr("time.sleep", lambda _: None)
    api.tell(experiment(**RUNNING), experiment(**COMPLETE), trials=(trial(7, **TRAINING, curve=CURVE),))
    watch = digits.watch()
    watch._ipython_display_()
    assert len(kernel.drawn) == 1
    last = [*kernel.drawn, *kernel.updated][-1]
    assert "<b>digits</b> Complete" in last
    assert "best accuracy 0.9722 by digits-4: learning_rate 0.004212" in last
    assert "digits-7" in last
    assert "<title>accuracy from 0.25 to 0.75</title>" in last


def test_updates_are_no_closer_than_people_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, slept = Kernel(monkeypatch), list[float]()
    display = NotebookDisplay(clock=lambda: 100.0 + sum(slept), sleep=slept.append)
    for text in ("a", "b", "c"):
        display.show(Progress(), lambda text=text: text)  # type: ignore[misc]
    assert (kernel.drawn, kernel.updated) == (["a"], ["b", "c"])
    assert slept == [0.5, 0.5]


def test_a_terminal_has_a_line_for_each_change(
    api: ClusterApi, digits: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    api.tell(experiment(**RUNNING), experiment(**COMPLETE), trials=(trial(7, **TRAINING),))
    digits.watch().wait()
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith("digits-7 RUNNING Training: epoch 9")
    assert lines[-1].startswith("digits Complete: 5/24 trials done")


def test_nothing_is_shown_where_that_is_not_wanted(
    api: ClusterApi, digits: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    api.tell(experiment(**COMPLETE))
    digits.watch(show=False).wait()
    assert capsys.readouterr().out == ""
    assert all(callable(display.show) for display in (NoDisplay(), LineDisplay()))


def test_texts_of_users_are_shown_as_they_are_and_never_run(api: ClusterApi, client: Client) -> None:
    """Names can't hold such texts, but parameters, metrics, messages and image names do."""
    made = experiment(**copy.deepcopy({**RUNNING, "message": ATTACK}))
    made["spec"]["parameters"] = [{"name": ATTACK, "choice": {"values": [ATTACK]}}]
    made["spec"]["objective"]["metric"] = ATTACK
    made["status"]["best"] |= {"parameters": {ATTACK: ATTACK}, "checkpoint": ATTACK}
    made["status"]["conditions"].append({**condition("Trouble", ATTACK), "status": "False"})
    api.add_experiment(made)
    hurt = trial(7, **{**TRAINING, "message": ATTACK, "reason": ATTACK}, curve=CURVE)
    hurt["spec"]["parameters"] = {ATTACK: ATTACK}
    hurt["status"]["checkpoints"] = [{"step": 1, "uri": ATTACK, "digest": "sha256:0"}]
    hurt["status"]["checkpoint"] = hurt["status"]["checkpoints"][0]
    api.add_trial(hurt)
    digits = client.get("digits")
    checkpoint = digits.trial(7).checkpoint
    assert checkpoint is not None
    shown: list[Callable[[], str]] = [
        digits._repr_html_,
        digits.best._repr_html_,
        digits.read()._repr_html_,
        digits.trial(7)._repr_html_,
        checkpoint._repr_html_,
    ]
    for show in shown:
        page = show()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "script" not in Tags(page).names


def test_an_experiment_that_is_not_created_shows_what_it_will_be() -> None:
    page = Experiment.from_yaml(MANIFEST)._repr_html_()
    for text in ("Experiment digits", "max accuracy", "learning_rate", "not yet: client.create(experiment)"):
        assert text in page


def test_of_many_trials_those_that_run_are_shown_and_the_others_counted(api: ClusterApi, client: Client) -> None:
    api.add_experiment(experiment(**RUNNING))
    for index in range(25):
        api.add_trial(trial(index, **({**TRAINING} if index == 3 else {"state": "TERMINATED"})))
    page = client.get("digits").read()._repr_html_()
    assert page.index("digits-3<") < page.index("digits-24<")
    assert "and 5 more: <code>trials</code> has all" in page
