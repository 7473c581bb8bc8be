import asyncio
import functools
import json
import linecache
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podtune.client.packing import PackedFunction, PackingError, pack_function
from podtune.trial import layout
from tests.unit.client.packing import travelling, travelling_helpers


def run_packed(packed: PackedFunction, directory: Path, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs it as its pod does; returns the results."""
    program, shared = directory / "program", directory / "shared"
    for path, text in packed.files.items():
        file = program / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shared.mkdir()
    (shared / "parameters.json").write_text(json.dumps(parameters))
    (shared / "results.jsonl").touch()
    subprocess.run(
        [sys.executable, str(program / Path(packed.command[-1]).name)],
        env={"PODTUNE_DIR": str(shared)},
        check=True,
        timeout=60,
    )
    lines = [json.loads(line) for line in (shared / "results.jsonl").read_text().splitlines()]
    assert lines.pop() == {layout.DONE_KEY: True}
    return lines


def write_cell(source: str, names: dict[str, Any]) -> None:
    """Runs a cell as a notebook does: its source is known by a made-up file name alone."""
    name = f"/tmp/ipykernel_1/{len(names.setdefault('In', []))}.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names["In"].append(source)
    exec(compile(source, name, "exec"), names)


@pytest.fixture
def notebook() -> Iterator[dict[str, Any]]:
    before = set(linecache.cache)
    yield {"__name__": "__main__"}
    for name in set(linecache.cache) - before:
        del linecache.cache[name]


def test_packed_function_runs_alone_with_the_imports_that_it_uses(tmp_path: Path) -> None:
    packed = pack_function(travelling.train)
    assert "travelling_helpers" not in packed.files["podtune_function.py"]  # an import that train does not use
    [result] = run_packed(packed, tmp_path, {"radius": 2})
    assert result == {"area": math.pi * 4, "epochs": 2, "tag": "a", "text": '{"radius": 2}'}


def test_function_of_a_module_that_travels_keeps_what_it_uses_of_it(tmp_path: Path) -> None:
    packed = pack_function(travelling.train_with_helper, modules=[travelling, travelling_helpers])
    assert {path for path in packed.files if path.endswith("helpers.py")} == {
        "tests/unit/client/packing/travelling_helpers.py"
    }
    [result] = run_packed(packed, tmp_path, {"x": 3})
    assert result == {"value": 30, "other": 10}


def test_function_of_a_notebook_travels_with_the_imports_of_other_cells(
    notebook: dict[str, Any], tmp_path: Path
) -> None:
    write_cell("from math import pi\nimport json as j", notebook)
    notebook["In"].append("%not python")
    write_cell("def train(config):\n    for k in (1, 2):\n        yield {'area': pi * k, 't': j.dumps(k)}", notebook)
    results = run_packed(pack_function(notebook["train"]), tmp_path, {})
    assert results == [{"area": math.pi, "t": "1"}, {"area": 2 * math.pi, "t": "2"}]


def test_text_of_several_lines_in_an_indented_function_stays_as_it_is(tmp_path: Path) -> None:
    [result] = run_packed(pack_function(travelling.train_indented), tmp_path, {"wanted": "second"})
    assert result == {"lines": "second"}


def test_globals_that_are_no_imports_are_refused_by_name() -> None:
    with pytest.raises(PackingError, match=r"train_with_constant uses the globals FACTOR \(int\).*modules="):
        pack_function(travelling.train_with_constant)


def test_global_that_is_nowhere_defined_is_refused() -> None:
    with pytest.raises(PackingError, match="train_with_typo uses confg, which is not defined"):
        pack_function(travelling.train_with_typo)


def test_module_that_lies_beside_the_function_is_missed_before_a_pod_misses_it() -> None:
    with pytest.raises(PackingError, match=r"imports tests\S+helpers, a module of yours.*modules=\[tests\S+helpers\]"):
        pack_function(travelling.train_with_helper)


def test_import_that_was_replaced_is_no_import_any_more(notebook: dict[str, Any]) -> None:
    write_cell("from math import ceil\nceil = abs\ndef train(config):\n    return {'a': ceil(1)}", notebook)
    with pytest.raises(PackingError, match=r"ceil \(builtin_function_or_method\)"):
        pack_function(notebook["train"])


def make_closure() -> Callable[[Any], Any]:
    data, size = [1], 2

    def train(config: Any) -> Any:
        return {"a": data, "b": size}

    return train


def make_nested() -> Callable[[Any], Any]:
    def train(config: Any) -> Any:
        return {"a": 1}

    return train


class Trainable:
    def step(self, config: Any) -> Any:
        return {"a": 1}


async def train_later(config: Any) -> Any:
    await asyncio.sleep(0)


def train_on(config: Any, data: Any) -> Any:
    return {"a": data}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda config: {"a": 1}, "a lambda can't be packed"),
        (make_closure(), "uses data, size of the function around it.*parameters"),
        (make_nested(), "is defined inside make_nested; define it at the top level"),
        (Trainable, r"Trainable is a class \(type\); write it as a function"),
        (Trainable().step, "is no Python function"),
        (functools.partial(train_on, data=1), "is no Python function"),
        (len, r"len is no Python function \(builtin_function_or_method\)"),
        (train_later, "train_later is asynchronous"),
        (train_on, r"train_on\(.*can't be called with the configuration alone.*'data'"),
    ],
)
def test_what_can_not_travel_is_refused_by_name(function: Any, message: str) -> None:
    with pytest.raises(PackingError, match=message):
        pack_function(function)


def test_function_without_source_is_refused() -> None:
    names: dict[str, Any] = {"__name__": "nowhere"}
    exec("def train(config):\n    return {'a': 1}", names)
    with pytest.raises(PackingError, match="the source of train can't be found"):
        pack_function(names["train"])


def test_names_of_the_notebook_itself_are_refused(notebook: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    display = Trainable()
    monkeypatch.setattr(display, "__module__", "IPython.core.display_functions", raising=False)
    monkeypatch.setattr("builtins.display", display, raising=False)
    write_cell("def train(config):\n    display(config)", notebook)
    with pytest.raises(PackingError, match=r"display \(Trainable\)"):
        pack_function(notebook["train"])


def test_config_map_holds_the_files_by_flat_keys_and_the_volume_puts_them_in_place() -> None:
    packed = pack_function(travelling.train, modules=[travelling_helpers])
    data = packed.make_config_map("digits-function")["data"]
    items = packed.make_volume("digits-function")["configMap"]["items"]
    assert {item["path"]: data[item["key"]] for item in items} == packed.files
    assert all("/" not in key for key in data)
