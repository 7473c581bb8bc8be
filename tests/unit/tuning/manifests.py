"""Experiments to test with, and the search spaces of the package."""

from __future__ import annotations

from typing import Any

from podtune.api.resources.experiment import ExperimentSpec
from podtune.testing.spaces import EVERY_KIND, every_kind, parameters, search_spaces

__all__ = ["EVERY_KIND", "every_kind", "experiment", "parameters", "search_spaces"]


def experiment(**fields: Any) -> ExperimentSpec:
    return ExperimentSpec.model_validate(
        {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": list(EVERY_KIND),
            "search": {"algorithm": "random", "maxTrials": 24, "seed": 7},
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "example"}]}},
            **fields,
        }
    )
