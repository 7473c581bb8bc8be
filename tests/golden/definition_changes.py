"""What a resource definition no longer takes or shows that an earlier one did.

Such a change breaks manifests, programs or stored objects of users, so it needs a new version of the API. What only
widens a definition, a new optional field, say, is no such change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_NOT_ABOVE = ("maximum", "maxLength", "maxItems", "maxProperties")
_NOT_BELOW = ("minimum", "minLength", "minItems", "minProperties")
_EXCLUSIVE = {"maximum": "exclusiveMaximum", "minimum": "exclusiveMinimum"}
_CHECKS = ("pattern", "format", "multipleOf", "uniqueItems", "x-kubernetes-embedded-resource")
"""Without one of these everything is taken; another one takes something else."""
_LATITUDES = ("nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")
"""What they take is refused without them."""
_FIXED = (
    *("type", "default", "allOf", "anyOf", "oneOf", "not"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
)
"""Any other value of these has objects mean something else, or be merged in another way."""


@dataclass(frozen=True, order=True)
class Change:
    """One thing that is no longer as it was.

    Attributes:
        path: The field, as in `.spec.stop.experiment[].time`; `[]` stands for each item or value.
        what: What has changed.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def find_breaking_changes(old: Schema, new: Schema) -> list[Change]:
    """Compares two CustomResourceDefinitions of one name.

    Args:
        old: As it was released.
        new: As it is now.
    """
    return sorted(set(_compare_definitions(old["spec"], new["spec"])))


def _compare_definitions(old: Schema, new: Schema) -> Iterator[Change]:
    for field in ("group", "scope"):
        yield from _compare_values(old, new, field, "")
    for name, value in old["names"].items():
        kept = new["names"].get(name)
        is_kept = set(value) <= set(kept or ()) if isinstance(value, list) else value == kept
        if not is_kept:
            yield Change(f"names.{name}", f"was {value!r}, now {kept!r}")
    versions = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        if version["served"]:
            yield from _compare_versions(version, versions.get(version["name"], {"served": False}))


def _compare_versions(old: Schema, new: Schema) -> Iterator[Change]:
    if not new["served"]:
        yield Change(f"versions.{old['name']}", "is no longer served")
        return
    for subresource in sorted(old.get("subresources", {}).keys() - new.get("subresources", {}).keys()):
        yield Change(f"versions.{old['name']}", f"has no subresource {subresource} any more")
    selectable = {field["jsonPath"] for field in new.get("selectableFields", ())}
    for field in old.get("selectableFields", ()):
        if field["jsonPath"] not in selectable:
            yield Change(field["jsonPath"], "can't be selected any more")
    yield from find_narrowed(old["schema"]["openAPIV3Schema"], new["schema"]["openAPIV3Schema"])


def find_narrowed(old: Schema, new: Schema, path: str = "") -> Iterator[Change]:
    """Finds what one schema refuses or drops that another one took, in each of its fields.

    Args:
        old: The earlier schema.
        new: The later one.
        path: Where they are in the object.
    """
    for field in _FIXED:
        yield from _compare_values(old, new, field, path)
    yield from _compare_bounds(old, new, path)
    yield from _compare_enums(old, new, path)
    for field in _CHECKS:
        if new.get(field) not in (None, False, old.get(field)):
            yield Change(path, f"{field} was {old.get(field)!r}, now {new[field]!r}")
    for field in _LATITUDES:
        if old.get(field) and not new.get(field):
            yield Change(path, f"{field} is gone")
    yield from _compare_rules(old, new, path)
    yield from _compare_fields(old, new, path)
    for field in ("items", "additionalProperties"):
        yield from _compare_below(old.get(field), new.get(field), f"{path}[]")


def _compare_values(old: Schema, new: Schema, field: str, path: str) -> Iterator[Change]:
    if old.get(field) != new.get(field):
        yield Change(path, f"{field} was {old.get(field)!r}, now {new.get(field)!r}")


