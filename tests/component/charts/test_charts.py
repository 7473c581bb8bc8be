"""The charts as Helm renders them. Needs the local cluster's programs: `eval "$(python -m e2e.devcluster env)"`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.pods.template_policy import TemplatePolicy
from podtune.app.settings import read_settings
from podtune.cli.commands.conformance.stores import StoreChoice, find_store
from podtune.controllers.pods.namespace_caps import PodLimits
from podtune.kube import paths
from podtune.kube.agent_pods import AGENT_CONFINES
from tests.component.charts.rendered import (
    CHARTS,
    NAME,
    NAMESPACE,
    find_one,
    list_kinds,
    render,
    render_with_tests,
    run_helm,
    template,
)
from tests.unit.cli.cli_fakes import FakeApi

pytestmark = [pytest.mark.cluster]


def _rules(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules about resources; who reads the metrics gets one about an address."""
    rules = [rule for d in documents if d["kind"] in ("Role", "ClusterRole") for rule in d["rules"]]
    return [rule for rule in rules if "resources" in rule]


def _environment(documents: list[dict[str, Any]]) -> dict[str, Any]:
    container = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def _settings(documents: list[dict[str, Any]]) -> dict[str, str]:
    """The environment but for what is known only in a pod."""
    return {name: value for name, value in _environment(documents).items() if isinstance(value, str)}


@pytest.mark.parametrize("chart", ["podtune", "podtune-crds"])
def test_the_chart_is_clean(chart: str) -> None:
    linted = run_helm("lint", "--strict", str(CHARTS / chart))
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_the_operator_gets_no_secret_but_its_own_no_exec_and_no_wildcards() -> None:
    opted_in = render(namespaceOptIn=True, rbac__aggregateToDefaultRoles=False)
    for rules in (_rules(render()), _rules(render(watchNamespaces=["a"])), _rules(opted_in)):
        of_secrets = [rule for rule in rules if "secrets" in rule["resources"]]
        assert [rule["resourceNames"] for rule in of_secrets] == [["podtune-results-tls"]]
        others = [rule for rule in rules if rule not in of_secrets]
        granted = {(group, name) for rule in others for group in rule["apiGroups"] for name in rule["resources"]}
        assert granted <= {
            ("podtune.dev", "experiments"),
            ("podtune.dev", "experiments/status"),
            ("podtune.dev", "experiments/finalizers"),
            ("podtune.dev", "trials"),
            ("podtune.dev", "trials/status"),
            ("podtune.dev", "trials/finalizers"),
            ("", "pods"),
            ("", "pods/log"),
            ("", "services"),
            ("", "configmaps"),
            ("", "persistentvolumeclaims"),
            ("apps", "controllerrevisions"),
            ("events.k8s.io", "events"),
            ("coordination.k8s.io", "leases"),
            ("authentication.k8s.io", "tokenreviews"),
            ("authorization.k8s.io", "selfsubjectaccessreviews"),
            ("authorization.k8s.io", "subjectaccessreviews"),
        }
        assert all("*" not in value for rule in rules for value in rule["verbs"])
        for kind in ("configmaps", "services"):
            verbs = [rule["verbs"] for rule in rules if kind in rule["resources"]]
            assert {verb for listed in verbs for verb in listed} == {"create", "get"}


