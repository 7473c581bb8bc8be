"""Argo CD's scripts, run as Argo CD runs them.

It uses gopher-lua, which is Lua 5.1, with the libraries base, package and table, and an `os` of its own: see
`util/lua/lua.go` in github.com/argoproj/argo-cd, at 37ee009. Here, Lua 5.1 has base and table, and no more is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from lupa.lua51 import LuaRuntime, lua_type

ROOT = Path(__file__).parents[2] / "integrations" / "argo-cd"
CUSTOMIZATIONS = ROOT / "resource_customizations" / "podtune.dev"
_LEFT_OUT = ("string", "math", "io", "os", "debug", "coroutine", "require", "python")
_HEALTHS = frozenset({"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"})


class ArgoCustomization:
    """What Argo CD knows of one kind."""

    def __init__(self, kind: str) -> None:
        self.folder = CUSTOMIZATIONS / kind

    @property
    def actions(self) -> list[str]:
        """Names of the actions that have a script."""
        return sorted(path.parent.name for path in self.folder.glob("actions/*/action.lua"))

    def find_health(self, manifest: dict[str, Any]) -> tuple[str, str]:
        """An object's health, and the message beside it."""
        found = self._run("health.lua", manifest)
        assert found["status"] in _HEALTHS
        return found["status"], found.get("message", "")

    def discover_actions(self, manifest: dict[str, Any]) -> dict[str, bool]:
        """The actions that the menu of an object shows, each with whether it can be chosen."""
        found = self._run("actions/discovery.lua", manifest)
        return {name: not shown.get("disabled", False) for name, shown in found.items()}

    def act(self, manifest: dict[str, Any], action: str) -> dict[str, Any]:
        """The object after an action, which Argo CD sends as a patch."""
        changed: dict[str, Any] = _restore_maps(self._run(f"actions/{action}/action.lua", manifest), manifest)
        return changed

    def _run(self, script: str, manifest: dict[str, Any]) -> Any:
        return run_lua((self.folder / script).read_text(encoding="utf-8"), manifest)


def run_lua(script: str, manifest: dict[str, Any]) -> Any:
    """What a script returns that finds an object in the global variable `obj`."""
    lua: Any = LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    for name in _LEFT_OUT:
        lua.globals()[name] = None
    lua.globals()["obj"] = _to_lua(lua, manifest)
    return _from_lua(lua.execute(script))


def _to_lua(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: _to_lua(lua, below) for key, below in value.items()})
    if isinstance(value, list):
        return lua.table_from([_to_lua(lua, below) for below in value])
    return value


def _from_lua(value: Any) -> Any:
    """A table with a first entry is a list, and so is an empty one: Lua can't tell."""
    if lua_type(value) != "table":
        return value
    if value[1] is not None or not list(value.keys()):
        return [_from_lua(below) for below in value.values()]
    return {key: _from_lua(below) for key, below in value.items()}


def _restore_maps(changed: Any, before: Any) -> Any:
    """Makes maps again of what was an empty map, as Argo CD does (`cleanReturnedObj`)."""
    if changed == [] and isinstance(before, dict):
        return {}
    if isinstance(changed, dict) and isinstance(before, dict):
        return {key: _restore_maps(below, before.get(key)) for key, below in changed.items()}
    if isinstance(changed, list) and isinstance(before, list):
        known = [*before, *[None] * len(changed)]
        return [_restore_maps(below, of_before) for below, of_before in zip(changed, known, strict=False)]
    return changed


def read_yaml(path: Path) -> Any:
    """What a file of the customizations holds."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))
