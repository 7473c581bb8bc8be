"""When an experiment has come to its end."""

from __future__ import annotations

from podtune.api.experiment import ExperimentSpec
from podtune.api.names import ExperimentReason, TrialState
from podtune.runner.experiment_status import Ended
from podtune.runner.overview import Overview
from podtune.runner.search import Search
from podtune.tuning.schedulers.base import Action
from podtune.tuning.stoppers.base import ExperimentStopper, Progress


def find_end(
    overview: Overview, search: Search, spec: ExperimentSpec, stopper: ExperimentStopper, now: float
) -> Ended | None:
    """Why an experiment ends now: time is up, a failure is not to be survived, or nothing is left to try."""
    verdict = stopper.check(Progress(elapsed=now - overview.start(now)))
    if verdict.action is Action.STOP:
        return Ended(ExperimentReason.TIME_LIMIT, verdict.message)
    if spec.failures.fail_fast and overview.by_state[TrialState.ERROR]:
        return Ended(ExperimentReason.FAIL_FAST, "a trial ended in ERROR and failFast is set", good=False)
    return _natural_end(overview, search) if search.is_over and overview.is_settled else None


def _natural_end(overview: Overview, search: Search) -> Ended:
    total = sum(overview.by_state.values())
    if total and overview.by_state[TrialState.ERROR] == total:
        return Ended(ExperimentReason.ALL_TRIALS_FAILED, f"all {total} trials ended in ERROR", good=False)
    if search.is_exhausted:
        return Ended(ExperimentReason.SPACE_EXHAUSTED, f"all {total} configurations of the space were tried")
    return Ended(ExperimentReason.TRIALS_COMPLETE, f"all {total} trials are done")
