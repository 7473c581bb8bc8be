"""The operator, with its own stack looked at every two milliseconds of processor time.

python -m e2e.bench.fake_cluster.operator_with_profile FILE

FILE tells how many seconds which package was at work. Time belongs to the innermost frame that is neither of the
standard library nor of an extension module: what `json` or `ssl` does, it does for whom it was called by.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sysconfig
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import FrameType

import podtune
from e2e.bench.fake_cluster import recording_operator

SAMPLE_SECONDS = 0.002
WRITE_SECONDS = 0.2
EVENT_LOOP = "event loop (asyncio, uvloop)"
COLLECTION = "garbage collection"
LOOP_PACKAGES = ("asyncio", "uvloop")
OWN = Path(podtune.__file__).parent
INSTALLED = Path(sysconfig.get_path("purelib"))
STANDARD = Path(sysconfig.get_path("stdlib"))


class Profile:
    """Seconds of processor time by package.

    A signal that comes while an extension module is at work is only taken when it returns; so what counts is the time
    since the last sample, not the number of samples.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._counted = 0.0
        self._collection_begun = 0.0

    def start(self) -> None:
        """Takes a sample whenever the process has used so much processor time, in whichever of its threads."""
        self._counted = time.process_time()
        gc.callbacks.append(self._collecting)
        signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def _take(self, signum: int, frame: FrameType | None) -> None:
        now = time.process_time()
        self.seconds[owner(frame)] += now - self._counted
        self._counted = now

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_begun = time.process_time()
            return
        taken = time.process_time() - self._collection_begun
        self.seconds[COLLECTION] += taken
        self._counted += taken

    async def write(self, file: Path) -> None:
        """Has the file tell what was found, until it is cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            new = file.with_suffix(".new")
            new.write_text(json.dumps(self.seconds), encoding="ascii")
            new.replace(file)


def owner(frame: FrameType | None) -> str:
    """The package on whose behalf a stack's innermost frame is at work."""
    while frame is not None:
        package = package_of(frame.f_code.co_filename)
        if package is not None:
            return package
        frame = frame.f_back
    return EVENT_LOOP


@cache
def package_of(file: str) -> str | None:
    """Of a source file: a package of Podtune, an installed one, or the event loop; None for the standard library."""
    path = Path(file)
    if path.is_relative_to(OWN):
        return f"podtune.{path.relative_to(OWN).parts[0].removesuffix('.py')}"
    if path.is_relative_to(INSTALLED):
        package = path.relative_to(INSTALLED).parts[0].removesuffix(".py")
        return EVENT_LOOP if package in LOOP_PACKAGES else package
    if path.is_relative_to(STANDARD) and path.relative_to(STANDARD).parts[0] in LOOP_PACKAGES:
        return EVENT_LOOP
    return None


def main() -> None:
    """Runs the operator's own `main`, and looks at its stack from its imports on."""
    profile = Profile()
    profile.start()
    recording_operator.run(profile.write)


if __name__ == "__main__":
    main()
