"""`podtune pause`, `resume` and `stop`: they change one field of a Trial or an Experiment, as GitOps can too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from podtune.api.base import FieldError
from podtune.api.names import GROUP, DesiredState, ExperimentState, TrialState
from podtune.api.resources.resume import RestartPolicy, ResumePolicy
from podtune.api.tuning.overrides import apply_overrides
from podtune.api.tuning.search_space import Parameter
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import ExperimentView, TrialView, read_experiment, read_trial
from podtune.cli.errors import CliError, NoSuchObject
from podtune.cli.options import Context, Kubeconfig, NamedFormat, Namespace, TargetName
from podtune.cli.output import print_changed
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound

_KINDS = {"trial": "Trial", "experiment": "Experiment"}
FINISHED = frozenset(
    {*(state for state in TrialState if state.is_finished), *(s for s in ExperimentState if s.is_finished)}
)


def pause(
    name: TargetName,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have a Trial store a checkpoint and give its pod back, or all Trials of an Experiment."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    target = find_target(api, chosen, name)
    print_changed([request_pause(api, chosen, target)], output, target.path, api.get)


def resume(
    name: TargetName,
    *,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="Go on with another value; may be given several times."),
    ] = None,
    unfinished: Annotated[
        ResumePolicy | None, typer.Option("--unfinished", help="Of an Experiment that has ended: its stopped Trials.")
    ] = None,
    errored: Annotated[
        ResumePolicy | None, typer.Option("--errored", help="Of an Experiment that has ended: its failed Trials.")
    ] = None,
    finished: Annotated[
        RestartPolicy | None, typer.Option("--finished", help="Of an Experiment that has ended: its other Trials.")
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have a paused Trial go on where it was, or an Experiment that is suspended or has ended."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    given = {"unfinished": unfinished, "errored": errored, "finished": finished}
    policies = {field: str(policy) for field, policy in given.items() if policy is not None}
    target = find_target(api, chosen, name)
    print_changed([request_resume(api, chosen, target, values or (), policies)], output, target.path, api.get)


def stop(
    name: TargetName,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """End a Trial, or an Experiment and all its Trials, for good."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    target = find_target(api, chosen, name)
    print_changed([request_stop(api, target)], output, target.path, api.get)


@dataclass(frozen=True, slots=True)
class Target:
    """What a command is about."""

    view: TrialView | ExperimentView
    path: str
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As `kubectl` would write it."""
        kind = "trial" if isinstance(self.view, TrialView) else "experiment"
        return f"{kind} {self.view.name}"

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it goes on."""
        return self.view.state in FINISHED


def find_target(api: Api, namespace: str, written: str) -> Target:
    """Finds the Trial or the Experiment of a name, or of one with its kind before it, such as experiment/digits.

    Raises:
        CliError: There is none, or there are both.
    """
    kind, _, name = written.rpartition("/")
    kind = kind.removesuffix(f".{GROUP}")  # as `-o name` has it
    if kind and kind not in _KINDS:
        raise CliError(f"{written!r} has an unknown kind; write trial/{name} or experiment/{name}")
    wanted = [kind] if kind else list(_KINDS)
    found = [target for kind in wanted if (target := _read(api, namespace, kind, name)) is not None]
    if not found:
        kinds = " and no ".join(_KINDS[kind] for kind in wanted)
        raise NoSuchObject(f"no {kinds} {name!r} in namespace {namespace!r}; `podtune list -A` shows all experiments")
    if len(found) > 1:
        raise CliError(f"{name!r} is a Trial and an Experiment; write trial/{name} or experiment/{name}")
    return found[0]


def request_pause(api: Api, namespace: str, target: Target) -> str:
    """Asks for a pause; says in a sentence what will happen.

    Raises:
        CliError: It can't be paused.
    """
    if target.has_ended:
        raise CliError(f"{target.name} has ended ({target.view.state}); you can't pause it")
    if isinstance(target.view, ExperimentView):
        _change(api, target, {"suspend": True})
        return f"{target.name} is suspended: each trial stores a checkpoint and ends its pod; `resume` continues it"
    if target.view.is_running and not has_store(api, namespace, target.view.experiment):
        raise CliError(
            f"{target.name} can't be paused, because Experiment {target.view.experiment} has no checkpoints.store: it "
            "would lose its progress; add a store, stop the trial, or pause the whole experiment, which loses progress"
        )
    _change(api, target, {"desiredState": DesiredState.PAUSED})
    return f"{target.name} will pause: it stores a checkpoint, then its pod is deleted"


