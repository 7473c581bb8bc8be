"""Runs a packed function in a trial's pod: its source travels in the ConfigMap, beside the function's.

The image therefore needs `podtune.trial` and nothing else of Podtune, whatever version it has; one without it gets a
copy from the agent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

try:
    from podtune import trial
except ImportError:
    sys.path.append(str(Path(os.environ.get("PODTUNE_DIR", "/podtune")) / "site-packages"))
    from podtune import trial

FUNCTION_MODULE = "podtune_function"
"""The module that holds the function."""
FUNCTION_NAME = "podtune_entry"
"""What the function is called there, besides its own name."""


def run_function(function: Callable[[dict[str, Any]], object]) -> None:
    """Calls the function with the trial's parameters, and reports what it returns, or each result that it yields.

    Raises:
        TypeError: It returns or yields something else than a dict of metrics.
    """
    returned = function(trial.params())
    if not isinstance(returned, Generator):
        if returned is not None:
            _report(returned, "returned")
        return
    for result in returned:
        _report(result, "yielded")
        if trial.should_stop():
            returned.close()  # so that its finally blocks run while there is time
            break


def _report(result: object, done: str) -> None:
    if not isinstance(result, Mapping):
        example = 'a dict of metrics, such as {"accuracy": 0.93}'
        raise TypeError(f"the function {done} {result!r:.80}, a {type(result).__name__}; make it {example}")
    trial.report(result)


def main() -> int:
    """Imports the function and runs it; returns the exit code."""
    try:
        module = __import__(FUNCTION_MODULE)
    except ModuleNotFoundError as error:
        print(
            f"error: the image has no module {error.name!r}, which the function imports; install it in the image, or "
            "send a module of your own along with modules=[…]",
            file=sys.stderr,
        )
        return 1
    run_function(getattr(module, FUNCTION_NAME))
    return 0


if __name__ == "__main__":
    sys.exit(main())
