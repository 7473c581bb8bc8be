"""What the pages add to Podtune passes the suites, and is found as a package's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.names import ExperimentReason
from podtune.storage.address import PluginAddress
from podtune.storage.errors import StoreSettingsError
from podtune.storage.stores import make_store
from podtune.tuning.admission import find_problem
from podtune.tuning.schedulers.base import SchedulerAction
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.base import Observation
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.stoppers.base import ExperimentProgress
from podtune.tuning.stoppers.factory import make_experiment_stopper, make_trial_stopper
from tests.unit.tuning.manifests import experiment

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("extend-it", "add-a-stopper", "add-a-store")
PAGE = "".join((ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES)
FILES = ("mutate_best.py", "patience.py", "test_mine.py", "worse_in_a_row.py", "stagnation.py", "sqlite_store.py")


def blocks(language: str) -> list[str]:
    return [
        textwrap.dedent(text) for text in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    ]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, as pip would install it."""
    for name, text in zip(FILES, blocks("python"), strict=True):
        (tmp_path / name).write_text(text)
    entry_points = "\n".join(
        line.replace('[project.entry-points."', "[").replace('"]', "]").replace(' = "', " = ").rstrip('"')
        for line in "\n".join(blocks("toml")).splitlines()
    )
    distribution = tmp_path / "mine-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def spec(**changed: Any) -> Any:
    parts: dict[str, Any] = {}
    for text in blocks("yaml"):
        for key, value in yaml.safe_load(text).items():
            parts[key] = {**parts.get(key, {}), **value} if key == "stop" else value
    return experiment(**{**parts, **changed})


def available(extra: str) -> set[str]:
    """Modules that `pip install podtune[extra]` brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted, found = list(project["optional-dependencies"][extra]), set()
    while wanted:
        name = re.split(r"[^\w.-]", wanted.pop())[0].lower().replace("_", "-")
        if name not in found:
            found.add(name)
            with suppress(PackageNotFoundError):  # of another platform, or an older Python
                wanted += [line for line in requires(name) or () if "extra ==" not in line]
    return {
        module
        for module, distributions in packages_distributions().items()
        if not found.isdisjoint(each.lower().replace("_", "-") for each in distributions)
    }


ONLY = """
import sys
from importlib.abc import MetaPathFinder

BLOCKED = {blocked!r}


