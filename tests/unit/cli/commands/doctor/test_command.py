"""`podtune doctor` over a stand-in cluster: well, and broken in one way at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docs import generate_rights
from podtune import __version__
from podtune.api.crd.generate import RESOURCES, build_definition
from podtune.cli import main as cli
from podtune.cli.client import api_client, store_access
from podtune.cli.commands.doctor.rights import OPERATOR_RIGHTS
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound, make_refusal
from podtune.kube.manifests import Manifest
from podtune.storage.errors import AccessDenied, ClockSkewed, InvalidCredentials, Unreachable
from tests.unit.cli.cli_fakes import NAMESPACE, FakeApi, experiment, trial
from tests.unit.storage.memory_store import MemoryStore

HOME = "podtune-system"
AGENTS_LOG = paths.log_of(paths.pod(NAMESPACE, "digits-7-1"))
ACCOUNT = f"system:serviceaccount:{HOME}:podtune"


class StandIn(FakeApi):
    """A healthy installation.

    Attributes:
        denied: What nobody may do: account (empty for the caller), verb and resource.
        hidden: Paths that the caller may not read.
        skew: How far the server's clock is behind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[tuple[str, str, str]] = set()
        self.hidden: set[str] = set()
        self.skew = timedelta()
        self.bindings: list[Manifest] = []
        self.store = MemoryStore()
        for resource in RESOURCES:
            self.objects[paths.definition(resource.name)] = build_definition(resource)
        self.objects[paths.pod(HOME, "podtune-a")] = self.operator = make_operator()
        lease = {"holderIdentity": "podtune-a", "renewTime": datetime.now(UTC).isoformat(), "leaseDurationSeconds": 15}
        self.objects[paths.lease(HOME, "podtune-operator")] = self.lease = {"spec": lease}
        self.objects[paths.name_in(paths.services(HOME), "podtune-results")] = {"metadata": {"name": "podtune-results"}}
        self.objects[paths.pod("kube-system", "coredns-a")] = self.dns = make_pod("coredns-a")
        made = experiment()
        made["spec"]["checkpoints"] = {"store": {"bucket": "models", "credentialsSecret": "podtune-s3"}}
        self.add_experiment(made)
        self.add_trial(trial(7, state="RUNNING"))
        self.objects[paths.secret(NAMESPACE, "podtune-s3")] = {"data": {}}
        self.objects[paths.pod(NAMESPACE, "digits-7-1")] = self.trial_pod = make_pod("digits-7-1")
        self.logs[AGENTS_LOG] = [json.dumps({"event": "started"})]

    def read_date(self) -> datetime | None:
        return datetime.now(UTC) - self.skew

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        if path in self.hidden:
            raise make_refusal(403, "Forbidden", f"you cannot get {path}")
        return super().get(path, params)

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        if path in self.hidden:
            raise make_refusal(403, "Forbidden", f"you cannot list {path}")
        if path == paths.POLICY_BINDINGS:
            return self.bindings
        if path == paths.experiments(NAMESPACE) and paths.definition("experiments.podtune.dev") not in self.objects:
            raise ResourceNotFound(404, "NotFound", "the server could not find the requested resource")
        return super().list_all(path, params)

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        asked, who = item["spec"]["resourceAttributes"], item["spec"].get("user", "")
        resource = "/".join(part for part in (asked["resource"], asked.get("subresource")) if part)
        return {"status": {"allowed": (who, asked["verb"], resource) not in self.denied}}


def make_pod(name: str, **status: Any) -> Manifest:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "spec": {"containers": []}, "status": {"phase": "Running", **ready, **status}}


def make_operator() -> Manifest:
    pod = make_pod("podtune-a")
    pod["metadata"]["labels"] = {"app.kubernetes.io/version": __version__, "podtune.dev/leader": "true"}
    settings = {
        "PODTUNE_LEASE_NAME": "podtune-operator",
        "PODTUNE_RESULTS_URL": f"http://podtune-results.{HOME}.svc:8080",
        "PODTUNE_AGENT_IMAGE": f"podtune-agent:{__version__}",
    }
    env = [{"name": name, "value": value} for name, value in settings.items()]
    pod["spec"] = {"serviceAccountName": "podtune", "containers": [{"name": "operator", "env": env}]}
    return pod


