"""Trials whose limits, labels and names follow from their parameters."""

from __future__ import annotations

from e2e.experiments import Object, counter, experiment
from e2e.kubernetes import Kubernetes, condition, eventually
from e2e.trials import trial_status

EXPERIMENTS, TRIALS = "experiments.podtune.dev", "trials.podtune.dev"
SIZES = ("small", "medium", "huge")
LIMIT_RANGE: Object = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small-pods"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "defaultRequest": {"memory": "32Mi"}}]},
}


def sized(memory_of_huge: str) -> Object:
    """An experiment of three sizes, of which the largest gets so much memory."""
    expression = f"'64Mi' if size == 'small' else ('96Mi' if size == 'medium' else '{memory_of_huge}')"
    made = experiment(
        "sized",
        counter(),
        parameters=[
            {"name": "base", "float": {"min": 0.5, "max": 1.0}},
            {"name": "size", "choice": {"values": list(SIZES)}},
        ],
        search={
            "algorithm": "random",
            "maxTrials": 3,
            "seed": 1,
            "initial": [{"parameters": {"base": 0.6, "size": size}} for size in SIZES],
        },
        maxConcurrentTrials=3,
        podRetention="All",
        failures={"startDeadline": "10m"},
    )
    made["spec"]["trialTemplate"] |= {
        "limits": {"memory": {"expression": expression}},
        "displayName": "$(PODTUNE_PARAM_size) one",
        "metadata": {"labels": {"size": "$(PODTUNE_PARAM_size)"}},
    }
    return made


def test_a_refusal_of_its_own_limits_is_the_trials_and_the_template_mends_it(namespace: Kubernetes) -> None:
    namespace.apply(LIMIT_RANGE)
    namespace.apply(sized("4Gi"))
    eventually(
        lambda: [trial_status(namespace, name).get("state") for name in ("sized-0", "sized-1")],
        lambda states: states == ["TERMINATED", "TERMINATED"],
        what="two trials run to their ends while another one is refused",
    )
    refused = eventually(
        lambda: condition(namespace.get(TRIALS, "sized-2"), "PodAccepted"),
        lambda found: found.get("status") == "False",
        what="the trial says that its pod is refused",
    )
    assert "memory 4Gi" in refused["message"]
    assert "maximum memory usage per Container is 1Gi" in refused["message"]
    assert condition(namespace.get(EXPERIMENTS, "sized"), "Stalled").get("status") != "True"

    namespace.apply(sized("128Mi"))
    namespace.wait_for_condition(EXPERIMENTS, "sized", "Complete")
    (pod,) = namespace.list("pods", "podtune.dev/trial=sized-2")
    (program,) = [one for one in pod["spec"]["containers"] if one["name"] == "trial"]
    assert (program["resources"]["limits"]["memory"], program["resources"]["requests"]["memory"]) == ("128Mi", "128Mi")
    assert pod["metadata"]["labels"]["size"] == "huge"
    found = {trial["metadata"]["name"]: trial["spec"]["displayName"] for trial in namespace.list(TRIALS, "size=medium")}
    assert found == {"sized-1": "medium one"}