class OnlyTheExtra(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{{name}} is not among what the extra installs")


sys.meta_path.insert(0, OnlyTheExtra())
"""


def test_they_pass_the_suites_with_what_the_extra_installs(installed: Path) -> None:
    blocked = packages_distributions().keys() - available("testing") - {"podtune"}
    assert {"optuna", "kubernetes", "yaml"} <= blocked
    (installed / "conftest.py").write_text(ONLY.format(blocked=blocked))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(installed), "test_mine.py"],
        cwd=installed,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT / "operator")]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout)


@pytest.mark.usefixtures("installed")
def test_an_experiment_uses_them_by_name() -> None:
    assert find_problem(spec()) == ""
    searcher, scheduler = make_searcher(spec()), make_scheduler(spec())
    best = searcher.ask(0, [])
    for number in range(10):
        searcher.tell(Observation(number, best.configuration, 1.0 - number, 1))
    mutated = searcher.ask(10, [])
    assert mutated is not None
    assert sum(mutated.configuration[name] != value for name, value in best.configuration.items()) <= 1
    decisions = [scheduler.on_result(0, {"accuracy": 0.5}) for _ in range(6)]
    assert [decision.action for decision in decisions] == [SchedulerAction.CONTINUE] * 5 + [SchedulerAction.STOP]
    assert decisions[-1].inputs == {"best": 0.5, "results": 5}
    stopper = make_trial_stopper(spec())
    stopped = [stopper.on_result(0, {"accuracy": 0.9 - step / 10}, 0.0) for step in range(6)]
    assert [decision.action for decision in stopped] == [SchedulerAction.CONTINUE] * 5 + [SchedulerAction.STOP]
    message = "stopped: accuracy has become worse 5 times in a row, as stop.trial[0].plugin asks"
    assert stopped[-1].message == message
    assert message.replace("5", "3") in " ".join(PAGE.split())
    of_experiment = make_experiment_stopper(spec())
    for number in range(31):
        assert of_experiment.check(ExperimentProgress(0.0)) is None
        of_experiment.on_observation(Observation(number, {}, 0.97, 1))
    ending = of_experiment.check(ExperimentProgress(0.0))
    assert ending is not None
    message = "stopped: 30 trials in a row have not improved on 0.97, as stop.experiment[0].plugin asks"
    assert (ending.reason, ending.message) == (ExperimentReason.CRITERIA_MET, message)
    assert message.replace("30", "20") in " ".join(PAGE.split())


def test_a_store_is_made_by_its_name(installed: Path) -> None:
    settings = {"path": str(installed / "checkpoints.db")}
    store = make_store(PluginAddress("sqlite", "team", json.dumps(settings)))
    store.put_bytes("team/a", b"content")
    assert store.get_bytes("team/a", 100) == b"content"
    assert list(store.list("team/")) == ["team/a"]
    assert store.exists("team/a")
    written = spec().checkpoints.store
    assert written is not None
    assert written.build_prefix("uid") == "plugin://sqlite/team-a/digits/uid/"
    with pytest.raises(StoreSettingsError, match="refuses its settings: path 3 is not a path; name the file"):
        make_store(PluginAddress("sqlite", settings='{"path": 3}')).check()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"search": {"algorithm": "plugin", "plugin": {"name": "mutate-worst"}, "maxTrials": 1}},
            "spec.search.plugin: 'mutate-worst' is not installed in the operator's image (installed: mutate-best); "
            "install a package that has it as an entry point of podtune.searchers, or correct the name",
        ),
        (
            {
                "search": {
                    "algorithm": "plugin",
                    "plugin": {"name": "mutate-best", "settings": {"startupTrials": "5"}},
                    "maxTrials": 1,
                }
            },
            "spec.search.plugin: 'mutate-best' refuses its settings: startupTrials '5' is not a whole number",
        ),
        (
            {"scheduler": {"plugin": {"name": "impatience"}}},
            "spec.scheduler.plugin: 'impatience' is not installed in the operator's image (installed: patience)",
        ),
        (
            {"scheduler": {"plugin": {"name": "patience", "settings": {"results": 0}}}},
            "spec.scheduler.plugin: 'patience' refuses its settings: results 0 is not a whole number above 0; give one",
        ),
        (
            {"stop": {"trial": [{"time": "1h"}, {"plugin": {"name": "better-in-a-row"}}]}},
            "spec.stop.trial[1].plugin: 'better-in-a-row' is not installed in the operator's image (installed: "
            "worse-in-a-row)",
        ),
        (
            {"stop": {"experiment": [{"target": 1}, {"plugin": {"name": "worse-in-a-row"}}]}},
            "spec.stop.experiment[1].plugin: 'worse-in-a-row' is not installed in the operator's image (installed: "
            "stagnation); install a package that has it as an entry point of podtune.experiment_stoppers, or correct",
        ),
        (
            {
                "stop": {
                    "experiment": [
                        {"any": [{"target": 1}, {"plugin": {"name": "stagnation", "settings": {"trials": 0}}}]}
                    ]
                }
            },
            "spec.stop.experiment[0].any[1].plugin: 'stagnation' refuses its settings: trials 0 is not a whole number",
        ),
        (
            {
                "stop": {
                    "trial": [
                        {"all": [{"time": "1h"}, {"plugin": {"name": "worse-in-a-row", "settings": {"times": 0}}}]}
                    ]
                }
            },
            "spec.stop.trial[0].all[1].plugin: 'worse-in-a-row' refuses its settings: times 0 is not a whole number "
            "above 0; give one",
        ),
    ],
)
def test_what_cant_be_used_is_said_to_the_user(changed: dict[str, Any], said: str) -> None:
    assert find_problem(spec(**changed)).startswith(said)
