"""The chart's admission policies, as a real API server evaluates them: they say what the operator says, and more.

On the local cluster they would hold for all other tests' Experiments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kubernetes import eventually
from e2e.tests.doors.template_doors import DOORS
from podtune.api.pods.template_policy import TemplatePolicy
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.app.settings import read_settings
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest
from tests.component.charts.rendered import NAME, find_one, render
from tests.component.own_api_server import create_definitions, find_programs, running_api_server
from tests.unit.api.pods.weighed_templates import (
    MALFORMED,
    POLICY,
    REFUSED,
    TAKEN,
    WHOLE,
    make_aliases,
    make_pod,
    make_volume,
)

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

TEAM = "team"
NAMESPACES = "/api/v1/namespaces"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
RESULTS = "podtune-results.tuning.svc"
MANY = 9
"""More Secrets than a policy can ask about."""


@dataclass(frozen=True, slots=True)
class Admission:
    """An API server with both policies, and the lists of the same chart as the operator reads them."""

    kubeconfig: Path
    api: HttpApi
    policy: TemplatePolicy

    def log_in(self, name: str, *rules: Manifest) -> HttpApi:
        """A person who may create and change Experiments, and has these rights."""
        own = {"apiGroups": ["podtune.dev"], "resources": ["experiments"], "verbs": ["create", "get", "patch"]}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": TEAM}
        self.api.create(f"{NAMESPACES}/{TEAM}/serviceaccounts", {"metadata": {"name": name}})
        self.api.create(f"{RBAC}/roles", {"metadata": {"name": name}, "rules": [own, *rules]})
        self.api.create(f"{RBAC}/rolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
        token = f"{NAMESPACES}/{TEAM}/serviceaccounts/{name}/token"
        answer = self.api.create(token, {"metadata": {}, "spec": {"expirationSeconds": 3600}})
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        written = self.kubeconfig.parent / f"{name}.yaml"
        written.write_text(yaml.safe_dump(config))
        return HttpApi(connect(written))


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admission]:
    binaries = find_programs()
    documents = render(
        allowedServiceAccounts=POLICY.service_accounts,
        allowedPriorityClasses=POLICY.priority_classes,
        allowedTolerations=POLICY.tolerations,
        allowedAnnotationDomains=POLICY.annotation_domains,
        allowedHostAliases=POLICY.host_aliases,
        allowedImages=POLICY.images,
        deniedSecrets=POLICY.denied_secrets,
        deniedClaims=POLICY.denied_claims,
        admissionPolicy__templates=True,
        admissionPolicy__userRights=True,
    )
    container = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]
    policy = read_settings({v["name"]: v["value"] for v in container["env"] if "value" in v}).template_policy
    with running_api_server(binaries, tmp_path_factory.mktemp("api-server")) as kubeconfig:
        api = HttpApi(connect(kubeconfig))
        api.create(NAMESPACES, {"metadata": {"name": TEAM}})
        create_definitions(api)
        names = [f"{NAME}-{part}" for part in ("templates", "user-rights")]
        for name in names:
            api.create(POLICIES, find_one(documents, "ValidatingAdmissionPolicy", name))
            binding = find_one(documents, "ValidatingAdmissionPolicyBinding", name)
            api.create(POLICIES.replace("policies", "policybindings"), binding)
        admission = Admission(kubeconfig, api, policy)
        probe = admission.log_in("probe")
        # Each is refused by one of them alone: which one an answer names of two is not said.
        for person, pod in ((api, make_pod({"image": "evil:1"})), (probe, make_pod({"env": [make_variable("other")]}))):
            await_refusal(person, make_experiment(pod))
        yield admission


def make_experiment(pod: Manifest, **spec: Any) -> Manifest:
    whole = {
        "objective": {"metric": "accuracy", "mode": "max"},
        "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 0.9}}],
        "search": {"algorithm": "random", "maxTrials": 2, "seed": 7},
        "trialTemplate": {"spec": pod},
        **spec,
    }
    return {"apiVersion": "podtune.dev/v1alpha1", "kind": "Experiment", "metadata": {"name": "door"}, "spec": whole}


def make_variable(secret: str) -> Manifest:
    return {"name": f"K_{secret.upper()}", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}


def make_tracker(**fields: Any) -> Manifest:
    return {"mlflow": {"uri": "https://mlflow.example", **fields}}


def ask(api: HttpApi, experiment: Manifest) -> str:
    """Why an Experiment is refused; empty where it is not."""
    try:
        api.create(paths.experiments(TEAM), experiment, {"dryRun": "All"})
    except ApiRefusal as refusal:
        return refusal.message
    return ""


def await_refusal(api: HttpApi, experiment: Manifest) -> None:
    """Waits until a policy is in force."""
    eventually(lambda: ask(api, experiment), deadline=60.0, what="the API server refuses it")


def is_taken_by_operator(admission: Admission, experiment: Manifest) -> bool:
    try:
        parse_experiment(experiment, admission.policy)
    except InvalidSpec:
        return False
    return True


def check_same(admission: Admission, experiment: Manifest, *, is_taken: bool) -> str:
    """Asks the operator and the policy; gives the policy's words."""
    said = ask(admission.api, experiment)
    assert (is_taken_by_operator(admission, experiment), said == "") == (is_taken, is_taken), said
    assert is_taken or f"{NAME}-templates" in said
    return said


