"""A package of one's own in the operator's image, as the page about that says: its stopper ends an experiment."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.fenced_blocks import DOCS, find_blocks
from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.install import OPERATOR_PODS, ROOT, Image, build, install
from e2e.kubernetes import Kubernetes, Object, condition, eventually
from e2e.trials import EXPERIMENTS, TRIALS

EXTENDED = Image("extended")
NAME = "stagnation"
FEW = 2
"""Trials without progress after which it ends an experiment."""


def pack() -> bytes:
    """The page's stopper of the experiment, as pip would install it."""
    [source] = [
        block.text for block in find_blocks(DOCS / "how-to/add-a-stopper.md") if "class Stagnation" in block.text
    ]
    files = {
        f"{NAME}.py": source,
        "mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        "mine-1.0.dist-info/entry_points.txt": f"[podtune.experiment_stoppers]\n{NAME} = {NAME}:Stagnation\n",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text.encode()), 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def write_dockerfile(directory: Path) -> Path:
    """The operator's image and one layer more: no registry has the one, and no index the package."""
    written = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    unpack = f"mkdir /packages && echo {base64.b64encode(pack()).decode()} | base64 -d | tar -x -C /packages"
    stages = (
        f"\nFROM build AS packages\nRUN {unpack}\n",
        "\nFROM operator AS extended\nCOPY --from=packages /packages /opt/podtune/lib\n",
    )
    path = directory / "Dockerfile"
    path.write_text(written + "".join(stages), encoding="utf-8")
    return path


@pytest.fixture
def extended(cluster: Cluster, tmp_path: Path) -> Iterator[None]:
    """The operator runs with that package."""
    versions = build(cluster)
    key = cluster.build_image(write_dockerfile(tmp_path), EXTENDED.target, EXTENDED.tag, ROOT)
    cluster.load_image(EXTENDED.tag)
    try:
        install(cluster, {**versions, EXTENDED.target: key}, operator=EXTENDED)
        yield
    finally:
        install(cluster, versions)


def stop_by(name: str) -> Object:
    return {"experiment": [{"plugin": {"name": name, "settings": {"trials": FEW}}}]}


def list_ended(namespace: Kubernetes) -> list[tuple[int, float]]:
    """Place in the order of observations, and value, of trials that have ended."""
    statuses = [trial.get("status", {}) for trial in namespace.list(TRIALS)]
    return sorted((each["observationSeq"], float(each["bestValue"])) for each in statuses if "completionTime" in each)


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.usefixtures("extended")
def test_a_stopper_in_the_operators_image_ends_an_experiment_also_after_a_restart(
    namespace: Kubernetes, operator: Kubernetes
) -> None:
    search = {"algorithm": "random", "maxTrials": 40, "seed": 1}
    namespace.apply(experiment("enough", counter(), search=search, maxConcurrentTrials=1, stop=stop_by(NAME)))
    eventually(lambda: list_ended(namespace), what="a trial has ended")
    [pod] = operator.list("pods", OPERATOR_PODS)
    operator.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    namespace.wait_for_condition(EXPERIMENTS, "enough", "Complete")
    values = [value for _, value in list_ended(namespace)]
    ends = [at for at in range(FEW, len(values)) if max(values[at - FEW + 1 : at + 1]) <= max(values[: at - FEW + 1])]
    assert ends[0] == len(values) - 1, f"it ends with the first {FEW} trials in a row without progress: {values}"
    said = condition(namespace.get(EXPERIMENTS, "enough"), "SuccessCriteriaMet")["message"]
    assert said == (
        f"stopped: {FEW} trials in a row have not improved on {max(values):g}, as stop.experiment[0].plugin asks"
    )

    namespace.apply(experiment("unknown", counter(), stop=stop_by("another")))
    stalled = eventually(
        lambda: condition(namespace.get(EXPERIMENTS, "unknown"), "Stalled"),
        lambda found: found.get("status") == "True",
    )
    assert f"'another' is not installed in the operator's image (installed: {NAME})" in stalled["message"]