def test_the_operator_has_no_right_that_it_does_not_use() -> None:
    for documents in (render(), render(watchNamespaces=["a"])):
        own = [
            rule
            for d in documents
            if d["kind"] in ("Role", "ClusterRole")
            and not d["metadata"]["name"].endswith(("-edit", "-view", "-import", "-metrics-reader"))
            for rule in d["rules"]
        ]
        rights = [(" ".join(rule["resources"] + rule.get("resourceNames", [])), rule["verbs"]) for rule in own]
        assert sorted(rights) == [
            ("configmaps", ["create", "get"]),
            ("controllerrevisions", ["create", "get", "delete"]),
            ("events", ["create", "patch"]),
            ("events", ["create", "patch"]),  # in its own namespace
            ("experiments", ["get", "list", "watch", "patch", "delete"]),
            ("experiments/finalizers trials/finalizers", ["update"]),
            ("experiments/status trials/status", ["update"]),
            ("leases", ["create"]),
            ("leases podtune-operator", ["get", "update"]),
            ("persistentvolumeclaims", ["create", "get", "delete"]),
            ("pods", ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]),
            ("pods", ["list", "patch"]),  # in its own namespace
            ("pods/log", ["get"]),
            ("secrets podtune-results-tls", ["get", "update"]),
            ("services", ["create", "get"]),
            ("subjectaccessreviews", ["create"]),
            ("tokenreviews", ["create"]),
            ("trials", ["create", "get", "list", "watch", "patch", "delete"]),
        ]


def test_metrics_are_for_named_namespaces_and_results_for_all() -> None:
    def admitted(documents: list[dict[str, Any]]) -> dict[str, list[Any]]:
        ingress = find_one(documents, "NetworkPolicy", "podtune")["spec"]["ingress"]
        return {port["port"]: rule["from"] for rule in ingress for port in rule["ports"]}

    def namespace(name: str) -> dict[str, Any]:
        return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}

    everybody: list[dict[str, Any]] = [{"namespaceSelector": {}}]
    results = {"results": everybody, "results-tls": everybody}
    assert admitted(render()) == {**results, "metrics-tls": [namespace(NAMESPACE)]}
    named = admitted(render(networkPolicy__metricsNamespaces=["monitoring", "007", NAMESPACE]))
    metrics = [namespace(NAMESPACE), namespace("monitoring"), namespace("007")]
    assert named == {**results, "metrics-tls": metrics}
    assert template({"networkPolicy.metricsNamespaces": ["../x"]}).returncode != 0


def test_with_namespaces_the_operator_has_rights_there_and_nowhere_else() -> None:
    documents = render(watchNamespaces=["a", "b"])
    (cluster_role,) = [d for d in documents if d["kind"] == "ClusterRole" and d["metadata"]["name"] == "tuning-podtune"]
    assert [rule["resources"] for rule in cluster_role["rules"]] == [["tokenreviews"], ["subjectaccessreviews"]]
    roles = {d["metadata"]["namespace"]: d for d in documents if d["kind"] == "Role"}
    assert set(roles) == {NAMESPACE, "a", "b"}
    everywhere = find_one(render(), "ClusterRole", "tuning-podtune")
    assert everywhere["rules"] == [*cluster_role["rules"], *roles["a"]["rules"]]
    bindings = [d for d in documents if d["kind"] == "RoleBinding"]
    assert {d["metadata"]["namespace"] for d in bindings} == {NAMESPACE, "a", "b"}
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "podtune", "namespace": NAMESPACE}]
    assert _environment(documents)["PODTUNE_NAMESPACES"] == "a,b"


def test_where_namespaces_opt_in_the_operator_has_no_rights_on_pods_until_one_binds_its_role() -> None:
    documents = render(namespaceOptIn=True)
    (binding,) = [d for d in documents if d["kind"] == "ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "tuning-podtune"
    everywhere = find_one(documents, "ClusterRole", "tuning-podtune")
    assert [(rule["resources"], rule["verbs"]) for rule in everywhere["rules"]] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
        (["experiments"], ["get", "list", "watch", "patch"]),
        (["experiments/status"], ["update"]),
        (["selfsubjectaccessreviews"], ["create"]),
    ]
    role = find_one(documents, "ClusterRole", "tuning-podtune-namespace")
    assert role["rules"] == find_one(render(), "ClusterRole", "tuning-podtune")["rules"][2:]
    assert role["metadata"]["labels"]["podtune.dev/binds"] == "namespaces"
    assert role["metadata"]["annotations"] == {"podtune.dev/subject": "tuning/podtune"}
    assert {d["metadata"]["namespace"] for d in documents if d["kind"] == "RoleBinding"} == {NAMESPACE}
    assert _environment(documents)["PODTUNE_NAMESPACE_OPT_IN"] == "true"
    assert "exclude each other" in template({"namespaceOptIn": True, "watchNamespaces": ["a"]}).stderr


