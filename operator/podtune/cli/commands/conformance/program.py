"""What the checks run, all in the agent's image, which every trial needs anyway: nothing else has to be pulled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.kube.manifests import Manifest

EPOCHS = 8
RELAY_PORT = 9000
CHECK_PROGRAM = """\
import json, os, sys, tempfile, time
from pathlib import Path
from podtune import trial

epochs = int(os.environ["EPOCHS"])
holds = [int(epoch) for epoch in os.environ.get("HOLD_AT", "").split()]
released_by_request = "RELEASED_BY_REQUEST" in os.environ
first = os.environ.get("PODTUNE_ATTEMPT") == "1"
seconds = float(os.environ.get("EPOCH_SECONDS", "0.3"))
trial.params()
restored = trial.restored_checkpoint()
state = json.loads((restored / "state.json").read_text()) if restored else {"epoch": 0, "value": 0.0}
start = state["epoch"]
for epoch in range(start + 1, epochs + 1):
    time.sleep(seconds)
    if first and epoch in holds:
        while not (released_by_request and trial.should_checkpoint()):
            if trial.should_stop():
                sys.exit()
            time.sleep(0.1)
        if os.environ.get("THEN") == "crash":
            sys.exit("this program was to crash")
    state = {"epoch": epoch, "value": state["value"] / 2 + epoch}
    with tempfile.TemporaryDirectory(dir=os.environ["PODTUNE_DIR"]) as directory:
        (Path(directory) / "state.json").write_text(json.dumps(state))
        # A request is passed on to the program only where the last epoch has no checkpoint yet.
        stored = not (first and released_by_request and epoch + 1 in holds)
        trial.report({**state, "start": start}, checkpoint=directory if stored else None)
"""
"""Its value depends on all epochs, in their order: one that is lost, or trained twice, changes it."""
RELAY_PROGRAM = """\
import asyncio, sys

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def serve(reader, writer):
    try:
        there = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

async def main():
    async with await asyncio.start_server(serve, None, int(sys.argv[3])) as server:
        await server.serve_forever()

asyncio.run(main())
"""
"""Stands between agents and the store's server: where it is gone, the store is."""
_USER = 10001
"""Nobody in the image, and not the agent's own user, which no trial may be."""
_RESTRICTED: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_RESOURCES: Manifest = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}


@dataclass(frozen=True, slots=True)
class CheckImage:
    """The image that all pods of checks run: the agent's.

    Attributes:
        name: Its name.
        pull_policy: When a node pulls it.
        pull_secrets: Secrets of the checks' namespace to pull it with.
    """

    name: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: Sequence[str] = ()


def compute_value(epochs: int) -> float:
    """What the program reports after so many epochs that nothing has interrupted."""
    value = 0.0
    for epoch in range(1, epochs + 1):
        value = value / 2 + epoch
    return value


def make_check_experiment(
    name: str, image: CheckImage, environment: Mapping[str, str], store: Manifest | None
) -> Manifest:
    """An Experiment of one trial that runs the program.

    Args:
        name: Its name.
        image: What its trial runs.
        environment: What the program does, beside its number of epochs.
        store: Its `checkpoints.store`; None for none. What it stores goes with the Experiment.
    """
    variables = {"EPOCHS": str(EPOCHS), **environment}
    spec: Manifest = {
        "objective": {"metric": "value", "mode": "max"},
        "parameters": [{"name": "x", "float": {"min": 0, "max": 1}}],
        "search": {"algorithm": "random", "maxTrials": 1, "seed": 1},
        "maxConcurrentTrials": 1,
        "failures": {"maxFailures": 1, "backoff": {"initial": "1s", "max": "2s"}},
        "trialTemplate": {"spec": _make_pod_spec("trial", image, [CHECK_PROGRAM], variables)},
    }
    if store is not None:
        spec["checkpoints"] = {"store": store, "deletionPolicy": "Delete"}
    return {"apiVersion": API_VERSION, "kind": EXPERIMENT_KIND, "metadata": {"name": name}, "spec": spec}


def make_relay(name: str, image: CheckImage, host: str, port: int) -> Manifest:
    """The pod that passes on what comes to it to the store's server."""
    spec = _make_pod_spec("relay", image, [RELAY_PROGRAM, host, str(port), str(RELAY_PORT)], {})
    (container,) = spec["containers"]
    container["readinessProbe"] = {"tcpSocket": {"port": RELAY_PORT}, "periodSeconds": 1}
    spec |= {"automountServiceAccountToken": False, "enableServiceLinks": False, "restartPolicy": "Always"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def make_relay_service(name: str) -> Manifest:
    """What agents know the relay by: its pod may come and go."""
    spec = {"selector": {"app": name}, "ports": [{"name": "store", "port": RELAY_PORT, "targetPort": RELAY_PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _make_pod_spec(name: str, image: CheckImage, program: list[str], environment: Mapping[str, str]) -> Manifest:
    """A pod of one container that is admitted where Pod Security's level "restricted" is enforced."""
    container: Manifest = {
        "name": name,
        "image": image.name,
        "imagePullPolicy": image.pull_policy,
        "command": ["python3", "-c", *program],
        "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        "resources": _RESOURCES,
        "securityContext": _RESTRICTED,
    }
    return {
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": secret} for secret in image.pull_secrets],
        "containers": [container],
    }
