"""Histories of trials, and what Ray Tune's HyperBandForBOHB decides on them; they are as those of `hyperband`."""

from __future__ import annotations

from typing import Any

from tests.golden.replays.hyperband import HISTORIES, settings, with_rays_answers


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers, and how far the brackets are in the end."""
    from ray.tune.schedulers.hb_bohb import HyperBandForBOHB

    return [with_rays_answers(HyperBandForBOHB, settings("bohb", seed)) for seed in range(HISTORIES)]
