"""The dashboard in the chart as Helm renders it. Needs the local cluster's programs, as test_charts.py does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import yaml

from podtune.dashboard import main as entry
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.server.settings import ServerSettings
from tests.component.charts.rendered import CHARTS, NAMESPACE, find_one, list_kinds, render, template

pytestmark = [pytest.mark.cluster]

DASHBOARD = "podtune-dashboard"
CLUSTER_WIDE = f"{NAMESPACE}-{DASHBOARD}"
BEHIND_A_PROXY = {
    "dashboard__tls__secret": "served",
    "dashboard__proxy__userHeader": "X-Forwarded-User",
    "dashboard__proxy__groupsHeader": "X-Forwarded-Groups",
    "dashboard__proxy__authoritySecret": "proxy",
}
STORE = {"namespace": "team-a", "secret": "a-read", "store": {"bucket": "models"}}
Documents = list[dict[str, Any]]


def _render(**values: Any) -> Documents:
    return render("podtune", dashboard__enabled=True, **values)


def _pod(documents: Documents) -> dict[str, Any]:
    pod: dict[str, Any] = find_one(documents, "Deployment", DASHBOARD)["spec"]["template"]
    return pod


def _container(documents: Documents) -> dict[str, Any]:
    (container,) = _pod(documents)["spec"]["containers"]
    return dict(container)


def _own(documents: Documents) -> Documents:
    return [d for d in documents if d["metadata"]["labels"]["app.kubernetes.io/name"] == DASHBOARD]


def _rights(role: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return sorted(("+".join(rule["apiGroups"]), " ".join(rule["resources"]), rule["verbs"]) for rule in role["rules"])


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> list[ServerSettings]:
    """What `podtune-dashboard` would serve, once it is started."""
    served: list[ServerSettings] = []
    monkeypatch.setattr(entry, "run_server", served.append)
    return served


def _read_settings(
    documents: Documents, serving: list[ServerSettings], monkeypatch: pytest.MonkeyPatch
) -> ServerSettings:
    for variable in _container(documents)["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    assert entry.main([]) == 0
    return serving.pop()


def test_it_is_there_only_when_asked_for_and_changes_nothing_of_the_operators() -> None:
    without, with_it = render(), _render()
    assert not _own(without)
    assert [d for d in with_it if d not in _own(with_it)] == without
    assert list_kinds(_own(with_it)) == {
        ("ServiceAccount", DASHBOARD),
        ("ClusterRole", CLUSTER_WIDE),
        ("ClusterRoleBinding", CLUSTER_WIDE),
        ("Deployment", DASHBOARD),
        ("Service", DASHBOARD),
        ("NetworkPolicy", DASHBOARD),
    }


def test_what_selects_the_operators_pods_does_not_select_the_dashboards() -> None:
    documents = _render()
    pod = _pod(documents)["metadata"]["labels"]
    for kind, name in (("Service", "podtune-results"), ("Service", "podtune-metrics")):
        assert not find_one(documents, kind, name)["spec"]["selector"].items() <= pod.items()
    operator = find_one(documents, "Deployment", "podtune")["spec"]["template"]["metadata"]["labels"]
    service = find_one(documents, "Service", DASHBOARD)["spec"]["selector"]
    assert service.items() <= pod.items()
    assert not service.items() <= operator.items()


def test_it_may_read_and_ask_who_may_what_but_write_nothing_and_read_no_secret() -> None:
    role = find_one(_render(), "ClusterRole", CLUSTER_WIDE)
    assert _rights(role) == [
        ("authentication.k8s.io", "tokenreviews", ["create"]),
        ("authorization.k8s.io", "subjectaccessreviews", ["create"]),
        ("podtune.dev", "experiments trials", ["list", "watch"]),
    ]


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ({"watchNamespaces": ["a", "b"]}, ["a", "b"]),
        ({"dashboard__namespaces": ["c"]}, ["c"]),
        ({"watchNamespaces": ["a", "b"], "dashboard__namespaces": ["b"]}, ["b"]),
    ],
)
def test_with_namespaces_it_has_rights_there_and_nowhere_else(values: dict[str, Any], namespaces: list[str]) -> None:
    documents = _own(_render(**values))
    everywhere = _rights(find_one(documents, "ClusterRole", CLUSTER_WIDE))
    assert [resources for _, resources, _ in everywhere] == ["tokenreviews", "subjectaccessreviews"]
    roles = {d["metadata"]["namespace"]: _rights(d) for d in documents if d["kind"] == "Role"}
    rights = [right for right in _rights(find_one(_render(), "ClusterRole", CLUSTER_WIDE)) if right not in everywhere]
    assert roles == dict.fromkeys(namespaces, rights)
    bindings = [d for d in documents if d["kind"] == "RoleBinding"]
    assert [d["metadata"]["namespace"] for d in bindings] == namespaces
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": DASHBOARD, "namespace": NAMESPACE}]


def test_an_account_of_another_makers_is_bound_by_its_name() -> None:
    documents = _own(_render(dashboard__serviceAccount__create=False, dashboard__serviceAccount__name="viewing"))
    assert "ServiceAccount" not in {kind for kind, _ in list_kinds(documents)}
    (subject,) = find_one(documents, "ClusterRoleBinding", CLUSTER_WIDE)["subjects"]
    assert subject["name"] == _pod(documents)["spec"]["serviceAccountName"] == "viewing"


def test_values_are_written_as_the_dashboard_reads_them(
    serving: list[ServerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    default = _read_settings(_render(), serving, monkeypatch)
    assert (default.port, default.prefix, default.namespaces, default.title) == (8080, "", (), "")
    assert default.allowed_hosts is None
    assert (default.offers_actions, default.is_open, default.tls, default.proxy.user_header) == (False, False, None, "")
    assert default.price == NO_PRICE
    assert default.session == timedelta(hours=12)
    chosen = {
        "pathPrefix": "/teams/podtune",
        "namespaces": ["a", "b"],
        "title": "Berlin: 8 × H100",
        "actions": True,
        "allowedHosts": ["podtune.example.com"],
        "sessionHours": 0.5,
        "gpuPrice": 2.5,
        "currency": "EUR",
        "logLevel": "debug",
    }
    documents = _render(**{f"dashboard__{name}": value for name, value in chosen.items()})
    settings = _read_settings(documents, serving, monkeypatch)
    assert (settings.prefix, settings.namespaces, settings.title) == ("/teams/podtune", ("a", "b"), "Berlin: 8 × H100")
    assert settings.offers_actions
    assert settings.allowed_hosts == {"podtune.example.com"}
    assert settings.price == GpuPrice(2.5, "EUR")
    assert (settings.session, settings.log_level) == (timedelta(minutes=30), "debug")
    assert _read_settings(_render(dashboard__open=True), serving, monkeypatch).is_open


def test_a_variant_is_another_image() -> None:
    assert _container(_render(dashboard__image__tag="dev"))["image"] == "podtune-dashboard:dev"
    variant = _render(dashboard__image__tag="dev", dashboard__image__variant="gp", image__tag="1")
    assert _container(variant)["image"] == "podtune-dashboard-gp:dev"
    assert find_one(variant, "Deployment", "podtune")["spec"]["template"]["spec"]["containers"][0]["image"].endswith(
        "operator:1"
    )


def test_the_pod_satisfies_pod_security_restricted() -> None:
    spec = _pod(_render())["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65531,
        "runAsGroup": 65531,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert "volumes" not in spec
    # A Service of that name sets PODTUNE_DASHBOARD_PORT, which is a setting of the dashboard.
    assert spec["enableServiceLinks"] is False


def test_the_kubelet_probes_it_as_it_serves() -> None:
    for values, scheme in (
        ({}, "HTTP"),
        ({"dashboard__tls__secret": "served", "dashboard__pathPrefix": "/x"}, "HTTPS"),
    ):
        container = _container(_render(**values))
        probes = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
        paths = {kind: probe["path"] for kind, probe in probes.items()}
        assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        assert {probe["scheme"] for probe in probes.values()} == {scheme}


def test_a_proxy_is_believed_by_its_own_authority_and_its_key_is_not_mounted() -> None:
    documents = _render(**BEHIND_A_PROXY)
    container, spec = _container(documents), _pod(documents)["spec"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"]}
    assert environment["PODTUNE_DASHBOARD_PROXY_USER_HEADER"] == "X-Forwarded-User"
    assert environment["PODTUNE_DASHBOARD_PROXY_GROUPS_HEADER"] == "X-Forwarded-Groups"
    assert environment["PODTUNE_DASHBOARD_PROXY_AUTHORITY"] == f"{mounts['proxy']}/ca.crt"
    assert environment["PODTUNE_DASHBOARD_TLS_CERTIFICATE"] == f"{mounts['tls']}/tls.crt"
    assert environment["PODTUNE_DASHBOARD_TLS_KEY"] == f"{mounts['tls']}/tls.key"
    assert secrets["proxy"] == {"secretName": "proxy", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert secrets["tls"]["secretName"] == "served"


def test_stores_are_read_with_mounted_secrets_and_with_no_right_to_any(
    serving: list[ServerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [
        {"namespace": "team-a", "secret": "a-read", "store": {"bucket": "models", "prefix": "a"}},
        {"namespace": "team-b", "secret": "b.read", "store": {"gcs": {"bucket": "others"}}},
    ]
    documents = _render(dashboard__stores=entries)
    spec = _pod(documents)["spec"]
    secrets = {volume["name"]: volume["secret"] for volume in spec["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in _container(documents)["volumeMounts"]}
    assert all(mount["readOnly"] for mount in mounts.values())
    stores = _read_settings(documents, serving, monkeypatch).stores
    assert [(store.namespace, store.address.uri, store.address.prefix, store.address.secret) for store in stores] == [
        ("team-a", "s3://models", "a", "a-read"),
        ("team-b", "gs://others", "", "b.read"),
    ]
    for store in stores:
        mounted = secrets[mounts[store.address.credentials]["name"]]
        assert mounted == {"secretName": store.address.secret, "optional": True}
    role = find_one(documents, "ClusterRole", CLUSTER_WIDE)
    assert _rights(role) == _rights(find_one(_render(), "ClusterRole", CLUSTER_WIDE))
    assert "tls" in {
        volume["name"] for volume in _pod(_render(dashboard__stores=entries, **BEHIND_A_PROXY))["spec"]["volumes"]
    }


def test_an_ingress_has_tls_and_the_prefix() -> None:
    assert "Ingress" not in {kind for kind, _ in list_kinds(_render())}
    values = {"enabled": True, "host": "podtune.example.com", "className": "nginx", "tlsSecret": "podtune-tls"}
    documents = _render(
        dashboard__pathPrefix="/x", **{f"dashboard__ingress__{name}": value for name, value in values.items()}
    )
    spec = find_one(documents, "Ingress", DASHBOARD)["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["podtune.example.com"], "secretName": "podtune-tls"}]
    (rule,) = spec["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("podtune.example.com", "/x")
    assert path["backend"]["service"] == {"name": DASHBOARD, "port": {"name": "http"}}
    plain = _render(dashboard__ingress__enabled=True, dashboard__ingress__host="podtune.example.com")
    assert find_one(plain, "Ingress", DASHBOARD)["spec"]["tls"] == [{"hosts": ["podtune.example.com"]}]


def test_pods_of_named_namespaces_alone_reach_it() -> None:
    def admitted(documents: Documents) -> list[str]:
        (rule,) = find_one(documents, "NetworkPolicy", DASHBOARD)["spec"]["ingress"]
        assert rule["ports"] == [{"protocol": "TCP", "port": "http"}]
        return [source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for source in rule["from"]]

    assert admitted(_render()) == [NAMESPACE]
    assert admitted(_render(networkPolicy__dashboardNamespaces=["ingress"])) == [NAMESPACE, "ingress"]
    assert "NetworkPolicy" not in {kind for kind, _ in list_kinds(_own(_render(networkPolicy__enabled=False)))}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"open": True, "actions": True}, "set one of them to false"),
        ({"open": True, "ingress.enabled": True, "ingress.host": "a.example"}, "kubectl port-forward needs no Ingress"),
        ({"open": True, "service.type": "LoadBalancer"}, "dashboard.service.type=LoadBalancer lets others in"),
        ({"open": True, "proxy.userHeader": "X-User"}, "leave out one of them"),
        ({"proxy.userHeader": "X-User"}, "set dashboard.tls.secret (tls.crt and tls.key)"),
        ({"proxy.userHeader": "X-User", "tls.secret": "served"}, "dashboard.proxy.authoritySecret (ca.crt"),
        ({"proxy.groupsHeader": "X-Groups"}, "do nothing without dashboard.proxy.userHeader"),
        ({"ingress.enabled": True}, "dashboard.ingress.host is empty"),
        ({"serviceAccount.create": False}, "needs dashboard.serviceAccount.name"),
        ({"open": "yes"}, "open"),
        ({"pathPrefix": "podtune"}, "pathPrefix"),
        ({"pathPrefix": "/podtune/"}, "pathPrefix"),
        ({"pathPrefix": "/../x"}, "pathPrefix"),
        ({"sessionHours": 0}, "sessionHours"),
        ({"allowedHosts": ["https://podtune.example.com"]}, "allowedHosts"),
        ({"proxy.userHeader": "X User"}, "userHeader"),
        ({"image.variant": "gpu"}, "variant"),
        ({"replicas": 2}, "replicas"),
        ({"open": True, "stores": [STORE]}, "dashboard.stores are read for viewers with a token"),
        ({"stores": [STORE | {"secret": "../x"}]}, "secret"),
        ({"stores": [STORE | {"store": {"volume": {"claimName": "models"}}}]}, "store"),
        ({"stores": [STORE | {"store": {"bucket": "a", "gcs": {"bucket": "b"}}}]}, "oneOf"),
        ({"gpuPrice": 0}, "gpuPrice"),
        ({"gpuPrice": "2.5 EUR"}, "gpuPrice"),
        ({"currency": "5 EUR"}, "currency"),
        ({"ingress.tls": False}, "tls"),
    ],
)
def test_what_is_unsafe_or_does_nothing_is_refused(values: dict[str, Any], said: str) -> None:
    rendered = template({"dashboard.enabled": True, **{f"dashboard.{name}": value for name, value in values.items()}})
    assert rendered.returncode != 0
    assert said in rendered.stderr


def test_the_readme_explains_every_value() -> None:
    explained = (CHARTS / "podtune" / "README.md").read_text()
    values = yaml.safe_load((CHARTS / "podtune" / "values.yaml").read_text())["dashboard"]
    assert [name for name in values if f"`dashboard.{name}" not in explained and f"`.{name}" not in explained] == []