def request_resume(
    api: Api, namespace: str, target: Target, values: Sequence[str] = (), policies: Mapping[str, str] | None = None
) -> str:
    """Has something go on, a Trial with other values (name=value) if some are given; says what will happen.

    The policies, by the field of `spec.resume`, say what becomes of the trials of an Experiment that has ended.

    Raises:
        CliError: It can't go on, or not with these values.
    """
    if isinstance(target.view, ExperimentView):
        return _resume_experiment(api, target, values, policies or {})
    if policies:
        raise CliError(f"{target.name} is one trial; --{next(iter(policies))} applies only to an Experiment")
    if target.has_ended:
        raise CliError(f"{target.name} has ended ({target.view.state}); resume its Experiment instead")
    if not values:
        _change(api, target, {"desiredState": DesiredState.RUNNING})
        return f"{target.name} continues as soon as a slot is free"
    if target.view.is_running:
        raise CliError(f"{target.name} is running; pause it before you change its parameters")
    overrides = _check_overrides(api, namespace, target.view, target.spec, values)
    _change(api, target, {"desiredState": DesiredState.RUNNING, "overrides": overrides})
    return f"{target.name} continues with {', '.join(values)} as soon as a slot is free"


def request_stop(api: Api, target: Target) -> str:
    """Ends something for good, and says in a sentence what will happen; what has ended already stays as it is."""
    if target.has_ended:
        return f"{target.name} has already ended ({target.view.state})"
    if isinstance(target.view, ExperimentView):
        _change(api, target, {"stop": {"now": True}})
        return f"{target.name} ends: its trials are stopped after their last checkpoints are stored"
    _change(api, target, {"desiredState": DesiredState.STOPPED})
    return f"{target.name} is stopped for good; what it has learnt is kept"


def _resume_experiment(api: Api, target: Target, values: Sequence[str], policies: Mapping[str, str]) -> str:
    if values:
        raise CliError(f"{target.name} has many trials; use --set with one of them")
    if target.has_ended:
        return _go_on(api, target, policies)
    if policies:
        raise CliError(f"{target.name} has not ended; --{next(iter(policies))} is only for one that has")
    _change(api, target, {"suspend": False})
    return f"{target.name} continues: its trials resume from their checkpoints"


def _go_on(api: Api, target: Target, policies: Mapping[str, str]) -> str:
    """Has an Experiment go on that has ended: another id than before says so."""
    known = (target.spec.get("resume") or {}).get("id", "")
    number = int(known) + 1 if known.isdecimal() else 1
    change: dict[str, Any] = {"resume": {"id": str(number), **policies}, "suspend": False}
    if (target.spec.get("stop") or {}).get("now"):
        change["stop"] = {"now": None}
    _change(api, target, change)
    return f"{target.name} continues, unless its limits end it again; see `podtune watch`"


def _check_overrides(
    api: Api, namespace: str, trial: TrialView, spec: Mapping[str, Any], values: Sequence[str]
) -> dict[str, str]:
    """The trial's overrides with these among them, if its operator will take them in."""
    overrides = {**(spec.get("overrides") or {}), **dict(map(_split, values))}
    try:
        experiment = api.get(paths.experiment(namespace, trial.experiment)).get("spec") or {}
        parameters = [Parameter.model_validate(entry) for entry in experiment.get("parameters") or ()]
        apply_overrides(parameters, experiment.get("constraints") or (), trial.parameters, overrides)
    except ResourceNotFound as error:
        raise CliError(f"trial {trial.name} belongs to Experiment {trial.experiment!r}, which doesn't exist") from error
    except FieldError as error:
        raise CliError(f"--set: {error}") from error
    except ValidationError:
        pass  # a space that only a newer operator understands: that one will say what is wrong
    return overrides


def has_store(api: Api, namespace: str, experiment: str) -> bool:
    """Whether an Experiment has somewhere to put checkpoints."""
    try:
        spec = api.get(paths.experiment(namespace, experiment)).get("spec") or {}
    except ResourceNotFound:
        return False
    return bool((spec.get("checkpoints") or {}).get("store"))


def _split(value: str) -> tuple[str, str]:
    name, given, text = value.partition("=")
    if not given or not name:
        raise CliError(f"--set {value!r} must have the form name=value, for example --set learning_rate=0.01")
    return name, text


def _read(api: Api, namespace: str, kind: str, name: str) -> Target | None:
    path = (paths.trial if kind == "trial" else paths.experiment)(namespace, name)
    try:
        item = api.get(path)
    except ResourceNotFound:
        return None
    view = read_trial(item) if kind == "trial" else read_experiment(item)
    return Target(view, path, item.get("spec") or {})


def _change(api: Api, target: Target, spec: Mapping[str, Any]) -> None:
    api.patch(target.path, {"spec": spec})