def test_administrators_of_a_namespace_may_opt_in_unless_roles_are_not_aggregated() -> None:
    role = find_one(render(namespaceOptIn=True), "ClusterRole", "tuning-podtune-enable")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    (rule,) = role["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["tuning-podtune-namespace"], ["bind"])
    for documents in (render(), render(namespaceOptIn=True, rbac__aggregateToDefaultRoles=False)):
        assert ("ClusterRole", "tuning-podtune-enable") not in list_kinds(documents)


def test_the_operator_may_make_events_in_its_own_namespace_whatever_it_watches() -> None:
    """What a deleted Experiment leaves in its bucket is told there."""
    documents = render(watchNamespaces=["a"])
    (role,) = [d for d in documents if d["kind"] == "Role" and d["metadata"]["name"].endswith("-leadership")]
    assert {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]} in role["rules"]


def test_the_results_service_selects_the_leader_among_the_operators_pods() -> None:
    documents = render()
    service = find_one(documents, "Service", "podtune-results")
    pod = find_one(documents, "Deployment", "podtune")["spec"]["template"]
    selector = dict(service["spec"]["selector"])
    assert selector.pop("podtune.dev/leader") == "true"
    assert selector.items() <= pod["metadata"]["labels"].items()
    # The operator's own to put there, and only on the leader.
    assert "podtune.dev/leader" not in pod["metadata"]["labels"]
    assert _environment(documents)["PODTUNE_RESULTS_URL"] == f"https://podtune-results.{NAMESPACE}.svc:8443"
    # A Service of that name sets PODTUNE_RESULTS_PORT, which is a setting of the operator.
    assert pod["spec"]["enableServiceLinks"] is False


def test_lease_and_secret_of_the_settings_are_those_that_the_role_names() -> None:
    for release in ("podtune", "second"):
        documents = render(release)
        (role,) = [d for d in documents if d["kind"] == "Role"]
        (deployment,) = [d for d in documents if d["kind"] == "Deployment"]
        environment = {
            v["name"]: v.get("value") for v in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        }
        named = [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule]
        assert named == [[environment["PODTUNE_LEASE_NAME"]], [environment["PODTUNE_RESULTS_TLS_SECRET"]]]


def test_limits_are_written_as_the_operator_reads_them() -> None:
    assert read_settings(_settings(render())).pod_limits == PodLimits()
    documents = render(podLimits={"perNamespace": 1_000_000, "namespaces": {"a": 8, "b": "unlimited", "c": 0}})
    limits = read_settings(_settings(documents)).pod_limits
    assert limits == PodLimits(1_000_000, {"a": 8, "b": None, "c": 0})


def test_what_templates_may_say_is_written_as_the_operator_reads_it() -> None:
    # Without the chart the operator has the same lists.
    assert read_settings(_settings(render())).template_policy == TemplatePolicy(
        results_host=f"podtune-results.{NAMESPACE}.svc"
    )
    documents = render(
        allowedServiceAccounts=["trainer"],
        allowedPriorityClasses=["low", "team-*"],
        allowedTolerations=["dedicated=training", "*"],
        allowedAnnotationDomains=["*.example.com"],
        allowedHostAliases=["data.example.com"],
        allowedImages=["registry.example.com/*"],
        deniedSecrets=["admin-*"],
        deniedClaims=["store-*"],
        trialsRunAsNonRoot=True,
    )
    settings = read_settings(_settings(documents))
    assert settings.agent.non_root is True
    assert settings.agent.resources == AGENT_CONFINES["resources"]
    assert settings.template_policy == TemplatePolicy(
        service_accounts=("trainer",),
        priority_classes=("low", "team-*"),
        tolerations=("dedicated=training", "*"),
        annotation_domains=("*.example.com",),
        host_aliases=("data.example.com",),
        images=("registry.example.com/*",),
        denied_secrets=("admin-*",),
        denied_claims=("store-*",),
        results_host=f"podtune-results.{NAMESPACE}.svc",
    )


