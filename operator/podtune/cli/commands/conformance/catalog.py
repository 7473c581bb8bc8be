"""The failures that an installation has to survive: each a small Experiment, a disturbance, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from podtune.api.names import ConditionType, TrialReason, TrialState
from podtune.cli.commands.conformance import disturbances
from podtune.cli.commands.conformance.checks import CheckStep, ConformanceCheck, Need, Observed, Rig
from podtune.cli.commands.conformance.program import EPOCHS, compute_value

_HELD = {"HOLD_AT": "4"}
"""The program waits before epoch 4 on its first attempt, until it is told to end."""
_RELEASED = {"RELEASED_BY_REQUEST": "1"}
"""It goes on when a checkpoint is asked for; the epoch before has none, else nobody would ask the program."""
_LONG = 40
"""Epochs of a program that trains on while the operator is away."""

Expected = Mapping[str, Callable[[Observed], bool]]


def _expect(*, attempts: int, failures: int = 0, disruptions: int = 0, epochs: int = EPOCHS) -> Expected:
    """A good end, with so many attempts; the result is that of a program that nothing has interrupted."""
    return {
        "the trial has ended well": lambda seen: seen.status.get("state") == TrialState.TERMINATED,
        f"it took {attempts} {'attempt' if attempts == 1 else 'attempts'}": lambda seen: (
            seen.count("attempt") == attempts
        ),
        f"{failures or 'no'} {'failure' if failures == 1 else 'failures'} counted": lambda seen: (
            seen.count("failures") == failures
        ),
        f"{disruptions or 'no'} {'disruption' if disruptions == 1 else 'disruptions'} counted": lambda seen: (
            seen.count("disruptions") == disruptions
        ),
        f"all {epochs} epochs counted once": lambda seen: seen.count("iteration") == epochs,
        "the value is that of training without a break": lambda seen: (
            seen.read_result("value") == compute_value(epochs)
        ),
    }


def _goes_on_from(epoch: int) -> Expected:
    return {
        f"the last attempt went on from the checkpoint of epoch {epoch} or a later one": lambda seen: (
            seen.read_result("start") >= epoch
        )
    }


def _has_stored(epoch: int) -> Callable[[Rig, Observed], bool]:
    return lambda _, seen: seen.checkpoint_step >= epoch


def _has_reported(epochs: int) -> Callable[[Rig, Observed], bool]:
    return lambda _, seen: seen.count("iteration") >= epochs


def _make_waiting_step(epoch: int, act: Callable[[Rig], None]) -> CheckStep:
    """Lasts until the program waits for a request: an earlier one asks for a checkpoint that there is already."""
    return CheckStep(
        f"the program waits before epoch {epoch}",
        lambda _, seen: seen.checkpoint_step >= epoch - 2 and seen.count("iteration") >= epoch - 1,
        act,
    )


def _is_paused(_: Rig, seen: Observed) -> bool:
    return seen.status.get("state") == TrialState.PAUSED and not seen.live_pods


def _is_over_quota(_: Rig, seen: Observed) -> bool:
    is_queued = seen.status.get("reason") == TrialReason.QUEUED
    return is_queued and "exceeded quota" in str(seen.status.get("message"))


def _is_store_missed(_: Rig, seen: Observed) -> bool:
    return seen.find_condition(ConditionType.CHECKPOINTS_STORED, of_trial=True).get("status") == "False"


_TRAINS = CheckStep("the checkpoint of epoch 3 is stored", _has_stored(3), disturbances.start_trial)
_NEXT_ATTEMPT = "the next attempt begins"


def _is_next_attempt(_: Rig, seen: Observed) -> bool:
    return seen.count("attempt") == 2


CHECKS: tuple[ConformanceCheck, ...] = (
    ConformanceCheck(
        "crash",
        "A program that crashes is tried again, and goes on from its checkpoint.",
        180,
        (
            _make_waiting_step(4, disturbances.start_trial),
            CheckStep(_NEXT_ATTEMPT, _is_next_attempt, disturbances.release_program),
        ),
        {**_expect(attempts=2, failures=1), **_goes_on_from(2)},
        {**_HELD, **_RELEASED, "THEN": "crash"},
        frozenset({Need.STORE}),
    ),
    ConformanceCheck(
        "eviction",
        "A pod that is evicted counts as a disruption, never as a failure, and its trial goes on.",
        180,
        (_TRAINS, CheckStep(_NEXT_ATTEMPT, _is_next_attempt, disturbances.evict_pod)),
        {**_expect(attempts=2, disruptions=1), **_goes_on_from(3)},
        _HELD,
        frozenset({Need.STORE}),
    ),
    ConformanceCheck(
        "lost-pod",
        "A pod that is gone without a trace is replaced, and its trial goes on.",
        180,
        (_TRAINS, CheckStep(_NEXT_ATTEMPT, _is_next_attempt, disturbances.lose_pod)),
        {**_expect(attempts=2, disruptions=1), **_goes_on_from(3)},
        _HELD,
        frozenset({Need.STORE}),
    ),
    ConformanceCheck(
        "pause",
        "A pause gives the pod back; the resumed trial ends as if there had been none.",
        240,
        (
            _TRAINS,
            CheckStep("the trial is paused, and its pod is gone", _is_paused, disturbances.pause_trial),
            CheckStep(_NEXT_ATTEMPT, _is_next_attempt, disturbances.resume_trial),
        ),
        {**_expect(attempts=2), **_goes_on_from(3)},
        _HELD,
        frozenset({Need.STORE}),
    ),
    ConformanceCheck(
        "store",
        "While the store is away, training goes on and the status says so; all is stored when it is back.",
        300,
        (
            CheckStep("the way to the store is open", disturbances.is_store_connected, disturbances.connect_store),
            _make_waiting_step(4, disturbances.start_behind_relay),
            CheckStep("the trial says that nothing is stored", _is_store_missed, disturbances.disconnect_store),
            _make_waiting_step(EPOCHS, disturbances.connect_store),
            CheckStep(
                "the program ends",
                lambda _, seen: seen.status.get("state") == TrialState.TERMINATED,
                disturbances.release_program,
            ),
        ),
        {
            **_expect(attempts=1),
            "the last checkpoint is stored": lambda seen: seen.checkpoint_step == EPOCHS,
        },
        {**_RELEASED, "HOLD_AT": f"4 {EPOCHS}"},
        frozenset({Need.PLAIN_STORE}),
        disturbances.mend_store,
    ),
    ConformanceCheck(
        "operator",
        "Trials train on while the operator is gone, and the next one misses no result.",
        240,
        (
            CheckStep("two results have come in", _has_reported(2), disturbances.start_trial),
            CheckStep("another operator leads", disturbances.is_led_by_another, disturbances.kill_operator),
        ),
        _expect(attempts=1, epochs=_LONG),
        {"EPOCHS": str(_LONG)},
        frozenset({Need.OPERATOR_PODS}),
    ),
    ConformanceCheck(
        "quota",
        "Where a quota leaves no room, a trial waits, says so, and starts when there is room.",
        240,
        (
            CheckStep("the quota is in force", disturbances.is_quota_in_force, disturbances.fill_quota),
            CheckStep("the trial waits, and names the quota", _is_over_quota, disturbances.start_trial),
            CheckStep("the trial starts", _has_reported(1), disturbances.raise_quota),
        ),
        _expect(attempts=1),
    ),
)
"""All checks, in the order in which they are run."""