@pytest.mark.parametrize("spec", TAKEN)
def test_what_the_operator_takes_is_admitted(admission: Admission, spec: Manifest) -> None:
    check_same(admission, make_experiment(spec), is_taken=True)


@pytest.mark.parametrize(("spec", "path", "setting"), REFUSED)
def test_what_the_operator_refuses_is_refused_at_once(
    admission: Admission, spec: Manifest, path: str, setting: str
) -> None:
    assert setting in check_same(admission, make_experiment(spec), is_taken=False)


@pytest.mark.parametrize(
    ("key", "is_taken"),
    [
        ("team", True),
        ("kueue.x-k8s.io/x", True),
        ("b.a.example.com/x", True),
        ("example.com/x", False),
        ("cdi.k8s.io/gpu", False),
        ("io.katacontainers.config.hypervisor.kernel_params", False),
    ],
)
def test_annotations_are_treated_alike(admission: Admission, key: str, is_taken: bool) -> None:
    template = {"metadata": {"annotations": {key: "x"}}, "spec": make_pod()}
    check_same(admission, make_experiment({}, trialTemplate=template), is_taken=is_taken)


@pytest.mark.parametrize("name", [RESULTS, f"{RESULTS.upper()}.", "s3.s3.svc", "svc.internal"])
def test_names_inside_the_cluster_are_treated_alike(admission: Admission, name: str) -> None:
    check_same(admission, make_experiment(make_aliases(name)), is_taken=False)


@pytest.mark.parametrize("name", ["Data.Example.com", "nas.internal.."])
def test_names_outside_are_treated_alike_however_they_are_written(admission: Admission, name: str) -> None:
    check_same(admission, make_experiment(make_aliases(name)), is_taken=True)


def make_door(name: str) -> Manifest:
    """An Experiment that tries a door, with an image that is allowed."""
    tried = dict(DOORS[name][0])
    annotations = tried.pop("annotations", {})
    if "containers" in tried:
        tried["containers"] = [container | {"image": "digits:1"} for container in tried["containers"]]
    return make_experiment({}, trialTemplate={"metadata": {"annotations": annotations}, "spec": make_pod() | tried})


@pytest.mark.parametrize("name", DOORS)
def test_every_door_is_shut_by_both(admission: Admission, name: str) -> None:
    experiment, (_, path, remedy) = make_door(name), DOORS[name]
    is_shut = not is_taken_by_operator(admission, experiment)
    said = check_same(admission, experiment, is_taken=not is_shut)
    is_of_list = any(word in remedy for word in ("allowed", "denied")) or "annotations" in path or "hostAliases" in path
    assert not is_shut or is_of_list or (f"spec.trialTemplate.{path}: " in said and remedy in said)


def test_a_pod_with_every_field_that_is_allowed_is_taken_by_both(admission: Admission) -> None:
    check_same(admission, make_experiment(WHOLE), is_taken=True)


