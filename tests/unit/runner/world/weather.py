"""What Hypothesis draws for the runner's tests: weather of all kinds, and seeds for all else that is left to chance."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from podtune.simulation.faults import ScheduledFault
from tests.unit.runner.world.simulation import Weather

Faults = Mapping[int, tuple[ScheduledFault, ...]]
"""By the number of a trial: what strikes its attempts, first to last."""
seeds = st.integers(0, 2**32)
_shares = st.sampled_from([0.0, 0.1, 0.3])


def any_weather(*, lives: float, restarts: int = 4) -> st.SearchStrategy[Weather]:
    """Weather in which everything that can go wrong does so now and then, or never.

    Args:
        lives: Longest life of an operator before it is killed, in seconds.
        restarts: How often one is killed at the most.
    """
    return st.builds(
        Weather,
        latency=st.sampled_from([0.0, 0.1, 1.0]),
        watch_delay=st.sampled_from([0.0, 0.2, 4.0]),
        fails=_shares,
        loses_reply=_shares,
        repeats=_shares,
        loses_report=_shares,
        restarts=st.lists(st.floats(0.0, lives), max_size=restarts).map(tuple),
        downtime=st.sampled_from([0.1, 3.0]),
    )
