"""Runs the script that is its argument, but breaks off the first attempt of the first trial after its second result."""

import itertools
import os
import runpy
import sys
from typing import Any

from podtune import trial

LAST = 2
report = trial.report
numbers = itertools.count(1)


def report_and_break(*args: Any, **options: Any) -> None:
    report(*args, **options)
    if next(numbers) == LAST:
        os._exit(1)


if (os.environ["PODTUNE_TRIAL_INDEX"], os.environ["PODTUNE_ATTEMPT"]) == ("0", "1"):
    trial.report = report_and_break
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
