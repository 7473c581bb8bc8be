"""What the operator's administrator lets templates say, and what goes without asking."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.pods.pod_template import check_annotations, check_pod_spec
from podtune.api.pods.template_policy import DEFAULT_POLICY, UNKNOWN_POLICY, TemplatePolicy
from podtune.api.validation import InvalidSpec, parse_experiment
from tests.unit.api.pods.weighed_templates import (
    MALFORMED,
    POLICY,
    REFUSED,
    RESULTS,
    TAKEN,
    WHOLE,
    make_aliases,
    make_pod,
)


@pytest.mark.parametrize("spec", [*TAKEN, WHOLE])
def test_what_the_administrator_allows_is_taken(spec: dict[str, Any]) -> None:
    check_pod_spec(spec, POLICY)


@pytest.mark.parametrize(("spec", "path"), MALFORMED)
def test_what_is_in_no_table_is_refused_by_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_pod_spec(spec, POLICY)
    assert refused.value.path == path


@pytest.mark.parametrize(("spec", "path", "setting"), REFUSED)
def test_anything_else_is_refused_with_the_setting_that_would_allow_it(
    spec: dict[str, Any], path: str, setting: str
) -> None:
    with pytest.raises(FieldError, match=setting) as refused:
        check_pod_spec(spec, POLICY)
    assert refused.value.path == path
    assert "; " in refused.value.problem, "a remedy follows the semicolon"


@pytest.mark.parametrize(
    "name", [RESULTS, RESULTS.upper(), f"{RESULTS}.", f"{RESULTS}.cluster.local", "s3.s3.svc", "svc.evil.example"]
)
def test_no_alias_gives_the_operator_another_address_whatever_is_allowed(name: str) -> None:
    everything = TemplatePolicy(host_aliases=["*"], results_host=RESULTS)
    with pytest.raises(FieldError, match="the agent") as refused:
        check_pod_spec(make_aliases(name), everything)
    assert refused.value.path == "hostAliases[0].hostnames[0]"
    outside = TemplatePolicy(host_aliases=["*"], results_host="results.example.com")
    with pytest.raises(FieldError):
        check_pod_spec(make_aliases("results.example.com"), outside)
    check_pod_spec(make_aliases("data.example.com"), everything)


@pytest.mark.parametrize(
    "spec",
    [
        make_pod(serviceAccountName="default"),
        make_pod(priorityClassName="low"),
        make_pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        make_aliases("data.example.com"),
    ],
)
def test_by_default_nothing_of_this_goes_without_the_administrator(spec: dict[str, Any]) -> None:
    with pytest.raises(FieldError):
        check_pod_spec(spec)
    check_pod_spec(spec, UNKNOWN_POLICY)


def test_by_default_trials_may_go_to_nodes_with_gpus_and_wait_for_lost_ones() -> None:
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    gpus = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    check_pod_spec(make_pod(tolerations=[lost | {"tolerationSeconds": 60}, gpus]))


def test_a_priority_class_of_the_system_is_allowed_by_its_full_name_only() -> None:
    spec = make_pod(priorityClassName="system-node-critical")
    for listed in (["*"], ["system-*"]):
        with pytest.raises(FieldError, match="system-node-critical"):
            check_pod_spec(spec, TemplatePolicy(priority_classes=listed))
    check_pod_spec(spec, TemplatePolicy(priority_classes=["system-node-critical"]))


@pytest.mark.parametrize(
    "key",
    [
        "container.apparmor.security.beta.kubernetes.io/podtune-agent",
        "seccomp.security.alpha.kubernetes.io/pod",
        "cdi.k8s.io/gpu",
        "io.katacontainers.config.hypervisor.kernel_params",
        "io.kubernetes.cri-o.userns-mode",
        "run.oci.hooks.stdout",
        "k8s.v1.cni.cncf.io/networks",
        "sidecar.istio.io/inject",
        "vault.hashicorp.com/agent-inject",
        "x.kueue.x-k8s.io/y",
    ],
)
def test_annotations_of_other_domains_are_refused(key: str) -> None:
    with pytest.raises(FieldError, match="allowedAnnotationDomains") as refused:
        check_annotations({"team": "a", key: "x"})
    assert refused.value.path == "annotations"
    assert repr(key) in refused.value.problem


def test_annotations_without_a_domain_and_of_allowed_ones_are_taken() -> None:
    check_annotations({"team": "vision", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    check_annotations({"io.katacontainers.x": ""}, TemplatePolicy(annotation_domains=["io.katacontainers.*"]))
    check_annotations({"kueue.x-k8s.io/x": "", "a.example.com/x": "", "b.a.example.com/x": ""}, POLICY)
    for key in ("example.com/x", "aexample.com/x", "karpenter.sh/do-not-disrupt"):
        with pytest.raises(FieldError, match=key):
            check_annotations({key: ""}, POLICY)


def test_the_message_names_the_whole_path_of_the_field() -> None:
    resource = {
        "metadata": {"name": "door"},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 1}}],
            "search": {"maxTrials": 1},
            "trialTemplate": {"metadata": {"annotations": {"cdi.k8s.io/gpu": "x"}}, "spec": make_pod()},
        },
    }
    with pytest.raises(InvalidSpec, match=r"^spec\.trialTemplate\.metadata\.annotations: 'cdi.k8s.io/gpu'"):
        parse_experiment(resource, DEFAULT_POLICY)
    assert parse_experiment(resource, TemplatePolicy(annotation_domains=["cdi.k8s.io"]))
