"""What TensorBoard's plugin HParams reads: which parameters and metrics there are, and how each trial began and ended.

The messages of https://github.com/tensorflow/tensorboard/blob/master/tensorboard/plugins/hparams/plugin_data.proto and
api.proto, as metadata of a summary without a value of its own. The experiment is told in the folder above those of its
trials, which are sessions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from podtune.storage.event_files.events import encode_summary
from podtune.storage.event_files.protobuf import (
    encode_double,
    encode_given_double,
    encode_given_int,
    encode_int,
    encode_message,
    encode_text,
)

_PLUGIN = "hparams"
_EXPERIMENT = ("_hparams_/experiment", 2)
_SESSION_START = ("_hparams_/session_start_info", 3)
_SESSION_END = ("_hparams_/session_end_info", 4)
"""A summary's tag, and the field of the plugin's data that goes with it."""


class SessionStatus(IntEnum):
    """How a trial has ended, in the plugin's words."""

    SUCCESS = 1
    FAILURE = 2
    RUNNING = 3


class HyperparameterType(IntEnum):
    """What the values of a parameter are, in the plugin's words."""

    STRING = 1
    BOOL = 2
    NUMBER = 3


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """A parameter, as the plugin lists it.

    Attributes:
        choices: All its values, where they are few and known.
        interval: Its bounds, where it is a number with bounds.
    """

    name: str
    type: HyperparameterType
    choices: Sequence[object] = ()
    interval: tuple[float, float] | None = None


def find_type(values: Sequence[object]) -> HyperparameterType:
    """What all values are; a text where they differ, as the plugin shows numbers and texts by different means."""
    if values and all(isinstance(value, bool) for value in values):
        return HyperparameterType.BOOL
    if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return HyperparameterType.NUMBER
    return HyperparameterType.STRING


def encode_experiment_summary(time: float, parameters: Iterable[Hyperparameter], metrics: Iterable[str]) -> bytes:
    """The record that tells of an experiment: its parameters, and the metrics that its table has columns for."""
    listed = [encode_message(4, _encode_parameter(parameter)) for parameter in parameters]
    listed += [encode_message(5, encode_message(1, encode_text(2, metric))) for metric in metrics]
    return _encode(_EXPERIMENT, time, encode_double(3, time) + b"".join(listed))


def encode_session_start(time: float, parameters: Mapping[str, object], trial: str, url: str = "") -> bytes:
    """The record that tells what a trial runs with.

    Args:
        time: When it has begun.
        parameters: Its configuration; lists and maps are shown as JSON.
        trial: Its name.
        url: A page that shows it; empty for none.
    """
    entries = [
        encode_message(1, encode_text(1, name) + encode_message(2, _encode_value(value)))
        for name, value in parameters.items()
    ]
    told = b"".join(entries) + encode_text(3, url) + encode_text(4, trial) + encode_double(5, time)
    return _encode(_SESSION_START, time, told)


def encode_session_end(time: float, status: SessionStatus) -> bytes:
    """The record that tells how a trial has ended."""
    return _encode(_SESSION_END, time, encode_int(1, status) + encode_double(2, time))


def _encode(kind: tuple[str, int], time: float, content: bytes) -> bytes:
    tag, field = kind
    data = encode_text(1, _PLUGIN) + encode_message(2, encode_message(field, content))
    value = encode_text(1, tag) + encode_message(9, encode_message(1, data))
    return encode_summary(time, 0, encode_message(1, value))


def _encode_parameter(parameter: Hyperparameter) -> bytes:
    encoded = encode_text(1, parameter.name) + encode_int(4, parameter.type)
    if parameter.choices:
        values = b"".join(encode_message(1, _encode_value(value)) for value in parameter.choices)
        return encoded + encode_message(5, values)
    if parameter.interval is not None:
        low, high = parameter.interval
        return encoded + encode_message(6, encode_double(1, low) + encode_double(2, high))
    return encoded


def _encode_value(value: object) -> bytes:
    """A `google.protobuf.Value`: number, text or boolean."""
    match value:
        case bool():
            return encode_given_int(4, int(value))
        case int() | float():
            return encode_given_double(2, float(value))
        case str():
            return encode_message(3, value.encode("utf-8", "replace"))
        case _:
            return encode_message(3, json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
