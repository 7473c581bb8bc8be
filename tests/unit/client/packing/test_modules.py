import importlib.util
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from podtune.client.packing import PackingError, pack_function
from podtune.client.packing.modules import collect_files, is_users_own
from tests.unit.client.packing import travelling


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[str, str], ModuleType]]:
    """Writes a module, and imports it."""
    loaded: list[str] = []

    def load_module(path: str, source: str) -> ModuleType:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_module
    for name in loaded:
        del sys.modules[name]


def test_package_travels_with_all_modules_in_it(load: Callable[[str, str], ModuleType], tmp_path: Path) -> None:
    (tmp_path / "nets/layers").mkdir(parents=True)
    (tmp_path / "nets/layers/dense.py").write_text("WIDTH = 3\n")
    (tmp_path / "nets/not-a-module.py").write_text("?")
    package = load("nets/__init__.py", "DEPTH = 2\n")
    assert collect_files([package]) == {"nets/__init__.py": "DEPTH = 2\n", "nets/layers/dense.py": "WIDTH = 3\n"}


def test_module_of_a_package_travels_with_the_package_around_it(load: Callable[[str, str], ModuleType]) -> None:
    load("nets/__init__.py", "DEPTH = 2\n")
    module = load("nets/dense.py", "WIDTH = 3\n")
    assert collect_files([module]) == {"nets/__init__.py": "DEPTH = 2\n", "nets/dense.py": "WIDTH = 3\n"}


def test_module_that_imports_another_one_of_the_users_asks_for_it(
    load: Callable[[str, str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load("other_part.py", "A = 1\n")
    module = load("first_part.py", "import other_part\n")
    with pytest.raises(PackingError, match=r"first_part.py imports other_part, .*modules=\[other_part\]"):
        pack_function(travelling.train, modules=[module])


def test_installed_modules_are_none_of_the_users_own() -> None:
    everywhere = [Path("/")]
    assert not any(is_users_own(module, everywhere) for module in (json, math, pytest, sys.modules["podtune.trial"]))
    assert is_users_own(travelling, everywhere)


def test_more_than_a_config_map_holds_is_refused_with_its_size(load: Callable[[str, str], ModuleType]) -> None:
    module = load("much.py", f"TEXT = '{'x' * (1 << 20)}'\n")
    with pytest.raises(PackingError, match=r"take 1,0\d\d,\d{3} bytes, .* holds 1,048,576; .* much.py \(1,048,586 byt"):
        pack_function(travelling.train, modules=[module])


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("helpers", "modules takes modules, not 'helpers'; import the module"),
        (json, "module json comes with Python and need not travel"),
        (sys.modules["__main__"], "the main program can't travel as a module"),
        (ModuleType("compiled"), r"module compiled has no Python source \(built in\)"),
    ],
)
def test_module_that_can_not_travel_is_refused(module: Any, message: str) -> None:
    with pytest.raises(PackingError, match=message):
        collect_files([module])


def test_module_with_the_runners_name_is_refused(load: Callable[[str, str], ModuleType]) -> None:
    module = load("podtune_runner.py", "A = 1\n")
    with pytest.raises(PackingError, match="module podtune_runner has a name that Podtune needs for itself"):
        pack_function(travelling.train, modules=[module])
