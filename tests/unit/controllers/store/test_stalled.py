"""An Experiment that can't be read, and is deleted; and one whose namespace has not opted in."""

from __future__ import annotations

from dataclasses import replace

from podtune.api.names import FINALIZER, ExperimentState
from podtune.api.resources.experiment import ExperimentStatus, TrialCounts
from podtune.controllers.store.stalled import Stalled
from podtune.runner.actions import DONE, ActionResult, ActionStatus, EmitEvent, WriteExperimentStatus, WriteMetadata
from podtune.runner.backoff import Backoff
from podtune.runner.records import Experiment
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


BAR = "namespace team has not opted in"


def decide_status(experiment: Experiment) -> ExperimentStatus | None:
    """The status that an Experiment gets whose namespace has not opted in."""
    stalled = Stalled(Backoff(1.0, 60.0))
    (write,) = stalled.decide(experiment, 0.0, BAR).actions or (None,)
    if write is None:
        return None
    assert isinstance(write, WriteExperimentStatus)
    stalled.on_action_result(experiment, write, DONE, 0.0)
    after = replace(experiment, status=write.status)
    assert stalled.decide(after, 1.0, BAR).actions == (), "it is said once, and without an Event"
    return write.status


def test_an_experiment_whose_namespace_has_not_opted_in_says_so_however_wrong_its_spec_is() -> None:
    for problem in ("", "spec.stop: no"):
        status = decide_status(replace(experiment_record(), problem=problem))
        assert status is not None
        assert (status.state, status.message) == (ExperimentState.STALLED, BAR)
        said = {(c.type, c.status, c.reason) for c in status.conditions}
        assert said == {("Ready", "False", "NamespaceNotEnabled"), ("Stalled", "True", "NamespaceNotEnabled")}


def test_what_it_has_come_to_stays() -> None:
    running = ExperimentStatus(state=ExperimentState.RUNNING, trials=TrialCounts(total=3, running=2))
    status = decide_status(replace(experiment_record(), status=running))
    assert status is not None
    assert status.trials == running.trials
    complete = ExperimentStatus(state=ExperimentState.COMPLETE, trials=TrialCounts(total=3, terminated=3))
    assert decide_status(replace(experiment_record(), status=complete)) is None


def test_one_that_is_deleted_is_let_go_although_nobody_can_delete_its_checkpoints() -> None:
    experiment = replace(experiment_record(), deleting=True, finalizers=(FINALIZER,))
    actions = Stalled(Backoff(1.0, 60.0)).decide(experiment, 0.0, BAR).actions
    assert [type(action) for action in actions] == [EmitEvent, WriteMetadata]
