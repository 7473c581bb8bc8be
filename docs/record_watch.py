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
DONE = 0.5
"""Share of the trials that are done when the picture is taken."""
RUNNING = 3


def main(namespace: str, experiment: str, path: str) -> None:
    """Watches until the middle of the experiment, and writes the picture."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for state in follow(HttpApi(connect(None, None, namespace)), namespace, experiment):
        finished = sum(trial.state in ("TERMINATED", "ERROR") for trial in state.trials.values())
        if len(state.running) >= RUNNING and finished >= DONE * 24 and all(t.status.last_result for t in state.running):
            console.print(f"$ kubectl podtune watch {experiment}")
            console.print(watch_view.render(state, datetime.now(UTC), WIDTH))
            console.save_svg(path, title="")
            return
    sys.exit(f"{experiment} ended before it was half done")


if __name__ == "__main__":
    main(*sys.argv[1:])
