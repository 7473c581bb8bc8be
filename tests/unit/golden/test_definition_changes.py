"""No field of a released definition is removed or narrowed: that needs a new version of the API."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.crd.generate import RESOURCES, build_definition
from tests.golden.definition_changes import Change, find_breaking_changes, find_narrowed, is_always_met, leave_out
from tests.golden.keep_release import RELEASES

Schema = dict[str, Any]

RELEASED = sorted((path.name for path in RELEASES.iterdir()), key=lambda name: [*map(int, name.split("."))])
NEWEST = RELEASED[-1]
REVIEWED: dict[str, list[dict[str, Any]]] = (
    yaml.safe_load((RELEASES.parent / "reviewed_changes.yaml").read_text(encoding="utf-8")) or {}
)
REMEDY = (
    "Users of {release} have such manifests and objects. Leave the field as it was and add another one beside it (see "
    "docs/explanation/api-versions.md). If nothing that was taken is refused now, say why in "
    "tests/golden/reviewed_changes.yaml."
)


def read_definition(path: Path) -> Schema:
    definition: Schema = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return definition


def list_changes(release: str) -> Iterator[tuple[str, Change]]:
    now = {resource.name: build_definition(resource) for resource in RESOURCES}
    for path in sorted((RELEASES / release / "crds").iterdir()):
        old = read_definition(path)
        name = old["metadata"]["name"]
        assert name in now, f"{release} had the definition {name}; it must stay"
        for change in find_breaking_changes(old, now[name]):
            yield old["spec"]["names"]["plural"], change


def is_reviewed(review: dict[str, Any], plural: str, change: Change) -> bool:
    place = f"{plural}{change.path}"
    places = review["at"]
    at = any(place.startswith(known[:-1]) if known.endswith("*") else place == known for known in places)
    return at and change.what.startswith(review["change"])


def test_nothing_that_the_newest_release_took_is_removed_or_narrowed() -> None:
    reviewed = REVIEWED.get(NEWEST, [])
    changes = list(list_changes(NEWEST))
    refused = [
        f"{plural}{change}"
        for plural, change in changes
        if not any(is_reviewed(review, plural, change) for review in reviewed)
    ]
    assert not refused, "\n".join([*refused, REMEDY.format(release=NEWEST)])
    stale = [review for review in reviewed if not any(is_reviewed(review, *change) for change in changes)]
    assert not stale, f"take these out of tests/golden/reviewed_changes.yaml, there is no such change: {stale}"


def test_changes_are_reviewed_since_the_newest_release_alone() -> None:
    assert REVIEWED.keys() <= {NEWEST}, (
        "a release's definitions hold what was reviewed before it: take the old ones out"
    )


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ({"type": "integer"}, {"type": "string"}, "type was 'integer', now 'string'"),
        ({"enum": ["A", "B"]}, {"enum": ["A"]}, "no longer takes 'B'"),
        ({}, {"enum": ["A"]}, "takes ['A'] alone"),
        ({}, {"maximum": 3}, "maximum was not set, now 3"),
        ({"maximum": 4}, {"maximum": 3}, "maximum was 4, now 3"),
        ({"minimum": 0}, {"minimum": 1}, "minimum was 0, now 1"),
        ({"maximum": 4}, {"maximum": 4, "exclusiveMaximum": True}, "maximum was 4, now 4 (excluded)"),
        ({"minimum": 4}, {"minimum": 4, "exclusiveMinimum": True}, "minimum was 4, now 4 (excluded)"),
        ({"maxLength": 9}, {"maxLength": 8}, "maxLength was 9, now 8"),
        ({}, {"maxItems": 8}, "maxItems was not set, now 8"),
        ({"minLength": 0}, {"minLength": 1}, "minLength was 0, now 1"),
        ({}, {"pattern": "^a$"}, "pattern was None, now '^a$'"),
        ({"pattern": "^b$"}, {"pattern": "^a$"}, "pattern was '^b$', now '^a$'"),
        ({}, {"format": "date-time"}, "format was None, now 'date-time'"),
        ({"nullable": True}, {}, "nullable is gone"),
        ({"x-kubernetes-preserve-unknown-fields": True}, {}, "x-kubernetes-preserve-unknown-fields is gone"),
        ({"default": 1}, {"default": 2}, "default was 1, now 2"),
        ({"default": 1}, {}, "default was 1, now None"),
        ({"x-kubernetes-list-type": "map"}, {}, "x-kubernetes-list-type was 'map', now None"),
        ({"additionalProperties": {"type": "string"}}, {}, "is gone"),
        ({"items": {"maxLength": 9}}, {"items": {"maxLength": 8}}, "maxLength was 9, now 8"),
        ({"properties": {"a": {}}}, {"properties": {}}, "is gone"),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "required": ["a"]}, "is required"),
        ({"properties": {}}, {"properties": {"a": {}}, "required": ["a"]}, "is required"),
        ({}, {"x-kubernetes-validations": [{"rule": "self > 1"}]}, "has a new rule: self > 1"),
    ],
)
def test_what_takes_less_than_before_is_found(old: Schema, new: Schema, what: str) -> None:
    assert [change.what for change in find_narrowed(old, new)] == [what]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"enum": ["A"]}, {"enum": ["A", "B"]}),
        ({"enum": ["A"]}, {}),
        ({"maximum": 3}, {"maximum": 4, "exclusiveMaximum": True}),
        ({"minLength": 1}, {"minLength": 0}),
        ({"pattern": "^a$"}, {}),
        ({}, {"nullable": True}),
        ({"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}}),
        ({"properties": {}}, {"properties": {"a": {"maximum": 1}}}),
        ({"properties": {}}, {"properties": {"a": {"default": 1}}, "required": ["a"]}),
        ({"x-kubernetes-validations": [{"rule": "self > 1"}]}, {}),
        ({"description": "x"}, {"description": "y"}),
        (
            {"x-kubernetes-validations": [{"rule": "self  >\n1", "message": "x"}]},
            {"x-kubernetes-validations": [{"rule": "self > 1", "message": "y"}]},
        ),
    ],
)
def test_what_takes_as_much_or_more_is_let_pass(old: Schema, new: Schema) -> None:
    assert not list(find_narrowed(old, new))


def test_a_new_field_of_a_spec_has_no_default_where_earlier_objects_would_get_it() -> None:
    """An operator of the release before would refuse them all, for a field that it doesn't know."""
    new = {"properties": {"a": {"default": 1}}}
    assert [*map(str, find_narrowed({"properties": {}}, new, ".spec.b"))] == [".spec.b.a: is new and has a default"]
    below = {"properties": {"c": new}}
    assert not list(find_narrowed({"properties": {}}, below, ".spec.b"))


