"""What a person asks while an experiment runs: made by the harness, past all faults.

So that every run goes the same way, the attempt that a request is about waits for its answer: it trains on only when
the operator has taken the request up, or not at all where the request ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from e2e.chaos.api import MERGE, Api, Object
from e2e.chaos.history import History
from e2e.chaos.polling import until
from podtune.api.names import TrialReason
from podtune.api.resources.trial_numbers import FIRST_ADDED


class Ask(StrEnum):
    """What is asked for."""

    RETRY = "retry"
    RETURN = "return"
    """To go back to an earlier checkpoint."""
    CHECKPOINT = "checkpoint"
    LIMITS = "limits"
    TEMPLATE = "template"
    INITIAL = "initial"
    """To try a configuration next."""
    IMAGE = "image"
    """To correct an image that does not exist, once a pod waits for it."""
    EDIT = "edit"
    """To suspend the experiment, try another configuration next, and go on when the store knows of that."""
    ADD = "add"
    """A trial of one's own."""
    ADD_WRONG = "add-wrong"
    """One that can't run."""


_OF_EXPERIMENT = (Ask.TEMPLATE, Ask.IMAGE, Ask.INITIAL)
_ADDED = {Ask.ADD: (FIRST_ADDED, "0.6"), Ask.ADD_WRONG: (FIRST_ADDED + 1, "7")}
"""Number and parameter of the trials that are added."""
_UNHEARD = (Ask.LIMITS, Ask.TEMPLATE, Ask.INITIAL, *_ADDED)
"""What the attempt that waits hears nothing of: it goes on when the operator has taken it up."""
_NEXT: Object = {"search": {"initial": [{"parameters": {"base": 0.75}}]}}
FindStored = Callable[[], Awaitable[int]]
CONTAINER: Object = {"name": "trial", "image": "localhost/busybox:1", "command": ["true"]}
"""What trials run."""


@dataclass(frozen=True)
class UserRequest:
    """A request about the first attempt of a trial.

    Attributes:
        index: The trial's index.
        step: Iteration after which the attempt waits for the answer.
        back_to: Of a return: iteration of the checkpoint to go back to.
    """

    ask: Ask
    index: int
    step: int
    back_to: int = 0

    @property
    def adds(self) -> bool:
        """Whether it makes a Trial."""
        return self.ask in _ADDED


class RequestAnswers:
    """Which requests were taken up. The attempts that they are about wait here."""

    def __init__(self, requests: Sequence[UserRequest], find_stored: FindStored) -> None:
        """Makes them.

        Args:
            requests: What a person asks.
            find_stored: Says which generation of the Experiment the store knows.
        """
        self._requests = requests
        self._find_stored = find_stored
        self._answered = {request: asyncio.Event() for request in requests}

    async def wait(self, index: int, attempt: int, step: int, wants_checkpoint: Callable[[], bool]) -> None:
        """Waits for the answer to a request about this iteration; not at all where there is none.

        Args:
            index: The trial's index.
            attempt: The attempt's number.
            step: The iteration that it has done.
            wants_checkpoint: Whether its program has heard that a checkpoint is asked for.
        """
        for request in self._requests:
            if attempt != 1 or (request.index, request.step) != (index, step):
                continue
            if request.ask is Ask.CHECKPOINT:
                await until(wants_checkpoint)
            else:
                await self._answered[request].wait()

    async def make_requests(self, api: Api, namespace: str, experiment: str, history: History) -> None:
        """Makes each request when its attempt waits for it."""
        async with asyncio.TaskGroup() as tasks:
            for request in self._requests:
                tasks.create_task(self._make(request, api, namespace, experiment, history))

    async def _make(self, request: UserRequest, api: Api, namespace: str, experiment: str, history: History) -> None:
        trial = f"{experiment}-{request.index}"
        await until(lambda: trial in history.trials and _has_come(history.last(trial), request))
        root = f"/apis/podtune.dev/v1alpha1/namespaces/{namespace}"
        if request.ask is Ask.EDIT:
            await _edit(api, f"{root}/experiments/{experiment}", history, self._find_stored)
            self._answered[request].set()
            return
        if request.adds:
            added = _make_trial(request, experiment)
            await api.request("POST", f"{root}/trials", added)
            await until(lambda: _is_judged(history, added["metadata"]["name"]))
            self._answered[request].set()
            return
        kind, name = ("experiments", experiment) if request.ask in _OF_EXPERIMENT else ("trials", trial)
        path = f"{root}/{kind}/{name}"
        made = await api.request("PATCH", path, {"spec": _write(request)}, content_type=MERGE)
        if request.ask not in _UNHEARD:
            return  # the attempt hears of it, or ends, or has never begun
        generation = made["metadata"]["generation"]
        await until(lambda: _is_taken_up(request, history, trial, generation))
        self._answered[request].set()


