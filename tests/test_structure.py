"""What a schema, a regex, a grammar and choices admit and refuse, against JSON, jsonschema and hand-made lists; the
limits; and masks over real vocabularies."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import jsonschema
import numpy as np
import pydantic
import pytest
from real_vocabularies import QWEN3, gpt2, gpt2_tokenizer, qwen3, qwen3_tokenizer

from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.schema import MAX_OPTIONAL, read_schema, sayable
from photon.constraint.structure import Structure, make_structure
from photon.constraint.vocabulary import Vocabulary
from photon.errors import ConstraintError, RequestError
from photon.tasks.extract import question_of

INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        "total": {"type": "number", "minimum": 0, "maximum": 1000},
        "paid": {"type": "boolean"},
        "kind": {"enum": ["cash", "card", None]},
        "lines": {
            "type": "array",
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {"what": {"type": "string", "maxLength": 8}, "count": {"type": "integer"}},
                "required": ["what", "count"],
            },
        },
    },
    "required": ["number", "total", "paid", "kind", "lines"],
}


class Fruit(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    weight: float = pydantic.Field(gt=0, description="in grams")
    ripe: bool | None = None


@pytest.fixture(scope="module")
def compiler() -> ConstraintCompiler:
    return ConstraintCompiler(gpt2())


@pytest.fixture(scope="module")
def bytes_only() -> ConstraintCompiler:
    """Ids 1 to 256 are the bytes, 0 is the end."""
    pieces = [b"", *(bytes([i]) for i in range(256))]
    return ConstraintCompiler(Vocabulary.build(pieces, special_ids=[0], vocab_size=300, stop_ids=[0]))


def structure(**asked: Any) -> Structure:
    made = make_structure(**asked)
    assert made is not None
    return made


def bits(mask: np.ndarray, count: int) -> np.ndarray:
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:count])


def says(compiler: ConstraintCompiler, asked: Structure, text: str) -> bool:
    """Whether the whole text may be said, and end there."""
    constraint = compiler.structured(asked)
    mask = np.zeros(compiler.vocabulary.mask_words, np.int32)
    for byte in [1 + b for b in text.encode()] + [0]:
        mask[:] = 0
        constraint.fill_mask(mask)
        if byte not in bits(mask, 257):
            return False
        constraint.advance(byte)
    return True


def walk(compiler: ConstraintCompiler, asked: Structure, rng: random.Random, limit: int = 400) -> str | None:
    """Random legal tokens to an end, with a leaning towards what closes; None where it did not come to one."""
    vocabulary = compiler.vocabulary
    (stop,) = vocabulary.stop_ids
    constraint, said = compiler.structured(asked), b""
    mask = np.zeros(vocabulary.mask_words, np.int32)
    for _ in range(limit):
        mask[:] = 0
        constraint.fill_mask(mask)
        ids = bits(mask, len(mask) * 32)
        assert ids.max() < vocabulary.num_tokens, "an id that the tokenizer does not have (P8)"
        some = [int(ids[rng.randrange(len(ids))]) for _ in range(30)]
        closing = [i for i in some if vocabulary.pieces[i][:1] in b'"}]0']
        chosen = closing[0] if closing and rng.random() < 0.6 else some[0]
        if stop in ids[np.searchsorted(ids, [stop]).clip(max=len(ids) - 1)] and rng.random() < 0.5:
            chosen = stop
        constraint.advance(chosen)
        if chosen == stop:
            return said.decode()
        assert not vocabulary.pieces[chosen].startswith(b"\xff"), "a special id as text (C16)"
        said += vocabulary.pieces[chosen]
    return None


SCHEMAS: dict[str, Any] = {
    "invoice": INVOICE,
    "fruit": Fruit.model_json_schema(),
    "anything": {},
    "nonsense": {"json_object": False},
    "numbers": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "integer", "minimum": -3}]}},
    "nested": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {"type": "null"}}}},
    "keys": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    "date": {"type": "object", "properties": {"d": {"type": "string", "format": "date-time"}}, "required": ["d"]},
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "n": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                "required": ["v", "n"],
            }
        },
    },
    "umlauts": {
        "type": "object",
        "properties": {'größe\n"f': {"enum": ["ÿf", "\x01", "猫😀"]}},
        "required": ['größe\n"f'],
    },
    "all of": {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ]
    },
    "one or the other": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "required beyond its properties": {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["z"]},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_is_said_to_its_end_parses_and_validates(compiler: ConstraintCompiler, name: str) -> None:
    asked = structure(schema=SCHEMAS[name])
    rng, texts = random.Random(name), []
    for _ in range(25):
        text = walk(compiler, asked, rng)
        if text is not None:
            value = json.loads(text)
            jsonschema.validate(value, SCHEMAS[name])
            assert asked.value_of(text) == value
            json.dumps(value, allow_nan=False).encode()  # finite, and no half of a surrogate pair
            texts.append(text)
    assert len(texts) >= 5, texts


@pytest.mark.parametrize(
    "regex", [r"[A-Z][a-z]{2,8}", r"\d{4}-\d\d-\d\d", r"(yes|no)(, (sir|madam))?", r"[^,]+(,[^,]+)*"]
)
def test_a_regex_matches_all_that_is_said(compiler: ConstraintCompiler, regex: str) -> None:
    rng = random.Random(regex)
    texts = [text for _ in range(25) if (text := walk(compiler, structure(regex=regex), rng)) is not None]
    assert len(texts) >= 5 and all(re.fullmatch(regex, text, re.DOTALL) for text in texts), texts


def test_choices_are_all_that_is_said(compiler: ConstraintCompiler) -> None:
    choices = ["car", "carpet", 'a "b" \\ \n c', "ÿf", "猫", " "]
    rng = random.Random(0)
    assert {walk(compiler, structure(choices=choices), rng) for _ in range(120)} == set(choices)


NUMBERS: dict[str, tuple[list[str], list[str]]] = {
    "integer": (["0", "-7", "9" * 15], ["007", "9" * 16, "1.0", "+1", " 1", "-"]),
    "number": (
        ["0", "-1.5", "1e99", "1.5E-10", "0." + "0" * 15],
        ["1e999", "0." + "0" * 16, "1" * 16, ".5", "1.", "NaN"],
    ),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_digits_have_an_end(bytes_only: ConstraintCompiler, kind: str) -> None:
    good, bad = NUMBERS[kind]
    assert [text for text in good if not says(bytes_only, structure(schema={"type": kind}), text)] == []
    assert [text for text in bad if says(bytes_only, structure(schema={"type": kind}), text)] == []
    above = structure(schema={"type": kind, "minimum": 3})  # a bound on one side only
    assert says(bytes_only, above, "9" * 15) and not says(bytes_only, above, "9" * 17)


def test_blanks_are_where_json_dumps_puts_them(bytes_only: ConstraintCompiler) -> None:
    asked = structure(schema={"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]})
    assert says(bytes_only, asked, json.dumps({"a": [1, {"b": []}]}))
    for text in ('{"a":[1]}', '{ "a": [1]}', '{"a": [1,2]}', '{"a":  []}', ' {"a": []}', '{"a": []}\n'):
        assert not says(bytes_only, asked, text), text


def test_strings_hold_only_what_json_allows(bytes_only: ConstraintCompiler) -> None:
    for schema in ({"type": "string"}, {"type": "string", "maxLength": 9}):
        asked = structure(schema=schema)
        assert says(bytes_only, asked, '"é😀 猫"')
        for text in ('"\t"', '"\n"', '"\x00"', r'"\ud83d"', r'"\x41"', '"', '"a""'):
            assert not says(bytes_only, asked, text), (schema, text)
    assert says(bytes_only, structure(schema={"type": "string"}), r'"\u00e9\n\""')


UNSAYABLE: dict[str, tuple[Any, str, str]] = {
    "multipleOf": ({"type": "integer", "multipleOf": 7}, "15", r"\$: 15 is not a multiple of 7"),
    "uniqueItems": (
        {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        '{"a": [1, 1]}',
        "a",
    ),
    "not": ({"type": "integer", "not": {"const": 3}}, "3", "3 should not be valid"),
    "format": (
        {"type": "array", "items": {"type": "string", "format": "date"}},
        '["2026-02-30"]',
        r"\$\[0\]: '2026-02-30'",
    ),
    "contains": ({"type": "array", "contains": {"const": 3}}, "[1]", "does not contain"),
    "pattern and length": ({"type": "string", "pattern": "^a+$", "maxLength": 2}, '"aaa"', "too long"),
    "if": ({"type": "integer", "if": {"minimum": 5}, "then": {"maximum": 6}}, "7", "greater than the maximum"),
}


@pytest.mark.parametrize("keyword", UNSAYABLE)
def test_what_the_grammar_does_not_hold_is_checked(bytes_only: ConstraintCompiler, keyword: str) -> None:
    schema, text, said = UNSAYABLE[keyword]
    assert says(bytes_only, structure(schema=schema), text)
    with pytest.raises(ConstraintError, match=said) as caught:
        structure(schema=schema).value_of(text)
    assert caught.value.text == text


def test_a_model_class_gives_its_instances() -> None:
    asked = structure(schema=Fruit)
    assert asked.value_of('{"name": "fig", "weight": 50.5}') == Fruit(name="fig", weight=50.5)
    with pytest.raises(ConstraintError, match="weight") as caught:
        asked.value_of('{"name": "fig", "weight": 0}')
    assert caught.value.text == '{"name": "fig", "weight": 0}'
    said = '{"name": string, "weight": number (in grams), "ripe": boolean or null}'
    assert question_of(asked, "Look well.") == f"Answer with JSON about the image (Fruit): {said} Look well."


def nested_arrays(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


CIRCLE = {"$ref": "#/$defs/n", "$defs": {"n": {"allOf": [{"$ref": "#/$defs/n"}]}}}
MANY = {"properties": {f"p{i}": {} for i in range(MAX_OPTIONAL + 1)}}
RULES = ["root ::= r0", *(f'r{i} ::= "a" r{i + 1}?' for i in range(1100))]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "not a schema": ({"schema": "5"}, "a schema is a JSON object"),
    "no JSON": ({"schema": "{"}, "not JSON"),
    "a type that is none": ({"schema": {"type": "objekt"}}, "'objekt'"),
    "false": ({"schema": "false"}, "false"),
    "a circle of $ref": ({"schema": {"$ref": "#"}}, "Circular"),
    "a circle of allOf": ({"schema": CIRCLE}, "circle"),
    "an endless object": ({"schema": {"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}}, "end"),
    "a $ref to nothing": ({"schema": {"$ref": "#/$defs/a"}}, "defs"),
    "a $ref elsewhere": ({"schema": {"$ref": "http://127.0.0.1/schema"}}, "nothing is fetched"),
    "huge maxItems": ({"schema": {"type": "array", "maxItems": 10**9}}, "maxItems may be at most 100000"),
    "200 nested arrays": ({"schema": nested_arrays(200)}, "nested too deeply"),
    "brackets without end": ({"schema": '{"items":' * 50000}, "too large"),
    "an empty enum": ({"schema": {"enum": []}}, "empty"),
    "contradictions": ({"schema": {"allOf": [{"type": "string"}, {"type": "integer"}]}}, "differ in 'type'"),
    "bounds crossed": ({"schema": {"type": "integer", "minimum": 5, "maximum": 3}}, "minimum greater than maximum"),
    "too many optional": ({"schema": MANY}, "may be left out"),
    "a long schema": ({"schema": {"enum": [f"value {i}" for i in range(9000)]}}, "too large"),
    "a pattern of 1,000": ({"schema": {"type": "string", "pattern": "^[a-z ]{1,1000}$"}}, "counted"),
    "a regex unclosed": ({"regex": "[a-"}, "Unclosed"),
    "a regex with a look behind": ({"regex": "(?<=a)b"}, "does not compile"),
    "a regex of 1,000": ({"regex": ".{1,1000}"}, "counted repetitions"),
    "words counted to 9": ({"regex": "([a-z]+ ){1,9}"}, "come to 144"),
    "a regex within a regex": ({"regex": "((a{1,20}){1,20}){1,20}"}, "8000"),
    "a regex of 10,000 characters": ({"regex": "ab" * 5000}, "too large"),
    "root ::= root": ({"grammar": "root ::= root"}, "leads back into itself"),
    "no way out": ({"grammar": 'root ::= "a" root'}, "leads back into itself"),
    "a duplicate root": ({"grammar": 'root ::= "a"\nroot ::= "b"'}, "defined multiple times"),
    "no root": ({"grammar": 'top ::= "a"'}, "root"),
    "a rule that is missing": ({"grammar": "root ::= what"}, "not defined"),
    "ids of tokens": ({"grammar": "root ::= Token(0)"}, r"Token\(...\)"),
    "a count of 100,000": ({"grammar": "root ::= [a-z ]{1,100000}"}, "counted"),
    "brackets in a grammar": ({"grammar": "root ::= " + "(" * 5000 + '"a"' + ")" * 5000}, "does not compile"),
    "1,100 rules": ({"grammar": "\n".join([*RULES, 'r1100 ::= "b"'])}, "too many rules"),
    "an unknown file": ({"grammar": "nothing-of-the-kind"}, "unknown grammar"),
    "a file for coordinates": ({"grammar": "point"}, "needs a value"),
}  # fmt: skip
ITSELF: dict[str, Any] = {}
ITSELF["items"] = ITSELF
BAD["itself in itself"] = ({"schema": ITSELF}, "Circular reference")


@pytest.mark.parametrize("name", BAD)
def test_what_is_bad_is_named_in_no_time(compiler: ConstraintCompiler, name: str) -> None:
    asked, said = BAD[name]
    started = time.process_time()
    with pytest.raises(ConstraintError, match=said):
        compiler.structured(structure(**asked))
    assert time.process_time() - started < 2
    assert compiler.structured(structure(choices=["yes"])) is not None


@pytest.mark.parametrize(
    "asked",
    [
        {"schema": {}, "regex": "a"},
        {"schema": 5},
        {"schema": int},
        {"regex": ""},
        {"regex": 5},
        {"choices": "abc"},
        {"choices": []},
        {"choices": ["a", "a"]},
        {"choices": ["a", ""]},
        {"choices": ["a", 5]},
        {"choices": [str(i) for i in range(257)]},
        {"choices": ["\ud800"]},
    ],
    ids=repr,
)
def test_what_is_no_structure_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        make_structure(**asked)
    assert make_structure() is None


def test_what_is_deep_or_long_within_the_limits_is_answered(bytes_only: ConstraintCompiler) -> None:
    assert says(bytes_only, structure(schema=nested_arrays(22)), "[" * 22 + "1" + "]" * 22)
    assert says(bytes_only, structure(schema={"type": "array", "maxItems": 100_000}), "[1, 2]")
    assert says(bytes_only, structure(schema={"type": "string", "minLength": 500}), '"' + "é" * 500 + '"')
    assert not says(bytes_only, structure(schema={"type": "string", "minLength": 500}), '"' + "é" * 499 + '"')
    assert says(bytes_only, structure(choices=[f"choice {i}" for i in range(256)]), "choice 255")


def test_schemas_of_odd_parts(bytes_only: ConstraintCompiler) -> None:
    """true as a schema, and keywords in places that no keyword gives a meaning to."""
    for schema in (
        {"$ref": "#/$defs/b", "type": "integer", "$defs": {"b": True}},
        {"type": "integer", "allOf": [True, {}]},
        {"type": "integer", "then": {"a": {"patternProperties": "integer", "properties": 5}}},
        {"type": "integer", "required": [], "title": "?", "zork": {"$defs": []}},
    ):
        asked = structure(schema=schema)
        assert says(bytes_only, asked, "12") and not says(bytes_only, asked, '"a"'), schema
        assert asked.value_of("12") == 12
    with pytest.raises(ConstraintError, match="no value fits"):
        structure(schema={"allOf": [{"type": "integer"}, False]}).ebnf()


def test_rules_that_double_and_double_are_read_in_no_time(bytes_only: ConstraintCompiler) -> None:
    rules = [f"r{i} ::= r{i + 1} r{i + 1}" for i in range(25)]
    with pytest.raises(ConstraintError, match="counted"):
        structure(grammar="\n".join(["root ::= r0{200}", *rules, 'r25 ::= "a"'])).ebnf()
    assert structure(grammar="\n".join(["root ::= r0{2}", *rules, 'r25 ::= "a"'])).ebnf()


def test_the_sayable_schema_leaves_the_original_alone() -> None:
    schema = read_schema(SCHEMAS["one or the other"])
    before = json.dumps(schema)
    assert sayable(schema) != schema and json.dumps(schema) == before


ANSWERS: dict[str, Any] = {
    "invoice": {
        "number": "AB-1234",
        "total": 129.5,
        "paid": True,
        "kind": "card",
        "lines": [{"what": "apples", "count": 12}, {"what": "Brötchen", "count": 3}],
    },
    "fruit": {"name": "watermelon", "weight": 5200.25, "ripe": None},
    "anything": {"title": "A street in the rain", "cars": [{"colour": "red", "doors": 4}], "wet": True, "people": 3},
    "keys": {"apples": 3, "bananas": 12, "cherries": 400},
    "tree": {"v": 1, "n": [{"v": 22, "n": []}, {"v": 333, "n": [{"v": 4, "n": []}]}]},
}
NO_FILE = pytest.mark.skipif(not QWEN3.is_file(), reason="PHOTON_TEST_TOKENIZER names no file")


@pytest.mark.parametrize("name", ["gpt2", pytest.param("qwen3", marks=NO_FILE)])
def test_a_mask_takes_at_most_60_microseconds(name: str) -> None:
    """At the median, in one thread's own time, along answers as models say them."""
    vocabulary, tokenizer = (gpt2(), gpt2_tokenizer()) if name == "gpt2" else (qwen3(), qwen3_tokenizer())
    compiler = ConstraintCompiler(vocabulary)
    mask, times = np.zeros(vocabulary.mask_words, np.int32), []
    for schema, answer in [(SCHEMAS[key], answer) for key, answer in ANSWERS.items()] * 3:
        constraint = compiler.structured(structure(schema=schema))
        for token in [*tokenizer.encode(json.dumps(answer, ensure_ascii=False)), vocabulary.stop_ids[0]]:
            mask[:] = 0
            started = time.thread_time_ns()
            constraint.fill_mask(mask)
            times.append(time.thread_time_ns() - started)
            constraint.advance(token)
    middle, most = np.quantile(times, [0.5, 0.99]) / 1e3
    print(f"{name}, {vocabulary.num_tokens} ids, {len(times)} masks: median {middle:.1f} us, 99% {most:.1f} us")
    assert middle < 60
