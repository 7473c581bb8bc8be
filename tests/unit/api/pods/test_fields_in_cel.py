from __future__ import annotations

from typing import Any

import pytest

from podtune.api.pods.fields_in_cel import write_variables
from podtune.api.pods.pod_checks import AllowFields, CheckEach, allow_anything, allow_only
from podtune.api.pods.pod_template import build_allow_list
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy


def test_fields_with_the_same_check_are_written_as_one() -> None:
    faults = write_variables(AllowFields({"hostPID": allow_only(False), "hostIPC": allow_only(False)}))["faults"]
    assert '["hostPID", "hostIPC"].filter(' in faults
    assert faults.count("leave it out or write false") == 1


def test_fields_without_a_check_are_only_known_by_name() -> None:
    faults = write_variables(AllowFields({"affinity": allow_anything, "hostPID": allow_only(False)}))["faults"]
    assert faults.count("affinity") == 1


def test_the_administrators_lists_are_no_part_of_what_is_generated() -> None:
    listed = TemplatePolicy(service_accounts=["trainer"], tolerations=["spot"], host_aliases=["data.example.com"])
    assert write_variables(build_allow_list(listed)) == write_variables(build_allow_list(DEFAULT_POLICY))


def test_a_check_that_cel_does_not_know_is_no_part_of_the_list() -> None:
    def refuse_later(value: Any, path: str) -> None:
        raise AssertionError(value, path)

    with pytest.raises(NotImplementedError, match="has no CEL; make it of the checks in pod_checks"):
        write_variables(AllowFields({"containers": CheckEach(refuse_later)}))
