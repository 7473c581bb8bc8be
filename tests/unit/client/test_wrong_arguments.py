"""Every method that takes an argument refuses one that makes no sense, with an error of its own that names it."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from podtune.client import AsyncClient, Client, PodtuneError, tune
from tests.unit.cli.cli_fakes import RUNNING, TRAINING, experiment, trial
from tests.unit.client.conftest import ClusterApi


class Nonsense:
    """What no argument can be."""

    def __repr__(self) -> str:
        return "<nonsense>"


def train(config: dict[str, Any]) -> dict[str, Any]:
    return {"accuracy": config["lr"]}


SPACE = {"lr": {"float": {"min": 0.1, "max": 1}}}
COMMON = {"metric": "accuracy", "mode": "max", "parameters": SPACE, "image": "i", "max_trials": 1}
NEEDED: dict[str, dict[str, Any]] = {
    "build": {"name": "digits", **COMMON},
    "from_function": {"function": train, **COMMON},
    "get": {"name": "digits"},
    "export_results": {"directory": "results"},
    "trial": {"name": 7},
}
"""Right arguments of methods that need some."""
TUNE, RUN = tune.TuneConfig(metric="accuracy", mode="max"), tune.RunConfig(image="i")
KINDS = ("Client", "Experiment", "Trial", "TrialCheckpoint", "ExperimentWatch",
         "AsyncClient", "AsyncExperiment", "AsyncTrial", "AsyncCheckpoint")  # fmt: skip
CHECKPOINT = {"step": 9, "uri": "s3://models/demo/uid/digits-7/pod-1/9", "digest": "sha256:0"}


def list_objects(api: ClusterApi) -> dict[str, Any]:
    """One object of each kind with methods, as programs get them."""
    made = experiment(**RUNNING)
    made["spec"]["checkpoints"] = {"store": {"bucket": "models"}}
    api.add_experiment(made)
    api.add_trial(trial(7, **TRAINING, checkpoints=[CHECKPOINT], checkpoint=CHECKPOINT))
    client = Client()
    found = client.get("digits")
    awaited = asyncio.run(AsyncClient().get("digits"))
    awaited_trial = asyncio.run(awaited.trial(7))
    return {
        "Client": client,
        "Experiment": found,
        "Trial": found.trial(7),
        "TrialCheckpoint": found.trial(7).checkpoint,
        "ExperimentWatch": found.watch(),
        "AsyncClient": AsyncClient(),
        "AsyncExperiment": awaited,
        "AsyncTrial": awaited_trial,
        "AsyncCheckpoint": awaited_trial.checkpoint,
    }


def list_arguments(thing: Any) -> Iterator[tuple[Callable[..., Any], str]]:
    """The public methods of an object with each of their arguments, but for what may be true or false of anything."""
    for name, method in inspect.getmembers(thing, callable):
        if name.startswith("_") or name in ("make_trial", "wait_by", "throw", "send"):
            continue
        for argument in inspect.signature(method).parameters.values():
            if argument.annotation != "bool":
                yield method, argument.name


async def finish(answer: Awaitable[Any] | AsyncIterator[Any]) -> Any:
    if isinstance(answer, AsyncIterator):
        return [each async for each in answer]
    return await answer


def call(method: Callable[..., Any], argument: str) -> None:
    answer = method(**{**NEEDED.get(method.__name__, {}), argument: Nonsense()})
    if isinstance(answer, Awaitable | AsyncIterator):
        asyncio.run(finish(answer))


def find_silence(label: str, argument: str, ask: Callable[[], object]) -> Iterator[str]:
    """What a caller is told who can make nothing of it; nothing where the argument is refused by its name."""
    field = "".join(part.title() for part in argument.split("_"))
    try:
        ask()
    except PodtuneError as error:
        if not {argument.lower(), field.lower()} & {*re.findall(r"\w+", str(error).lower())}:
            yield f"{label}({argument}=…): {error}"
    except Exception as error:  # noqa: BLE001 - all of these are gaps
        yield f"{label}({argument}=…): {error!r}"
    else:
        yield f"{label}({argument}=…): was taken"


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_argument_is_refused_by_its_name(api: ClusterApi, kind: str) -> None:
    asked = list(list_arguments(list_objects(api)[kind]))
    assert asked
    silent = [
        told
        for method, argument in asked
        for told in find_silence(method.__qualname__, argument, partial(call, method, argument))
    ]
    assert silent == []


def make_tuner(**given: Any) -> tune.Tuner:
    needed = {"trainable": train, "param_space": {"lr": tune.uniform(0, 1)}, "tune_config": TUNE, "run_config": RUN}
    return tune.Tuner(**{**needed, **given})


def put_into(config: Any, name: str) -> dict[str, Any]:
    """The argument of a Tuner that a configuration belongs into, with nonsense in one of its fields."""
    made = dataclasses.replace(config, **{name: Nonsense()})
    match made:
        case tune.TuneConfig():
            return {"tune_config": made}
        case tune.RunConfig():
            return {"run_config": made}
        case tune.FailureConfig():
            return {"run_config": dataclasses.replace(RUN, failure_config=made)}
        case tune.CheckpointConfig():
            return {"run_config": dataclasses.replace(RUN, checkpoint_config=made)}
        case _:
            return {"tune_config": dataclasses.replace(TUNE, scheduler=made)}


RENAMED = {
    "storage_path": "store", "num_to_keep": "count", "min_samples_required": "minSamples", "hard_stop": "softStop",
    "perturbation_interval": "interval", "burn_in_period": "burnIn", "quantile_fraction": "quantile",
    "max_t": "maxTime", "time_attr": "timeAttribute", "synch": "synchronous", "num_samples": "num_samples",
    "checkpoint_score_attribute": "checkpoint_score_attribute",
}  # fmt: skip
"""What a manifest calls arguments of the Tuner's parts."""


