"""`podtune conformance` on a stand-in cluster: one that survives everything, and some that don't."""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as xml
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.commands.conformance import command
from podtune.cli.commands.conformance.catalog import CHECKS
from podtune.cli.commands.conformance.running import CheckClock
from podtune.cli.errors import ExitStatus
from podtune.kube import paths
from podtune.kube.errors import make_refusal
from podtune.kube.manifests import Manifest
from tests.unit.cli.commands.conformance.conforming_cluster import HOME, ConformingCluster

NAMES = [check.name for check in CHECKS]
SPACE = "podtune-conformance"
Run = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ConformingCluster:
    cluster = ConformingCluster()
    cluster.install_store()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (cluster, namespace or "team-a"))
    monkeypatch.setattr(
        command, "CheckClock", lambda say: CheckClock(lambda: cluster.now, cluster.sleep, random.Random(1), say)
    )
    return cluster


@pytest.fixture
def run(cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; gives what is said of each check."""

    def call(*words: str, expect: int = ExitStatus.DONE) -> dict[str, dict[str, Any]]:
        assert cli.main(["conformance", *words, "-o", "json"]) == expect
        answer = json.loads(capsys.readouterr().out)
        assert answer["passed"] is (expect == ExitStatus.DONE)
        return {check["name"]: check for check in answer["checks"]}

    return call


def list_states(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["state"] for name, check in checks.items()}


def test_an_installation_that_survives_all_passes_and_is_left_as_it_was(cluster: ConformingCluster, run: Run) -> None:
    before = {path for path in cluster.objects if HOME not in path}
    assert list_states(run()) == dict.fromkeys(NAMES, "passed")
    assert {path for path in cluster.objects if HOME not in path} == before, "all that was made is removed"
    assert paths.pod(HOME, "podtune-1") in cluster.deleted, "the operator was killed"


def test_people_read_a_line_for_each_check(cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conformance"]) == ExitStatus.DONE
    written = capsys.readouterr()
    lines = written.out.splitlines()
    assert [line.split()[:2] for line in lines] == [["passed", name] for name in NAMES]
    assert all(line.endswith(".") for line in lines), "each says what it proves"
    assert "on Kubernetes v1.34.1, agents of podtune-agent:1; checks in namespace podtune-conformance" in written.err
    assert "7 passed, 0 failed, 0 skipped in " in written.err


@pytest.mark.parametrize(
    ("flaw", "name", "words"),
    [
        ("blames", "eviction", "what does not hold: no failures counted; 1 disruption counted"),
        ("blames", "lost-pod", "no failures counted"),
        ("forgets", "crash", "the last attempt went on from the checkpoint of epoch 2 or a later one"),
        ("forgets", "pause", "went on from the checkpoint of epoch 3"),
        ("stays away", "operator", "not within 240 s: another operator leads"),
        ("idle", "quota", "not within 240 s: the trial waits, and names the quota"),
    ],
)
def test_what_an_installation_does_wrong_is_named_with_evidence(
    cluster: ConformingCluster, run: Run, flaw: str, name: str, words: str
) -> None:
    cluster.flaw = flaw
    check = run("--only", name, expect=ExitStatus.FAILED)[name]
    assert check["state"] == "failed"
    assert words in check["message"]
    told = "no operator has looked at" if flaw == "idle" else f"Trial {name}-0: "
    assert any(told in line for line in check["evidence"]), check["evidence"]
    assert paths.namespace(SPACE) not in cluster.objects


def test_an_experiment_that_fails_is_not_waited_for(cluster: ConformingCluster, run: Run) -> None:
    failed: Manifest = {"state": "Failed", "conditions": [{"type": "Failed", "status": "True", "message": "no room"}]}
    cluster.flaw = "idle"
    sleep = cluster.sleep

    def fail(seconds: float) -> None:
        sleep(seconds)
        for item in cluster.list_all(paths.experiments(SPACE)):
            item["status"] = failed

    cluster.sleep = fail
    check = run("--only", "operator", expect=ExitStatus.FAILED)["operator"]
    assert check["message"] == "the Experiment is Failed: no room (waited until two results have come in)"
    assert check["seconds"] < 10


def test_checks_that_need_a_store_are_skipped_without_one(cluster: ConformingCluster, run: Run) -> None:
    del cluster.objects[paths.name_in(paths.services(HOME), "podtune-s3")]
    checks = run()
    skipped = [name for name, state in list_states(checks).items() if state == "skipped"]
    assert skipped == ["crash", "eviction", "lost-pod", "pause", "store"]
    assert "--store s3://BUCKET/PREFIX --secret NAME" in checks["crash"]["message"]


def test_a_store_that_is_given_is_used_with_a_copy_of_its_secret(cluster: ConformingCluster, run: Run) -> None:
    cluster.objects[paths.secret("team-b", "keys")] = {"metadata": {"name": "keys"}, "data": {"accessKeyID": "eA=="}}
    options = ("--store", "s3://models/team", "--secret", "team-b/keys", "--region", "eu-west-1", "--keep")
    checks = run(*options, "--only", "crash", "--only", "store")
    assert list_states(checks) == {"store": "skipped", "crash": "passed"}
    assert "is not reached over plain http" in checks["store"]["message"]
    assert cluster.objects[paths.secret(SPACE, "conformance-store")]["data"] == {"accessKeyID": "eA=="}
    spec = cluster.objects[paths.experiment(SPACE, "crash")]["spec"]
    store = {"bucket": "models", "prefix": "team/podtune-conformance", "region": "eu-west-1"}
    assert spec["checkpoints"]["store"] == {**store, "credentialsSecret": "conformance-store"}
    assert spec["checkpoints"]["deletionPolicy"] == "Delete"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--only", "crush"), "there is no check 'crush'; there are crash, eviction, "),
        (("--store", "models/team"), "write it like s3://bucket/prefix"),
        (("--timeout", "soon"), "--timeout"),
        (("--junit", "/nowhere/report.xml"), "--junit: there is no directory /nowhere"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_is_made(
    cluster: ConformingCluster, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    before = set(cluster.objects)
    assert cli.main(["conformance", *options]) == ExitStatus.USAGE
    assert words in capsys.readouterr().err
    assert set(cluster.objects) == before


def test_a_secret_that_is_missing_is_named(cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conformance", "--store", "s3://models", "--secret", "keys"]) == ExitStatus.FAILED
    assert "--secret: keys in namespace team-a can't be read" in capsys.readouterr().err
    assert paths.namespace(SPACE) not in cluster.objects


def test_rights_that_all_checks_need_are_asked_for_first(
    cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.denied = {("", "create", "namespaces"), (SPACE, "create", "pods/eviction")}
    assert cli.main(["conformance"]) == ExitStatus.FORBIDDEN
    said = capsys.readouterr().err
    assert "you may not create pods/eviction in namespace podtune-conformance; create namespaces; have a" in said
    assert paths.namespace(SPACE) not in cluster.objects


def test_the_operator_is_left_alone_by_who_may_not_kill_it_or_does_not_want_to(
    cluster: ConformingCluster, run: Run
) -> None:
    cluster.denied = {(HOME, "delete", "pods")}
    skipped = run("--only", "operator")["operator"]
    assert (skipped["state"], "--without operator" in skipped["message"]) == ("skipped", True)
    cluster.denied.clear()
    checks = run("--without", "operator", "--only", "operator", "--only", "quota")
    assert list_states(checks) == {"operator": "skipped", "quota": "passed"}
    assert paths.pod(HOME, "podtune-1") in cluster.objects


def add_namespace(cluster: ConformingCluster, **labels: str) -> Manifest:
    metadata: Manifest = {"name": SPACE, "uid": "there", "labels": {"podtune.dev/conformance": "given"} | labels}
    cluster.objects[paths.namespace(SPACE)] = {"metadata": metadata}
    return metadata


def test_a_namespace_of_somebody_else_is_refused(
    cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add_namespace(cluster)["labels"] = {}
    assert cli.main(["conformance"]) == ExitStatus.USAGE
    said = capsys.readouterr().err
    assert "kubectl label namespace podtune-conformance podtune.dev/conformance=given" in said
    assert cluster.objects[paths.namespace(SPACE)]["metadata"]["uid"] == "there"


def test_a_namespace_that_was_given_stays_and_has_no_experiments_of_others(
    cluster: ConformingCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    add_namespace(cluster)
    run("--only", "quota")
    assert cluster.objects[paths.namespace(SPACE)]["metadata"]["uid"] == "there"
    assert not cluster.list_all(paths.experiments(SPACE))
    assert not cluster.list_all(paths.resource_quotas(SPACE))
    cluster.objects[paths.experiment(SPACE, "digits")] = {"metadata": {"name": "digits", "uid": "1"}}
    assert cli.main(["conformance"]) == ExitStatus.USAGE
    assert "has other Experiments (digits)" in capsys.readouterr().err


def test_what_an_earlier_run_has_left_is_removed_and_a_run_under_way_is_not_disturbed(
    cluster: ConformingCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--only", "quota", "--keep")
    first = cluster.objects[paths.namespace(SPACE)]["metadata"]["uid"]
    assert cluster.list_all(paths.resource_quotas(SPACE)), "it is kept to be looked at"
    run("--only", "quota", "--keep")
    metadata = cluster.objects[paths.namespace(SPACE)]["metadata"]
    assert metadata["uid"] != first
    metadata["annotations"] = {"podtune.dev/conformance-until": "2999-01-01T00:00:00+00:00"}
    assert cli.main(["conformance"]) == ExitStatus.USAGE
    assert "another run is under way in namespace podtune-conformance" in capsys.readouterr().err


def test_an_operator_that_serves_some_namespaces_has_to_serve_this_one(
    cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    (container,) = cluster.objects[paths.pod(HOME, "podtune-1")]["spec"]["containers"]
    container["env"][1]["value"] = "team-a,team-b"
    assert cli.main(["conformance"]) == ExitStatus.USAGE
    assert "does not serve namespace podtune-conformance, but team-a, team-b" in capsys.readouterr().err


def test_where_namespaces_opt_in_this_one_does(cluster: ConformingCluster, run: Run) -> None:
    (container,) = cluster.objects[paths.pod(HOME, "podtune-1")]["spec"]["containers"]
    container["env"].append({"name": "PODTUNE_NAMESPACE_OPT_IN", "value": "true"})
    annotations = {"podtune.dev/subject": f"{HOME}/podtune"}
    role: Manifest = {"metadata": {"name": "podtune-system-podtune-namespace", "annotations": annotations}}
    list_all = cluster.list_all

    def list_roles(path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        return [role] if path == paths.cluster_roles() else list_all(path, params)

    cluster.list_all = list_roles
    run("--only", "quota", "--keep")
    (binding,) = cluster.list_all(paths.role_bindings(SPACE))
    assert binding["roleRef"]["name"] == "podtune-system-podtune-namespace"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "podtune", "namespace": HOME}]


def test_ctrl_c_removes_what_was_made_and_reports_what_was_done(
    cluster: ConformingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep, interrupted = cluster.sleep, list[bool]()

    def interrupt(seconds: float) -> None:
        sleep(seconds)
        if not interrupted and paths.experiment(SPACE, "eviction") in cluster.objects:
            interrupted.append(True)
            raise KeyboardInterrupt

    cluster.sleep = interrupt
    file = tmp_path / "report.xml"
    assert cli.main(["conformance", "--junit", str(file)]) == ExitStatus.INTERRUPTED
    assert paths.namespace(SPACE) not in cluster.objects
    assert [case.get("name") for case in xml.parse(file).iter("testcase")] == ["crash"]


def test_junit_has_a_case_for_each_check(cluster: ConformingCluster, run: Run, tmp_path: Path) -> None:
    cluster.flaw = "blames"
    file = tmp_path / "report.xml"
    run("--without", "operator", "--junit", str(file), expect=ExitStatus.FAILED)
    (suite,) = xml.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "2", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases.keys() == set(NAMES)
    failure = cases["eviction"].find("failure")
    assert failure is not None
    assert "no failures counted" in failure.get("message", "")
    assert "Trial eviction-0: " in (failure.text or "")
    assert cases["operator"].find("skipped") is not None


def test_the_checks_are_listed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conformance", "--list"]) == ExitStatus.DONE
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["NAME", *NAMES]
    assert cli.main(["conformance", "--list", "--only", "quota", "-o", "json"]) == ExitStatus.DONE
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["name"], item["deadlineSeconds"], item["needs"]) == ("quota", 240, [])


def test_a_store_is_back_before_what_is_in_it_is_deleted(cluster: ConformingCluster, run: Run) -> None:
    """Else its Experiment would wait for that for ever: it knows the store by the relay alone."""
    relay = paths.pod(SPACE, "conformance-store")
    reached: list[bool] = []
    delete = cluster.delete

    def look(path: str, uid: str, grace: int | None = None) -> None:
        if path == paths.experiment(SPACE, "store"):
            reached.append(relay in cluster.objects)
        delete(path, uid, grace)

    cluster.delete = look
    cluster.flaw = "believes"
    said = run("--only", "store", expect=ExitStatus.FAILED)["store"]["message"]
    assert said == "not within 300 s: the trial says that nothing is stored"
    assert reached == [True]


def test_what_the_server_can_not_do_yet_is_asked_again(cluster: ConformingCluster, run: Run) -> None:
    """A new namespace has no service account for a moment, so that no pod can be made."""
    create, refused = cluster.create, list[str]()

    def refuse(path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        if path == paths.pods(SPACE) and len(refused) < 3:
            refused.append(path)
            raise make_refusal(403, "Forbidden", "error looking up service account podtune-conformance/default")
        return create(path, item, params)

    cluster.create = refuse
    assert run("--only", "store")["store"]["state"] == "passed"
    assert len(refused) == 3


def test_a_right_that_turns_out_to_be_lacking_skips_the_check(cluster: ConformingCluster, run: Run) -> None:
    create = cluster.create

    def refuse(path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        if path.endswith("/eviction"):
            raise make_refusal(403, "Forbidden", 'User "jane" cannot create resource "pods/eviction"')
        return create(path, item, params)

    cluster.create = refuse
    check = run("--only", "eviction")["eviction"]
    assert (check["state"], check["evidence"]) == ("skipped", [])
    assert check["message"] == 'User "jane" cannot create resource "pods/eviction"; ask for that right'


def test_a_check_has_as_much_time_as_is_given(cluster: ConformingCluster, run: Run) -> None:
    cluster.flaw = "idle"
    check = run("--only", "quota", "--timeout", "20s", expect=ExitStatus.FAILED)["quota"]
    assert check["message"] == "not within 20 s: the trial waits, and names the quota"
    assert check["deadlineSeconds"] == 20


def test_a_server_of_ones_own_is_one_that_can_be_taken_away(cluster: ConformingCluster, run: Run) -> None:
    checks = run("--store", "s3://models", "--endpoint", "http://minio.team-a.svc/", "--only", "store", "--keep")
    assert list_states(checks) == {"store": "passed"}
    relay = cluster.objects[paths.pod(SPACE, "conformance-store")]["spec"]["containers"][0]
    assert relay["command"][-3:] == ["minio.team-a.svc", "80", "9000"]


def test_another_namespace_of_the_operator_is_looked_at(
    cluster: ConformingCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["conformance", "--operator-namespace", "elsewhere"]) == ExitStatus.FAILED
    assert "no operator in namespace elsewhere; install the chart podtune" in capsys.readouterr().err


def test_who_may_not_look_at_the_operator_names_the_agents_image(
    cluster: ConformingCluster, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_all = cluster.list_all

    def refuse(path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        if path == paths.pods(HOME):
            raise make_refusal(403, "Forbidden", 'User "jane" cannot list resource "pods"')
        return list_all(path, params)

    cluster.list_all = refuse
    cluster.denied = {(HOME, "delete", "pods")}
    monkeypatch.setattr(cluster, "sleep", advance_without_looking(cluster))
    assert cli.main(["conformance"]) == ExitStatus.FORBIDDEN
    assert "give it with --agent-image" in capsys.readouterr().err
    run("--agent-image", "mirror/agent:1", "--only", "quota", "--keep")
    spec = cluster.objects[paths.experiment(SPACE, "quota")]["spec"]
    assert spec["trialTemplate"]["spec"]["containers"][0]["image"] == "mirror/agent:1"


def advance_without_looking(cluster: ConformingCluster) -> Callable[[float], None]:
    """Its operator needs no right of the caller's."""

    def sleep(seconds: float) -> None:
        cluster.now += seconds
        for program in list(cluster.programs.values()):
            program.advance()

    return sleep


def test_images_are_pulled_with_the_operators_secrets(cluster: ConformingCluster, run: Run) -> None:
    cluster.objects[paths.pod(HOME, "podtune-1")]["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    secret = {"metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson", "data": {"a": "eA=="}}
    cluster.objects[paths.secret(HOME, "registry")] = secret
    run("--only", "quota", "--keep")
    copied = cluster.objects[paths.secret(SPACE, "registry")]
    assert (copied["type"], copied["data"]) == (secret["type"], secret["data"])
    pod = cluster.objects[paths.experiment(SPACE, "quota")]["spec"]["trialTemplate"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
