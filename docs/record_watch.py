"""Records the picture in the README: what `kubectl podtune watch` shows in the middle of a real experiment.

python -m e2e.devcluster exec -- python docs/record_watch.py demo digits docs/pictures/watch.svg
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.views import watch_view
from podtune.cli.views.progress import follow

WIDTH = 100
RUNNING = 3
"""So many trials train at least when the picture is taken."""


def main(namespace: str, experiment: str, path: str) -> None:
    """Watches the experiment to its end, and writes the picture of the moment whose curves show most."""
    most = 0
    for state in follow(HttpApi(connect(None, None, namespace)), namespace, experiment):
        points = sum(trial.status.curve.count for trial in state.running if trial.status.curve is not None)
        counted = state.experiment.status.trials.running if state.experiment else 0
        if len(state.running) < RUNNING or counted != len(state.running) or points <= most:
            continue  # the two watches may be a moment apart
        most = points
        console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
        console.print(f"$ kubectl podtune watch {experiment}")
        console.print(watch_view.render(state, datetime.now(UTC), WIDTH))
        console.save_svg(path, title="")
    if not most:
        sys.exit(f"{experiment} ended before {RUNNING} trials had learning curves at the same time")


if __name__ == "__main__":
    main(*sys.argv[1:])
