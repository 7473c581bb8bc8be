"""Roles in a gang: which template a pod is made from, and what may be said of roles."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.resources.trial_template import TrialTemplate
from podtune.api.validation import InvalidSpec, parse_experiment


def make_pods(image: str, **container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "trial", "image": image, **container}]}}


ROLES: list[dict[str, Any]] = [
    {"name": "driver", "template": make_pods("driver")},
    {"name": "worker", "replicas": 3, "template": {**make_pods("worker"), "limits": {"memory": "8Gi"}}},
]


def parse(template: dict[str, Any], **fields: Any) -> TrialTemplate:
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [{"name": "workers", "int": {"min": 1, "max": 4}}],
        "search": {"maxTrials": 1},
        "trialTemplate": template,
        **fields,
    }
    return parse_experiment({"metadata": {"name": "e"}, "spec": spec}).trial_template


def change(**worker: Any) -> dict[str, Any]:
    roles = copy.deepcopy(ROLES)
    roles[1] = {**roles[1], **worker}
    return {"roles": roles}


def test_ranks_follow_the_order_of_the_roles() -> None:
    template = parse({"roles": ROLES})
    assert template.pod_count == 4
    assert [template.find_role(rank).name for rank in range(4)] == ["driver", "worker", "worker", "worker"]
    assert [rank - template.find_role(rank).first_rank for rank in range(4)] == [0, 0, 1, 2]
    assert template.leading_role.template.spec["containers"][0]["image"] == "driver"


@given(st.lists(st.integers(1, 8), min_size=2, max_size=8))
def test_each_rank_has_one_role_and_each_role_as_many_ranks_as_it_has_replicas(replicas: list[int]) -> None:
    roles = [
        {"name": f"role-{number}", "replicas": count, "template": make_pods(str(number))}
        for number, count in enumerate(replicas)
    ]
    template = TrialTemplate.model_validate({"roles": roles})
    ranks = [template.find_role(rank).name for rank in range(template.pod_count)]
    assert ranks == [f"role-{number}" for number, count in enumerate(replicas) for _ in range(count)]


def test_one_template_for_all_pods_is_a_role_without_a_name() -> None:
    template = parse({**make_pods("i"), "replicas": 3})
    assert (template.pod_count, template.role_names) == (3, ())
    assert {(template.find_role(rank).name, template.find_role(rank).path) for rank in range(3)} == {
        ("", "trialTemplate")
    }


def test_metadata_of_the_trial_template_is_added_to_each_role() -> None:
    common = {"labels": {"team": "a", "tier": "$(PODTUNE_PARAM_workers)"}, "annotations": {"note": "x"}}
    own = {"labels": {"tier": "gpu"}}
    roles = [ROLES[0], {**ROLES[1], "template": {**make_pods("worker"), "metadata": own}}]
    template = parse({"metadata": common, "roles": roles})
    driver, worker = (role.template.metadata for role in template.ranked_roles)
    assert driver.labels == {"team": "a", "tier": "$(PODTUNE_PARAM_workers)"}
    assert worker.labels == {"team": "a", "tier": "gpu"}
    assert worker.annotations == {"note": "x"}
    assert template.labels["tier"] == "$(PODTUNE_PARAM_workers)", "the Trial has those of its first role"


def test_a_change_of_any_role_makes_a_new_revision() -> None:
    first = parse({"roles": ROLES}).revision
    assert parse({"roles": copy.deepcopy(ROLES)}).revision == first
    assert parse(change(template=make_pods("mended"))).revision != first
    assert parse({"roles": ROLES, "placementTimeout": "9m"}).revision == first, "no pod is made from that"


def test_gpus_of_any_role_count_for_a_budget() -> None:
    stop = {"experiment": [{"gpuHours": 8}]}
    worker = make_pods("worker", resources={"limits": {"nvidia.com/gpu": 1}})
    assert parse(change(template=worker), stop=stop).may_use_gpus
    with pytest.raises(InvalidSpec, match="counts GPUs, but the trial's pod requests none"):
        parse({"roles": ROLES}, stop=stop)


HALVING = {"ashaPromotion": {"maxTime": 9, "gracePeriod": 1}}


def test_rungs_may_raise_the_limits_of_one_role() -> None:
    resources = [{"atRung": 1, "limits": {"worker:nvidia.com/gpu": 4}}]
    stop = {"experiment": [{"gpuHours": 8}]}
    fields: dict[str, Any] = {"checkpoints": {"store": {"bucket": "models"}}, "stop": stop}
    assert parse({"roles": ROLES}, scheduler={**HALVING, "resources": resources}, **fields)
    resources = [{"atRung": 1, "limits": {"nvidia.com/gpu": 4}}]
    with pytest.raises(InvalidSpec, match="names no role, but the trial's pods have roles; write a role before it"):
        parse({"roles": ROLES}, scheduler={**HALVING, "resources": resources}, **fields)


SECRET = [{"secretRef": {"name": "s3"}}]
STORE = {"bucket": "models", "credentialsSecret": "s3"}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ({}, "spec.trialTemplate.spec: is missing; write the pod's spec, or roles that have one each"),
        ({**make_pods("i"), "roles": ROLES}, "spec.trialTemplate.spec: is set besides roles"),
        ({"limits": {"cpu": 1}, "roles": ROLES}, "spec.trialTemplate.limits: is set besides roles"),
        ({"replicas": 2, "roles": ROLES}, "replicas: is 2, but roles have replicas of their own; remove it"),
        (
            {"reuse": True, "roles": ROLES},
            "reuse: is true, but a gang's pods can't be reused; remove reuse, or replicas",
        ),
        ({"roles": ROLES[:1]}, "spec.trialTemplate.roles: a list of 1 is too short; give at least 2"),
        ({"roles": [ROLES[1], ROLES[1]]}, "roles: 'worker' is listed twice; give each role its own name"),
        (change(name="Worker"), "roles[1].name: 'Worker' is not a name of a role; write it like worker"),
        (change(replicas=0), "roles[1].replicas: 0 is too small; it must be at least 1"),
        (change(replicas=64), "roles: have 65 pods in all, and a gang has at most 64; lower their replicas"),
        (change(template={}), "spec.trialTemplate.roles[1].template.spec"),
        (
            change(template={"spec": {"containers": [{"name": "trial", "image": "i"}], "hostNetwork": True}}),
            "spec.trialTemplate.roles[1].template.spec.hostNetwork",
        ),
        (
            change(template=make_pods("i", command=["$(PODTUNE_PARAM_worker)"])),
            "spec.trialTemplate.roles[1].template.spec.containers[0].command[0]: '$(PODTUNE_PARAM_worker)' refers to",
        ),
        (
            change(template={**make_pods("i"), "limits": {"nvidia.com/gpu": {"expression": "gpus"}}}),
            "spec.trialTemplate.roles[1].template.limits.nvidia.com/gpu.expression: 'gpus' uses 'gpus'",
        ),
        (
            change(template={**make_pods("i"), "metadata": {"labels": {"podtune.dev/role": "x"}}}),
            "spec.trialTemplate.roles[1].template.metadata.labels: 'podtune.dev/role' is reserved for the operator",
        ),
        (
            change(template={**make_pods("i"), "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}),
            "is for one role, but a gang is admitted whole; set it in trialTemplate.metadata",
        ),
        (
            change(template=make_pods("i", envFrom=SECRET)),
            "spec.trialTemplate.roles[1].template.spec.containers[0].envFrom[0].secretRef.name: 's3' holds the creden",
        ),
    ],
)
def test_mistakes_are_refused_with_field_and_remedy(template: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse(template, checkpoints={"store": STORE})
    assert said in str(refused.value)


def test_a_gang_with_roles_has_no_scratch_volume() -> None:
    with pytest.raises(InvalidSpec, match="the pods of a gang can't share a volume; remove scratch, or replicas and r"):
        parse({"roles": ROLES}, checkpoints={"store": STORE, "scratch": {"size": "1Gi"}})


def test_programs_find_their_role_in_variables_that_templates_may_use() -> None:
    arguments = ["$(PODTUNE_ROLE)", "$(PODTUNE_ROLE_INDEX)", "$(PODTUNE_ROLE_REPLICAS)", "$(PODTUNE_ROLES)"]
    assert parse(change(template=make_pods("i", args=arguments)))
