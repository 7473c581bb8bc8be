"""Writes integrations/argo-cd/argocd-cm.yaml: the scripts in resource_customizations, for Argo CD's own ConfigMap.

`python docs/generate_argo_cd.py --write` writes it; `--check` fails when it is not what the scripts are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.generated_pages import write_or_check  # noqa: E402

FOLDER = ROOT / "integrations" / "argo-cd"
CUSTOMIZATIONS = FOLDER / "resource_customizations"
CONFIG_MAP = FOLDER / "argocd-cm.yaml"
_HEADER = "# Generated from resource_customizations by docs/generate_argo_cd.py. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Writes scripts as they are, line by line."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def build_config_map() -> str:
    """The ConfigMap, to be merged into the one that Argo CD has."""
    data: dict[str, str] = {}
    for folder in sorted(CUSTOMIZATIONS.glob("*/*")):
        kind = f"{folder.parent.name}_{folder.name}"
        data[f"resource.customizations.health.{kind}"] = _read(folder / "health.lua")
        data[f"resource.customizations.actions.{kind}"] = _dump(
            {
                "discovery.lua": _read(folder / "actions" / "discovery.lua"),
                "definitions": [
                    {"name": path.parent.name, "action.lua": _read(path)}
                    for path in sorted(folder.glob("actions/*/action.lua"))
                ],
            }
        )
    metadata = {"name": "argocd-cm", "namespace": "argocd"}
    return _HEADER + _dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__ or "", {CONFIG_MAP: build_config_map()}))