async def _edit(api: Api, path: str, history: History, find_stored: FindStored) -> None:
    """Changes an experiment of which no trial runs, and has it go on when a snapshot holds that."""

    async def write(spec: Object) -> int:
        made = await api.request("PATCH", path, {"spec": spec}, content_type=MERGE)
        return int(made["metadata"]["generation"])

    await write({"suspend": True})
    await until(lambda: _is_suspended(history))
    edited = await write(_NEXT)

    async def is_stored() -> bool:
        return await find_stored() >= edited

    await until(is_stored, interval=0.5)
    await write({"suspend": False})


def _is_suspended(history: History) -> bool:
    conditions = (history.experiment.get("status") or {}).get("conditions") or ()
    is_told = any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)
    return is_told and not history.alive


def _has_come(status: Mapping[str, Any], request: UserRequest) -> bool:
    """Whether the attempt waits, and all that it has stored until then is on record."""
    if request.ask is Ask.IMAGE:
        return bool(status.get("reason") == TrialReason.PULLING_IMAGE)
    stores = request.ask not in (Ask.CHECKPOINT, Ask.INITIAL, *_ADDED)
    stored = (status.get("checkpoint") or {}).get("step", 0)
    return int(status.get("iteration", 0)) >= request.step and (stored >= request.step or not stores)


def _write(request: UserRequest) -> Object:
    match request.ask:
        case Ask.RETRY:
            return {"retry": {"attempt": 1}}
        case Ask.RETURN:
            return {"retry": {"attempt": 1, "step": request.back_to}}
        case Ask.CHECKPOINT:
            return {"checkpointRequest": {"id": "one"}}
        case Ask.LIMITS:
            return {"limits": {"memory": "1Gi"}}
        case Ask.TEMPLATE:
            return {"trialTemplate": {"metadata": {"labels": {"mended": "true"}}}}
        case Ask.INITIAL:
            return _NEXT
        case Ask.IMAGE:
            return {"trialTemplate": {"spec": {"containers": [CONTAINER]}}}
        case _:
            raise NotImplementedError(f"{request.ask} changes no spec")


def _make_trial(request: UserRequest, experiment: str) -> Object:
    number, base = _ADDED[request.ask]
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Trial",
        "metadata": {"name": f"{experiment}-{number}"},
        "spec": {"experiment": experiment, "parameters": {"base": base}},
    }


def _is_judged(history: History, trial: str) -> bool:
    """Whether the operator has taken a Trial for one of the experiment's, or has said that it is none."""
    latest = history.trials.get(trial, [{}])[-1]
    return bool(latest) and bool(latest.get("status") or latest["metadata"].get("ownerReferences"))


def _is_taken_up(request: UserRequest, history: History, trial: str, generation: int) -> bool:
    status = (history.experiment.get("status") or {}) if request.ask in _OF_EXPERIMENT else history.last(trial)
    return int(status.get("observedGeneration", -1)) >= generation
