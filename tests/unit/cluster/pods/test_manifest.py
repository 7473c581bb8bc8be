"""What a trial's pod looks like, whatever its template says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.agent.trackers.event_file_settings import EventFileSettings
from podtune.api.resources.trial import Checkpoint, TrialSpec
from podtune.client.packing.packed import PackedFunction
from podtune.cluster import decoders
from podtune.cluster.pods.manifest import AgentSettings, avoid_nodes, make_pod
from podtune.kube.trace_context import format_traceparent
from podtune.runner.actions import CreatePod
from tests.unit.cluster.objects import REVISION, experiment_record

Manifest = dict[str, Any]
AGENT = AgentSettings("registry/agent:1", "IfNotPresent", "http://podtune-results:8080")
STORE = {"bucket": "podtune", "endpoint": "http://s3:9000", "credentialsSecret": "podtune-s3"}
TRIAL_UID = "4f1c2a90-8f0e-4c5e-9b1d-0d6d3b1f7a11"
WANDB: Manifest = {"trackers": {"wandb": {}}}
CHECKPOINTS = tuple(Checkpoint(step=n, uri=f"s3://podtune/{n}", digest="sha256:0") for n in (9, 8))


def action(restore: tuple[Checkpoint, ...] = (), **parameters: str) -> CreatePod:
    given_parameters = {"lr": "0.01", "units": "32"} | parameters
    spec = TrialSpec(experiment="digits", index=3, parameters=given_parameters)
    return CreatePod("digits-3", "t-3", 2, spec, restore=restore, iteration=7, revision=REVISION)


def manifest(template: Manifest | None = None, create: CreatePod | None = None, **spec: Any) -> Manifest:
    whole = {"containers": [{"name": "main", "image": "i"}]} | (template or {})
    experiment = experiment_record(trialTemplate={"spec": whole}, **spec)
    return make_pod(experiment, create or action(), AGENT)


def container(pod: Manifest, name: str) -> Manifest:
    return next(c for c in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]] if c["name"] == name)


def env(of: Manifest) -> dict[str, str]:
    """The variables as the kubelet sets them, each may refer to those before it; of an agent, those given to it too."""
    values: dict[str, str] = {}
    for variable in of["env"]:
        if "value" in variable:
            values[variable["name"]] = expand(variable["value"], values)
    given = of.get("args", [])[1:] if of["name"].startswith("podtune-") else ["{}"]
    return {**json.loads(expand(given[0], values)), **values}


def expand(text: str, values: dict[str, str]) -> str:
    """$(NAME) as Kubernetes expands it; $$ is a dollar sign."""

    def replaced(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else values.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", replaced, text)


def test_the_pod_is_the_trials_and_is_found_by_its_labels() -> None:
    metadata = manifest()["metadata"]
    assert metadata["name"] == "digits-3-2"
    assert metadata["labels"] == {
        "podtune.dev/experiment": "digits",
        "podtune.dev/trial": "digits-3",
        "podtune.dev/attempt": "2",
        "podtune.dev/template-revision": REVISION,
        "app.kubernetes.io/managed-by": "podtune",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Trial", "digits-3", "t-3", True)


def make_traced_pod(create: CreatePod | None = None, **template: Any) -> Manifest:
    whole = {"containers": [{"name": "main", "image": "i"}]} | template
    experiment = experiment_record(trialTemplate={"spec": whole})
    return make_pod(experiment, create or action(), replace(AGENT, traces=True))


def test_a_program_and_what_runs_beside_it_are_told_the_span_of_their_attempt() -> None:
    pod = make_traced_pod(initContainers=[{"name": "fetch", "image": "i"}])
    told = format_traceparent("e-1", "t-3", 2)
    assert env(container(pod, "main"))["TRACEPARENT"] == env(container(pod, "fetch"))["TRACEPARENT"] == told
    assert "TRACEPARENT" not in json.dumps(container(pod, "podtune-agent"))
    assert "TRACEPARENT" not in env(container(manifest(), "main")), "only if the operator exports traces"


def test_a_template_that_belongs_to_another_trace_keeps_its_own() -> None:
    own = [{"name": "TRACEPARENT", "value": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}]
    pod = make_traced_pod(containers=[{"name": "main", "image": "i", "env": own}])
    assert [entry for entry in container(pod, "main")["env"] if entry["name"] == "TRACEPARENT"] == own


def test_a_reused_pod_is_told_no_span_since_it_serves_many_attempts() -> None:
    pod = make_traced_pod(replace(action(), template_hash="abc"))
    assert "TRACEPARENT" not in env(container(pod, "main"))


def test_limits_of_the_trial_alone_are_set_and_named() -> None:
    own = {"nvidia.com/gpu": "2", "memory": "3Gi"}
    pod = manifest(create=replace(action(), limits={**own, "cpu": "1"}, own_limits=own))
    assert container(pod, "main")["resources"]["limits"] == {**own, "cpu": "1"}
    assert pod["metadata"]["annotations"]["podtune.dev/own-limits"] == '{"memory":"3Gi","nvidia.com/gpu":"2"}'
    assert "podtune.dev/own-limits" not in manifest()["metadata"]["annotations"]
    warm = manifest(create=replace(action(), limits=own, own_limits=own, template_hash="a1"))
    assert "podtune.dev/own-limits" not in warm["metadata"]["annotations"], "it serves others with these limits, too"


def test_no_template_can_take_the_operators_labels_or_annotations() -> None:
    experiment = experiment_record(
        trialTemplate={
            "metadata": {"labels": {"team": "a"}, "annotations": {"kubectl.kubernetes.io/default-container": "other"}},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
    )
    metadata = make_pod(experiment, action(), AGENT)["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["kubectl.kubernetes.io/default-container"] == "main"


def test_the_templates_labels_and_annotations_arrive() -> None:
    experiment = experiment_record(
        trialTemplate={
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "for the audit"}},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        }
    )
    metadata = make_pod(experiment, action(), AGENT)["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["note"] == "for the audit"


def test_labels_and_the_display_name_follow_from_parameters() -> None:
    metadata = {"labels": {"units": "u-$(PODTUNE_PARAM_units)", "team": "a"}}
    experiment = experiment_record(
        trialTemplate={"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    )
    spec = TrialSpec(experiment="digits", index=3, parameters={"lr": "0.01", "units": "48"}, display_name="$48 units")
    pod = make_pod(experiment, replace(action(), spec=spec), AGENT)
    assert pod["metadata"]["labels"].items() >= {"units": "u-48", "team": "a", "podtune.dev/trial": "digits-3"}.items()
    assert env(container(pod, "main"))["PODTUNE_DISPLAY_NAME"] == "$48 units"


def test_the_program_runs_once_and_without_credentials() -> None:
    pod = manifest()
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["automountServiceAccountToken"] is False
    main = container(pod, "main")
    mounts = {mount["mountPath"]: (mount["name"], mount.get("subPath")) for mount in main["volumeMounts"]}
    assert mounts == {
        "/podtune": ("podtune-shared", None),
        "/podtune/parameters.json": ("podtune-inputs", "parameters.json"),
    }
    assert not any("valueFrom" in variable for variable in main["env"])


def test_parameters_come_by_file_in_their_own_types_and_in_the_manifests_order() -> None:
    written = manifest()["metadata"]["annotations"]["podtune.dev/parameters"]
    assert written == '{"lr": 0.01, "units": 32}'


def test_lists_and_maps_come_as_themselves_in_the_file_and_as_json_in_variables() -> None:
    space = [{"name": "sizes", "choice": {"values": [[64, 32], [128]]}}, {"name": "on", "fixed": {"value": {"a": 1}}}]
    create = action(sizes="[64,32]", on='{"a":1}')
    pod = manifest(create=create, parameters=space)
    assert pod["metadata"]["annotations"]["podtune.dev/parameters"] == '{"sizes": [64, 32], "on": {"a": 1}}'
    variables = env(container(pod, "main"))
    assert (variables["PODTUNE_PARAM_sizes"], variables["PODTUNE_PARAM_on"]) == ("[64,32]", '{"a":1}')


def test_parameters_come_by_variables_that_commands_and_own_variables_can_use() -> None:
    template = {
        "containers": [
            {"name": "main", "image": "i", "env": [{"name": "OPTIONS", "value": "--lr=$(PODTUNE_PARAM_lr)"}]}
        ]
    }
    variables = env(container(manifest(template), "main"))
    assert variables["OPTIONS"] == "--lr=0.01"
    assert variables["PODTUNE_PARAM_units"] == "32"
    assert (variables["PODTUNE_TRIAL"], variables["PODTUNE_ATTEMPT"]) == ("digits-3", "2")


def test_the_seed_comes_by_a_variable() -> None:
    spec = TrialSpec(experiment="digits", index=3, parameters={"lr": "0.01", "units": "32"}, seed=247054594)
    seeded = manifest(create=CreatePod("digits-3", "t-3", 2, spec, restore=(), iteration=7))
    assert env(container(seeded, "main"))["PODTUNE_SEED"] == "247054594"
    assert "PODTUNE_SEED" not in env(container(manifest(), "main"))


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from(list("$()ab {}PODTUNE_TRIAL")), max_size=30))
def test_a_parameters_value_arrives_as_it_is_whatever_dollars_are_in_it(value: str) -> None:
    variables = env(container(manifest(create=action(lr_name=value)), "main"))
    assert variables["PODTUNE_PARAM_lr_name"] == value
    assert expand("$(PODTUNE_PARAM_lr_name)", variables) == value


def test_a_queue_of_kueue_and_the_gates_of_others_are_passed_through() -> None:
    """As the pod is alone, Kueue needs to know of no group."""
    spec = {"containers": [{"name": "main", "image": "i"}], "schedulingGates": [{"name": "example.com/quota"}]}
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    experiment = experiment_record(trialTemplate={"metadata": {"labels": queue}, "spec": spec})
    pod = make_pod(experiment, action(), AGENT)
    assert pod["spec"]["schedulingGates"] == spec["schedulingGates"]
    assert {key: value for key, value in pod["metadata"]["labels"].items() if "kueue" in key} == queue
    assert not [key for key in pod["metadata"]["annotations"] if "kueue" in key]


def test_the_agent_starts_before_the_program_and_all_of_the_templates_own_init_containers() -> None:
    own = [
        {"name": "fetch", "image": "i"},
        {"name": "proxy", "image": "i", "restartPolicy": "Always"},
    ]
    pod = manifest({"initContainers": own})
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["podtune-agent", "fetch", "proxy"]
    assert container(pod, "podtune-agent")["restartPolicy"] == "Always"
    assert container(pod, "proxy")["restartPolicy"] == "Always"
    for name in ("fetch", "proxy"):
        assert env(container(pod, name))["PODTUNE_PARAM_lr"] == "0.01"


def test_a_checkpoint_is_restored_before_the_agent_starts() -> None:
    pod = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE})
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["podtune-restore", "podtune-agent"]
    restore = container(pod, "podtune-restore")
    assert "restartPolicy" not in restore
    assert [c["step"] for c in json.loads(env(restore)["PODTUNE_RESTORE_FROM"])] == [9, 8]


def test_an_attempt_that_is_to_look_for_checkpoints_has_its_restore_container_do_so() -> None:
    create = replace(action(()), find=True)
    restore = container(manifest(create=create, checkpoints={"store": STORE}), "podtune-restore")
    assert env(restore)["PODTUNE_FIND_CHECKPOINTS"] == "true"
    assert "PODTUNE_RESTORE_FROM" not in env(restore)
    with pytest.raises(StopIteration):
        container(manifest(create=create), "podtune-restore")


def test_the_agent_knows_the_configuration_by_a_digest_of_parameters_and_seed() -> None:
    def digest(spec: TrialSpec) -> str:
        create = replace(action(()), spec=spec)
        return env(container(manifest(create=create, checkpoints={"store": STORE}), "podtune-agent"))[
            "PODTUNE_CONFIGURATION"
        ]

    spec = action(()).spec
    backwards = dict(reversed(spec.parameters.items()))
    changes: list[dict[str, Any]] = [
        {},
        {"parameters": backwards},
        {"parameters": spec.parameters | {"lr": "0.02"}},
        {"seed": 5},
    ]
    first, same, other, seeded = [digest(spec.model_copy(update=change)) for change in changes]
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert first == same
    assert len({first, other, seeded}) == 3


def test_a_clone_is_restored_or_the_attempt_fails() -> None:
    create = replace(action(CHECKPOINTS[:1]), restore_or_fail=True)
    pod = manifest(create=create, checkpoints={"store": STORE})
    assert env(container(pod, "podtune-restore"))["PODTUNE_RESTORE_OR_FAIL"] == "true"
    others = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE})
    assert "PODTUNE_RESTORE_OR_FAIL" not in env(container(others, "podtune-restore"))


GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-3g.20gb"


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        ({}, {GPU: "4"}, {"limits": {GPU: "4"}}),
        (
            {"limits": {GPU: 1, "memory": "8Gi"}, "requests": {GPU: 1, "memory": "4Gi"}},
            {GPU: "4"},
            {"limits": {GPU: "4", "memory": "8Gi"}, "requests": {GPU: "4", "memory": "4Gi"}},
        ),
        (
            {"limits": {GPU: 1}, "requests": {GPU: 1, "cpu": "2"}},
            {GPU: "0", MIG: "1"},
            {"limits": {MIG: "1"}, "requests": {"cpu": "2"}},
        ),
    ],
)
def test_a_rungs_limits_take_the_place_of_the_training_containers_own(
    own: Manifest, limits: dict[str, str], expected: Manifest
) -> None:
    """What it requests goes along: Kubernetes takes no other number of GPUs. Other containers keep what they have."""
    containers = [
        {"name": "proxy", "image": "i", "resources": {"limits": {GPU: 2}}},
        {"name": "trial", "image": "i", "resources": own},
    ]
    pod = manifest({"containers": containers}, replace(action(), limits=limits))
    assert container(pod, "trial")["resources"] == expected
    assert container(pod, "proxy")["resources"] == {"limits": {GPU: 2}}
    untouched = manifest({"containers": containers})
    assert container(untouched, "trial")["resources"] == own


@pytest.mark.parametrize(("restore", "store"), [((), STORE), (CHECKPOINTS, None)])
def test_nothing_is_restored_where_there_is_nothing_or_nowhere(restore: tuple[Checkpoint, ...], store: Any) -> None:
    pod = manifest(create=action(restore), checkpoints={"store": store} if store else {})
    assert [c["name"] for c in pod["spec"]["initContainers"]] == ["podtune-agent"]


def test_the_buckets_credentials_and_the_token_are_the_agents_alone() -> None:
    pod = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE})
    for name in ("podtune-agent", "podtune-restore"):
        (mount,) = [m for m in container(pod, name)["volumeMounts"] if m["name"] == "podtune-credentials"]
        assert mount["readOnly"]
        assert json.loads(env(container(pod, name))["PODTUNE_STORE"])["credentials"] == mount["mountPath"]
        assert mount["mountPath"].endswith("/podtune-s3")  # agents name it in messages
    for program in pod["spec"]["containers"]:
        assert not [mount for mount in program["volumeMounts"] if mount["name"] == "podtune-credentials"]
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "podtune-credentials"]
    assert volume["secret"]["secretName"] == "podtune-s3"
    assert [item["key"] for item in volume["secret"]["items"]] == ["accessKeyID", "secretAccessKey", "sessionToken"]
    assert volume["secret"]["optional"]  # so a running pod outlives it
    assert volume["secret"]["defaultMode"] == 0o444  # the files are root's, and the agent is another user
    tokens = [c["name"] for c in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]] if _has_token(c)]
    assert tokens == ["podtune-agent"]


def test_no_container_of_the_agent_starts_before_the_secret_is_there() -> None:
    pod = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE})
    for name in ("podtune-agent", "podtune-restore"):
        waited_for = [
            v["valueFrom"]["secretKeyRef"]
            for v in container(pod, name)["env"]
            if "secretKeyRef" in v.get("valueFrom", {})
        ]
        assert waited_for == [{"name": "podtune-s3", "key": "accessKeyID"}]


def _has_token(of: Manifest) -> bool:
    """Whether it sees the volume that the token is in, but for the parameters alone."""
    inputs = [mount for mount in of["volumeMounts"] if mount["name"] == "podtune-inputs"]
    return any(mount.get("subPath") != "parameters.json" for mount in inputs)


def test_each_container_of_the_agent_has_the_resources_that_are_set() -> None:
    resources = {"requests": {"memory": "48Mi"}, "limits": {"memory": "512Mi"}}
    experiment = experiment_record(
        trialTemplate={"spec": {"containers": [{"name": "main", "image": "i"}]}}, checkpoints={"store": STORE}
    )
    pod = make_pod(experiment, action(CHECKPOINTS), replace(AGENT, resources=resources))
    assert [c["resources"] for c in pod["spec"]["initContainers"] if c["image"] == AGENT.image] == [resources] * 2
    (program,) = pod["spec"]["containers"]
    assert program.get("resources") != resources


def test_the_token_is_where_the_agent_looks_for_it() -> None:
    pod = manifest()
    agent = container(pod, "podtune-agent")
    (mount,) = [mount for mount in agent["volumeMounts"] if mount["name"] == "podtune-inputs"]
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "podtune-inputs"]
    (token,) = [s["serviceAccountToken"] for s in volume["projected"]["sources"] if "serviceAccountToken" in s]
    assert token["audience"] == "podtune.dev/results"
    assert env(agent)["PODTUNE_TOKEN_FILE"] == f"{mount['mountPath']}/{token['path']}"


def test_only_who_has_no_token_is_told_the_pods_uid() -> None:
    pod = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE})
    told = {c["name"] for c in pod["spec"]["initContainers"] if any(v["name"] == "PODTUNE_POD_UID" for v in c["env"])}
    assert told == {"podtune-restore"}


@pytest.mark.parametrize(
    ("grace", "written", "drain"),
    [(None, 30, "20"), (25, 25, "15"), (5, 5, "1"), (0, 0, "1"), (3600, 3600, "20")],
)
def test_without_a_store_the_agent_drains_within_the_templates_grace_period(
    grace: Any, written: Any, drain: str
) -> None:
    pod = manifest({"terminationGracePeriodSeconds": grace} if grace is not None else {})
    assert pod["spec"]["terminationGracePeriodSeconds"] == written
    assert env(container(pod, "podtune-agent"))["PODTUNE_DRAIN_SECONDS"] == drain
    assert "podtune.dev/grace-period-seconds" not in pod["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("grace", "drain", "written", "seconds"),
    [
        (None, "10m", 630, "600"),
        (60, "10m", 660, "600"),
        (3, "10m", 603, "593"),
        (30, "1h30m", 5430, "5400"),
        (30, "0s", 30, "1"),
        (0, "0s", 0, "1"),
        (30, "48h", 30 + 86_399, "86399"),
    ],
)
def test_the_last_checkpoint_has_the_time_that_the_experiment_gives_it(
    grace: int | None, drain: str, written: int, seconds: str
) -> None:
    template = {"terminationGracePeriodSeconds": grace} if grace is not None else {}
    pod = manifest(template, checkpoints={"store": STORE, "drain": drain})
    assert pod["spec"]["terminationGracePeriodSeconds"] == written
    assert env(container(pod, "podtune-agent"))["PODTUNE_DRAIN_SECONDS"] == seconds
    own = 30 if grace is None else grace
    expected = str(own) if written != own else None
    assert pod["metadata"]["annotations"].get("podtune.dev/grace-period-seconds") == expected


def test_fields_that_are_null_are_as_good_as_absent() -> None:
    template = {
        "containers": [{"name": "main", "image": "i", "env": None, "volumeMounts": None}],
        "initContainers": None,
        "volumes": None,
        "terminationGracePeriodSeconds": None,
    }
    pod = manifest(template)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert env(container(pod, "main"))["PODTUNE_PARAM_lr"] == "0.01"


def test_a_pod_whose_template_says_nothing_satisfies_all_of_restricted_but_the_user() -> None:
    pod = manifest(
        {"initContainers": [{"name": "fetch", "image": "i"}]}, action(CHECKPOINTS), checkpoints={"store": STORE}
    )
    assert pod["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    for each in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]:
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"].get("runAsNonRoot", False) is each["name"].startswith("podtune-")
    experiment = experiment_record(trialTemplate={"spec": {"containers": [{"name": "main", "image": "i"}]}})
    strict = make_pod(experiment, action(), replace(AGENT, non_root=True))
    assert strict["spec"]["securityContext"]["runAsNonRoot"] is True


def test_no_profile_of_the_pod_is_the_agents() -> None:
    assert "appArmorProfile" not in container(manifest(), "podtune-agent")["securityContext"]
    lax = {"type": "Localhost", "localhostProfile": "lax"}
    pod = manifest({"securityContext": {"appArmorProfile": lax, "seccompProfile": lax}})
    context = container(pod, "podtune-agent")["securityContext"]
    assert context["appArmorProfile"] == context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "appArmorProfile" not in container(manifest(), "podtune-agent")["securityContext"], "one pod's is no other's"


def test_the_experiment_is_left_as_it_was() -> None:
    experiment = experiment_record()
    before = experiment.spec.model_dump_json() if experiment.spec else ""
    make_pod(experiment, action(), AGENT)
    assert experiment.spec.model_dump_json() == before


def test_a_pattern_with_a_dollar_reaches_the_agent_as_it_is() -> None:
    pattern = r"loss=(?P<loss>\S+)$"
    pod = manifest(results={"stdout": {"pattern": pattern}})
    assert env(container(pod, "podtune-agent"))["PODTUNE_STDOUT_PATTERN"] == pattern
    assert "PODTUNE_STDOUT_LAST" not in env(container(pod, "podtune-agent"))
    named = manifest(results={"stdout": {"pattern": r"(?P<name>\w+)=(?P<value>\S+)", "last": "loss"}})
    assert env(container(named, "podtune-agent"))["PODTUNE_STDOUT_LAST"] == "loss"


def test_printed_results_are_not_kept_back_by_python() -> None:
    printed: Manifest = {"stdout": {"pattern": r"loss=(?P<loss>\S+)"}}
    assert env(container(manifest(results=printed), "main"))["PYTHONUNBUFFERED"] == "1"
    own = {"containers": [{"name": "main", "image": "i", "env": [{"name": "PYTHONUNBUFFERED", "value": ""}]}]}
    assert env(container(manifest(own, results=printed), "main"))["PYTHONUNBUFFERED"] == ""
    assert "PYTHONUNBUFFERED" not in env(container(manifest(), "main"))


# Pods that serve one trial after the other

REUSED = {"reuse": True, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def warm_manifest(template_hash: str = "a1") -> Manifest:
    spec = TrialSpec(experiment="digits", index=3, parameters={"lr": "0.01", "units": "32"})
    action = CreatePod("digits-3", "t-3", 2, spec, restore=(), iteration=0, template_hash=template_hash)
    body = make_pod(experiment_record(trialTemplate=REUSED), action, AGENT)
    body["metadata"] |= {"namespace": "team", "uid": "p-1", "resourceVersion": "7"}
    return body


def test_a_warm_pod_outlives_the_trial_that_it_was_made_for() -> None:
    metadata = warm_manifest()["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Experiment", "digits")
    assert "podtune.dev/trial" not in metadata["labels"], "or it were deleted with the trial's finished pods"


def test_a_warm_pod_is_read_as_its_first_trials() -> None:
    body = warm_manifest()
    pod = decoders.decode_pod(body)
    assert (pod.trial, pod.trial_uid, pod.attempt, pod.template_hash) == ("digits-3", "t-3", 2, "a1")
    assert decoders.find_owner_of_pod(body) == body["metadata"]["ownerReferences"][0]["uid"]


def test_agent_and_program_know_that_a_pod_is_warm() -> None:
    spec = warm_manifest()["spec"]
    agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
    assert json.loads(agent["args"][1])["PODTUNE_REUSE"] == "true"
    program = {entry["name"]: entry["value"] for entry in spec["containers"][0]["env"]}
    assert program["PODTUNE_REUSE"] == "true"


def test_only_the_agent_sees_where_it_keeps_what_the_pod_is_to_do() -> None:
    spec = warm_manifest()["spec"]
    assert {"name": "podtune-state", "emptyDir": {}} in spec["volumes"]
    containers = [*spec["initContainers"], *spec["containers"]]
    mounts = {c["name"]: m["mountPath"] for c in containers for m in c["volumeMounts"] if m["name"] == "podtune-state"}
    agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
    assert mounts == {"podtune-agent": json.loads(agent["args"][1])["PODTUNE_STATE"]}


def test_a_pod_that_is_not_warm_knows_nothing_of_it() -> None:
    body = warm_manifest(template_hash="")
    assert "PODTUNE_REUSE" not in json.dumps(body)
    assert "podtune-state" not in json.dumps(body)
    assert decoders.decode_pod(body).template_hash == ""
    assert decoders.find_owner_of_pod(body) == "t-3"


# Nodes that are avoided

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {}}, "spec": spec}


def terms(body: dict[str, Any]) -> Any:
    return body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def off(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]}


def test_a_pod_that_avoids_nothing_stays_as_it_is() -> None:
    body = pod()
    avoid_nodes(body, ())
    assert body == pod()


def test_a_pod_without_affinity_may_run_on_all_other_nodes() -> None:
    body = pod()
    avoid_nodes(body, ("n1", "n2"))
    assert terms(body) == [{"matchFields": [off("n1"), off("n2")]}]
    assert body["metadata"]["annotations"] == {"podtune.dev/avoided-nodes": "n1,n2"}


def test_each_term_of_the_template_keeps_off_too_and_the_template_stays_as_it_was() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    named = {"matchFields": [off("n9")]}
    preferred = [{"weight": 1, "preference": zone}]
    template: dict[str, Any] = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [zone, named]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": {"kept": True},
    }
    body = pod(affinity=template)
    avoid_nodes(body, ("n1",))
    assert terms(body) == [{**zone, "matchFields": [off("n1")]}, {"matchFields": [off("n9"), off("n1")]}]
    assert body["spec"]["affinity"]["podAntiAffinity"] == {"kept": True}
    assert body["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert template["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [zone, named]}


def test_an_evaluations_pod_is_made_from_its_own_template() -> None:
    scorer = {"containers": [{"name": "scorer", "image": "scorer"}], "nodeSelector": {"pool": "cpu"}}
    labels = {"units": "u-$(PODTUNE_PARAM_units)"}
    spec: Manifest = {
        "checkpoints": {"store": STORE},
        "evaluation": {
            "template": {"metadata": {"labels": labels}, "spec": scorer},
            "trainingObjective": {"metric": "loss", "mode": "min"},
        },
    }
    training = manifest(create=action(CHECKPOINTS), **spec)
    pod = manifest(create=replace(action(CHECKPOINTS[:1]), restore_or_fail=True, evaluates=True), **spec)
    assert [c["name"] for c in pod["spec"]["containers"]] == ["scorer"]
    assert pod["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert pod["metadata"]["labels"]["podtune.dev/stage"] == "evaluate"
    assert pod["metadata"]["labels"]["units"] == "u-32"
    assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "scorer"
    assert "podtune.dev/stage" not in training["metadata"]["labels"]
    restore = env(container(pod, "podtune-restore"))
    assert [known["step"] for known in json.loads(restore["PODTUNE_RESTORE_FROM"])] == [9]
    assert restore["PODTUNE_RESTORE_OR_FAIL"] == "true"
    metrics = [env(container(each, "podtune-agent"))["PODTUNE_OBJECTIVE_METRIC"] for each in (training, pod)]
    assert metrics == ["loss", "accuracy"]


def with_function(*, mounted: bool = True, **spec: Any) -> Manifest:
    packed = PackedFunction("train", {"function.py": "", "mine/__init__.py": ""})
    main = {"name": "main", "image": "i", "volumeMounts": [packed.make_mount()] if mounted else []}
    return manifest({"containers": [main], "volumes": [packed.make_volume("train-1")]}, **spec)


def test_the_agent_sees_the_programs_function_to_store_it_with_the_snapshot() -> None:
    pod = with_function(checkpoints={"store": STORE})
    agent = container(pod, "podtune-agent")
    place = env(agent)["PODTUNE_FUNCTION"]
    assert place.rpartition("/")[2] == "train-1", "the agent knows the ConfigMap by it"
    assert {"name": "function", "mountPath": place, "readOnly": True} in agent["volumeMounts"]


@pytest.mark.parametrize(
    "spec",
    [{}, {"checkpoints": {"store": STORE}, "snapshot": {"period": "0s"}}, {"checkpoints": {"store": STORE}}],
    ids=["no store", "no snapshot", "no function"],
)
def test_a_function_that_no_snapshot_holds_is_the_programs_alone(spec: Manifest) -> None:
    agent = container(with_function(mounted="snapshot" in spec or not spec, **spec), "podtune-agent")
    assert "PODTUNE_FUNCTION" not in env(agent)
    assert "function" not in [mount["name"] for mount in agent["volumeMounts"]]


# Programs that know nothing of Podtune


def test_a_trainer_finds_the_endpoint_of_the_agent_beside_it() -> None:
    pod = manifest(results={"huggingFace": {}})
    program, agent = env(container(pod, "main")), container(pod, "podtune-agent")
    assert env(agent)["PODTUNE_SOURCES"] == "huggingFace"
    assert program["KUBEFLOW_TRAINER_SERVER_URL"] == (
        "http://127.0.0.1:24680/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/digits-3/status"
    )
    assert program["KUBEFLOW_TRAINER_SERVER_TOKEN"] == "/podtune/endpoint-token"
    assert agent["startupProbe"]["exec"]["command"] == ["test", "-f", "/podtune/endpoint-token"]
    assert "ports" not in agent
    uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert {"name": "PODTUNE_POD_UID", "valueFrom": uid} in agent["env"], "agents of a gang's other ranks have no token"


def test_a_script_finds_the_agent_where_it_looks_for_a_tracking_server() -> None:
    pod = manifest(create=replace(action(), trial_uid=TRIAL_UID), results={"mlflow": {}})
    program = container(pod, "main")
    assert env(container(pod, "podtune-agent"))["PODTUNE_SOURCES"] == "mlflow"
    assert env(program)["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:24680"
    uid = {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert {"name": "MLFLOW_TRACKING_TOKEN", "valueFrom": uid} in program["env"]
    assert env(program)["MLFLOW_RUN_ID"] == TRIAL_UID.replace("-", ""), "32 hexadecimal digits, as MLflow makes them"


def test_the_agent_is_told_what_to_scrape() -> None:
    pod = manifest(results={"scrape": {"port": 8000, "period": "1m", "timeAttribute": "epoch"}})
    agent = container(pod, "podtune-agent")
    told = {"port": 8000, "path": "/metrics", "period": 60, "timeAttribute": "epoch"}
    assert json.loads(env(agent)["PODTUNE_SCRAPE"]) == told
    assert "startupProbe" not in agent, "the program need not wait for it"
    assert json.loads(
        env(container(manifest(results={"scrape": {"port": 80}}), "podtune-agent"))["PODTUNE_SCRAPE"]
    ) == {
        "port": 80,
        "path": "/metrics",
        "period": 1,
    }


def test_the_agent_is_told_where_event_files_are() -> None:
    for written, told in (({}, "tensorboard"), ({"directory": "logs/*/fit"}, "logs/*/fit")):
        agent = container(manifest(results={"tensorBoard": written}), "podtune-agent")
        assert env(agent)["PODTUNE_EVENT_FILES"] == told


def test_runs_of_weights_and_biases_are_kept_where_the_agent_reads_them() -> None:
    pod = manifest(results={"wandb": {}})
    program = env(container(pod, "main"))
    assert env(container(pod, "podtune-agent"))["PODTUNE_WANDB_FILES"] == "wandb/*"
    assert (program["WANDB_MODE"], program["WANDB_DIR"]) == ("offline", "/podtune")
    names = [variable["name"] for variable in container(pod, "main")["env"]]
    assert names.index("PODTUNE_DIR") < names.index("WANDB_DIR"), "else nobody expands it"
    assert program["WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL"] == "1"
    assert "startupProbe" not in container(pod, "podtune-agent")
    assert not [name for name in env(container(manifest(), "main")) if name.startswith("WANDB")]


def test_a_script_that_logs_to_the_server_of_weights_and_biases_still_does() -> None:
    key = {"name": "WANDB_API_KEY", "value": "key"}
    template = {"containers": [{"name": "main", "image": "i", "env": [key]}]}
    for pod in (manifest(template, results={"wandb": {}}), manifest(results={"wandb": {}}, **WANDB)):
        program = env(container(pod, "main"))
        assert "WANDB_MODE" not in program
        assert program["WANDB_DIR"] == "/podtune"


def test_a_script_that_has_a_server_of_its_own_gets_no_token_for_another() -> None:
    own = {"name": "MLFLOW_TRACKING_URI", "value": "http://mlflow:5000"}
    template = {"containers": [{"name": "main", "image": "i", "env": [own]}]}
    program = container(manifest(template, results={"mlflow": {}}), "main")
    assert env(program)["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert not {"MLFLOW_TRACKING_TOKEN", "MLFLOW_RUN_ID"} & {variable["name"] for variable in program["env"]}


def test_all_attempts_of_a_trial_are_one_run_of_weights_and_biases() -> None:
    first, second = (
        env(container(manifest(create=replace(action(), trial_uid=TRIAL_UID, attempt=n), **WANDB), "main"))
        for n in (1, 2)
    )
    names = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_RUN_GROUP", "WANDB_NAME")
    assert [first[name] for name in names] == [TRIAL_UID.replace("-", ""), "allow", "digits", "digits-3"]
    assert [second[name] for name in names] == [first[name] for name in names]
    other = env(container(manifest(create=replace(action(), trial_uid="another"), **WANDB), "main"))
    assert other["WANDB_RUN_ID"] != first["WANDB_RUN_ID"]


def test_variables_of_the_template_come_before_those_of_a_tracker() -> None:
    own = [{"name": "WANDB_NAME", "value": "mine"}, {"name": "WANDB_RESUME", "value": "never"}]
    program = container(manifest({"containers": [{"name": "main", "image": "i", "env": own}]}, **WANDB), "main")
    assert (env(program)["WANDB_NAME"], env(program)["WANDB_RESUME"]) == ("mine", "never")
    assert len(program["env"]) == len({variable["name"] for variable in program["env"]})
    assert not [name for name in env(container(manifest(), "main")) if name.startswith("WANDB")]


def test_the_agent_is_told_what_tensorboard_shows() -> None:
    parameters = [
        {"name": "lr", "float": {"min": 0.001, "max": 0.1}},
        {"name": "act", "choice": {"values": ["relu", "tanh"]}},
        {"name": "sizes", "choice": {"values": [[1, 2], [3]]}},
        {"name": "decay", "normal": {"mean": 0.0, "stddev": 1.0}},
        {"name": "double", "expression": "lr * 2"},
    ]
    trackers = {"tensorBoard": {}, "dashboard": "https://podtune"}
    pod = manifest(create=action(CHECKPOINTS), checkpoints={"store": STORE}, trackers=trackers, parameters=parameters)
    told = json.loads(env(container(pod, "podtune-agent"))["PODTUNE_TENSORBOARD"])
    assert told == {
        "metrics": ["accuracy"],
        "parameters": [
            {"name": "lr", "interval": [0.001, 0.1]},
            {"name": "act", "choices": ["relu", "tanh"]},
            {"name": "sizes"},
            {"name": "decay"},
            {"name": "double"},
        ],
        "dashboard": "https://podtune",
    }
    table = EventFileSettings.from_json(json.dumps(told))
    assert table is not None
    values = {"lr": 0.01, "act": "relu", "sizes": [1, 2], "decay": 0.5, "double": 0.02}
    types = {parameter.name: parameter.type.name for parameter in table.list_parameters(values)}
    assert types == {"lr": "NUMBER", "act": "STRING", "sizes": "STRING", "decay": "NUMBER", "double": "NUMBER"}
    assert "PODTUNE_TENSORBOARD" not in env(container(manifest(), "podtune-agent"))
    assert not [name for name in env(container(pod, "main")) if "TENSORBOARD" in name]


def test_the_agent_alone_gets_at_a_tracking_server() -> None:
    bundle = {"name": "authorities"}
    server = {"uri": "https://mlflow/api", "credentialsSecret": "mlflow", "caBundle": bundle}
    trackers = {"mlflow": server, "dashboard": "https://podtune"}
    pod = manifest(create=replace(action(CHECKPOINTS), trial_uid=TRIAL_UID), trackers=trackers)
    agent = container(pod, "podtune-agent")
    assert json.loads(env(agent)["PODTUNE_TRACKER"]) == {
        "uri": "https://mlflow/api",
        "experiment": "digits",
        "credentials": "/etc/podtune/tracker",
        "ca_file": "/etc/podtune/tracker-ca/ca.crt",
        "dashboard": "https://podtune",
    }
    assert env(agent)["PODTUNE_TRIAL_UID"] == TRIAL_UID
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    secret = volumes["podtune-tracker"]["secret"]
    assert (secret["secretName"], secret["optional"]) == ("mlflow", True)
    assert [item["key"] for item in secret["items"]] == [
        "MLFLOW_TRACKING_TOKEN",
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD",
    ]
    assert volumes["podtune-tracker-ca"]["configMap"]["name"] == "authorities"
    for other in pod["spec"]["containers"]:
        assert not [mount for mount in other["volumeMounts"] if "tracker" in mount["name"]]
    assert {mount["mountPath"] for mount in agent["volumeMounts"] if "tracker" in mount["name"]} == {
        "/etc/podtune/tracker",
        "/etc/podtune/tracker-ca",
    }
    assert "PODTUNE_TRACKER" not in env(container(manifest(), "podtune-agent"))


def test_without_being_asked_for_there_is_no_endpoint() -> None:
    pod = manifest()
    assert not [name for name in env(container(pod, "main")) if re.search("KUBEFLOW|ENDPOINT|MLFLOW", name)]
    assert "PODTUNE_SOURCES" not in env(container(pod, "podtune-agent"))
    assert "startupProbe" not in container(pod, "podtune-agent")
