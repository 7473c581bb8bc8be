"""What is picked out of an experiment that has ended, for another one to learn from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.api.resources.trial import ProposalRecord, TrialSpec, TrialStatus
from podtune.runner.records import Trial
from podtune.runner.search import warm_start
from podtune.runner.search.warm_start import Unusable
from podtune.tuning.searchers.factory import make_searcher
from tests.unit.tuning.manifests import experiment

PARAMETERS: list[dict[str, Any]] = [
    {"name": "lr", "float": {"min": 0.001, "max": 0.1}},
    {"name": "units", "int": {"min": 16, "max": 64, "step": 16}},
    {"name": "kind", "choice": {"values": ["relu", 1, 1.5, True]}},
    {"name": "momentum", "float": {"min": 0.0, "max": 1.0}, "when": {"kind": ["relu"]}},
]
SPEC = experiment(parameters=PARAMETERS)


def trial(index: int, value: str | None = "0.5", told: int | None = None, **parameters: str) -> Trial:
    given_parameters = {"lr": "0.01", "units": "32", "kind": "1", **parameters}
    return Trial(
        name=f"old-{index}",
        uid=f"t-{index}",
        version=1,
        generation=1,
        spec=TrialSpec(
            experiment="old", index=index, parameters=given_parameters, proposal=ProposalRecord(number=index)
        ),
        status=TrialStatus(
            state="TERMINATED",
            observation_seq=index if told is None else told,
            iteration=9,
            last_result={} if value is None else {"accuracy": value, "loss": "0.25"},
        ),
    )


def changed(trial: Trial, **status: Any) -> Trial:
    return Trial(trial.name, trial.uid, 1, 1, trial.spec, trial.status.model_copy(update=status))


def test_values_come_in_their_own_types_and_the_manifests_order() -> None:
    (observation,) = warm_start.pick_observations(
        SPEC, [trial(3, kind="relu", momentum="0.9", units="48")]
    ).observations
    assert list(observation.configuration.items()) == [("lr", 0.01), ("units", 48), ("kind", "relu"), ("momentum", 0.9)]
    assert (observation.value, observation.step, observation.number, observation.attributes, observation.final) == (
        0.5,
        9,
        -1,
        {},
        True,
    )


def test_results_come_in_the_order_in_which_the_trials_ended() -> None:
    found = warm_start.pick_observations(
        SPEC, [trial(0, "0.1", told=2), trial(1, "0.2", told=0), trial(2, "0.3", told=1)]
    )
    assert [observation.value for observation in found.observations] == [0.2, 0.3, 0.1]
    assert [observation.number for observation in found.observations] == [-3, -2, -1]


@pytest.mark.parametrize(
    "other",
    [
        trial(1, lr="0.5"),
        trial(1, units="40"),
        trial(1, kind="tanh"),
        trial(1, kind="relu"),  # momentum is missing
        trial(1, None),
        trial(1, "nan"),
        changed(trial(1), state="ERROR"),
    ],
    ids=["above", "between steps", "no choice", "incomplete", "no value", "nan", "failed"],
)
def test_what_has_no_value_or_lies_outside_is_passed_over(other: Trial) -> None:
    found = warm_start.pick_observations(SPEC, [trial(0), other])
    assert len(found.observations) == 1
    assert found.passed_over == 1


def test_parameters_that_this_space_does_not_have_are_left_out() -> None:
    (observation,) = warm_start.pick_observations(SPEC, [trial(0, dropout="0.3", momentum="0.9")]).observations
    assert observation.configuration == {"lr": 0.01, "units": 32, "kind": 1}


def test_a_trial_counts_with_what_it_ran_with_in_the_end() -> None:
    exploited = changed(trial(0), parameters={"lr": "0.012", "units": "32", "kind": "1"})
    (observation,) = warm_start.pick_observations(SPEC, [exploited]).observations
    assert observation.configuration["lr"] == 0.012


def test_repeats_make_one_result() -> None:
    repeats = [trial(index, value) for index, value in enumerate(("0.2", "0.4", None))]
    same = [
        Trial(t.name, t.uid, 1, 1, t.spec.model_copy(update={"proposal": ProposalRecord(number=0)}), t.status)
        for t in repeats
    ]
    found = warm_start.pick_observations(SPEC, same)
    assert [observation.value for observation in found.observations] == [pytest.approx(0.3)]
    assert found.passed_over == 0


def test_all_objectives_have_to_be_there() -> None:
    several = experiment(
        parameters=PARAMETERS,
        objective={"metric": "accuracy", "mode": "max", "others": [{"metric": "loss", "mode": "min"}]},
    )
    (observation,) = warm_start.pick_observations(
        several, [trial(0), changed(trial(1), last_result={"accuracy": "0.5"})]
    ).observations
    assert (observation.value, observation.others) == (0.5, (0.25,))


def test_the_oldest_are_left_out_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "MAX_WARM_START_BYTES", 500)
    found = warm_start.pick_observations(SPEC, [trial(index, f"0.{index}") for index in range(10)])
    assert len(found.text.encode()) <= 500
    assert found.cut == 10 - len(found.observations) > 0
    assert found.observations[-1].value == 0.9


@given(
    st.lists(
        st.tuples(
            st.floats(0.001, 0.1), st.sampled_from(["16", "48"]), st.sampled_from(["1", "1.5", "true"]), st.floats()
        ),
        max_size=20,
    )
)
@settings(deadline=None)
def test_what_is_kept_is_read_back_as_it_was(rows: list[tuple[float, str, str, float]]) -> None:
    trials = [
        trial(index, repr(value), lr=repr(lr), units=units, kind=kind)
        for index, (lr, units, kind, value) in enumerate(rows)
    ]
    found = warm_start.pick_observations(SPEC, trials)
    assert warm_start.read(SPEC, found.text) == found.observations
    kept = warm_start.format_data("old", found.observations)
    assert kept == {"experiment": "old", warm_start.RESULTS_KEY: found.text}
    searcher = make_searcher(SPEC)
    for observation in found.observations:
        searcher.tell(observation)


@pytest.mark.parametrize(
    "text",
    [
        "nothing\n",
        "[]\n",
        json.dumps({"parameters": {"lr": "high"}, "values": [1], "step": 1}),
        json.dumps({"parameters": {}, "values": [], "step": 1}),
    ],
)
def test_what_somebody_has_changed_is_said_to_be_unusable(text: str) -> None:
    with pytest.raises(Unusable):
        warm_start.read(SPEC, text)
