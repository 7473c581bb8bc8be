"""Functions and globals as a user's file has them."""

import json
import math as mathematics
import xml.etree.ElementTree
from math import pi as PI
from typing import Any

from tests.unit.client.packing import travelling_helpers
from tests.unit.client.packing.travelling_helpers import scale

FACTOR = 2


def train(config: dict[str, Any], epochs: int = mathematics.ceil(1.5)) -> "UnknownType":  # type: ignore[name-defined]  # noqa: F821
    """Uses modules and names from modules."""
    element = xml.etree.ElementTree.fromstring("<a/>")
    area = PI * config["radius"] ** 2
    return {"area": area, "epochs": epochs, "tag": element.tag, "text": json.dumps(config)}


def train_with_constant(config: dict[str, Any]) -> dict[str, Any]:
    return {"value": config["x"] * FACTOR}


def train_with_helper(config: dict[str, Any]) -> dict[str, Any]:
    return {"value": scale(config["x"]), "other": travelling_helpers.scale(1)}


def train_with_typo(config: dict[str, Any]) -> dict[str, Any]:
    return {"value": confg["x"]}  # type: ignore[name-defined]  # noqa: F821


if FACTOR == 2:

    def train_indented(config: dict[str, Any]) -> dict[str, Any]:
        text = """first
second"""
        return {"lines": next(part for part in text.split("\n") if part == config["wanted"])}
