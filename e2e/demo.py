"""`make demo`: from nothing to a finished experiment on a real Kubernetes, with a word on where the time went.

python -m e2e.demo
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from e2e import dashboard, install, prepare
from e2e.devcluster import Cluster
from e2e.devcluster.errors import ClusterError
from e2e.kubernetes import Kubernetes
from podtune.cli.output import find_width
from podtune.cli.views.columns import align_labels
from podtune.cli.views.numbers import format_number

NAMESPACE = "demo"
EXPERIMENT = "digits"
MANIFEST = install.ROOT / "examples" / "digits" / "experiment.yaml"
WANTED = 0.97
DEADLINE = 600
OTHERWISE_COLUMNS = 100


@dataclass
class Stopwatch:
    """Says what is done, and how long each step took."""

    now: Callable[[], float]
    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"==> {name}", flush=True)
        begun = self.now()
        yield
        self.steps.append((name, self.now() - begun))

    def report(self) -> None:
        print("\nWhere the time went:")
        for name, seconds in [*self.steps, ("in all", sum(seconds for _, seconds in self.steps))]:
            print(f"  {seconds:6.1f} s  {name}")


def make_namespace(kubernetes: Kubernetes, cluster: Cluster) -> None:
    """A namespace that was not there before, with the bucket's credentials."""
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    keys = {"accessKeyID": cluster.s3.access_key, "secretAccessKey": cluster.s3.secret_key}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
    kubernetes.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "podtune-s3"}, "data": data})


def run_experiment(kubernetes: Kubernetes, cluster: Cluster) -> None:
    """Applies the example's manifest and watches it to its end."""
    print(f"$ kubectl apply -f {MANIFEST.relative_to(install.ROOT)}")
    print(kubernetes.kubectl("apply", "-f", str(MANIFEST)), end="")
    print(f"$ kubectl podtune watch {EXPERIMENT}", flush=True)
    watching = [str(install.ROOT / ".venv" / "bin" / "podtune"), "watch", EXPERIMENT, "--namespace", NAMESPACE]
    with cluster.popen(watching) as process:
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired as late:
            process.kill()
            raise ClusterError(f"the experiment did not end within {DEADLINE} s") from late
    kubernetes.wait_for_condition("experiments.podtune.dev", EXPERIMENT, "Complete", deadline=30)


def tell_result(kubernetes: Kubernetes, cluster: Cluster) -> bool:
    """Says what came out, looks for the checkpoint in the bucket, and whether the accuracy is what it should be."""
    status = kubernetes.get("experiments.podtune.dev", EXPERIMENT)["status"]
    best, trials = status["best"], status["trials"]
    key = best["checkpoint"].removeprefix(f"s3://{cluster.s3.bucket}/")
    manifest = json.loads(cluster.s3_client.get(f"{key}/manifest.json"))
    size = sum(file["size"] for file in manifest["files"])
    facts = {
        "Best accuracy": f"{float(best['value']):.4f} by {best['trial']}",
        "Parameters": ", ".join(f"{name} {format_number(value)}" for name, value in best["parameters"].items()),
        "Trials": f"{trials['total']}, {trials['stoppedEarly']} of them stopped early by ASHA",
        "Checkpoint": f"{len(manifest['files'])} files of {size:,} bytes",
    }
    print("", *align_labels(facts, find_width()), sep="\n")
    print(f"  {best['checkpoint']}")  # in one piece, so that it can be copied
    if float(best["value"]) < WANTED:
        print(f"error: the best accuracy is below {WANTED}", file=sys.stderr)
        return False
    return True


def say_where_to_look(address: str) -> None:
    print(f"\nThe dashboard: {address}")
    say("It needs no login: whoever can open it on your machine sees every experiment.")
    print()


def say(text: str) -> None:
    """Prints a line, or several where the terminal is narrow."""
    print(textwrap.fill(text, find_width() or OTHERWISE_COLUMNS))


def wait_for_who_looks(address: str) -> None:
    """Keeps the dashboard's address as long as somebody is there to look at it."""
    if sys.stdin.isatty():
        with suppress(EOFError, KeyboardInterrupt):
            input(f"\nThe dashboard stays at {address} until you press Enter. ")


def say_goodbye() -> None:
    print()
    say("The cluster stays up. Its GPUs are simulated: no devices are behind them.")
    print("""  make shell       opens a shell there; try, for instance,
                     kubectl podtune trials digits -n demo
  make dashboard   opens the dashboard again
  make down        removes the cluster""")


def main() -> int:
    """Runs the demo; returns the exit code."""
    watch = Stopwatch(time.monotonic)
    try:
        with watch.step("start Kubernetes and an S3 server"):
            prepare.prepare()
            if subprocess.run([sys.executable, "-m", "e2e.devcluster", "up"], check=False).returncode != 0:
                return 1
        cluster = Cluster.connect()
        kubernetes = Kubernetes(cluster, NAMESPACE)
        with watch.step("build the images"):
            versions = install.build(cluster)
        with watch.step("install Podtune with Helm"):
            install.install(cluster, versions, dashboard.OPEN)
        with watch.step("make a namespace with the bucket's credentials"):
            make_namespace(kubernetes, cluster)
        with dashboard.open_dashboard(cluster) as address:
            say_where_to_look(address)
            with watch.step("run the experiment"):
                run_experiment(kubernetes, cluster)
            good = tell_result(kubernetes, cluster)
            watch.report()
            say_goodbye()
            wait_for_who_looks(address)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
