"""Writes the objects that the tests in Argo CD's layout are about, with the statuses that the operator writes today.

python -m tests.gitops.write_testdata
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.gitops import states
from tests.gitops.argo_cd import CUSTOMIZATIONS, ArgoCustomization, read_yaml

STATES: Mapping[str, Mapping[str, Any]] = {"Experiment": states.EXPERIMENTS, "Trial": states.TRIALS}
"""By kind and name of the file: how an object gets there."""


def build_testdata() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each file of the tests of health and actions, and the object in it."""
    for kind, made in STATES.items():
        objects = {name: make() for name, make in made.items()}
        for name, manifest in objects.items():
            yield CUSTOMIZATIONS / kind / "testdata" / f"{name}.yaml", manifest
        for test in read_yaml(CUSTOMIZATIONS / kind / "actions" / "action_test.yaml")["actionTests"]:
            changed = ArgoCustomization(kind).act(objects[Path(test["inputPath"]).stem], test["action"])
            yield CUSTOMIZATIONS / kind / "actions" / test["expectedOutputPath"], changed


def main() -> None:
    """Writes them; look at the outputs of actions before you commit them."""
    for path, manifest in build_testdata():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(manifest, sort_keys=False, width=110, allow_unicode=True), encoding="utf-8")


if __name__ == "__main__":
    main()