def test_admission_policies_are_asked_for_and_hold_where_experiments_are_served() -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert not {kind for kind, _ in list_kinds(render())} & set(kinds)
    for value, name in (("templates", "tuning-podtune-templates"), ("userRights", "tuning-podtune-user-rights")):
        documents = render(admissionPolicy={value: True}, watchNamespaces=["a", "b"])
        found = [document for document in documents if document["kind"] in kinds]
        assert [document["metadata"]["name"] for document in found] == [name, name]
        policy, binding = found
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (name, ["Deny"])
        (selected,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert selected == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
        everywhere = find_one(render(admissionPolicy={value: True}), kinds[1], name)
        assert "matchResources" not in everywhere["spec"]


def test_the_pod_satisfies_pod_security_restricted() -> None:
    spec = find_one(render(), "Deployment", "podtune")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65533
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_the_images_default_to_the_charts_version() -> None:
    version = yaml.safe_load((CHARTS / "podtune" / "Chart.yaml").read_text())["appVersion"]
    assert _environment(render())["PODTUNE_AGENT_IMAGE"] == f"podtune-agent:{version}"
    documents = render(image__tag="dev", agent__image__tag="dev", agent__image__pullPolicy="Never")
    container = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "podtune-operator:dev"
    assert _environment(documents)["PODTUNE_AGENT_IMAGE"] == "podtune-agent:dev"
    assert _environment(documents)["PODTUNE_AGENT_PULL_POLICY"] == "Never"


def test_a_digest_takes_the_place_of_the_tag() -> None:
    digest = f"sha256:{'a1' * 32}"
    documents = render(image={"digest": digest, "tag": "dev", "variant": "gp"}, agent__image__digest=digest)
    container = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == f"podtune-operator-gp@{digest}"
    assert _environment(documents)["PODTUNE_AGENT_IMAGE"] == f"podtune-agent@{digest}"


def test_a_variant_is_another_image_of_the_operator() -> None:
    documents = render(image__tag="dev", image__variant="gp", agent__image__tag="dev")
    container = find_one(documents, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "podtune-operator-gp:dev"
    assert _environment(documents)["PODTUNE_AGENT_IMAGE"] == "podtune-agent:dev"


def test_what_is_optional_is_there_only_when_asked_for() -> None:
    optional = {("ServiceMonitor", "podtune"), ("PodDisruptionBudget", "podtune")}
    assert not optional & list_kinds(render())
    assert ("NetworkPolicy", "podtune") in list_kinds(render())
    asked = render(
        metrics__serviceMonitor__enabled=True,
        podDisruptionBudget__enabled=True,
        networkPolicy__enabled=False,
        rbac__aggregateToDefaultRoles=False,
        serviceAccount__create=False,
        serviceAccount__name="tuner",
    )
    assert optional <= list_kinds(asked)
    assert not {"NetworkPolicy", "ServiceAccount"} & {kind for kind, _ in list_kinds(asked)}
    roles = {name for kind, name in list_kinds(asked) if kind == "ClusterRole"}
    assert roles == {"tuning-podtune", "tuning-podtune-metrics-reader"}


def test_the_operators_rights_are_for_no_account_that_other_pods_have() -> None:
    refused = template({"serviceAccount.create": False})
    assert refused.returncode != 0
    assert "serviceAccount.create=false needs serviceAccount.name" in refused.stderr
    named = render(serviceAccount__create=False, serviceAccount__name="tuner")
    bound = [subject for d in named if d["kind"].endswith("RoleBinding") for subject in d["subjects"]]
    assert {subject["name"] for subject in bound} == {"tuner"}
    assert find_one(named, "Deployment", "podtune")["spec"]["template"]["spec"]["serviceAccountName"] == "tuner"


def test_requests_for_the_lease_come_before_all_others_of_the_operator() -> None:
    assert not {kind for kind, _ in list_kinds(render())} & {"FlowSchema", "PriorityLevelConfiguration"}
    documents = render(apiPriority__enabled=True, apiPriority__shares=7)
    lease, others = (find_one(documents, "FlowSchema", name)["spec"] for name in (f"{NAME}-leadership", NAME))
    assert lease["matchingPrecedence"] < others["matchingPrecedence"]
    assert lease["priorityLevelConfiguration"]["name"] == "leader-election"
    level = find_one(documents, "PriorityLevelConfiguration", others["priorityLevelConfiguration"]["name"])["spec"]
    assert level["limited"]["nominalConcurrencyShares"] == 7
    (role,) = [d for d in documents if d["kind"] == "Role"]
    granted = {verb for rule in role["rules"] if "leases" in rule["resources"] for verb in rule["verbs"]}
    assert set(lease["rules"][0]["resourceRules"][0]["verbs"]) == granted


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 2}, "replica"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"watchNamespaces": "a,b"}, "watchNamespaces"),
        ({"image.pullPolicy": "Sometimes"}, "pullPolicy"),
        ({"image.variant": "gpu"}, "variant"),
        ({"podLimits.perNamespace": "many"}, "perNamespace"),
        ({"apiPriority.shares": 0}, "shares"),
        ({"podLimits.namespaces": {"team-a": -1}}, "team-a"),
        ({"allowedTolerations": [{"key": "nvidia.com/gpu"}]}, "allowedTolerations"),
        ({"allowedPriorityClasses": ["a,b"]}, "allowedPriorityClasses"),
        ({"allowedAnnotationDomains": ["example.com/team"]}, "allowedAnnotationDomains"),
        ({"deniedSecrets": "bucket"}, "deniedSecrets"),
        ({"deniedClaims": ["A"]}, "deniedClaims"),
        ({"trialsRunAsNonRoot": "yes"}, "trialsRunAsNonRoot"),
        ({"image.digest": "sha256:beef"}, "digest"),
        ({"resources": {"request": {"cpu": 1}}}, "request"),
        ({"tolerations": [{"keys": "gpu"}]}, "keys"),
        ({"affinity": {"nodeAffinity": {"required": {}}}}, "required"),
        ({"dashboard.topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}, "whenUnsatisfiable"),
        ({"commonLabels": {"app.kubernetes.io/name": "mine"}}, "commonLabels"),
        ({"podLabels": {"podtune.dev/leader": "true"}}, "podLabels"),
        ({"embeddedS3.enabled": True}, "embeddedS3.image.repository"),
        ({"embeddedS3.enabled": True, "embeddedS3.image.repository": "a"}, "embeddedS3.image.tag"),
        ({"embeddedS3.enabled": True, "embeddedS3.image": {"repository": "a", "tag": "1"}}, "embeddedS3.secret"),
    ],
)
def test_a_value_that_does_nothing_is_refused(values: dict[str, Any], said: str) -> None:
    rendered = template(values)
    assert rendered.returncode != 0
    assert said in rendered.stderr


