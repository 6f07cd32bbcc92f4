"""Extract: what a picture shows, as a value of a schema. A query whose question is made of that schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from photon.constraint.schema import look_up
from photon.constraint.structure import SchemaLike, Structure, make_structure
from photon.errors import RequestError
from photon.request import Sampling
from photon.tasks.checks import check_text
from photon.tasks.query import QueryTask

MAX_TOKENS = 1024
MAX_NESTING = 6  # of an outline: what is within is left to the grammar
NAMES = {"object": "{...}", "array": "[...]"}


@dataclass(frozen=True, kw_only=True)
class ExtractTask(QueryTask):
    """As a query with a structure of kind "schema"."""


def extract_task(
    schema: SchemaLike,
    *,
    instructions: str | None,
    max_tokens: int,
    sampling: Sampling,
    timeout: float | None,
) -> ExtractTask:
    """RequestError or ConstraintError as for a query's `schema`."""
    structure = make_structure(schema=schema)
    if structure is None:
        raise RequestError("extract needs a schema: a dict, JSON, or a pydantic model class, got None")
    if instructions is not None:
        check_text("instructions", instructions)
    return ExtractTask(
        question=question_of(structure, instructions),
        structure=structure,
        max_tokens=max_tokens,
        sampling=sampling,
        timeout=timeout,
    )


def question_of(structure: Structure, instructions: str | None) -> str:
    """What is asked: the schema's title and description, an outline of its values, the user's own words."""
    schema = structure.schema
    root = schema if isinstance(schema, dict) else {}
    head = " ".join(root[key] for key in ("title", "description") if isinstance(root.get(key), str))
    about = f" ({' '.join(head.split())})" if head else ""
    words = f" {instructions.strip()}" if instructions else ""
    return f"Answer with JSON about the image{about}: {outline(root, root, MAX_NESTING)}{words}"


def outline(schema: Any, root: Any, levels: int) -> str:
    """How a value of the schema looks, in one line, as {"name": string, "price": number (in euros)}."""
    if not isinstance(schema, dict):
        return "any value"
    if "$ref" in schema:
        return outline({**look_up(root, schema["$ref"]), **_note(schema)}, root, levels - 1) if levels > 0 else "..."
    note = f" ({schema['description']})" if isinstance(schema.get("description"), str) and schema is not root else ""
    return _shape(schema, root, levels) + note


def _shape(schema: dict[str, Any], root: Any, levels: int) -> str:
    if "const" in schema or "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema.get("enum", [schema.get("const")]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(outline(one, root, levels) for one in schema[key])
    if schema.get("properties") and levels > 0:
        fields = schema["properties"].items()
        return "{" + ", ".join(f"{json.dumps(name)}: {outline(one, root, levels - 1)}" for name, one in fields) + "}"
    if isinstance(schema.get("items"), dict) and levels > 0:
        return f"[{outline(schema['items'], root, levels - 1)}, ...]"
    kinds = schema.get("type", "any value")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(str(NAMES.get(kind) or schema.get("format", kind)) for kind in kinds)


def _note(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}
