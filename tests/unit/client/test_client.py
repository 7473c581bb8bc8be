"""Experiments and Trials in a cluster of dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from podtune.cli.client import api_client
from podtune.client import (
    AlreadyExists,
    Client,
    ConnectionFailed,
    Experiment,
    ExperimentFailed,
    InvalidArgument,
    NoResult,
    NotPossible,
    ObjectNotFound,
    Refused,
    WaitTimeout,
)
from podtune.kube import paths
from podtune.kube.errors import Unanswered, make_refusal
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, experiment, trial
from tests.unit.client.conftest import MANIFEST, ClusterApi, condition

COMPLETE = {**RUNNING, "state": "Complete", "conditions": [condition("Complete", "24 trials done")]}


@pytest.fixture
def digits(api: ClusterApi, client: Client) -> Experiment:
    api.add_experiment(experiment(**RUNNING))
    api.add_trial(trial(7, **TRAINING))
    api.add_trial(trial(2, state="TERMINATED", bestValue="0.5"))
    return client.get("digits")


def test_an_experiment_is_created_in_the_clients_namespace_and_followed_from_then_on(
    api: ClusterApi, client: Client
) -> None:
    made = Experiment.from_yaml(MANIFEST)
    assert client.create(made) is made
    assert (made.name, made.namespace, made.state) == ("digits", NAMESPACE, "")
    assert paths.experiment(NAMESPACE, "digits") in api.objects
    with pytest.raises(InvalidArgument, match="digits is in a cluster already"):
        client.create(made)
    with pytest.raises(AlreadyExists, match=r"metadata\.name: there is an experiment 'digits' .* choose another name"):
        client.create(Experiment.from_yaml(MANIFEST))
    with pytest.raises(InvalidArgument, match="experiment: 'digits' is no Experiment"):
        client.create("digits")  # type: ignore[arg-type]


def test_the_best_is_what_the_command_prints(digits: Experiment) -> None:
    best = digits.best
    assert (best.trial, best.metric, best.value) == ("digits-4", "accuracy", 0.9722222222222222)
    assert best.parameters == {"learning_rate": 0.004212345678, "hidden_units": 128, "activation": "relu"}
    assert best.checkpoint_uri == "s3://podtune/demo/uid/digits-4/attempt/9"
    assert (digits.state, digits.message) == ("Running", "5 of 24 trials done, 2 running")


def test_without_a_result_the_error_says_what_to_do(api: ClusterApi, client: Client) -> None:
    api.add_experiment(experiment())
    with pytest.raises(NoResult, match="no trial of digits has reported accuracy yet"):
        print(client.get("digits").best)


def test_trials_have_values_in_pythons_types(digits: Experiment) -> None:
    first, second = digits.trials
    assert (first.name, first.state, first.best_value, first.has_ended) == ("digits-2", "TERMINATED", 0.5, True)
    assert second.parameters == {"activation": "tanh", "hidden_units": 64, "learning_rate": 0.0123456789}
    assert second.last_result == {"epoch": 9.0, "accuracy": 0.9611111111, "loss": 0.1}
    assert (second.attempt, second.failures, second.node, second.curve) == (2, 1, "n2", [])
    assert digits.trial(7).name == digits.trial("digits-7").name == "digits-7"


def test_a_curve_names_what_it_shows(api: ClusterApi, digits: Experiment) -> None:
    curve = {"results": 2, "every": 1, "steps": [1, 2], "seconds": [0.5, 1], "values": [[0.25, 0.75]]}
    api.add_trial(trial(7, **TRAINING, curve=curve))
    (point, last) = digits.trial(7).curve
    assert (point.iteration, point.seconds, point.values) == (1, 0.5, {"accuracy": 0.25})
    assert last.values == {"accuracy": 0.75}


def test_experiments_are_listed_by_name(api: ClusterApi, client: Client) -> None:
    for name, namespace in (("b", NAMESPACE), ("a", NAMESPACE), ("c", "speech")):
        api.add_experiment(experiment(name, namespace))
    assert [found.name for found in client.list()] == ["a", "b"]
    assert [found.name for found in client.list(namespace="speech")] == ["c"]
    assert [found.namespace for found in client.list(all_namespaces=True)] == ["speech", NAMESPACE, NAMESPACE]


def test_an_experiment_is_followed_to_its_end(api: ClusterApi, digits: Experiment) -> None:
    api.tell(experiment(**RUNNING), experiment(**COMPLETE), trials=(trial(7, **TRAINING),))
    snapshots = list(digits.watch())
    last = snapshots[-1]
    assert last.outcome is not None
    assert (last.state, last.outcome.has_succeeded, last.outcome.message) == ("Complete", True, "24 trials done")
    assert last.best == digits.best
    assert [each.name for each in last.trials] == ["digits-7"]
    assert (last.counts.running, str(last).split(":")[0]) == (2, "digits Complete")


def test_waiting_returns_what_there_is_at_the_end(api: ClusterApi, digits: Experiment) -> None:
    api.tell(experiment(**RUNNING), experiment(**COMPLETE))
    assert digits.wait().state == "Complete"
    api.add_experiment(experiment(**COMPLETE))
    assert digits.wait(timeout=0).state == "Complete", "what has ended is not waited for"


@pytest.mark.parametrize(("type_", "message"), [("Failed", "all trials failed"), ("Stalled", "correct the spec")])
def test_waiting_for_what_fails_raises_its_message(
    api: ClusterApi, digits: Experiment, type_: str, message: str
) -> None:
    api.tell(experiment(conditions=[condition(type_, message)]))
    with pytest.raises(ExperimentFailed, match=f"digits: {message}"):
        digits.wait()


def test_waiting_for_what_is_deleted_ends(api: ClusterApi, digits: Experiment) -> None:
    api.tell(experiment(**RUNNING))
    api.tells(paths.experiments(NAMESPACE), api_client.Change("DELETED", experiment()))
    with pytest.raises(ExperimentFailed, match="the experiment was deleted"):
        digits.wait()


def test_waiting_ends_after_the_given_time(api: ClusterApi, digits: Experiment) -> None:
    api.tell(experiment(**RUNNING))
    with pytest.raises(WaitTimeout, match=r"experiment digits goes on after 0\.01 s; wait again"):
        digits.wait(timeout=0.01)


def test_a_watch_is_left_by_another_thread(api: ClusterApi, digits: Experiment) -> None:
    api.tell(experiment(**RUNNING))
    watch = digits.watch()
    next(watch)
    thread = threading.Thread(target=list, args=(watch,), daemon=True)
    thread.start()
    watch.close()
    thread.join(60)
    assert not thread.is_alive()
    with pytest.raises(NotPossible, match="was closed before it had told anything"):
        watch.wait()


def test_expired_credentials_are_renewed(api: ClusterApi, digits: Experiment) -> None:
    expired = make_refusal(401, "Unauthorized", "Unauthorized")
    api.failures.append(expired)
    assert digits.state == "Running"
    before = set(threading.enumerate())
    api.tell(experiment(**RUNNING))
    watch = digits.watch()
    next(watch)
    for path in (paths.experiments(NAMESPACE), paths.trials(NAMESPACE)):
        api.tells(path, expired)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)  # else the watches that have ended would take what the new ones are told
    api.tell(experiment(**COMPLETE))
    assert watch.wait().state == "Complete"


@pytest.mark.parametrize(
    ("failure", "kind", "told"),
    [
        (make_refusal(401, "Unauthorized", "Unauthorized"), Refused, "401: Unauthorized; log in again"),
        (make_refusal(403, "Forbidden", "you may not"), Refused, "the API server says 403: you may not"),
        (Unanswered("https://x can't be reached"), ConnectionFailed, "https://x can't be reached"),
    ],
)
def test_what_the_server_says_is_raised_as_our_own_error(
    client: Client, api: ClusterApi, failure: Exception, kind: type[Exception], told: str
) -> None:
    api.failures += [failure, failure]
    with pytest.raises(kind, match=told) as raised:
        client.get("digits")
    assert getattr(raised.value, "status", None) == getattr(failure, "status", None)


def test_without_a_kubeconfig_there_is_no_client(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match=r"no kubeconfig at .*none; name one"):
        Client(kubeconfig=tmp_path / "none")


def test_trials_and_experiments_are_steered(api: ClusterApi, digits: Experiment) -> None:
    api.objects[paths.experiment(NAMESPACE, "digits")]["spec"]["checkpoints"] = {"store": {"bucket": "models"}}
    running = digits.trial(7)
    assert running.pause() == "trial digits-7 will pause: it stores a checkpoint, then its pod is deleted"
    assert running.stop() == "trial digits-7 is stopped for good; what it has learnt is kept"
    assert running.retry().startswith("attempt 1 of trial digits-7 stores a checkpoint and ends")
    assert digits.pause().startswith("experiment digits is suspended")
    assert digits.resume().startswith("experiment digits continues")
    assert digits.stop().startswith("experiment digits ends")
    api.add_trial(trial(7, state="PAUSED"))
    rate = numpy.float64(0.05)
    assert running.refresh().resume(parameters={"learning_rate": rate, "activation": True}).startswith("trial digits-7")
    api.add_experiment(experiment(**COMPLETE))
    assert digits.retry().startswith("experiment digits continues")
    assert [change["spec"] for _, change in api.patched] == [
        {"desiredState": "Paused"},
        {"desiredState": "Stopped"},
        {"retry": {"attempt": 1}},
        {"suspend": True},
        {"suspend": False},
        {"stop": {"now": True}},
        {"desiredState": "Running", "overrides": {"learning_rate": "0.05", "activation": "true"}},
        {"resume": {"id": "1", "errored": "Resume"}, "suspend": False},
    ]


def test_wrong_arguments_are_refused_by_name(api: ClusterApi, client: Client, digits: Experiment) -> None:
    running = digits.trial(7)
    refused: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: client.get(""), InvalidArgument, "name: '' is no name"),
        (lambda: client.get("../x"), InvalidArgument, "'../x' can't be a name"),
        (lambda: client.get("none"), ObjectNotFound, "no Experiment 'none' in namespace 'vision'"),
        (lambda: client.get("digits", namespace=""), InvalidArgument, "namespace: '' is no name"),
        (lambda: client.list(namespace="A"), InvalidArgument, "'A' can't be a name"),
        (lambda: client.list(namespace="a", all_namespaces=True), InvalidArgument, "namespace: 'a' is one"),
        (
            lambda: digits.trial(99),
            ObjectNotFound,
            "name: experiment digits has no trial 'digits-99'; its",
        ),
        (lambda: digits.trial(None), InvalidArgument, "name: None is no name"),  # type: ignore[arg-type]
        (lambda: digits.wait(timeout=-1), InvalidArgument, "timeout: -1 is no time to wait"),
        (lambda: digits.wait(timeout=float("nan")), InvalidArgument, "timeout: nan is no time"),
        (lambda: digits.wait(timeout="soon"), InvalidArgument, "timeout: 'soon' is not a duration"),
        (lambda: digits.resume(errored="Forget"), InvalidArgument, "errored: 'Forget' is none .* use Resume, Restart"),
        (lambda: digits.resume(errored="Skip"), NotPossible, "experiment digits has not ended"),
        (digits.retry, NotPossible, "experiment digits has not ended"),
        (running.pause, NotPossible, "trial digits-7 can't be paused, because Experiment digits has no checkpoints"),
        (lambda: running.retry(step=-1), InvalidArgument, "step: -1 is no iteration"),
        (lambda: running.retry(step=4), NotPossible, "trial digits-7 .* checkpoint"),
        (lambda: running.resume(parameters={"rate": None}), InvalidArgument, "parameters: rate: None is no value"),
        (lambda: running.resume(parameters={"rate": {1}}), InvalidArgument, "parameters: rate: .* of type set"),
        (lambda: running.resume(parameters={"rate": 1}), NotPossible, "trial digits-7 is running; pause it before"),
        (lambda: digits.trial(2).stop() and digits.trial(2).pause(), NotPossible, "trial digits-2 has ended"),
    ]
    for ask, kind, told in refused:
        with pytest.raises(kind, match=told):
            ask()
    assert api.patched == []
    del api.objects[paths.trial(NAMESPACE, "digits-7")]
    with pytest.raises(ObjectNotFound, match="no Trial 'digits-7'"):
        running.refresh()
