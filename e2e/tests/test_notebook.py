"""Functions of a notebook, tuned from it: the notebook of the examples, executed from top to bottom."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from e2e.devcluster import Cluster
from e2e.kubernetes import Kubernetes, condition, eventually

NOTEBOOK = Path(__file__).parents[2] / "examples/notebook/tune_a_function.ipynb"
EXECUTION_TIME = 600
"""Seconds for what takes some twenty on an idle machine."""


def write_kubeconfig(cluster: Cluster, namespace: Kubernetes, directory: Path) -> Path:
    """One whose context is in the namespace."""
    kubeconfig = yaml.safe_load(namespace.kubectl("config", "view", "--raw"))
    for entry in kubeconfig["contexts"]:
        entry["context"]["namespace"] = namespace.namespace
    path = directory / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    return path


def execute(notebook: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Executes a notebook as a reader does, and returns it with what its cells have printed."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "jupyter-execute"), "--inplace", str(notebook)],
        env=environment,
        cwd=notebook.parent,
        capture_output=True,
        text=True,
        timeout=EXECUTION_TIME,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    executed: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return executed


def test_a_function_of_a_notebook_is_tuned_to_the_end(cluster: Cluster, namespace: Kubernetes, tmp_path: Path) -> None:
    places = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    kubeconfig = write_kubeconfig(cluster, namespace, tmp_path)
    copy = Path(shutil.copy(NOTEBOOK, tmp_path))
    executed = execute(copy, {**os.environ, **places, "KUBECONFIG": str(kubeconfig)})

    printed = "".join(
        "".join(output.get("text", "")) for cell in executed["cells"] for output in cell.get("outputs", ())
    )
    assert "from-function-0 TERMINATED" in printed
    for name in ("from-function", "tuner"):
        experiment = namespace.get("experiments.podtune.dev", name)
        assert condition(experiment, "Complete")["status"] == "True"
        assert experiment["status"]["trials"]["terminated"] == 3
        assert float(experiment["status"]["best"]["value"]) > 0.5
    config_maps = [item for item in namespace.list("configmaps") if "-function-" in item["metadata"]["name"]]
    assert {item["metadata"]["ownerReferences"][0]["name"] for item in config_maps} == {"from-function", "tuner"}
    namespace.kubectl("delete", "experiments.podtune.dev", "from-function", "--wait=false")
    eventually(
        lambda: [item["metadata"]["name"] for item in namespace.list("configmaps")],
        lambda names: not any(name.startswith("from-function-") for name in names),
        what="the function goes with its Experiment",
    )
