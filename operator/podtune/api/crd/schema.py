"""Structural schemas, as the API server requires them, generated from the pydantic models.

Pydantic generates full JSON Schema. A CustomResourceDefinition accepts only structural schemas: no references, no null,
no alternatives, and defaults that the server itself fills in. The differences are translated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from podtune.api.base import ApiModel
from podtune.api.crd.cel import Rule
from podtune.api.crd.rules import RULES

Schema = dict[str, Any]

PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
VALIDATIONS = "x-kubernetes-validations"
_KEPT = frozenset(
    {
        *("default", "description", "enum", "format", "required", "type"),
        *("maximum", "minimum", "maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"),
        *("pattern", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"),
        VALIDATIONS,
        INT_OR_STRING,
        PRESERVE_UNKNOWN,
    }
)
_TRANSLATED = frozenset(
    {
        *("$defs", "$ref", "anyOf", "const", "exclusiveMaximum", "exclusiveMinimum"),
        *("properties", "items", "additionalProperties", "patternProperties"),
        *("title", "examples", "propertyNames"),  # said by nothing in a structural schema
    }
)
_FIRST = ("description", "type")
_RULE = ("rule", "message", "messageExpression", "fieldPath")
_LAST = ("properties", "items", "additionalProperties", VALIDATIONS)


def build_structural_schema(model: type[ApiModel]) -> Schema:
    """The structural schema of a model, with its CEL rules and its defaults.

    Raises:
        TypeError: A field has a type that a structural schema can't say.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _Translation(raw.get("$defs", {}), {m.__name__: m for m in _list_models(model)}).translate(raw, model)


class _Translation:
    """One run over a schema of pydantic's; `models` are all that it may refer to, by name."""

    def __init__(self, definitions: dict[str, Schema], models: dict[str, type[ApiModel]]) -> None:
        self._definitions = definitions
        self._models = models

    def translate(self, node: Schema, model: type[ApiModel] | None = None) -> Schema:
        """Translates one node; `model` is what it describes, where that is a model."""
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[-1]
            target = self.translate(self._definitions[name], self._models.get(name))
            return _order_keywords(target | _collect_siblings(node))
        if "anyOf" in node:
            return self._translate_alternatives(node)
        result = _collect_siblings(node)
        if "const" in node:
            result |= {"enum": [node["const"]]}
        match node.get("type"):
            case "object":
                result |= self._translate_object(node, model)
            case "array":
                result["items"] = self.translate(node["items"]) | _collect_nullability(node["items"])
            case "integer":
                result["format"] = "int64"
            case "number":
                result["format"] = "double"
            case "string" | "boolean":
                pass
            case None if INT_OR_STRING in node or PRESERVE_UNKNOWN in node:
                pass
            case other:
                raise TypeError(f"a structural schema can't say the type {other!r} of {node!r}")
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if exclusive in node:
                result |= {bound: node[exclusive], exclusive: True}
        return _order_keywords(result)

    def _translate_alternatives(self, node: Schema) -> Schema:
        """An optional field is one that may be absent; a union of scalars is anything, and checked by the model."""
        given = [option for option in node["anyOf"] if option.get("type") != "null"]
        if len(given) == 1:
            return _order_keywords(self.translate(given[0]) | _collect_siblings(node))
        if all(option.get("type") in ("boolean", "integer", "number", "string") for option in given):
            return _order_keywords({PRESERVE_UNKNOWN: True} | _collect_siblings(node))
        raise TypeError(f"a structural schema can't say the alternatives {given!r}")

    def _translate_object(self, node: Schema, model: type[ApiModel] | None) -> Schema:
        # The form of a map's keys can't be said; the model looks at them.
        extra = next(iter(node.get("patternProperties", {}).values()), node.get("additionalProperties"))
        if extra is True:
            return {PRESERVE_UNKNOWN: True}
        if isinstance(extra, dict):
            return {"additionalProperties": self.translate(extra)}
        properties = {name: self.translate(child) for name, child in node.get("properties", {}).items()}
        result: Schema = {"properties": properties} if properties else {}
        if model is not None:
            for name, default in _list_model_defaults(model):
                properties[name] = _order_keywords(properties[name] | {"default": default})
            of_fields, rules = _split_rules(RULES.get(model, ()))
            for name, added in of_fields.items():
                own = [*properties[name].get(VALIDATIONS, ()), *added]
                properties[name] = _order_keywords(properties[name] | {VALIDATIONS: own})
            result |= {VALIDATIONS: rules} if rules else {}
        return result


def _split_rules(rules: Iterable[Rule]) -> tuple[Mapping[str, list[Schema]], list[Schema]]:
    """The rules that stand at fields, by field, and those of the whole object."""
    of_fields: dict[str, list[Schema]] = {}
    of_object: list[Schema] = []
    for rule in rules:
        place = of_fields.setdefault(rule.field.removeprefix("."), []) if rule.is_of_field and rule.field else of_object
        place.append(rule.to_schema())
    return of_fields, of_object


def _collect_siblings(node: Schema) -> Schema:
    """What stands beside a reference, an alternative or a type, and means the same here."""
    unknown = node.keys() - _KEPT - _TRANSLATED
    if unknown:
        raise TypeError(f"a structural schema can't say {sorted(unknown)} of {node!r}")
    kept = {key: value for key, value in node.items() if key in _KEPT}
    if VALIDATIONS in kept:
        kept[VALIDATIONS] = [{key: rule[key] for key in _RULE if key in rule} for rule in kept[VALIDATIONS]]
    # An absent text, list or map says the same as an empty one, and is what people write.
    if kept.get("default", "") in (None, "", [], {}):
        kept.pop("default", None)
    return kept


def _collect_nullability(entry: Schema) -> Schema:
    """An entry of a list can't be absent, as a field can: it is said where it may be null."""
    return {"nullable": True} if {"type": "null"} in entry.get("anyOf", ()) else {}


def _list_model_defaults(model: type[ApiModel]) -> Iterator[tuple[str, Any]]:
    """Defaults that pydantic makes by a factory; of a model, only what differs from its own defaults.

    The API server fills nested defaults into `{}` by itself.
    """
    for name, field in model.model_fields.items():
        if field.default_factory is None:
            continue
        value = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(value, ApiModel) and (_has_defaults(value) or value.model_dump(exclude_defaults=True)):
            yield field.alias or name, value.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)


def _has_defaults(value: ApiModel) -> bool:
    """Whether the API server would fill anything into an empty object of this model."""
    return any(entry not in (None, "", [], {}) for entry in value.model_dump(exclude_none=True).values())


def _list_models(model: type[ApiModel]) -> Iterator[type[ApiModel]]:
    """The model and all models below it."""
    yield model
    for field in model.model_fields.values():
        for part in _list_parts(field):
            yield from _list_models(part)


def _list_parts(field: FieldInfo) -> Iterator[type[ApiModel]]:
    pending = [field.annotation]
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, ApiModel):
            yield annotation
        pending.extend(get_args(annotation))


def _order_keywords(node: Schema) -> Schema:
    """The keywords in an order that reads well: what it is, its bounds, what is in it, its rules."""
    middle = sorted(key for key in node if key not in _FIRST and key not in _LAST)
    return {key: node[key] for key in (*_FIRST, *middle, *_LAST) if key in node}
