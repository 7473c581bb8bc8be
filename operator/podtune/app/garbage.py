"""The collector of cycles, kept from looking at the same things again and again.

While it looks, nothing else happens. By default it looks at all that there is whenever that has grown by a quarter: of
10,000 trials, that is a third of a second. Nearly all of it is there to stay, and what goes is freed without it, as
soon as nobody refers to it. So what has been looked at once is passed over from then on, and the rest is looked at
while there is still little of it. What becomes a cycle later is found by a look at everything, once in a great while.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

THRESHOLDS = (2_000, 5, 2)
"""New containers until the youngest are looked at, how often these until the next, and how often these until the rest:
some 36,000 at a time, which takes about ten milliseconds."""
LOOKS = 300
"""After how many partial collections a full one follows: after some hundred thousand trials."""
OLDEST = 2


def collect_in_small_portions() -> None:
    """Has the collector work in small portions; what was imported so far it does not look at any more."""
    looks = 0

    def set_aside(phase: str, info: Mapping[str, Any]) -> None:
        nonlocal looks
        if phase != "stop" or info["generation"] != OLDEST:
            return
        looks += 1
        if looks % LOOKS == 0:
            gc.unfreeze()
        else:
            gc.freeze()

    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(set_aside)
