"""Trials that were deleted while their experiment runs: each is recreated under its name, with another UID.

What the Trial leaves behind is in the new one's spec (`spec.former`) from its creation on, so that no operator has to
remember it. The new Trial takes over the checkpoints with its first status, before a pod is created. From then on they
are its own, for retries, for trials that clone it, and for retention in the bucket. It also takes over the last and the
best result. What the scheduler remembered about it is lost: the trial is compared by what it reports from then on.

If no checkpoint is on record, the new Trial's first agent looks for checkpoints in the bucket (see
`found_checkpoints`).

Only those are taken over that belong to the new Trial's configuration, as it was proposed: a searcher that has learnt
more meanwhile may propose another one, and what an exploit or a user had changed is gone with the Trial. One that had
come to its end is run once more, from the beginning: with its last checkpoint there would be nothing left to do.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from podtune.api.names import DecisionKind
from podtune.api.resources.trial import FormerTrial, TrialSpec
from podtune.protocol.messages import read_number
from podtune.runner.checkpoints.retention import lies_below
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.results import parse_metrics, show


class FormerTrials:
    """The Trials that were deleted, as they were last seen."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._to_make_anew: dict[str, tuple[TrialSpec | None, FormerTrial]] = {}
        """By name: the spec, where that is known, and what else was seen."""

    def __contains__(self, uid: str) -> bool:
        """Whether the Trial with this UID was deleted: later news of it is old news."""
        return uid in self._uids

    def record_deletion(self, trial: TrialMachine) -> None:
        """A Trial was deleted."""
        self._uids.add(trial.uid)
        self._to_make_anew[trial.name] = (trial.spec, _describe(trial))

    def miss(self, experiment: str, recorded: int, present: Collection[str]) -> None:
        """Finds out, when an operator starts, which Trials were deleted while no operator ran.

        A number without a Trial proves nothing: an operator may have died before it created that one. But if there are
        fewer Trials than the Experiment's status has counted, some were deleted.
        """
        if len(present) >= recorded:
            return
        for name in (f"{experiment}-{index}" for index in range(recorded)):
            if name not in present:
                self._to_make_anew[name] = (None, FormerTrial(find_checkpoints=True))

    def record_recreation(self, name: str) -> None:
        """There is a Trial of this name again."""
        self._to_make_anew.pop(name, None)

    def add_former(self, name: str, spec: TrialSpec) -> TrialSpec:
        """The spec of a Trial to create, with what is known about a former one of its name."""
        known = self._to_make_anew.get(name)
        if known is None:
            return spec
        before, former = known
        if before is not None and (before.parameters, before.seed) != (spec.parameters, spec.seed):
            lack = former.lack or "the search proposes another configuration for it"
            former = FormerTrial(uid=former.uid, lack=lack)
        return spec.model_copy(update={"former": former})


def take_over(trial: TrialMachine, now: float) -> str:
    """Lets a recreated Trial take over the checkpoints of the former one, and records that in its ledger.

    Returns:
        The outcome, for people; empty if it is already on record or there was no former Trial.
    """
    former = trial.spec.former
    if former is None or trial.status.ledger:
        return ""
    found = [checkpoint for checkpoint in former.checkpoints if lies_below(checkpoint.uri, trial.folder)]
    if found:
        newest = found[-1]
        trial.set(checkpoints=found, checkpoint=newest, iteration=newest.step, restore_source=former.restore_source)
        _take_over_results(trial, former)
        what = f"continues from the checkpoint of iteration {newest.step}"
    elif trial.finds_checkpoints:
        what = "no checkpoint is on record, so the agent looks in the bucket"
    else:
        what = f"starts from scratch: {former.lack or _describe_lack(former)}"
    message = f"recreated because the Trial was deleted; {what}"
    trial.log_decision(DecisionKind.RECREATE, message, {"checkpoint": found[-1].step} if found else {}, now=now)
    trial.touch(now)
    return message


def _take_over_results(trial: TrialMachine, former: FormerTrial) -> None:
    """What was reported up to the checkpoint is not reported again; if that is the last one, nothing is."""
    value = read_number(parse_metrics(former.best), trial.context.spec.objective.metric)
    trial.set(last_result=former.last_result)
    if value is not None and math.isfinite(value):
        trial.set(best=former.best, best_value=show(value))


def _describe_lack(former: FormerTrial) -> str:
    """Why none of the checkpoints is taken over."""
    if former.checkpoints:
        return "its checkpoints lie outside its folder in checkpoints.store"
    if former.find_checkpoints:
        return "no checkpoint is on record"
    return "the deleted Trial had no checkpoint"


def _describe(trial: TrialMachine) -> FormerTrial:
    """What a Trial leaves to the one that is made in its place."""
    if trial.is_finished:
        return FormerTrial(uid=trial.uid, lack="the deleted Trial had already ended")
    if trial.spec.former is not None and (trial.finds_checkpoints or not trial.status.ledger):
        return trial.spec.former  # it had not come to take anything over itself
    own = [checkpoint for checkpoint in trial.status.checkpoints if not checkpoint.configuration]
    if trial.status.checkpoints and not own:
        return FormerTrial(uid=trial.uid, lack="its checkpoints were taken with other parameters")
    if not own:
        # Its agent may store one yet, before the pod is gone, or have stored one that it could tell nobody of.
        has_begun = trial.status.attempt > 0 or bool(trial.current.pods)
        return FormerTrial(uid=trial.uid, find_checkpoints=has_begun)
    status = trial.status
    return FormerTrial(
        uid=trial.uid,
        checkpoints=own,
        restore_source=status.restore_source,
        last_result={} if status.parameters else status.last_result,
        best={} if status.best_parameters else status.best,
    )
