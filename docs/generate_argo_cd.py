"""Writes integrations/argo-cd/argocd-cm.yaml: the scripts in resource_customizations, for Argo CD's own ConfigMap.

`python docs/generate_argo_cd.py --write` writes it; `--check` fails when it is not what the scripts are.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.generated_pages import dump_yaml, write_or_check  # noqa: E402

FOLDER = ROOT / "integrations" / "argo-cd"
CUSTOMIZATIONS = FOLDER / "resource_customizations"
CONFIG_MAP = FOLDER / "argocd-cm.yaml"
_HEADER = "# Generated from resource_customizations by docs/generate_argo_cd.py. Do not edit.\n"


def build_config_map() -> str:
    """The ConfigMap, to be merged into the one that Argo CD has."""
    data: dict[str, str] = {}
    for folder in sorted(CUSTOMIZATIONS.glob("*/*")):
        kind = f"{folder.parent.name}_{folder.name}"
        data[f"resource.customizations.health.{kind}"] = _read(folder / "health.lua")
        data[f"resource.customizations.actions.{kind}"] = dump_yaml(
            {
                "discovery.lua": _read(folder / "actions" / "discovery.lua"),
                "definitions": [
                    {"name": path.parent.name, "action.lua": _read(path)}
                    for path in sorted(folder.glob("actions/*/action.lua"))
                ],
            }
        )
    metadata = {"name": "argocd-cm", "namespace": "argocd"}
    return _HEADER + dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__ or "", {CONFIG_MAP: build_config_map()}))
