"""An Experiment that can't be read, and is deleted."""

from __future__ import annotations

from dataclasses import replace

from podtune.api.names import FINALIZER
from podtune.controllers.store.stalled import Stalled
from podtune.runner.actions import DONE, ActionResult, ActionStatus, EmitEvent, WriteMetadata
from podtune.runner.backoff import Backoff
from tests.unit.cluster.objects import experiment_record


def test_what_may_be_left_in_its_bucket_is_told_once_however_long_the_finalizer_stays() -> None:
    experiment = replace(
        experiment_record(), spec=None, problem="it can't be read", deleting=True, finalizers=(FINALIZER,)
    )
    stalled = Stalled(Backoff(1.0, 60.0))
    events, writes = 0, 0
    for moment in range(300):
        for action in stalled.decide(experiment, float(moment)).actions:
            events += isinstance(action, EmitEvent)
            writes += isinstance(action, WriteMetadata)
            refused = isinstance(action, WriteMetadata)
            outcome = ActionResult(ActionStatus.FAILED, "a webhook is away") if refused else DONE
            stalled.on_action_result(experiment, action, outcome, float(moment))
    assert events == 1
    assert 5 < writes < 30, "it is tried again, ever more rarely"
