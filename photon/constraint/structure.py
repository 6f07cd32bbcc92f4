"""What an answer must be, as a user asked for it: a JSON schema or pydantic model, a regex, a grammar, or choices.

Made and first checked in the caller's thread. `ebnf`, on a worker, is the grammar of all that may be said; `value_of`
reads what was said and checks what the grammar could not hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from photon.constraint.compiler import instantiate
from photon.constraint.limits import (
    MAX_GRAMMAR_CHARS,
    check_can_end,
    check_counts,
    check_is_text,
    check_regexes,
    read_rules,
)
from photon.constraint.schema import MAX_SCHEMA_DEPTH, check_depth, read_schema, sayable, strip
from photon.constraint.schema_grammar import readable, reason_of, schema_to_ebnf
from photon.errors import ConstraintError, RequestError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

MAX_CHOICES = 256
MAX_REGEX_CHARS = 4096
Kind = Literal["schema", "regex", "grammar", "choices"]
SchemaLike = Mapping[str, Any] | str | type


@dataclass(frozen=True, eq=False)
class Structure:
    """`source`: the schema as JSON, the regex, the grammar's text, or the choices as JSON. `model`: the pydantic class
    that the schema is of, whose instances are then the values."""

    kind: Kind
    source: str
    model: Any = None

    def ebnf(self) -> str:
        """ConstraintError for what is wrong, can never end, or would take too long to compile. Imports xgrammar."""
        return _ebnf_of(self.kind, self.source)

    def value_of(self, text: str) -> Any:
        """The value that a whole answer says; a string but for a schema. ConstraintError, which has the text, names
        the place and the value that the schema refuses."""
        if self.kind != "schema":
            return text
        try:
            value = json.loads(text)
            check_depth(value, MAX_SCHEMA_DEPTH)
            if self.model is not None:
                return self.model.model_validate_json(text)
        except (ValueError, RecursionError, ConstraintError) as error:
            raise ConstraintError(f"the answer does not fit the schema: {error}", text=text) from error
        for error in self._validator.iter_errors(value):
            raise ConstraintError(f"the answer does not fit the schema: {error.json_path}: {error.message}", text=text)
        return value

    @cached_property
    def schema(self) -> Any:
        """Of kind "schema"."""
        return json.loads(self.source)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        from jsonschema import Draft202012Validator
        from referencing import Registry

        return Draft202012Validator(
            strip(self.schema, _holds_already),
            registry=Registry(),  # one that fetches nothing
            format_checker=Draft202012Validator.FORMAT_CHECKER,
        )


def make_structure(
    *,
    schema: SchemaLike | None = None,
    regex: str | None = None,
    grammar: str | None = None,
    choices: Sequence[str] | None = None,
) -> Structure | None:
    """None where nothing is asked for. RequestError for more than one of them, or one that is of no use;
    ConstraintError for a schema that is wrong or beyond the limits."""
    given = {"schema": schema, "regex": regex, "grammar": grammar, "choices": choices}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise RequestError(f"an answer can have one of schema, regex, grammar and choices, got {' and '.join(names)}")
    if schema is not None:
        return _of_schema(schema)
    if regex is not None:
        _check_source("regex", regex, MAX_REGEX_CHARS)
        return Structure("regex", regex)
    if grammar is not None:
        _check_source("grammar", grammar, MAX_GRAMMAR_CHARS)
        is_name = re.fullmatch(r"[\w-]+", grammar) is not None
        return Structure("grammar", instantiate(grammar, {}) if is_name else grammar)
    return None if choices is None else Structure("choices", json.dumps(_check_choices(choices)))


def _of_schema(schema: SchemaLike) -> Structure:
    if not isinstance(schema, type):
        if not isinstance(schema, Mapping | str | bool):
            raise RequestError(f"schema must be a dict, JSON, or a pydantic model class, got {schema!r}")
        return Structure("schema", json.dumps(read_schema(schema)))
    if not hasattr(schema, "model_json_schema"):
        raise RequestError(f"schema must be a dict, JSON, or a pydantic model class, got {schema!r}")
    try:
        json_schema = schema.model_json_schema()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConstraintError(f"{schema.__name__} has no JSON schema: {error}") from error
    return Structure("schema", json.dumps(read_schema(json_schema)), schema)


def _check_source(name: str, text: str, limit: int) -> None:
    if not isinstance(text, str) or not text or "\0" in text:
        raise RequestError(f"{name} must be a text that is not empty and has no NUL, got {text!r}")
    if len(text) > limit:
        raise ConstraintError(f"{name} is too large: {len(text)} characters, {limit} may be at most")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} is not valid Unicode: {error}") from None


def _check_choices(choices: Sequence[str]) -> list[str]:
    wanted = f"1 to {MAX_CHOICES} different texts, none of them empty"
    if isinstance(choices, str | bytes) or not isinstance(choices, Sequence) or not 1 <= len(choices) <= MAX_CHOICES:
        raise RequestError(f"choices must be a list of {wanted}, got {choices!r}")
    for choice in choices:
        if not isinstance(choice, str) or not choice:
            raise RequestError(f"choices must be a list of {wanted}, got {choice!r} among them")
        _check_source("a choice", choice, MAX_REGEX_CHARS)
    if len(set(choices)) < len(choices):
        raise RequestError(f"choices must be a list of {wanted}, got {sorted(choices)!r}")
    return list(choices)


@lru_cache(maxsize=256)
def _ebnf_of(kind: Kind, source: str) -> str:
    """At most 256 of at most MAX_GRAMMAR_CHARS are kept."""
    if kind == "choices":
        return "root ::= " + " | ".join(_literal(choice) for choice in json.loads(source))
    if kind == "schema":
        ebnf = schema_to_ebnf(sayable(json.loads(source)))
        rules = read_rules(ebnf)
        check_can_end(rules)
        check_regexes(rules, _print_regex)
        return ebnf
    printed = _print_regex(source) if kind == "regex" else _print_grammar(source)
    rules = read_rules(printed)
    check_is_text(rules)
    check_can_end(rules)
    check_counts(rules, _print_regex)
    return readable(printed) if kind == "regex" else source


def _print_regex(regex: str) -> str:
    from xgrammar import Grammar

    return _print(Grammar.from_regex, regex, f"regex {regex!r}")


def _print_grammar(grammar: str) -> str:
    from xgrammar import Grammar

    return _print(Grammar.from_ebnf, grammar, "the grammar")


def _print(convert: Callable[[str], Any], source: str, name: str) -> str:
    try:
        return str(convert(source))
    except RuntimeError as error:
        raise ConstraintError(f"{name} does not compile: {reason_of(error)}") from error


def _literal(text: str) -> str:
    escaped = (f"\\u{ord(c):04x}" if c < " " or c in '"\\\x7f' else c for c in text)
    return f'"{"".join(escaped)}"'


def _holds_already(key: str, schema: dict[str, Any]) -> bool:
    """Keywords that the grammar alone answers for: Python's regexes may take exponential time, and match elsewhere."""
    is_by_pattern = key in ("patternProperties", "additionalProperties", "unevaluatedProperties")
    return key == "pattern" or (is_by_pattern and "patternProperties" in schema)