@pytest.mark.parametrize(
    "config",
    [TUNE, RUN, tune.FailureConfig(), tune.CheckpointConfig(), tune.ASHAScheduler(), tune.HyperBandScheduler(),
     tune.MedianStoppingRule(), tune.PopulationBasedTraining()],
    ids=lambda config: type(config).__name__,
)  # fmt: skip
def test_a_tuner_refuses_a_wrong_setting_by_its_name(config: Any) -> None:
    silent = []
    for setting in dataclasses.fields(config):
        name = setting.name
        told = find_silence(name, RENAMED.get(name, name), partial(make_tuner, **put_into(config, name)))
        silent += [each for each in told if setting.type != "bool"]
    assert silent == []


@pytest.mark.parametrize(
    ("domain", "field"),
    [
        (lambda: tune.uniform(Nonsense(), 1), "min"),  # type: ignore[arg-type]
        (lambda: tune.randint(0, Nonsense()), "max"),  # type: ignore[arg-type]
        (lambda: tune.lograndint(1, Nonsense()), "max"),  # type: ignore[arg-type]
        (lambda: tune.choice("relu"), "categories"),
        (lambda: tune.choice(Nonsense()), "categories"),  # type: ignore[arg-type]
        (lambda: tune.grid_search({"a": 1}), "values"),  # type: ignore[arg-type]
        (lambda: tune.expression(Nonsense()), "expression"),  # type: ignore[arg-type]
    ],
)
def test_a_domain_refuses_a_wrong_bound_by_its_name(domain: Callable[[], Any], field: str) -> None:
    with pytest.raises(PodtuneError, match=rf"\b{field}\b"):
        make_tuner(param_space={"lr": domain()})


@pytest.mark.parametrize("argument", ["trainable", "param_space", "tune_config", "run_config", "client"])
def test_a_tuner_refuses_a_wrong_argument(argument: str) -> None:
    with pytest.raises(PodtuneError, match="<nonsense>"):
        make_tuner(**{argument: Nonsense()})