def test_the_definitions_have_no_values() -> None:
    refused = run_helm("template", "crds", str(CHARTS / "podtune-crds"), "--set", "keep=false")
    assert refused.returncode != 0
    assert "keep" in refused.stderr


@pytest.fixture
def noted_chart(tmp_path: Path) -> Path:
    """The chart with a template that has its notes in it: `helm template` leaves them out."""
    chart = tmp_path / "podtune"
    shutil.copytree(CHARTS / "podtune", chart)
    notes = '{{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}'
    (chart / "templates" / "noted.yaml").write_text(f"notes: {notes}\n")
    return chart


def read_notes(chart: Path, *settings: str, options: Sequence[str] = ()) -> str:
    """What a person reads who has installed the chart."""
    shown = ["-n", NAMESPACE, "--kube-version=1.34.0", "--show-only=templates/noted.yaml"]
    sets = [f"--set={setting}" for setting in settings]
    rendered = run_helm("template", "podtune", str(chart), *shown, *sets, *options)
    assert rendered.returncode == 0, rendered.stderr
    return str(yaml.safe_load(rendered.stdout)["notes"])


def test_the_notes_say_what_to_do_next(noted_chart: Path) -> None:
    notes = read_notes(noted_chart, options=["--api-versions=podtune.dev/v1alpha1/Experiment"])
    assert "Podtune serves Experiments in all namespaces." in notes
    assert "helm test podtune -n tuning" in notes
    assert "S3" not in notes
    missing = "THE DEFINITIONS ARE MISSING"
    assert missing not in notes
    assert missing in read_notes(noted_chart)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["watchNamespaces={a,b}"], "in a, b."),
        (["namespaceOptIn=true"], "kubectl podtune enable NAMESPACE --operator-namespace tuning"),
        (["metrics.serviceMonitor.enabled=true"], "networkPolicy.metricsNamespaces"),
        (["metrics.prometheusRule.enabled=true"], "call the job podtune-metrics"),
        (["podDisruptionBudget.enabled=true"], "set replicas to 2"),
        (["dashboard.enabled=true", "dashboard.open=true"], "It is OPEN"),
        (
            [f"embeddedS3.{name}" for name in ("enabled=true", "image.repository=s3", "image.tag=v1", "secret=keys")],
            "endpoint: http://podtune-s3.tuning.svc:9000",
        ),
    ],
)
def test_the_notes_say_what_follows_from_the_values(noted_chart: Path, settings: list[str], said: str) -> None:
    assert said in read_notes(noted_chart, *settings)
    assert said not in read_notes(noted_chart)


