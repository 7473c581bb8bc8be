"""Two service accounts with different rights: what the real API server says of their tokens and of what they may do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cluster.client import KubernetesClient
from podtune.dashboard.access.reviews import Reviewer, Right, TokenRefused, find_namespaces, may_see
from podtune.dashboard.actions.offers import ViewerAction
from podtune.dashboard.actions.requests import ActionTarget, request_action
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal

pytestmark = pytest.mark.cluster
RBAC = "/apis/rbac.authorization.k8s.io/v1"
EDITOR_RULES = [
    {"apiGroups": ["podtune.dev"], "resources": ["experiments", "trials"], "verbs": ["get", "list", "patch"]}
]
GUEST_RULES = [
    {"apiGroups": ["podtune.dev"], "resources": ["experiments"], "resourceNames": ["shared"], "verbs": ["get"]},
    {"apiGroups": ["podtune.dev"], "resources": ["trials"], "verbs": ["list"]},
]


async def make_account(client: KubernetesClient, namespace: str, name: str, rules: list[dict[str, Any]]) -> str:
    """A service account with these rights; gives its token."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await client.request("POST", accounts, body={"metadata": {"name": name}})
    places = f"{RBAC}/namespaces/{namespace}"
    await client.request("POST", f"{places}/roles", body={"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    await client.request("POST", f"{places}/rolebindings", body=binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    made = await client.request("POST", f"{accounts}/{name}/token", body=asked)
    return str(made["status"]["token"])


@pytest.fixture
async def reviewer() -> AsyncIterator[Reviewer]:
    reviewer = Reviewer(lambda: HttpApi(connect()))
    yield reviewer
    reviewer.close()


async def await_right(token: str, right: Right) -> None:
    """RBAC takes a moment to know a new binding."""
    async with asyncio.timeout(60):
        while True:
            fresh = Reviewer(lambda: HttpApi(connect()))
            allowed = await fresh.allows(await fresh.identify(token), right)
            fresh.close()
            if allowed:
                return
            await asyncio.sleep(0.2)


async def test_each_sees_and_changes_what_their_roles_allow(
    client: KubernetesClient, namespace: str, reviewer: Reviewer
) -> None:
    editor_token = await make_account(client, namespace, "editor", EDITOR_RULES)
    guest_token = await make_account(client, namespace, "guest", GUEST_RULES)
    await await_right(editor_token, Right("list", "trials", namespace))
    await await_right(guest_token, Right("list", "trials", namespace))

    editor, guest = await reviewer.identify(editor_token), await reviewer.identify(guest_token)
    assert editor.name == f"system:serviceaccount:{namespace}:editor"
    assert f"system:serviceaccounts:{namespace}" in editor.groups
    assert guest.short_name == "guest"
    for wrong in ("nonsense", f"{guest_token[:-4]}AAAA"):
        with pytest.raises(TokenRefused):
            await reviewer.identify(wrong)

    candidates = [namespace, "kube-system"]
    assert await find_namespaces(reviewer, editor, candidates) == {namespace}
    assert await find_namespaces(reviewer, guest, candidates) == frozenset()
    assert await may_see(reviewer, editor, namespace, "any")
    assert await may_see(reviewer, guest, namespace, "shared")
    assert not await may_see(reviewer, guest, namespace, "other")
    assert not await may_see(reviewer, editor, "kube-system", "any")

    await client.request("POST", paths.experiments(namespace), body=make_experiment("shared"))
    target = ActionTarget(namespace, "shared")
    with pytest.raises(ApiRefusal) as refused:
        await act(guest_token, target)
    assert refused.value.status == 403
    assert f"system:serviceaccount:{namespace}:guest" in refused.value.message
    assert "is suspended" in await act(editor_token, target)
    changed = await client.request("GET", paths.experiment(namespace, "shared"))
    assert changed["spec"]["suspend"] is True


async def act(token: str, target: ActionTarget) -> str:
    return await asyncio.to_thread(request_action, HttpApi(connect(token=token)), ViewerAction.PAUSE, target, 0)


def make_experiment(name: str) -> dict[str, Any]:
    """One whose trials never start: it has no room for any."""
    container = {"name": "main", "image": "localhost/none:1"}
    return {
        "apiVersion": "podtune.dev/v1alpha1",
        "kind": "Experiment",
        "metadata": {"name": name},
        "spec": {
            "objective": {"metric": "accuracy", "mode": "max"},
            "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 1.0}}],
            "search": {"algorithm": "random", "maxTrials": 1},
            "trialTemplate": {"spec": {"containers": [container]}},
        },
    }
