"""The commands of the documentation, run as a reader would type them, in the order of the pages.

Which block belongs to which session stands above it; see `docs/fenced_blocks.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import DOCS, ROOT, Block, find_blocks, find_session, is_as_shown
from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, counter, experiment, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.tests.conftest import make_namespace
from e2e.tests.typed_commands import make_environment, run_typed

ENOUGH_TRIALS = 8
"""Of the README's experiment, for what pages say of it, which is about digits-7; `make demo` runs all."""

Session = Callable[[str], None]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[Kubernetes]:
    """A namespace without the bucket's credentials, which a page has to bring."""
    kubernetes = make_namespace(cluster, secret=False)
    yield kubernetes
    cluster.kubectl("delete", "namespace", kubernetes.namespace, "--wait=false", "--ignore-not-found")


@pytest.fixture
def run_session(cluster: Cluster, namespace: Kubernetes, tmp_path: Path) -> Iterator[Session]:
    """Runs a session's commands in a directory of its own, on a context whose namespace is the test's."""
    environment = make_environment(cluster, namespace, tmp_path)
    watches: list[subprocess.Popen[bytes]] = []

    def run(session: str) -> None:
        for block in find_session(session):
            printed = ""
            for command in block.commands():
                if command.endswith("--watch"):
                    watches.append(_watch(command, environment, tmp_path))
                else:
                    printed += run_typed(command, environment, tmp_path, place=block.place)
            _compare(block, printed)

    yield run
    for watch in watches:
        watch.terminate()
        printed, _ = watch.communicate(timeout=60)
        assert printed, f"{watch.args!r} printed nothing"


def _compare(block: Block, printed: str) -> None:
    """Holds what a block has printed to what its page shows."""
    shown = block.output
    assert not shown or is_as_shown(shown, printed), f"{block.place} shows\n{shown}\nand it printed\n{printed}"


def _watch(command: str, environment: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", "-c", f"exec {command}"], env=environment, cwd=directory, stdout=subprocess.PIPE)


def test_the_tutorial_works_command_by_command(namespace: Kubernetes, run_session: Session, tmp_path: Path) -> None:
    blocks = [block for block in find_blocks(DOCS / "tutorial" / "first-experiment.md") if block.language == "yaml"]
    program, manifest = (yaml.safe_load(block.text) for block in blocks)
    manifest["spec"]["trialTemplate"]["spec"]["containers"][0]["image"] = EXAMPLES_IMAGE
    _run_as_somebody(manifest)
    program["data"]["train.py"] = program["data"]["train.py"].replace("time.sleep(1)", "time.sleep(0.2)")
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(program), encoding="utf-8")
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    run_session("tutorial")

    eventually(lambda: not namespace.list("pods"), what="trials and pods go with their Experiment")


def test_what_is_said_of_a_finished_experiment_works(namespace: Kubernetes, run_session: Session) -> None:
    run_session("secret")
    manifests = (yaml.safe_load(block.text) for block in find_blocks(ROOT / "README.md") if block.language == "yaml")
    manifest = next(manifest for manifest in manifests if manifest["metadata"]["name"] == "digits")
    manifest["spec"]["search"]["maxTrials"] = ENOUGH_TRIALS
    namespace.apply(manifest)

    run_session("digits")

    status = namespace.get("experiments.podtune.dev", "digits")["status"]
    assert status["state"] == "Complete"
    assert float(status["best"]["value"]) > 0.9


@pytest.mark.long
def test_the_script_of_the_readme_is_tuned_on_a_cluster(
    namespace: Kubernetes, run_session: Session, tmp_path: Path
) -> None:
    blocks = list(find_blocks(ROOT / "README.md"))
    script = next(block.text for block in blocks if block.language == "python")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    manifest, _, part = (yaml.safe_load(block.text) for block in blocks if block.language == "yaml")
    pod, added = (document["trialTemplate"]["spec"] for document in (manifest["spec"], part))
    (container,), (more,) = pod["containers"], added["containers"]
    pod |= added | {"containers": [container | more | {"image": EXAMPLES_IMAGE}]}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    run_session("script")

    status = namespace.get("experiments.podtune.dev", "first")["status"]
    assert (status["state"], status["trials"]["terminated"]) == ("Complete", 20)


def test_what_is_said_of_pauses_works(cluster: Cluster, namespace: Kubernetes, run_session: Session) -> None:
    run_session("secret")
    slow = counter({"EPOCHS": "100000", "EPOCH_SECONDS": "1"}, resources={"requests": {"cpu": "10m", "memory": "32Mi"}})
    spec: dict[str, Any] = {"search": {"algorithm": "random", "maxTrials": 8, "seed": 1}, "maxConcurrentTrials": 8}
    namespace.apply(experiment("digits", slow, checkpoints={"store": store(cluster)}, **spec))
    eventually(
        lambda: namespace.get("trials.podtune.dev", "digits-7")["status"],
        lambda status: status.get("state") == "RUNNING",
        what="digits-7 runs",
    )

    run_session("pauses")

    states = {trial["status"]["state"] for trial in namespace.list("trials.podtune.dev")}
    assert states <= {"PAUSED", "PENDING"}


def _run_as_somebody(manifest: dict[str, Any]) -> None:
    """Gives the trial's container a user: the image of the tests names one, the page's image has root."""
    manifest["spec"]["trialTemplate"]["spec"]["securityContext"] = {"runAsNonRoot": True, "runAsUser": 10001}