def _compare_bounds(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    for fields, sign in ((_NOT_ABOVE, 1), (_NOT_BELOW, -1)):
        for field in fields:
            before, now = (
                (sign * schema[field], not schema.get(_EXCLUSIVE.get(field, ""), False)) if field in schema else None
                for schema in (old, new)
            )
            if now is not None and (before is None or now < before):
                yield Change(path, f"{field} was {_say(old, field)}, now {_say(new, field)}")


def _say(schema: Schema, field: str) -> str:
    if field not in schema:
        return "not set"
    return f"{schema[field]}{' (excluded)' if schema.get(_EXCLUSIVE.get(field, '')) else ''}"


def _compare_enums(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    if "enum" in new and "enum" not in old:
        yield Change(path, f"takes {new['enum']!r} alone")
    for value in old.get("enum", ()):
        if value not in new.get("enum", [value]):
            yield Change(path, f"no longer takes {value!r}")


def _compare_fields(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    before, now = old.get("properties", {}), new.get("properties", {})
    for name, schema in before.items():
        if name in now:
            yield from find_narrowed(schema, now[name], f"{path}.{name}")
        else:
            yield Change(f"{path}.{name}", "is gone")
    for name in now.keys() - before.keys():
        # An operator of that release, which may serve beside new definitions, would find it in each object.
        if path.startswith(".spec") and "default" in now[name]:
            yield Change(f"{path}.{name}", "is new and has a default")
    for name in new.get("required", ()):
        # Of a default the API server makes use before it looks whether a field is there.
        if name not in old.get("required", ()) and "default" not in now.get(name, {}):
            yield Change(f"{path}.{name}", "is required")


def _compare_below(old: Schema | bool | None, new: Schema | bool | None, path: str) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from find_narrowed(old, new, path)
    elif old and not new:
        yield Change(path, "is gone")
    elif new and not old:
        yield Change(path, "has a schema of its own")


def _compare_rules(old: Schema, new: Schema, path: str) -> Iterator[Change]:
    """Rules that were not there: in general no program can tell whether another text refuses more.

    But a rule that says nothing of objects without the new fields, or the same as before, refuses none of them.
    """
    field = "x-kubernetes-validations"
    known = {_read_rule(rule) for rule in old.get(field, ())}
    added = set(find_added_fields(old, new))
    for rule in new.get(field, ()):
        text, optional = _read_rule(rule)
        is_known = bool({(text, optional), (leave_out(text, added), optional)} & known)
        if not is_known and not is_always_met(text, without=added, having=old.get("required", ())):
            yield Change(path, f"has a new rule: {text}")


def _read_rule(rule: Schema) -> tuple[str, bool]:
    return " ".join(rule["rule"].split()), rule.get("optionalOldSelf", False)


def find_added_fields(old: Schema, new: Schema, path: str = "") -> Iterator[str]:
    """Yields the fields that only the later schema has, as a rule names them: `store.volume`."""
    before = old.get("properties", {})
    for name, schema in new.get("properties", {}).items():
        if name in before:
            yield from find_added_fields(before[name], schema, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def leave_out(rule: str, fields: set[str]) -> str:
    """Takes fields that an object does not have out of a rule's lists of `has(self.field)`."""
    for field in fields:
        asked = rf"has\(self\.{re.escape(field)}\)"
        rule = re.sub(rf"(?<=[\[ ]){asked}, |, {asked}(?=\])", "", rule)
    return rule


def is_always_met(rule: str, *, without: Collection[str], having: Collection[str] = ()) -> bool:
    """Whether a rule is met by every object of some form, as far as its own form tells.

    Args:
        rule: The rule.
        without: Fields that the objects don't have.
        having: Fields that all of them have.
    """
    text = _STRING.sub("''", rule)
    for field in sorted(without, key=len, reverse=True):
        text = re.sub(rf"has\((self|oldSelf)\.{re.escape(field)}(\.[\w.]+)?\)", "false", text)
    for field in having:
        text = re.sub(rf"has\((self|oldSelf)\.{re.escape(field)}\)", "true", text)
    return _resolve(text) is True


_STRING = re.compile(r"""r?("[^"]*"|'[^']*')""")


def _resolve(text: str) -> bool | None:
    """What an expression of `true`, `false`, and things unknown comes to; None if that depends on these."""
    text = text.strip()
    if len(_split(text, "?")) > 1:
        return None
    for operator, decisive in (("||", True), ("&&", False)):
        parts = _split(text, operator)
        if len(parts) > 1:
            values = [_resolve(part) for part in parts]
            return decisive if decisive in values else None if None in values else not decisive
    for operator in ("==", "!="):
        sides = _split(text, operator)
        if len(sides) == 2:
            left, right = map(_resolve, sides)
            return None if left is None or right is None else (left == right) is (operator == "==")
    if text.startswith("!"):
        value = _resolve(text[1:])
        return None if value is None else not value
    if text.startswith("(") and text.endswith(")") and len(_split(text[1:-1], ")")) == 1:
        return _resolve(text[1:-1])
    return {"true": True, "false": False}.get(text)


def _split(text: str, separator: str) -> list[str]:
    """Splits an expression where a separator stands outside of all brackets."""
    parts, depth, begun, at = list[str](), 0, 0, 0
    while at < len(text):
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[begun:at])
            at = begun = at + len(separator)
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return [*parts, text[begun:]]
