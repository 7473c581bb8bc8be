import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

from podtune import trial
from podtune.client.packing import runner


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    results: list[Mapping[str, Any]] = []
    monkeypatch.setattr(trial, "params", lambda: {"lr": 0.1})
    monkeypatch.setattr(trial, "report", results.append)
    monkeypatch.setattr(trial, "should_stop", lambda: len(results) == 2)
    return results


def test_returned_dict_is_one_result(reported: list[Mapping[str, Any]]) -> None:
    runner.run_function(lambda config: {"double": config["lr"] * 2})
    assert reported == [{"double": 0.2}]


def test_function_that_reports_by_itself_need_not_return(reported: list[Mapping[str, Any]]) -> None:
    runner.run_function(lambda config: trial.report({"loss": 1}))
    assert reported == [{"loss": 1}]


def test_generator_is_closed_when_its_trial_is_to_stop(reported: list[Mapping[str, Any]]) -> None:
    closed = []

    def train(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            for epoch in range(5):
                yield {"epoch": epoch}
        finally:
            closed.append(True)

    runner.run_function(train)
    assert reported == [{"epoch": 0}, {"epoch": 1}]
    assert closed


def test_other_results_are_refused_with_what_works(reported: list[Mapping[str, Any]]) -> None:
    with pytest.raises(TypeError, match=r"returned 0\.93, a float; make it a dict of metrics"):
        runner.run_function(lambda config: 0.93)


def test_module_that_the_image_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Finder:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == runner.FUNCTION_MODULE:
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert runner.main() == 1
    assert "the image has no module 'torch'" in capsys.readouterr().err


def test_function_is_found_by_the_name_that_packing_gives_it(
    monkeypatch: pytest.MonkeyPatch, reported: list[Mapping[str, Any]]
) -> None:
    module = ModuleType(runner.FUNCTION_MODULE)
    setattr(module, runner.FUNCTION_NAME, lambda config: {"a": 1})
    monkeypatch.setitem(sys.modules, runner.FUNCTION_MODULE, module)
    assert runner.main() == 0
    assert reported == [{"a": 1}]
