"""Programs import podtune.trial from images that do not have it, and their own from those that do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from e2e.devcluster import Cluster
from e2e.experiments import EXAMPLES_IMAGE, experiment, program
from e2e.kubernetes import Kubernetes
from e2e.trials import EXPERIMENTS, TRIALS
from podtune.client import Client, Experiment

PROGRAM = """
from podtune import trial
for this in trial.stream():
    for epoch in (1, 2):
        value = this.params()["base"] - 1 / (epoch + 1)
        this.report({"epoch": epoch, "value": value, "found": trial.__file__})
"""
COPY, INSTALLED = "/podtune/site-packages", "/opt/podtune/lib"
WITHOUT = {"PYTHONPATH": COPY}
"""The image has podtune where its own PYTHONPATH leads, and so, with this one, not at all."""


def train(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A function that is tuned in an image without podtune."""
    from podtune import trial

    for epoch in (1, 2):
        yield {"epoch": epoch, "value": config["base"] - 1 / (epoch + 1), "found": trial.__file__}


def test_an_image_needs_no_podtune_and_one_that_has_it_keeps_its_own(cluster: Cluster, namespace: Kubernetes) -> None:
    copied = program("counter", WITHOUT, command=["python3", "-c", PROGRAM])
    shell = f"PYTHONPATH={COPY}:$PYTHONPATH exec python3 -c '{PROGRAM}'"
    pods = experiment("warm", copied)["spec"]["trialTemplate"]
    namespace.apply(experiment("copied", copied))
    namespace.apply(experiment("installed", program("counter", command=["sh", "-c", shell])))
    namespace.apply(experiment("warm", copied, maxConcurrentTrials=1, trialTemplate={**pods, "reuse": True}))
    made = Experiment.from_function(
        train,
        name="function",
        metric="value",
        mode="max",
        parameters={"base": {"float": {"min": 0.5, "max": 1.0}}},
        image=EXAMPLES_IMAGE,
        max_trials=2,
        spec={"trialTemplate": {"spec": {"containers": [_leave_out_command(program("counter", {"PYTHONPATH": "/"}))]}}},
    )
    Client(kubeconfig=cluster.kubeconfig, namespace=namespace.namespace).create(made)

    places = {"copied": COPY, "installed": INSTALLED, "warm": COPY, "function": COPY}
    for name, place in places.items():
        namespace.wait_for_condition(EXPERIMENTS, name, "Complete", deadline=180)
        trials = namespace.list(TRIALS, f"podtune.dev/experiment={name}")
        assert len(trials) == 2
        for trial in trials:
            status = trial["status"]
            assert (status["state"], status["iteration"], status["attempt"]) == ("TERMINATED", 2, 1)
            assert status["lastResult"]["found"] == f"{place}/podtune/trial/__init__.py"


def _leave_out_command(container: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in container.items() if field != "command"}
