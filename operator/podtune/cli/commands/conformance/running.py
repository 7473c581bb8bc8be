"""Runs checks, one after the other, and says what each has come to."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from podtune.api.names import ConditionType
from podtune.cli.client.resources import read_experiment, read_trial
from podtune.cli.commands.conformance.checks import CheckStep, ConformanceCheck, Observed, Rig
from podtune.cli.commands.doctor.pods import explain_waiting, is_ready
from podtune.cli.views.troubles import explain_trial, find_experiment_troubles
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, Unanswered

_LOOK_SECONDS = 0.5
_REMOVAL_SECONDS = 60.0
_MOST_EVENTS = 10
_COUNTED = ("attempt", "failures", "disruptions", "iteration")
_COMPLETE = CheckStep("the Experiment is complete", lambda _, seen: seen.holds(ConditionType.COMPLETE))
_BAD_ENDS = (ConditionType.FAILED, ConditionType.STALLED)


class CheckState(StrEnum):
    """What a check has come to."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """How a check went.

    Attributes:
        words: Why it has failed, or why it was skipped and what to do about that; empty if it has passed.
        evidence: What was seen last of a check that has failed, a line each.
    """

    check: ConformanceCheck
    state: CheckState
    seconds: float = 0.0
    words: str = ""
    evidence: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckClock:
    """How time passes.

    Attributes:
        now: Tells it, in seconds.
        sleep: Waits so many seconds.
        rng: Draws how long a wait between two looks is.
        say: Takes what is waited for.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    say: Callable[[str], None] = lambda _: None


class _CheckFailed(Exception):
    """What should have happened has not; the text says what."""


def carry_out_check(check: ConformanceCheck, rig: Rig, clock: CheckClock) -> CheckReport:
    """Runs a check, and leaves its Experiment where it is.

    Args:
        check: The check.
        rig: What it works with.
        clock: How time passes.

    Raises:
        Unanswered: The API server did not answer when something was to be done.
    """
    begun = clock.now()
    try:
        for step in (*check.steps, _COMPLETE):
            clock.say(step.words)
            _act(step, rig, begun + check.deadline, clock)
            seen = _wait(step, rig, begun, check.deadline, clock)
        broken = [words for words, holds in check.expected.items() if not holds(seen)]
        if broken:
            raise _CheckFailed(f"what does not hold: {'; '.join(broken)}")
    except (_CheckFailed, LookupError) as error:
        return CheckReport(check, CheckState.FAILED, clock.now() - begun, str(error), _collect_evidence(rig))
    except ApiRefusal as refusal:
        lacks_right = refusal.is_lack_of_rights and refusal.status == http.client.FORBIDDEN
        state = CheckState.SKIPPED if lacks_right else CheckState.FAILED
        words = f"{refusal.message}; ask for that right" if lacks_right else f"the API server says {refusal}"
        evidence = [] if lacks_right else _collect_evidence(rig)
        return CheckReport(check, state, clock.now() - begun, words, evidence)
    return CheckReport(check, CheckState.PASSED, clock.now() - begun)


def remove_made(check: ConformanceCheck, rig: Rig, clock: CheckClock) -> None:
    """Deletes what a check has made: first its Experiment, which may need the rest to delete what it has stored.

    Raises:
        ApiError: The API server refuses, or does not answer.
    """
    own = paths.experiment(rig.namespace, rig.name)
    if rig.made:
        check.mend(rig)
    rig.delete(own)
    end = clock.now() + _REMOVAL_SECONDS
    while rig.made and rig.observe().experiment and clock.now() < end:
        clock.sleep(_draw_wait(clock))
    for path in dict.fromkeys(rig.made):
        rig.delete(path, 0 if "/pods/" in path else None)


def _act(step: CheckStep, rig: Rig, until: float, clock: CheckClock) -> None:
    """Does what a step begins with, again where the API server says that it may succeed later.

    Raises:
        ApiRefusal: It refuses, or has done so until the time is over.
    """
    while True:
        try:
            step.act(rig)
        except ApiRefusal as refusal:
            if not (refusal.is_transient or refusal.is_without_account) or clock.now() >= until:
                raise
        else:
            return
        clock.sleep(_draw_wait(clock))


def _draw_wait(clock: CheckClock) -> float:
    return _LOOK_SECONDS * clock.rng.uniform(0.5, 1.0)


def _wait(step: CheckStep, rig: Rig, begun: float, deadline: float, clock: CheckClock) -> Observed:
    """Looks until what a step waits for has come.

    Raises:
        _CheckFailed: It has not come in time, or never will.
        ApiRefusal: The API server refuses.
    """
    silence = ""
    while True:
        try:
            seen = rig.observe()
            if step.until(rig, seen):
                return seen
            silence = ""
        except Unanswered as error:
            silence = f"; {error}"
        else:
            for type_ in _BAD_ENDS:
                if seen.holds(type_):
                    said = seen.find_condition(type_).get("message", "")
                    raise _CheckFailed(f"the Experiment is {type_}: {said} (waited until {step.words})")
        if clock.now() >= begun + deadline:
            raise _CheckFailed(f"not within {deadline:.0f} s: {step.words}{silence}")
        clock.sleep(_draw_wait(clock))


def _collect_evidence(rig: Rig) -> list[str]:
    """What there is to know of a check that has failed, as far as it can be read."""
    with suppress(ApiError):
        return list(_describe(rig))
    return []


def _describe(rig: Rig) -> Iterator[str]:
    seen = rig.observe()
    if not (seen.experiment.get("status") or {}).get("state"):
        yield f"no operator has looked at Experiment {rig.name}: does one run that serves namespace {rig.namespace}?"
    else:
        view = read_experiment(seen.experiment)
        told = "; ".join(part for part in (view.status.message, *find_experiment_troubles(view)) if part)
        yield f"Experiment {rig.name}: {view.state}: {told}"
    if seen.status:
        trial = read_trial(seen.trial)
        counted = ", ".join(f"{what} {seen.count(what)}" for what in _COUNTED)
        yield f"Trial {rig.trial}: {trial.state} {trial.status.reason}: {explain_trial(trial)} ({counted})"
        if last := seen.status.get("lastAttempt"):
            yield f"its last attempt: {last.get('reason', '')}: {last.get('message', '')}"
    for pod in seen.pods:
        phase = (pod.get("status") or {}).get("phase", "")
        waits = "" if is_ready(pod) or phase != "Pending" else f": {explain_waiting(pod)}"
        yield f"pod {pod['metadata']['name']}: {phase}{waits}"
    yield from _list_events(rig)


def _list_events(rig: Rig) -> Iterator[str]:
    """The last Events about what belongs to the check."""
    events = rig.api.list_all(paths.core_events(rig.namespace))
    own = [
        event
        for event in events
        if str((event.get("involvedObject") or {}).get("name", "")).partition(".")[0].startswith(rig.name)
    ]
    own.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    for event in own[-_MOST_EVENTS:]:
        about = event["involvedObject"]
        yield (
            f"Event {event.get('reason', '')} of {about.get('kind', '')} {about.get('name', '')}: "
            f"{event.get('message', '')}"
        )
