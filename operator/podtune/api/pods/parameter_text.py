"""Texts of a trial template that hold parameters: `optimizer-$(PODTUNE_PARAM_optimizer)`.

The syntax is that of command and args, where Kubernetes expands it; in labels and names the operator does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from podtune.api.base import FieldError
from podtune.api.conditions import clip
from podtune.api.suggestions import did_you_mean
from podtune.trial.layout import ENV_PARAMETER_PREFIX

MAX_LABEL_VALUE = 63
MAX_DISPLAY_NAME = 63
REFERENCE = re.compile(r"\$\$|\$\(([^)$]*)\)")
"""As Kubernetes reads it: `$$` is a dollar, `$(NAME)` the value of a variable."""
_NO_LABEL = re.compile("[^A-Za-z0-9_.-]")
_NO_LABEL_END = "_.-"


def expand_parameters(text: str, parameters: Mapping[str, str]) -> str:
    """Puts values in the place of `$(PODTUNE_PARAM_<name>)`; nothing for a parameter that the trial does not have."""

    def expand(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else parameters.get(match[1].removeprefix(ENV_PARAMETER_PREFIX), "")

    return REFERENCE.sub(expand, text)


def format_display_name(text: str, parameters: Mapping[str, str]) -> str:
    """Writes the display name of a trial: in one line, and not too long for a column."""
    return clip(" ".join(expand_parameters(text, parameters).split()), MAX_DISPLAY_NAME)


def format_labels(labels: Mapping[str, str], parameters: Mapping[str, str]) -> dict[str, str]:
    """Writes a template's labels for a trial; those that come to nothing are left out."""
    plain = {key: text for key, text in labels.items() if "$" not in text}
    return plain | format_parameter_labels(labels, parameters)


def format_parameter_labels(labels: Mapping[str, str], parameters: Mapping[str, str]) -> dict[str, str]:
    """Writes those of a template's labels that hold parameters.

    What a label can't hold becomes `_`, and it is cut: two values may get the same label.
    """
    written = {key: _clean(expand_parameters(text, parameters)) for key, text in labels.items() if "$" in text}
    return {key: value for key, value in written.items() if value}


def find_reference_problem(name: str, parameters: Collection[str]) -> str:
    """What is wrong with a reference to a parameter; empty where there is such a parameter."""
    parameter = name.removeprefix(ENV_PARAMETER_PREFIX)
    if parameter in parameters:
        return ""
    meant = did_you_mean(parameter, parameters) or f"there are {', '.join(parameters)}"
    return f"'$({name})' refers to a parameter that does not exist; correct the name ({meant.rstrip('?')})"


def check_parameter_text(text: str, path: str, parameters: Collection[str]) -> None:
    """Checks a text that may hold parameters, and nothing else.

    Raises:
        FieldError: It refers to something else, or to a parameter that does not exist.
    """
    for match in REFERENCE.finditer(text):
        if match[0] == "$$":
            continue
        if not match[1].startswith(ENV_PARAMETER_PREFIX):
            raise FieldError(path, f"'{match[0]:.64}' is not a parameter; write $({ENV_PARAMETER_PREFIX}<name>)")
        if problem := find_reference_problem(match[1], parameters):
            raise FieldError(path, problem)


def _clean(text: str) -> str:
    return _NO_LABEL.sub("_", text).strip(_NO_LABEL_END)[:MAX_LABEL_VALUE].rstrip(_NO_LABEL_END)
