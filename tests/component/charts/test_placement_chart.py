"""Where pods run, what they have, and how many may be away: the values come to the pods as they were given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.charts.rendered import SOMEWHERE, find_one, list_kinds, render_with_tests, template

pytestmark = [pytest.mark.cluster]

ELSEWHERE: dict[str, Any] = {
    **SOMEWHERE,
    "nodeSelector": {"pool": "web"},
    "priorityClassName": "dashboards",
    "podAnnotations": {"example.com/note": "there"},
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": 2, "memory": "1Gi"}},
}
"""The dashboard's own, which are not the operator's."""
OF_THE_POD = ("nodeSelector", "tolerations", "priorityClassName", "affinity", "topologySpreadConstraints")
PULLED_WITH = [{"name": "registry"}, {"name": "mirror"}]
S3 = {"enabled": True, "image": {"repository": "versitygw", "tag": "1"}, "secret": "podtune-s3"}
ALL = {"embeddedS3": S3, "dashboard": {"enabled": True}}

Documents = list[dict[str, Any]]


def read_pods(documents: Documents) -> dict[str, dict[str, Any]]:
    """The pods of the release by the name of who makes them, with that of `helm test`."""
    made = {d["metadata"]["name"]: d["spec"]["template"] for d in documents if d["kind"] == "Deployment"}
    return {**made, **{d["metadata"]["name"]: d for d in documents if d["kind"] == "Pod"}}


def test_operator_and_dashboard_run_where_each_is_told_to() -> None:
    assert all(SOMEWHERE[field] for field in OF_THE_POD), "a value of nothing would show nothing"
    pods = read_pods(render_with_tests({**SOMEWHERE, "dashboard": {"enabled": True, **ELSEWHERE}}))
    for name, given in (("podtune", SOMEWHERE), ("podtune-dashboard", ELSEWHERE)):
        assert {field: pods[name]["spec"].get(field) for field in OF_THE_POD} == {f: given[f] for f in OF_THE_POD}


def test_operator_and_dashboard_have_the_resources_and_annotations_that_each_is_given() -> None:
    pods = read_pods(render_with_tests({**SOMEWHERE, "dashboard": {"enabled": True, **ELSEWHERE}}))
    for name, given in (("podtune", SOMEWHERE), ("podtune-dashboard", ELSEWHERE)):
        (container,) = pods[name]["spec"]["containers"]
        assert container["resources"] == given["resources"]
        assert pods[name]["metadata"]["annotations"] == given["podAnnotations"]
        assert pods[name]["metadata"]["labels"]["tier"] == given["podLabels"]["tier"]


def test_what_stands_beside_the_operator_runs_where_it_may() -> None:
    """A cluster whose nodes are all tainted has a place for the S3 server and for `helm test`, too."""
    pods = read_pods(render_with_tests({**SOMEWHERE, **ALL}))
    for name in ("podtune-s3", "podtune-test"):
        for field in ("nodeSelector", "tolerations"):
            assert pods[name]["spec"][field] == SOMEWHERE[field]
    assert pods["podtune-s3"]["spec"]["priorityClassName"] == SOMEWHERE["priorityClassName"]


def test_by_default_pods_say_nothing_of_where_they_run() -> None:
    for pod in read_pods(render_with_tests(ALL)).values():
        assert not {*OF_THE_POD, "imagePullSecrets"} & pod["spec"].keys()


def test_every_image_is_pulled_with_the_secrets_that_are_named() -> None:
    pods = read_pods(render_with_tests({**ALL, "imagePullSecrets": PULLED_WITH}))
    assert sorted(pods) == ["podtune", "podtune-dashboard", "podtune-s3", "podtune-test"]
    for pod in pods.values():
        assert pod["spec"]["imagePullSecrets"] == PULLED_WITH
    # The experiment that `helm test` makes has its agent from the same registry.
    (container,) = pods["podtune-test"]["spec"]["containers"]
    assert {"--pull-secret=registry", "--pull-secret=mirror"} < set(container["args"])


@pytest.mark.parametrize("may_be_away", [2, "50%"])
def test_a_budget_lets_as_many_operators_be_away_as_it_says(may_be_away: int | str) -> None:
    budget = {"enabled": True, "maxUnavailable": may_be_away}
    documents = render_with_tests({**ALL, "replicas": 3, "podDisruptionBudget": budget})
    spec = find_one(documents, "PodDisruptionBudget", "podtune")["spec"]
    assert spec.pop("selector")
    assert spec == {"maxUnavailable": may_be_away}


def test_a_budget_counts_the_operators_pods_and_no_others() -> None:
    documents = render_with_tests({**ALL, "podDisruptionBudget": {"enabled": True}})
    selector = find_one(documents, "PodDisruptionBudget", "podtune")["spec"]["selector"]
    assert set(selector) == {"matchLabels"}
    selected = [
        name
        for name, pod in read_pods(documents).items()
        if selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ]
    assert selected == ["podtune"]
    assert "PodDisruptionBudget" not in {kind for kind, _ in list_kinds(render_with_tests(ALL))}


@pytest.mark.parametrize("may_be_away", ["half", -1, "110%"])
def test_a_budget_of_nonsense_is_refused(may_be_away: int | str) -> None:
    refused = template({"podDisruptionBudget": {"enabled": True, "maxUnavailable": may_be_away}})
    assert refused.returncode != 0
    assert "maxUnavailable" in refused.stderr
