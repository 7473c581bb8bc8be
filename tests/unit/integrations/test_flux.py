"""The Kustomizations for Flux: what they wait for, in each state of an Experiment."""

from __future__ import annotations

import pytest

from tests.gitops import flux, states
from tests.gitops.kstatus import Kstatus

UNTIL_COMPLETE = {
    "applied": Kstatus.IN_PROGRESS,
    "running": Kstatus.IN_PROGRESS,
    "changed": Kstatus.IN_PROGRESS,
    "suspending": Kstatus.IN_PROGRESS,
    "suspended": Kstatus.IN_PROGRESS,
    "resumed": Kstatus.IN_PROGRESS,
    "stopping": Kstatus.IN_PROGRESS,
    "stopped": Kstatus.CURRENT,
    "complete": Kstatus.CURRENT,
    "failed": Kstatus.FAILED,
    "stalled": Kstatus.FAILED,
}


@pytest.mark.parametrize(("state", "status"), UNTIL_COMPLETE.items())
def test_what_depends_on_an_experiments_end_waits_for_it(state: str, status: Kstatus) -> None:
    assert flux.check_health(flux.read_kustomization("complete.yaml"), states.EXPERIMENTS[state]()) is status


@pytest.mark.parametrize("state", ["running", "suspended", "complete"])
def test_by_default_flux_waits_until_an_experiment_is_as_the_commit_has_it(state: str) -> None:
    assert flux.check_health(flux.read_kustomization("accepted.yaml"), states.EXPERIMENTS[state]()) is Kstatus.CURRENT


@pytest.mark.parametrize("name", ["accepted.yaml", "complete.yaml"])
def test_flux_waits_at_all(name: str) -> None:
    spec = flux.read_kustomization(name)["spec"]
    assert spec["wait"] is True
    assert {"interval", "path", "sourceRef", "timeout"} <= spec.keys()
