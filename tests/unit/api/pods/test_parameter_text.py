"""Labels and display names that hold parameters."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.base import FieldError
from podtune.api.pods.parameter_text import (
    check_parameter_text,
    expand_parameters,
    format_display_name,
    format_labels,
    format_parameter_labels,
)
from podtune.api.validation import InvalidSpec, parse_experiment

VALUES = {"lr": "1e-05", "optimizer": "adam w", "sizes": "[64,32]", "none": ""}
LABEL = re.compile("([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("lr $(PODTUNE_PARAM_lr), $(PODTUNE_PARAM_optimizer)", "lr 1e-05, adam w"),
        ("$(PODTUNE_PARAM_lr)$(PODTUNE_PARAM_sizes)", "1e-05[64,32]"),
        ("$$(PODTUNE_PARAM_lr) costs 3$", "$(PODTUNE_PARAM_lr) costs 3$"),
        ("momentum $(PODTUNE_PARAM_momentum)!", "momentum !"),
    ],
)
def test_parameters_take_the_place_of_their_references(text: str, expanded: str) -> None:
    assert expand_parameters(text, VALUES) == expanded


def test_a_display_name_is_one_short_line() -> None:
    assert format_display_name(" $(PODTUNE_PARAM_optimizer)\n  $(PODTUNE_PARAM_none) ", VALUES) == "adam w"
    assert format_display_name("x" * 70, {}) == "x" * 62 + "…"


def test_labels_hold_what_labels_can() -> None:
    labels = {
        "team": "vision",
        "optimizer": "$(PODTUNE_PARAM_optimizer)",
        "sizes": "s.$(PODTUNE_PARAM_sizes)",
        "absent": "$(PODTUNE_PARAM_momentum)",
        "empty": "",
    }
    of_parameters = {"optimizer": "adam_w", "sizes": "s._64_32"}
    assert format_parameter_labels(labels, VALUES) == of_parameters
    assert format_labels(labels, VALUES) == {"team": "vision", "empty": "", **of_parameters}


@given(st.text(max_size=200))
def test_every_value_makes_a_label_or_none(value: str) -> None:
    for label in format_parameter_labels(
        {"p": "$(PODTUNE_PARAM_p)", "q": "v-$(PODTUNE_PARAM_p)."}, {"p": value}
    ).values():
        assert LABEL.fullmatch(label)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$(PODTUNE_PARAM_learning_rat)", "'$(PODTUNE_PARAM_learning_rat)' refers to a parameter that does not exist;"),
        ("$(PODTUNE_TRIAL)", "'$(PODTUNE_TRIAL)' is not a parameter; write $(PODTUNE_PARAM_<name>)"),
        ("$()", "'$()' is not a parameter"),
    ],
)
def test_what_is_no_parameter_is_refused(text: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_parameter_text(text, "displayName", ["learning_rate"])
    assert refused.value.path == "displayName"
    assert said in refused.value.problem


def test_only_parameters_and_dollars_are_looked_at() -> None:
    check_parameter_text("$$(PODTUNE_TRIAL) costs 3$ $(PODTUNE_PARAM_lr)", "displayName", ["lr"])


def find_refusal(**template: Any) -> str:
    """What the operator says of an Experiment with this template; empty where it takes it."""
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [{"name": "lr", "float": {"min": 0, "max": 1}}],
        "search": {"maxTrials": 1},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "example"}]}, **template},
    }
    try:
        parse_experiment({"metadata": {"name": "e"}, "spec": spec})
    except InvalidSpec as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("lr-$(PODTUNE_PARAM_lr)", ""),
        ("$(PODTUNE_PARAM_lr).$(PODTUNE_PARAM_lr)", ""),
        ("a.b-c_d", ""),
        ("", ""),
        (
            "$(PODTUNE_PARAM_rate)",
            "spec.trialTemplate.metadata.labels.tag: '$(PODTUNE_PARAM_rate)' refers to a paramet",
        ),
        ("$(PODTUNE_TRIAL)", "spec.trialTemplate.metadata.labels.tag: '$(PODTUNE_TRIAL)' is not a valid label value"),
        ("lr $(PODTUNE_PARAM_lr)", "is not a valid label value; use up to 63 letters, digits, -, _ and ., with a let"),
        ("x" * 64, "is not a valid label value"),
        ("-x", "is not a valid label value"),
    ],
)
def test_an_experiment_may_have_them(label: str, said: str) -> None:
    refusal = find_refusal(metadata={"labels": {"tag": label}})
    assert said in refusal
    assert bool(said) == bool(refusal)


def test_a_reused_pod_has_no_labels_of_one_trial() -> None:
    refusal = find_refusal(metadata={"labels": {"lr": "$(PODTUNE_PARAM_lr)"}}, reuse=True)
    assert "trialTemplate.metadata.labels.lr: '$(PODTUNE_PARAM_lr)' differs from trial to trial, but reuse" in refusal
    assert not find_refusal(displayName="lr $(PODTUNE_PARAM_lr)", reuse=True)


def test_a_display_name_refers_to_parameters_that_exist() -> None:
    assert "spec.trialTemplate.displayName: '$(PODTUNE_PARAM_x)' refers to a param" in find_refusal(
        displayName="$(PODTUNE_PARAM_x)"
    )