def test_conformance_finds_the_embedded_server_its_bucket_and_its_keys() -> None:
    s3 = {"enabled": True, "image": {"repository": "versitygw", "tag": "1"}, "secret": "keys", "bucket": "models"}
    api = FakeApi()
    api.objects[paths.secret(NAMESPACE, "keys")] = {"data": {"accessKeyID": "a2V5"}}
    service = find_one(render(embeddedS3=s3), "Service", "podtune-s3")
    api.objects[paths.name_in(paths.services(NAMESPACE), "podtune-s3")] = service
    found = find_store(api, NAMESPACE, StoreChoice())
    assert found.store is not None
    assert (found.store.spec["bucket"], found.keys) == ("models", {"accessKeyID": "a2V5"})
    assert found.store.spec["endpoint"] == "http://podtune-s3.tuning.svc:9000"
    assert found.store.server == ("podtune-s3.tuning.svc", 9000)


def test_helm_test_asks_for_an_experiment_where_experiments_are_served() -> None:
    def find_namespace(**values: Any) -> str:
        documents = render_with_tests(values)
        role = find_one(documents, "Role", "podtune-test")
        pod = find_one(documents, "Pod", "podtune-test")
        assert f"--namespace={role['metadata']['namespace']}" in pod["spec"]["containers"][0]["args"]
        assert all("helm.sh/hook" in d["metadata"]["annotations"] for d in (role, pod))
        return str(role["metadata"]["namespace"])

    assert find_namespace() == NAMESPACE
    assert find_namespace(watchNamespaces=["a", "b"]) == "a"
    assert find_namespace(watchNamespaces=["a", "b"], test={"namespace": "b"}) == "b"
    refused = template({"watchNamespaces": ["a"], "test": {"namespace": "c"}}, tests=True)
    assert "test.namespace=c is not served" in refused.stderr