def wait_for_image(pod: Manifest, image: str) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pod["status"]["containerStatuses"] = [{"image": image, "state": {"waiting": waiting}}]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    api = StandIn()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    monkeypatch.setattr(store_access, "make_store", lambda address, _: api.store)
    return api


def examine(capsys: pytest.CaptureFixture[str], *options: str, expect: int = 1) -> list[tuple[str, str, str]]:
    assert cli.main(["doctor", *options, "-o", "json"]) == expect
    answer = json.loads(capsys.readouterr().out)
    assert answer["healthy"] is (expect == 0)
    return [(item["subject"], item["state"], item["message"]) for item in answer["items"]]


def test_of_a_healthy_installation_all_is_well(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert {state for _, state, _ in examine(capsys, expect=ExitStatus.DONE)} == {"ok"}
    assert cli.main(["doctor", "digits"]) == ExitStatus.DONE
    written = capsys.readouterr()
    assert written.err == "all is well\n"
    assert "ok       leader: podtune-a leads" in written.out
    assert "ok       store of digits: s3://models is there, and takes the key" in written.out


def lose_definitions(api: StandIn) -> None:
    for resource in RESOURCES:
        del api.objects[paths.definition(resource.name)]


def age_definitions(api: StandIn) -> None:
    (schema,) = (
        version["schema"]["openAPIV3Schema"]
        for version in api.objects[paths.definition("experiments.podtune.dev")]["spec"]["versions"]
    )
    del schema["properties"]["spec"]["properties"]["evaluation"]


def age_operator(api: StandIn) -> None:
    api.operator["metadata"]["labels"]["app.kubernetes.io/version"] = "0.0.1"


def take_a_right(api: StandIn) -> None:
    api.denied = {(ACCOUNT, "create", "pods"), (ACCOUNT, "get", "pods/log")}


def take_a_right_of_the_caller(api: StandIn) -> None:
    api.denied = {("", "create", "trials")}


def lose_the_bucket(api: StandIn) -> None:
    api.store = MemoryStore(bucket_exists=False)


def change_the_key(api: StandIn) -> None:
    api.store.failure = InvalidCredentials("the bucket refuses the key; correct the Secret")


def shift_the_clock_for_the_store(api: StandIn) -> None:
    api.store.failure = ClockSkewed("the bucket finds that the clock here is wrong; set up NTP")


def tell_of_the_clock_by_an_agent(api: StandIn) -> None:
    told = {"type": "CheckpointsStored", "status": "False", "reason": "ClockSkewed", "message": "the clock is wrong"}
    api.add_trial(trial(7, state="RUNNING", conditions=[told]))


def lose_the_secret(api: StandIn) -> None:
    del api.objects[paths.secret(NAMESPACE, "podtune-s3")]


def tell_by_an_agent(api: StandIn) -> None:
    told = {"type": "CheckpointsStored", "status": "False", "reason": "AccessDenied", "message": "put is not allowed"}
    api.add_trial(trial(7, state="RUNNING", conditions=[told]))


def stop_dns(api: StandIn) -> None:
    api.dns["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def shift_the_clock(api: StandIn) -> None:
    api.skew = timedelta(minutes=5)


def lose_the_image(api: StandIn) -> None:
    wait_for_image(api.trial_pod, "train:7")


def lose_the_operators_image(api: StandIn) -> None:
    wait_for_image(api.operator, "podtune-operator:9")


def lose_the_leader(api: StandIn) -> None:
    api.lease["spec"]["renewTime"] = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


def fill_the_quota(api: StandIn) -> None:
    status = {
        "hard": {"requests.nvidia.com/gpu": "8", "pods": "20"},
        "used": {"requests.nvidia.com/gpu": "8", "pods": "3"},
    }
    api.objects[paths.name_in(paths.resource_quotas(NAMESPACE), "gpus")] = {
        "metadata": {"name": "gpus"},
        "status": status,
    }


def cut_off_agents(api: StandIn, why: str) -> None:
    lines = [
        "not JSON",
        json.dumps({"event": "report not delivered", "message": f"no answer from the operator: {why}", "failures": 9}),
    ]
    api.logs[AGENTS_LOG] = lines


def lose_names(api: StandIn) -> None:
    cut_off_agents(api, "[Errno -3] Temporary failure in name resolution")


def forbid_connections(api: StandIn) -> None:
    cut_off_agents(api, "timed out")


def tell_an_event(api: StandIn, pod: Manifest, namespace: str, reason: str, message: str) -> None:
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    about = {"kind": "Pod", "name": pod["metadata"]["name"]}
    now = datetime.now(UTC).isoformat()
    event = {"involvedObject": about, "reason": reason, "message": message, "lastTimestamp": now}
    api.objects[paths.name_in(paths.core_events(namespace), "told")] = event


def lose_a_volume(api: StandIn) -> None:
    tell_an_event(api, api.trial_pod, NAMESPACE, "FailedMount", 'secret "data" not found')


def lose_the_operators_volume(api: StandIn) -> None:
    tell_an_event(api, api.operator, HOME, "FailedMount", 'secret "tls" not found')


def lose_the_service(api: StandIn) -> None:
    del api.objects[paths.name_in(paths.services(HOME), "podtune-results")]


def lose_the_operator(api: StandIn) -> None:
    del api.objects[paths.pod(HOME, "podtune-a")]


@pytest.mark.parametrize(
    ("damage", "subject", "words"),
    [
        (lose_definitions, "definitions", "does not know Experiments; install podtune-crds"),
        (age_definitions, "definitions", "it lacks spec.evaluation and"),
        (age_operator, "operator", "podtune-a has version 0.0.1"),
        (lose_the_operator, "operator", "install the chart podtune, or give --operator-namespace"),
        (lose_the_operators_image, "operator", "its image podtune-operator:9 can't be pulled"),
        (take_a_right, "operator's rights", f"{ACCOUNT} may not create pods, get pods/log in namespace vision"),
        (take_a_right_of_the_caller, "your rights", "you may not create trials in namespace vision; ask for the role"),
        (lose_the_bucket, "store of digits", "s3://models: there is no bucket"),
        (change_the_key, "store of digits", "the bucket refuses the key; correct the Secret"),
        (shift_the_clock_for_the_store, "clocks", "s3://models: the bucket finds that the clock here is wrong; set"),
        (tell_of_the_clock_by_an_agent, "clocks", "an agent says ClockSkewed: the clock is wrong"),
        (lose_the_secret, "store of digits", "Secret podtune-s3 is missing in namespace vision"),
        (tell_by_an_agent, "store of digits", "an agent says AccessDenied: put is not allowed"),
        (stop_dns, "DNS", "agents find neither operator nor bucket"),
        (lose_the_service, "results service", "namespace podtune-system has no Service podtune-results"),
        (shift_the_clock, "clocks", "s ahead of the API server"),
        (lose_the_image, "images", "train:7 can't be pulled: not found (pod digits-7-1)"),
        (lose_the_leader, "leader", "no operator leads since"),
        (lose_names, "DNS", "the agent of pod digits-7-1 can't resolve the operator's name (no answer"),
        (forbid_connections, "agents", "can't deliver its reports (no answer from the operator: timed out); look at"),
        (lose_a_volume, "Events of pods in vision", 'FailedMount of Pod digits-7-1: secret "data" not found; create'),
        (lose_the_operators_volume, "Events of pods in podtune-system", "FailedMount of Pod podtune-a: secret"),
        (fill_the_quota, "quota", "ResourceQuota gpus is full: 8 of 8 requests.nvidia.com/gpu"),
    ],
)
def test_what_is_broken_is_named_with_its_remedy(
    damage: Callable[[StandIn], None], subject: str, words: str, api: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(api)
    problems = [(about, said) for about, state, said in examine(capsys) if state == "problem"]
    assert any(about == subject and words in said for about, said in problems), problems


def test_what_the_caller_may_not_see_is_unknown_and_no_problem(
    api: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    api.hidden = {paths.definition("experiments.podtune.dev"), paths.pods("kube-system"), paths.pods(HOME)}
    api.hidden.add(paths.resource_quotas(NAMESPACE))
    api.store.failure = Unreachable("http://minio can't be reached")
    states = {subject: state for subject, state, _ in examine(capsys, expect=ExitStatus.DONE)}
    unknown = {subject for subject, state in states.items() if state == "unknown"}
    assert unknown >= {"definitions", "operator", "DNS", "quota", "store of digits"}
    assert cli.main(["doctor"]) == ExitStatus.DONE
    assert capsys.readouterr().err.startswith("all is well, as far as can be seen: ")


def test_what_is_over_is_no_problem(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    lose_names(api)
    told = api.logs[AGENTS_LOG]
    assert isinstance(told, list)
    told.append(json.dumps({"event": "operator answers again", "failures": 9}))
    lose_a_volume(api)
    (event,) = api.list_all(paths.core_events(NAMESPACE))
    event["lastTimestamp"] = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    examine(capsys, expect=ExitStatus.DONE)


def test_without_a_store_there_is_none_to_look_at(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    api.add_experiment(experiment())
    found = {subject: said for subject, _, said in examine(capsys, "digits", expect=ExitStatus.DONE)}
    assert found["store"] == "digits has no checkpoints.store to look at"


def test_an_agent_that_has_not_started_says_nothing(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    api.logs[AGENTS_LOG] = make_refusal(400, "BadRequest", "container podtune-agent is waiting to start")
    states = {subject: state for subject, state, _ in examine(capsys, expect=ExitStatus.DONE)}
    assert states["agents"] == "unknown"


def test_a_key_that_may_not_read_is_a_problem_for_people_too(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    api.store.failure = AccessDenied("the key may not list the bucket; allow it")
    assert cli.main(["doctor"]) == ExitStatus.FAILED
    written = capsys.readouterr()
    assert "PROBLEM  store of digits: s3://models: the key may not list the bucket; allow it" in written.out
    assert written.err == "1 problem\n"


def test_where_experiments_are_unknown_none_is_said_to_be_missing(
    api: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    lose_definitions(api)
    del api.objects[paths.experiment(NAMESPACE, "digits")]
    states = {subject: state for subject, state, _ in examine(capsys, "digits")}
    assert (states["definitions"], states["store"]) == ("problem", "unknown")


def test_an_experiment_that_is_not_there_is_an_error(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "audio"]) == ExitStatus.FAILED
    assert "no Experiment 'audio'" in capsys.readouterr().err


def test_the_operators_rights_are_those_that_the_chart_grants() -> None:
    template = (generate_rights.TEMPLATES / "_helpers.tpl").read_text(encoding="utf-8")
    granted: dict[tuple[str, str], tuple[str, ...]] = {}
    for _, rule in generate_rights.rules(template, "podtune.rules"):
        for resource in rule["resources"]:
            granted[rule["apiGroups"][0], resource] = tuple(rule["verbs"])
    assert granted == dict(OPERATOR_RIGHTS)


def make_binding(created: str, **match: Any) -> Manifest:
    spec = {"policyName": "podtune-user-rights", "validationActions": ["Deny"], **match}
    return {"metadata": {"name": "podtune-user-rights", "creationTimestamp": created}, "spec": spec}


def make_selector(*namespaces: str) -> Manifest:
    asked = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"matchResources": {"namespaceSelector": {"matchExpressions": [asked]}}}


def read_authors(capsys: pytest.CaptureFixture[str]) -> str:
    (words,) = [said for about, _, said in examine(capsys, expect=ExitStatus.DONE) if about == "authors' rights"]
    return words


def test_experiments_that_are_older_than_the_policy_are_named(api: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    api.bindings = [make_binding("2026-01-01T10:00:01Z", **make_selector(NAMESPACE))]
    assert "it has not looked at what was there before, unless it was changed: digits" in read_authors(capsys)
    api.bindings = [make_binding("2026-01-01T09:00:00Z")]
    assert read_authors(capsys).endswith("for their rights since 2026-01-01T09:00:00Z")


@pytest.mark.parametrize(
    "binding",
    [
        make_binding("2026-01-01T09:00:00Z", **make_selector("elsewhere")),
        make_binding("2026-01-01T09:00:00Z", policyName="podtune-templates"),
        make_binding("2026-01-01T09:00:00Z", validationActions=["Audit"]),
    ],
)
def test_a_namespace_whose_authors_nobody_asks_is_told_of(
    api: StandIn, binding: Manifest, capsys: pytest.CaptureFixture[str]
) -> None:
    api.bindings = [binding]
    assert "no policy asks who makes an Experiment in namespace vision" in read_authors(capsys)