def test_a_rule_about_a_new_field_takes_nothing_from_objects_without_it() -> None:
    listed = "[has(self.a), has(self.b), has(self.c)].exists_one(given, given)"
    assert leave_out(listed, {"c"}) == "[has(self.a), has(self.b)].exists_one(given, given)"
    assert leave_out(listed, {"a"}) == "[has(self.b), has(self.c)].exists_one(given, given)"
    assert is_always_met("!has(self.new) || self.new > 3", without=["new"])
    assert is_always_met("!has(self.a) || !has(self.new.part) || self.new.part == '||('", without=["new"])
    assert is_always_met("has(self.new) == has(oldSelf.new) && (!has(self.new) || self.new == 1)", without=["new"])
    assert is_always_met("has(self.spec) != has(self.new)", without=["new"], having=["spec"])
    assert not is_always_met("!has(self.newer) || self.newer > 3", without=["new"])
    assert not is_always_met("has(self.new) || has(self.a)", without=["new"])
    assert not is_always_met("has(self.a) ? !has(self.new) : self.b", without=["new"])


def change_field(definition: Schema, *path: str) -> Schema:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    found: Schema = schema
    return found


def test_the_definitions_of_today_are_compared_field_by_field() -> None:
    today = build_definition(RESOURCES[0])
    assert find_breaking_changes(today, today) == []
    changed = copy.deepcopy(today)
    del change_field(changed, "spec", "search")["properties"]["maxTrials"]
    change_field(changed, "spec", "objective", "mode")["enum"].remove("max")
    del changed["spec"]["versions"][0]["subresources"]["status"]
    changed["spec"]["names"]["shortNames"] = []
    assert [str(change) for change in find_breaking_changes(today, changed)] == [
        ".spec.objective.mode: no longer takes 'max'",
        ".spec.search.maxTrials: is gone",
        "names.shortNames: was ['pexp'], now []",
        "versions.v1alpha1: has no subresource status any more",
    ]
    unserved = copy.deepcopy(today)
    unserved["spec"]["versions"][0] |= {"name": "v1beta1"}
    assert [str(change) for change in find_breaking_changes(today, unserved)] == [
        "versions.v1alpha1: is no longer served"
    ]