@pytest.mark.parametrize(("spec", "path"), MALFORMED)
def test_what_the_tables_refuse_is_refused_at_once_by_its_path(admission: Admission, spec: Manifest, path: str) -> None:
    assert f"spec.trialTemplate.spec.{path}: " in check_same(admission, make_experiment(spec), is_taken=False)


def test_the_path_tells_which_template_is_at_fault(admission: Admission) -> None:
    bad, good = make_pod(nodeName="n1"), make_pod()
    roles = [{"name": name, "template": {"spec": spec}} for name, spec in (("driver", good), ("worker", bad))]
    said = check_same(admission, make_experiment({}, trialTemplate={"roles": roles}), is_taken=False)
    assert "spec.trialTemplate.roles[1].template.spec.nodeName: n1 is not allowed" in said
    checkpoints = {"store": {"bucket": "models"}}
    evaluated = make_experiment(good, evaluation={"template": {"spec": bad}}, checkpoints=checkpoints)
    assert "spec.evaluation.template.spec.nodeName: n1" in check_same(admission, evaluated, is_taken=False)


@pytest.mark.parametrize(
    ("store", "pod"),
    [
        ({"bucket": "models", "credentialsSecret": "keys"}, make_pod({"envFrom": [{"secretRef": {"name": "keys"}}]})),
        ({"bucket": "models", "credentialsSecret": "keys"}, make_pod(imagePullSecrets=[{"name": "keys"}])),
        ({"volume": {"claimName": "disk"}}, make_volume(persistentVolumeClaim={"claimName": "disk"})),
    ],
)
def test_no_trial_sees_what_its_checkpoints_are_stored_with(
    admission: Admission, store: Manifest, pod: Manifest
) -> None:
    said = check_same(admission, make_experiment(pod, checkpoints={"store": store}), is_taken=False)
    assert "which trials may not see; remove it" in said


@pytest.mark.parametrize("key", ["podtune.dev/trial", "x.podtune.dev/y", "app.kubernetes.io/managed-by"])
def test_labels_of_the_operator_are_reserved(admission: Admission, key: str) -> None:
    template = {"metadata": {"labels": {key: "x"}}, "spec": make_pod()}
    said = check_same(admission, make_experiment({}, trialTemplate=template), is_taken=False)
    assert f"{key} is reserved for the operator" in said


def test_every_template_of_an_experiment_is_looked_at(admission: Admission) -> None:
    bad, good = make_pod({"image": "evil:1"}), make_pod()
    roles = [{"name": name, "template": {"spec": spec}} for name, spec in (("driver", good), ("worker", bad))]
    check_same(admission, make_experiment({}, trialTemplate={"roles": roles}), is_taken=False)
    for spec, is_taken in ((good, True), (bad, False)):
        evaluated = make_experiment(
            good, evaluation={"template": {"spec": spec}}, checkpoints={"store": {"bucket": "models"}}
        )
        check_same(admission, evaluated, is_taken=is_taken)


def test_nobody_has_the_operator_use_a_secret_that_they_may_not_read(admission: Admission) -> None:
    may_get = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get"]}
    tuner = admission.log_in("tuner", may_get)
    assert ask(tuner, make_experiment(make_pod())) == ""
    assert ask(tuner, make_experiment(make_pod({"env": [make_variable("mine")]}))) == ""
    store = {"bucket": "models", "credentialsSecret": "other"}
    for refused in (
        make_experiment(make_pod({"env": [make_variable("mine"), make_variable("other")]})),
        make_experiment(make_pod({"envFrom": [{"secretRef": {"name": "other"}}]})),
        make_experiment(make_pod(volumes=[{"name": "v", "secret": {"secretName": "other"}}])),
        make_experiment(make_pod(volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "other"}}]}}])),
        make_experiment(make_pod(imagePullSecrets=[{"name": "other"}])),
        make_experiment(make_pod(), checkpoints={"store": store}),
        make_experiment(make_pod(), trackers=make_tracker(credentialsSecret="other")),
        make_experiment(make_pod(), trackers=make_tracker(caBundle={"kind": "Secret", "name": "other"})),
    ):
        said = ask(tuner, refused)
        assert "Secret other is named, which you may not read in namespace team; leave it out" in said, refused


