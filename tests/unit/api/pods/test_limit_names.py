"""Limits of several roles stand together, each named after its role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.base import FieldError
from podtune.api.pods.limit_names import check_limit_roles, qualify_limit, select_limits, split_limit

roles = st.from_regex(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
resources = st.sampled_from(["memory", "cpu", "hugepages-2Mi", "nvidia.com/gpu", "nvidia.com/mig-3g.20gb"])
by_role = st.dictionaries(st.just("") | roles, st.dictionaries(resources, st.sampled_from(["1", "2Gi"])), max_size=4)


@given(by_role)
def test_the_limits_of_each_role_are_found_again(given_limits: dict[str, dict[str, str]]) -> None:
    together = {
        qualify_limit(role, resource): amount
        for role, limits in given_limits.items()
        for resource, amount in limits.items()
    }
    assert {role: select_limits(together, role) for role in given_limits} == given_limits
    assert len(together) == sum(map(len, given_limits.values())), "two limits have the same name"


def test_a_limit_without_a_role_is_named_by_its_resource() -> None:
    assert qualify_limit("", "nvidia.com/gpu") == "nvidia.com/gpu"
    assert split_limit("worker:nvidia.com/gpu") == ("worker", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        (
            "memory",
            ("driver", "worker"),
            "x.memory: names no role, but the trial's pods have roles; write a role before",
        ),
        ("workers:memory", ("driver", "worker"), "'workers' is no role of trialTemplate; use driver, worker"),
        ("worker:memory", (), "names a role, but trialTemplate has no roles; write memory"),
    ],
)
def test_a_limit_of_no_role_is_refused_with_the_remedy(name: str, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(FieldError) as refused:
        check_limit_roles({name: "1"}, names, "x")
    assert said in str(refused.value)
