from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from podtune.api.base import FieldError
from podtune.api.pods.pod_values import check_pod_values, check_references
from podtune.api.pods.quantities import parse_quantity


def _pod(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trial", "image": "digits:1"} | container]}


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("500m", Fraction(1, 2)),
        ("16Gi", 16 * 2**30),
        ("1.5k", 1500),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        (0.25, Fraction(1, 4)),
        ("1e3", 1000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("-1", -1),
        (4, 4),
        ("1e999999999", 10**30),
        *((wrong, None) for wrong in ("256MB", "one", "", "1 Gi", "1ki", "0x10", ".", True, None, [1], "9" * 5000)),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(written: Any, amount: Any) -> None:
    assert parse_quantity(written) == amount


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"limits": None},
        {"limits": {"nvidia.com/gpu": 2}},
        {"limits": {"nvidia.com/gpu": "2000m"}, "requests": {"nvidia.com/gpu": 2}},
        {"requests": {"cpu": 0.5, "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        {"requests": {"cpu": 2}},
        {"limits": {"nvidia.com/gpu": None, "hugepages-2Mi": "4Mi", "ephemeral-storage": "1e9"}},
    ],
)
def test_resources_that_a_container_may_ask_for(resources: Any) -> None:
    check_pod_values(_pod(resources=resources))


def test_a_device_is_requested_by_its_limit() -> None:
    resources = {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}
    with pytest.raises(FieldError, match="1 differs from its limit, 2; leave it out of requests"):
        check_pod_values(_pod(resources=resources))


@pytest.mark.parametrize(
    "text",
    [
        "--lr=$(PODTUNE_PARAM_lr)",
        "$(PODTUNE_DIR)/$(PODTUNE_TRIAL)-$(PODTUNE_ATTEMPT)",
        "$$(PODTUNE_PARAM_typo)",
        "$(HOME) ${PODTUNE_PARAM_typo:-1} $PODTUNE_PARAM_typo",
        "$(date) $(PODTUNE",
    ],
)
def test_references_to_what_there_is_and_texts_that_are_none(text: str) -> None:
    check_references(_pod(args=[text], env=[{"name": "X", "value": text}]), ["lr"])


@pytest.mark.parametrize("text", ["$(PODTUNE_PARAM_typo)", "$$$(PODTUNE_PARAM_typo)", "a$(PODTUNE_PARAM_)"])
@pytest.mark.parametrize("field", ["args", "command"])
def test_a_reference_to_a_parameter_that_there_is_not_is_refused(text: str, field: str) -> None:
    with pytest.raises(FieldError, match="refers to a parameter that does not exist") as refused:
        check_references(_pod(**{field: ["x", text]}), ["lr"])
    assert refused.value.path == f"containers[0].{field}[1]"


def test_every_mount_has_a_place() -> None:
    pod = _pod(volumeMounts=[{"name": "data"}, {"name": "data"}]) | {"volumes": [{"name": "data", "emptyDir": {}}]}
    with pytest.raises(FieldError, match="is missing; set the path in the container") as refused:
        check_pod_values(pod)
    assert refused.value.path == "containers[0].volumeMounts[0].mountPath"


@pytest.mark.parametrize(
    ("container", "path", "said"),
    [
        ({"name": "a" * 64}, "name", "is not a valid container name; use up to 63 lowercase letters"),
        ({"resources": {"limits": {"memory": "-1Gi"}}}, "resources.limits.memory", "'-1Gi' is too small; write 0 or"),
        ({"resources": {"requests": {"cpu": -1}}}, "resources.requests.cpu", "-1 is too small; write 0 or more"),
        ({"ports": [{"containerPort": "8080"}]}, "ports[0].containerPort", "'8080' is not a whole number"),
        ({"ports": [{"containerPort": 80, "protocol": "tcp"}]}, "ports[0].protocol", "'tcp' is not one of the choices"),
        ({"securityContext": {"runAsUser": "1000"}}, "securityContext.runAsUser", "'1000' is not a whole number"),
        ({"securityContext": {"runAsNonRoot": "yes"}}, "securityContext.runAsNonRoot", "'yes' is neither true nor"),
        ({"workingDir": 5}, "workingDir", "5 is not a string; put it in quotes"),
    ],
)
def test_what_no_container_may_have_is_told_with_its_place(container: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_pod_values(_pod(**container))
    assert refused.value.path == f"containers[0].{path}"
    assert said in refused.value.problem
    containers = {"containers": [{"name": "trial", "image": "a"}], "initContainers": _pod(**container)["containers"]}
    with pytest.raises(FieldError) as refused:
        check_pod_values(containers)
    assert refused.value.path == f"initContainers[0].{path}"


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"terminationGracePeriodSeconds": "30"}, "terminationGracePeriodSeconds", "'30' is not a whole number"),
        ({"securityContext": {"fsGroup": "1000"}}, "securityContext.fsGroup", "'1000' is not a whole number"),
        ({"enableServiceLinks": "no"}, "enableServiceLinks", "'no' is neither true nor false"),
        ({"runtimeClassName": 5}, "runtimeClassName", "5 is not a string"),
        ({"tolerations": [{"tolerationSeconds": "60"}]}, "tolerations[0].tolerationSeconds", "'60' is not a whole"),
        *(
            ({"volumes": [{"name": "x", "emptyDir": {"sizeLimit": size}}]}, "volumes[0].emptyDir.sizeLimit", said)
            for size, said in (("10GB", "'10GB' is not a quantity"), ("-1Gi", "'-1Gi' is not a quantity"))
        ),
    ],
)
def test_what_no_pod_may_have_is_told_with_its_place(fields: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_pod_values(_pod() | fields)
    assert (refused.value.path, said in refused.value.problem) == (path, True)


def test_two_volumes_have_two_places() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/data"}]
    with pytest.raises(FieldError, match="'/data' is used twice; change one of them") as refused:
        check_pod_values(_pod(volumeMounts=mounts) | {"volumes": [{"name": "data", "emptyDir": {}}]})
    assert refused.value.path == "containers[0].volumeMounts[1].mountPath"


@pytest.mark.parametrize(
    ("container", "path"),
    [
        ({"args": ["$(PODTUNE_PARAM_typo)"]}, "args[0]"),
        ({"env": [{"name": "LR", "value": "$(PODTUNE_PARAM_typo)"}]}, "env[0].value"),
        ({"volumeMounts": [{"name": "data", "subPathExpr": "$(PODTUNE_PARAM_typo)"}]}, "volumeMounts[0].subPathExpr"),
    ],
)
@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_a_reference_is_looked_at_wherever_kubernetes_expands_it(
    kind: str, container: dict[str, Any], path: str
) -> None:
    with pytest.raises(FieldError, match="refers to a parameter that does not exist") as refused:
        check_references({kind: [{"name": "c"} | container]}, ["lr"])
    assert refused.value.path == f"{kind}[0].{path}"
