"""Flux's health checks by expressions, evaluated as Flux does.

The order is that of `runtime/cel/status_evaluator.go` in github.com/fluxcd/pkg: first the generation, then inProgress,
failed and current. Expressions see the fields of the object itself: `metadata`, `spec`, `status`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from cel import evaluate

from tests.gitops.kstatus import Kstatus, compute_kstatus

ROOT = Path(__file__).parents[2] / "integrations" / "flux"
_ORDER = (("inProgress", Kstatus.IN_PROGRESS), ("failed", Kstatus.FAILED), ("current", Kstatus.CURRENT))


def read_kustomization(name: str) -> dict[str, Any]:
    """One of the Kustomizations that are offered for Flux."""
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return found


def check_health(kustomization: dict[str, Any], manifest: dict[str, Any]) -> Kstatus:
    """What a Kustomization with `wait` makes of an object: by its expressions for the kind, else by kstatus."""
    group = manifest["apiVersion"].partition("/")[0]
    for check in kustomization["spec"].get("healthCheckExprs", ()):
        if (check["apiVersion"].partition("/")[0], check["kind"]) == (group, manifest["kind"]):
            return _evaluate(check, manifest)
    return compute_kstatus(manifest)


def _evaluate(check: dict[str, str], manifest: dict[str, Any]) -> Kstatus:
    observed = manifest.get("status", {}).get("observedGeneration")
    if observed is not None and observed != manifest["metadata"]["generation"]:
        return Kstatus.IN_PROGRESS
    for name, status in _ORDER:
        if name in check:
            holds = evaluate(check[name], manifest)
            assert isinstance(holds, bool), f"{name}: {holds!r} is no truth value"
            if holds:
                return status
    return Kstatus.IN_PROGRESS
