import sys
from typing import Any

import pytest

from podtune.client import (
    Client,
    ExperimentFailed,
    InvalidArgument,
    MissingPackage,
    NoResult,
    ObjectNotFound,
    WaitTimeout,
    tune,
)
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, experiment, trial
from tests.unit.client.conftest import ClusterApi, condition

ENDED = {**RUNNING, "state": "Complete", "conditions": [condition("Complete", "3 trials done")]}
TRIALS = (
    trial(2, state="TERMINATED", lastResult={"accuracy": "0.5", "loss": "0.9"}),
    trial(3, state="ERROR", message="exit code 1", lastResult={"loss": "NaN"}),
    trial(4, state="TERMINATED", lastResult={"accuracy": "0.9", "loss": "0.3"}),
)


def train(config: dict[str, Any]) -> dict[str, Any]:
    return {"accuracy": config["lr"]}


def make_tuner(client: Client, **run: Any) -> tune.Tuner:
    return tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "epochs": 3},
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", num_samples=20, scheduler=tune.ASHAScheduler(max_t=9), time_budget_s=60
        ),
        run_config=tune.RunConfig(**{"image": "example/train:1", "name": "digits", **run}),
        client=client,
    )


@pytest.fixture
def results(api: ClusterApi, client: Client) -> tune.ResultGrid:
    api.add_experiment(experiment(**ENDED))
    api.tell(experiment(**ENDED), trials=TRIALS)
    return tune.Tuner.restore("digits", client=client).fit()


def test_tuner_makes_the_experiment_that_its_arguments_describe(client: Client) -> None:
    spec = make_tuner(
        client, resources={"cpu": 2, "memory": "4Gi", "gpu": 1}, stop={"epoch": 9}, spec={"stop": {"now": False}}
    ).experiment.manifest["spec"]
    assert spec["objective"] == {"metric": "accuracy", "mode": "max"}
    assert spec["parameters"] == [
        {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
        {"name": "epochs", "fixed": {"value": 3}},
    ]
    assert spec["search"] == {"seed": 0, "maxTrials": 20}
    assert spec["scheduler"]["asha"]["maxTime"] == 9
    assert spec["stop"] == {"metrics": {"epoch": 9}, "totalTime": "60s", "now": False}
    assert spec["trialTemplate"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": 2, "memory": "4Gi"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": 1},
    }


def test_fit_creates_the_experiment_and_returns_when_it_has_ended(api: ClusterApi, client: Client) -> None:
    api.tell(experiment(**RUNNING), experiment(**ENDED), trials=TRIALS)
    results = make_tuner(client).fit()
    assert paths.experiment(NAMESPACE, "digits") in api.objects
    assert (len(results), results.num_errors, results.num_terminated) == (3, 1, 2)


def test_best_result_is_that_of_the_objective_or_of_another_metric(results: tune.ResultGrid) -> None:
    best = results.get_best_result()
    assert best.trial.name == "digits-4"
    assert best.config["activation"] == "tanh"
    assert best.metrics == {"accuracy": 0.9, "loss": 0.3}
    assert results.get_best_result("loss", "max").trial.name == "digits-2"  # and not the one whose loss is NaN
    assert results[1:][0].trial.name == "digits-3"


def test_table_has_a_row_for_each_trial(results: tune.ResultGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    table = results.get_dataframe()
    assert list(table["trial"]) == ["digits-2", "digits-3", "digits-4"]
    assert table.loc[2, ["accuracy", "config/activation"]].to_list() == [0.9, "tanh"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackage, match=r"get_dataframe .* pip install pandas"):
        results.get_dataframe()


def test_failed_trials_say_why(results: tune.ResultGrid) -> None:
    assert [str(error) for error in results.errors] == ["digits-3: exit code 1"]
    assert [result.error is None for result in results] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("loss",), InvalidArgument, "metric and mode go together"),
        (("loss", "best"), InvalidArgument, "mode: 'best' is neither max nor min"),
        (("f1", "max"), NoResult, "no trial has reported a number as 'f1'; metrics in last results: accuracy, loss"),
    ],
)
def test_best_of_what_is_not_there_is_an_error(
    results: tune.ResultGrid, arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        results.get_best_result(*arguments)


def test_experiment_whose_trials_have_failed_has_results_none_the_less(api: ClusterApi, client: Client) -> None:
    failed: Manifest = {"state": "Failed", "conditions": [condition("Failed", "3 trials failed")]}
    api.add_experiment(experiment(**failed))
    api.tell(experiment(**failed), trials=TRIALS[1:2])
    results = tune.Tuner.restore("digits", client=client).fit()
    assert results.num_errors == 1
    with pytest.raises(NoResult, match="no trial of experiment digits has reported the objective"):
        results.get_best_result()


def test_experiment_that_waits_for_a_correction_is_an_error(api: ClusterApi, client: Client) -> None:
    stalled: Manifest = {"state": "Pending", "conditions": [condition("Stalled", "spec.search: wrong")]}
    api.tell(experiment(**stalled))
    with pytest.raises(ExperimentFailed, match=r"spec\.search: wrong"):
        make_tuner(client).fit()


def test_fit_waits_no_longer_than_asked_and_goes_on_later(api: ClusterApi, client: Client) -> None:
    tuner = make_tuner(client)
    api.tell(experiment(**RUNNING))
    with pytest.raises(WaitTimeout, match="digits goes on"):
        tuner.fit(timeout=0)
    api.add_experiment(experiment(**ENDED))
    api.add_trial(TRIALS[0])
    assert len(tuner.get_results()) == 1


def test_search_that_is_not_there_can_not_be_restored(client: Client) -> None:
    with pytest.raises(ObjectNotFound, match="digits"):
        tune.Tuner.restore("digits", client=client)


@pytest.mark.parametrize("wrong", [{"tune_config": None}, {"run_config": {"image": "i"}}])
def test_configuration_of_another_type_is_refused(client: Client, wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "param_space": {"lr": tune.uniform(0, 1)},
        "tune_config": tune.TuneConfig(metric="accuracy", mode="max"),
        "run_config": tune.RunConfig(image="i"),
    }
    with pytest.raises(InvalidArgument, match=rf"{next(iter(wrong))}: .* is no (Tune|Run)Config"):
        tune.Tuner(train, **{**given, **wrong}, client=client)


def test_interrupted_wait_says_that_the_search_goes_on(
    api: ClusterApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = make_tuner(client)

    def interrupt(_self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("podtune.client.experiment.Experiment.watch", interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        tuner.fit()
    assert "digits goes on in the cluster" in caught.value.__notes__[0]
