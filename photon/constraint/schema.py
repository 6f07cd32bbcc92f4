"""A JSON schema as the grammar can say it: what no grammar holds is left out, what comes to the same is put so.

What is left out is checked on the value (`structure.py`). The schema is read, never written. docs/structured_output.md
lists which keyword is held by what.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from photon.errors import ConstraintError

MAX_SCHEMA_BYTES = 32768
MAX_SCHEMA_DEPTH = 64  # brackets within brackets
MAX_SCHEMA_COUNT = 100_000  # of maxItems, maxLength and their like: more than any answer holds
MAX_OPTIONAL = 64  # properties of one object that may be left out
MAX_REFS = 64  # that are followed while schemas are put together

COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# Without these the rest of a schema says what may be said; they only narrow it.
ONLY_CHECKED = frozenset(
    "not if then else contains minContains maxContains uniqueItems multipleOf dependentRequired dependentSchemas "
    "dependencies unevaluatedItems unevaluatedProperties".split()
)
ANNOTATIONS = frozenset(
    "$schema $id $comment title description default example examples deprecated readOnly writeOnly contentEncoding "
    "contentMediaType contentSchema discriminator".split()
)
IN_MAPPINGS = ("properties", "patternProperties", "$defs", "definitions")
IN_LISTS = ("anyOf", "oneOf", "prefixItems")
IN_ONE = ("items", "additionalProperties", "propertyNames")

Schema = Any  # a dict or a bool, as JSON has it


def read_schema(schema: str | Mapping[str, Any] | bool) -> Schema:
    """A copy made of plain JSON. ConstraintError for what is none, is too large, too deep or no valid schema."""
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, allow_nan=False)
        if len(text) > MAX_SCHEMA_BYTES:
            raise ConstraintError(f"the schema is too large: {len(text)} bytes, {MAX_SCHEMA_BYTES} may be at most")
        copy = json.loads(text)
        json.dumps(copy, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ConstraintError(f"the schema is nested too deeply: {MAX_SCHEMA_DEPTH} levels may be at most") from None
    except (TypeError, ValueError) as error:
        shown = f", got {schema[:80]!r}" if isinstance(schema, str) else ""
        raise ConstraintError(f"the schema is not JSON: {error}{shown}") from None
    if not isinstance(copy, dict | bool):
        raise ConstraintError(f"a schema is a JSON object, got {text[:80]}")
    if copy is False:
        raise ConstraintError("the schema is false, which no value fits")
    check_depth(copy, MAX_SCHEMA_DEPTH)
    _check_valid(copy)
    for name, value in _keywords(copy):
        _check_keyword(name, value)
    return copy


def sayable(schema: Schema) -> Schema:
    """The schema that the grammar is made of. Whatever fits `schema` and is said in its order fits this too.

    ConstraintError where that cannot be: an allOf of schemas that contradict each other, too many optional properties.
    """
    return _Sayable(schema).of(schema)


class _Sayable:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._num_refs = 0

    def of(self, schema: Schema) -> Schema:
        if not isinstance(schema, dict):
            return schema
        schema = self._without_all_of(_without_unsayable(schema))
        if not {"$ref", "$defs", "definitions"}.issuperset(schema):
            schema = self._resolve(schema)
        self._spread(schema)
        for key in IN_MAPPINGS:
            if key in schema:
                schema[key] = {name: self.of(one) for name, one in schema[key].items()}
        for key in IN_LISTS:
            if key in schema:
                schema[key] = [self.of(one) for one in schema[key]]
        for key in IN_ONE:
            if key in schema:
                schema[key] = self.of(schema[key])
        _complete(schema)
        return schema

    def _without_all_of(self, schema: dict[str, Any]) -> dict[str, Any]:
        """One schema in place of an allOf and what stands beside it."""
        parts = schema.pop("allOf", [])
        for part in parts:
            schema = self._both(schema, part)
        return schema

    def _spread(self, schema: dict[str, Any]) -> None:
        """What stands beside anyOf or oneOf goes into each: the engine would not see it."""
        key = "anyOf" if "anyOf" in schema else "oneOf"
        beside = {name: value for name, value in schema.items() if name not in (key, "$defs", "definitions")}
        if key in schema and beside and "$ref" not in schema:
            choices = [self._both(beside, choice) for choice in schema[key]]
            for name in beside:
                del schema[name]
            schema[key] = choices

    def _both(self, first: dict[str, Any], second: Schema) -> dict[str, Any]:
        """What fits both."""
        second = self._resolve(second)
        if not isinstance(second, dict):
            second = _as_dict(second)
        second = self._without_all_of(_without_unsayable(second))
        first = self._without_all_of(self._resolve(first))
        both = dict(first)
        for key, value in second.items():
            both[key] = value if key not in both or both[key] == value else self._join(key, both[key], value)
        return both

    def _join(self, key: str, first: Any, second: Any) -> Any:
        if key in IN_MAPPINGS:
            return {
                **first,
                **{name: self._both(first[name], one) if name in first else one for name, one in second.items()},
            }
        if key == "required":
            return [*first, *(name for name in second if name not in first)]
        if key == "additionalProperties":
            return False if False in (first, second) else second if first is True else first
        if key.startswith(("min", "exclusiveMin")):
            return max(first, second)
        if key.startswith(("max", "exclusiveMax")):
            return min(first, second)
        raise ConstraintError(
            f"two schemas that must both hold differ in {key!r}: {first!r} and {second!r}. Write them as one schema"
        )

    def _resolve(self, schema: Schema) -> Schema:
        """What a $ref with nothing beside it stands for."""
        while isinstance(schema, dict) and "$ref" in schema:
            self._num_refs += 1
            if self._num_refs > MAX_REFS:
                raise ConstraintError(f"$ref {schema['$ref']!r} leads in a circle, or through over {MAX_REFS} others")
            beside = {key: value for key, value in _without_unsayable(schema).items() if key != "$ref"}
            target = look_up(self._root, schema["$ref"])
            if not isinstance(target, dict):
                target = _as_dict(target)
            schema = self._both(target, beside) if beside else target
        return schema


def look_up(root: Schema, ref: str) -> Schema:
    """What a JSON pointer such as "#/$defs/item" points at. ConstraintError where it points at nothing."""
    place = root
    for step in ref.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        elif isinstance(place, dict) and step in place:
            place = place[step]
        else:
            raise ConstraintError(f"$ref {ref!r} points at nothing in the schema")
    return place


def _without_unsayable(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ONLY_CHECKED and key not in ANNOTATIONS}


def _as_dict(schema: Any) -> dict[str, Any]:
    """ConstraintError for what no value fits."""
    if schema is not True:
        raise ConstraintError(f"no value fits what must hold: {schema!r}")
    return {}


def _complete(schema: dict[str, Any]) -> None:
    """Say what is meant where the engine would take silence for "no more"; name what is required."""
    kinds = schema.get("type")
    if kinds == "array" and not {"items", "prefixItems"} & set(schema):
        schema["items"] = {}
    is_open = schema.get("additionalProperties", True) is not False
    if kinds == "object" and not {"properties", "patternProperties", "additionalProperties"} & set(schema):
        schema["additionalProperties"] = {}
    required = [name for name in schema.get("required", ()) if name not in schema.get("properties", {})]
    if required and "patternProperties" not in schema:
        if not is_open:
            raise ConstraintError(f"property {required[0]!r} is required and not among the properties allowed")
        others = schema.get("additionalProperties", {})
        schema["properties"] = {**schema.get("properties", {}), **dict.fromkeys(required, others)}
        schema.setdefault("type", "object")
    num_optional = len(set(schema.get("properties", ())) - set(schema.get("required", ())))
    if num_optional > MAX_OPTIONAL:
        raise ConstraintError(
            f"an object has {num_optional} properties that may be left out, {MAX_OPTIONAL} may be at most: list more "
            "of them under 'required'"
        )


def check_depth(value: Any, left: int) -> None:
    """ConstraintError where more than `left` brackets are within each other."""
    if left < 0:
        raise ConstraintError(f"nested too deeply: {MAX_SCHEMA_DEPTH} levels may be at most")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            check_depth(part, left - 1)


def _check_valid(schema: Schema) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        place = "/".join(str(step) for step in error.absolute_path)
        raise ConstraintError(f"the schema is wrong{f' at {place}' if place else ''}: {error.message}") from None


def _check_keyword(name: str, value: Any) -> None:
    if name in COUNTS and isinstance(value, int | float) and value > MAX_SCHEMA_COUNT:
        raise ConstraintError(f"{name} may be at most {MAX_SCHEMA_COUNT}, got {value!r}")
    if name in ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"):
        raise ConstraintError(f"{name} is not supported: name a schema as '#/$defs/name'")
    if name == "$ref" and isinstance(value, str) and value != "#" and not value.startswith("#/"):
        raise ConstraintError(f"$ref must lie within the schema, as '#/$defs/name', got {value!r}: nothing is fetched")


def _keywords(schema: Schema) -> Iterator[tuple[str, Any]]:
    """All keywords with their values, of a schema and of those in it; names of properties are none."""
    if isinstance(schema, list):
        for one in schema:
            yield from _keywords(one)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            yield key, value
            if key in (*IN_MAPPINGS, "dependentSchemas") and isinstance(value, dict):
                for one in value.values():
                    yield from _keywords(one)
            elif key not in ("enum", "const", "default", "examples", "required"):
                yield from _keywords(value)


def strip(schema: Schema, drop: Callable[[str, dict[str, Any]], bool]) -> Schema:
    """A copy without the keywords that `drop`, given a keyword and the schema that it is in, takes out."""
    if isinstance(schema, list):
        return [strip(one, drop) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if drop(key, schema):
            continue
        if key in (*IN_MAPPINGS, "dependentSchemas") and isinstance(value, dict):
            kept[key] = {name: strip(one, drop) for name, one in value.items()}
        elif key in ("enum", "const", "default", "examples", "required"):
            kept[key] = value
        else:
            kept[key] = strip(value, drop)
    return kept
