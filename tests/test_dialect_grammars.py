"""Each dialect's grammar, driven through the real matcher: it admits what is encoded, and nothing else can be said."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from dialect_cases import (
    CASES,
    FRAME,
    FRAMES,
    IDS,
    LABELS,
    STOP,
    Words,
    allowed_ids,
    coordinates,
    random_things,
    renamed,
    walk,
)

from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.vocabulary import Vocabulary
from photon.dialects.base import Dialect, Kind, Order
from photon.dialects.frame import PIXELS, Frame
from photon.dialects.json_list import JsonDialect
from photon.dialects.known import DIALECTS, LOC_MARKS
from photon.errors import ConstraintError
from photon.request import Role
from photon.results import Box, Point
from photon.text.tokenizer import Tokenizer

MOST = 5
NUM_WALKS = 100
WALK_LIMIT = 2000
TINY = Path(__file__).parent.parent / "models" / "photon-tiny" / "tokenizer.json"
CORNER_MARKS = DIALECTS["qwen2-vl"].marks
REF_MARKS = DIALECTS["internvl"].marks


@pytest.fixture(scope="module")
def words() -> Words:
    return Words()


@pytest.fixture(scope="module")
def marked_words() -> Words:
    return Words([*LOC_MARKS, *CORNER_MARKS, *REF_MARKS])


def admits(words: Words, grammar: str, text: str) -> bool:
    """Whether the grammar says exactly `text`."""
    constraint = words.constraint(grammar)
    try:
        for token in [*words.encode(text), STOP]:
            constraint.advance(token)
    except ConstraintError:
        return False
    return True


def assert_contract(dialect: Dialect, kind: Kind, text: str, label: str | None = None) -> int:
    """The text decodes whole; how many things it said."""
    reading = dialect.decode(text, kind, label=label, frame=FRAME)
    assert not reading.is_cut, text
    assert len(reading.things) <= MOST
    for thing in reading.things:
        assert isinstance(thing, Point if kind == "point" else Box)
        assert all(0 <= value <= 1 for value in coordinates(thing))
        if isinstance(thing, Box):
            assert thing.x_min <= thing.x_max and thing.y_min <= thing.y_max
    return len(reading.things)


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_the_grammar_admits_all_that_is_encoded(
    dialect: Dialect, kind: Kind, words: Words, marked_words: Words
) -> None:
    rng = random.Random(f"admits{dialect.name}{kind}")
    for label in (*LABELS[:4], None):
        for vocabulary, ids in ((words, {}), (marked_words, marked_words.ids)):
            frame = rng.choice(FRAMES)
            grammar = dialect.grammar(kind, label=label, max_objects=MOST, frame=frame, ids=ids)
            for count in range(MOST + 1):
                text = dialect.encode(random_things(rng, kind, count, [label]), frame=frame)
                assert admits(vocabulary, grammar, text), text


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_the_grammar_refuses_one_thing_too_many_and_another_name(dialect: Dialect, kind: Kind, words: Words) -> None:
    rng = random.Random(11)
    for most in (1, 2, 5):
        grammar = dialect.grammar(kind, label="cat", max_objects=most, frame=FRAME)
        assert admits(words, grammar, dialect.encode(random_things(rng, kind, most, ["cat"]), frame=FRAME))
        for count, label in ((most + 1, "cat"), (1, "dog"), (1, None)):
            assert not admits(words, grammar, dialect.encode(random_things(rng, kind, count, [label]), frame=FRAME))
    nameless = dialect.grammar(kind, max_objects=2, frame=FRAME)
    assert not admits(words, nameless, dialect.encode(random_things(rng, kind, 1, ["cat"]), frame=FRAME))


@pytest.mark.parametrize(
    ("name", "kind", "good", "bad"),
    [
        ("qwen2.5-vl", "box", "1288, 728", ["1289, 728", "1288, 729", "-1, 0", "01, 0", "1.0, 0", "1, 1, 1"]),
        ("qwen3-vl", "point", "1000, 1000", ["1001, 0", "0, 1001", "00, 0", "0,0"]),
        ("gemma", "box", "1000, 0", ["1001, 0", "10000, 0"]),
        ("json-unit", "point", "1.000, 0.999", ["1.001, 0.000", "1, 0", "0.5, 0.5", "2.000, 0.000"]),
        ("json-percent", "point", "100.0, 99.9", ["100.1, 0.0", "101.0, 0.0", "5, 5"]),
    ],
)
def test_numbers_out_of_range_cannot_be_said(name: str, kind: Kind, good: str, bad: list[str], words: Words) -> None:
    dialect = DIALECTS[name]
    grammar = dialect.grammar(kind, label="cat", max_objects=2, frame=FRAME)
    thing = Point(0, 0, label="cat") if kind == "point" else Box(0, 0, 0, 0, label="cat")
    template = re.sub(r": \[([^,\]]*, [^,\]]*)", ": [@", dialect.encode([thing], frame=FRAME), count=1)
    assert admits(words, grammar, template.replace("@", good))
    for numbers in bad:
        assert not admits(words, grammar, template.replace("@", numbers)), numbers


def test_each_axis_has_the_range_of_its_own_side(words: Words) -> None:
    """In both orders: a picture of 1000 x 20 pixels has room for 900 along one side only."""
    said: dict[Order, str] = {"xyxy": "[900, 10, 1000, 20]", "yxyx": "[10, 900, 20, 1000]"}
    for order, numbers in said.items():
        dialect = JsonDialect(name="own", scale=PIXELS, order=order)
        frame = Frame(1000, 20)
        box = Box(0.9, 0.5, 1.0, 1.0, label="cat")
        text = dialect.encode([box], frame=frame)
        assert numbers in text and dialect.decode(text, "box", frame=frame).things == (box,)
        grammar = dialect.grammar("box", label="cat", max_objects=1, frame=frame)
        swapped = said["yxyx" if order == "xyxy" else "xyxy"]
        assert admits(words, grammar, text) and not admits(words, grammar, text.replace(numbers, swapped))


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("qwen2-vl", "box", "<|object_ref_start|>cat<|object_ref_end|><|box_start|>(0,0),(1000,0)<|box_end|>"),
        ("paligemma", "box", "<loc0000><loc0000><loc0000><loc1024> cat"),
        ("paligemma", "box", "<loc0000><loc0000><loc0000> cat"),
        ("molmo", "point", '<point x="100.1" y="0.0" alt="cat">cat</point>'),
        ("molmo", "point", '<points x1="1.0" y1="0.0" x3="1.0" y3="0.0" alt="cat">cat</points>'),
        ("molmo", "point", '<points x1="1.0" y1="0.0" alt="cat">cat</points>'),
        ("internvl", "box", "<ref>cat</ref><box>[[0, 0, 0, 1001]]</box>"),
        ("internvl", "box", "<ref>cat</ref><box>[]</box>"),
    ],
)
def test_what_is_not_well_formed_cannot_be_said(name: str, kind: Kind, text: str, words: Words) -> None:
    assert not admits(words, DIALECTS[name].grammar(kind, label="cat", max_objects=4), text)


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
@pytest.mark.parametrize("label", ["cat", None])
def test_random_walks_always_decode(dialect: Dialect, kind: Kind, label: str | None, words: Words) -> None:
    rng = random.Random(f"walk{dialect.name}{kind}{label}")
    grammar = dialect.grammar(kind, label=label, max_objects=MOST, frame=FRAME)
    counts = set()
    for _ in range(NUM_WALKS):
        text = words.decode(walk(words.constraint(grammar), words.vocabulary, rng, WALK_LIMIT))
        counts.add(assert_contract(dialect, kind, text))
    assert {1, 2} <= counts


@pytest.mark.parametrize("name", ["paligemma", "qwen2-vl", "internvl"])
def test_random_walks_say_marks_as_single_tokens(name: str, marked_words: Words) -> None:
    dialect = DIALECTS[name]
    rng = random.Random(f"marks{name}")
    grammar = dialect.grammar("box", label="cat", max_objects=MOST, ids=marked_words.ids)
    said = set()
    for _ in range(NUM_WALKS):
        tokens = walk(marked_words.constraint(grammar), marked_words.vocabulary, rng, WALK_LIMIT)
        said |= set(tokens)
        assert_contract(dialect, "box", marked_words.decode(tokens))
    marks = {marked_words.ids[text] for text in dialect.marks}
    assert marks <= said if name != "paligemma" else len(marks & said) > 200
    assert ord("<") + 1 not in said


def test_a_location_token_is_never_spelled_out_where_the_vocabulary_has_it(marked_words: Words) -> None:
    grammar = DIALECTS["paligemma"].grammar("box", label="cat", max_objects=2, ids=marked_words.ids)
    ids = sorted(marked_words.ids[text] for text in LOC_MARKS)
    constraint = marked_words.constraint(grammar)
    assert list(allowed_ids(constraint, marked_words.vocabulary)) == [STOP, *ids]
    for number in (51, 309, 708, 646):
        constraint.advance(ids[number])
    for char in b" cat":
        assert list(allowed_ids(constraint, marked_words.vocabulary)) == [char + 1]
        constraint.advance(char + 1)
    assert list(allowed_ids(constraint, marked_words.vocabulary)) == [STOP, ord(" ") + 1]


@pytest.mark.parametrize(("dialect", "kind"), CASES, ids=IDS)
def test_a_real_tokenizer_says_what_is_encoded_and_its_walks_decode(dialect: Dialect, kind: Kind) -> None:
    tokenizer = Tokenizer.from_file(TINY)
    stop = min(tokenizer.special_ids)
    vocabulary = Vocabulary.build(
        tokenizer.text_bytes, special_ids=tokenizer.special_ids, vocab_size=tokenizer.num_tokens, stop_ids=[stop]
    )
    compiler = ConstraintCompiler(vocabulary)
    grammar = dialect.grammar(kind, label="red cup", max_objects=MOST, frame=FRAME)
    rng = random.Random(f"tiny{dialect.name}{kind}")
    for count in range(MOST + 1):
        text = dialect.encode(renamed(random_things(rng, kind, count, [None]), "red cup"), frame=FRAME)
        constraint = compiler.from_grammar(grammar, (Role.TEXT,))
        for token in (*tokenizer.encode(text), stop):
            constraint.advance(token)
    for _ in range(20):
        tokens = walk(compiler.from_grammar(grammar, (Role.TEXT,)), vocabulary, rng, WALK_LIMIT)
        text = b"".join(tokenizer.text_bytes[token] for token in tokens).decode()
        assert_contract(dialect, kind, text, "red cup")


def test_a_grammar_for_many_objects_compiles(words: Words) -> None:
    for dialect, kind in CASES:
        grammar = dialect.grammar(kind, label="cat", max_objects=300, frame=FRAME)
        things = random_things(random.Random(3), kind, 300, ["cat"])
        assert admits(words, grammar, dialect.encode(things, frame=FRAME))