def test_nobody_has_trials_read_a_config_map_that_they_may_not_read(admission: Admission) -> None:
    may_get = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get"]}
    person = admission.log_in("reader", may_get)
    assert ask(person, make_experiment(make_volume(configMap={"name": "mine"}))) == ""
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "other", "key": "k"}}}
    for refused in (
        make_experiment(make_volume(configMap={"name": "other"})),
        make_experiment(make_volume(projected={"sources": [{"configMap": {"name": "other"}}]})),
        make_experiment(make_pod({"env": [variable]})),
        make_experiment(make_pod({"envFrom": [{"configMapRef": {"name": "other"}}]})),
        make_experiment(make_pod(), checkpoints={"store": {"bucket": "models", "caBundle": {"name": "other"}}}),
        make_experiment(make_pod(), trackers=make_tracker(caBundle={"name": "other"})),
    ):
        said = ask(person, refused)
        assert "ConfigMap other is named, which you may not read in namespace team; leave it out" in said, refused


def test_nobody_has_trials_mount_a_claim_that_they_may_not_use(admission: Admission) -> None:
    claims = {"apiGroups": [""], "resources": ["persistentvolumeclaims"]}
    may_use = claims | {"resourceNames": ["mine"], "verbs": ["use"]}
    person = admission.log_in("user", may_use, claims | {"verbs": ["get", "list"]})
    assert ask(person, make_experiment(make_volume(persistentVolumeClaim={"claimName": "mine"}))) == ""
    copied = {"spec": {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}}}
    for refused in (
        make_experiment(make_volume(persistentVolumeClaim={"claimName": "other"})),
        make_experiment(make_volume(ephemeral={"volumeClaimTemplate": copied})),
        make_experiment(make_pod(), checkpoints={"store": {"volume": {"claimName": "other"}}}),
    ):
        said = ask(person, refused)
        assert "claim other is named, which you may not use in namespace team; leave it out" in said, refused


def test_who_may_create_pods_could_use_all_of_it_anyway(admission: Admission) -> None:
    person = admission.log_in("pods", {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]})
    names = [make_variable(f"s-{number}") for number in range(3 * MANY)]
    assert ask(person, make_experiment(make_pod({"env": names}, serviceAccountName="trainer"))) == ""


def test_more_secrets_than_can_be_asked_about_are_refused_in_words(admission: Admission) -> None:
    may_get_all = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    person = admission.log_in("many", may_get_all)
    names = [make_variable(f"s-{number}") for number in range(MANY)]
    containers = [{"name": f"c-{number}", "image": "digits:1", "env": names[1:]} for number in range(4)]
    assert ask(person, make_experiment(make_pod(containers=containers))) == "", "each is asked about once"
    said = ask(person, make_experiment(make_pod({"env": names})))
    assert "more than 8 Secrets are named at once; name fewer" in said


def test_nobody_has_trials_run_as_somebody_whom_they_may_not_impersonate(admission: Admission) -> None:
    wanted = make_experiment(make_pod(serviceAccountName="trainer"))
    said = ask(admission.log_in("nobody"), wanted)
    assert "serviceAccountName is trainer, as which you may not act in namespace team" in said
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["trainer"], "verbs": ["impersonate"]}
    assert ask(admission.log_in("somebody", rule), wanted) == ""


def test_others_may_change_the_rest_of_an_experiment_and_not_what_runs(admission: Admission) -> None:
    made = make_experiment(make_pod({"env": [make_variable("other")]}))
    admission.api.create(paths.experiments(TEAM), made)
    person, path = admission.log_in("changer"), paths.experiment(TEAM, "door")
    person.patch(path, {"spec": {"suspend": True}, "metadata": {"finalizers": ["podtune.dev/checkpoints"]}})
    changed = make_pod({"env": [make_variable("other")], "command": ["sh", "-c", "env"]})
    with pytest.raises(ApiRefusal, match="Secret other is named"):
        person.patch(path, {"spec": {"trialTemplate": {"spec": changed}}})
