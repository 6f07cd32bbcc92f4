"""Masks walked by hand, dead ends, refusals, the compile cache, and reasoning against a grammar that says the same."""

from __future__ import annotations

import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from photon.constraint.compiler import ConstraintCompiler, instantiate
from photon.constraint.grammar import GrammarConstraint
from photon.constraint.vocabulary import Vocabulary
from photon.errors import ConstraintError
from photon.request import Constraint, Role

POINT_ROLES = (Role.X, Role.Y)
DETECT_ROLES = (Role.X, Role.Y, Role.SIZE)
NUM_TOKENS, VOCAB_SIZE = 300, 330  # the logits are wider than the tokenizer, and no whole number of words
VALUES = {"end": 0, "coord": 5, "size": 6}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """Ids 16 to 271 are the 256 bytes; the others are special or have no bytes at all."""
    pieces = [bytes([i - 16]) if 16 <= i < 272 else b"" for i in range(NUM_TOKENS)]
    return Vocabulary.build(pieces, special_ids=range(16), vocab_size=VOCAB_SIZE, stop_ids=[0])


@pytest.fixture(scope="module")
def compiler(vocabulary: Vocabulary) -> ConstraintCompiler:
    return ConstraintCompiler(vocabulary)


def allowed(constraint: Constraint) -> set[int]:
    """Read the mask bit by bit, from a row in the middle of a batch whose other rows must stay as they are."""
    masks = np.full((3, -(-VOCAB_SIZE // 32)), 7, dtype=np.int32)
    constraint.fill_mask(masks[1])
    assert (masks[[0, 2]] == 7).all()
    return {i for i in range(masks.shape[1] * 32) if int(masks[1, i // 32]) >> (i % 32) & 1}


def test_vocabulary_gives_special_ids_bytes_that_no_text_has(vocabulary: Vocabulary) -> None:
    assert (
        vocabulary.pieces[0] == b"\xff0" and vocabulary.pieces[5] == b"\xff5" and vocabulary.pieces[299] == b"\xff299"
    )
    assert vocabulary.pieces[16 + ord("a")] == b"a"
    assert (vocabulary.num_tokens, vocabulary.mask_words) == (300, 11)


def test_a_special_id_with_bytes_of_its_own_is_no_text_either() -> None:
    vocabulary = Vocabulary.build([b"a", b"b", b"ab"], special_ids=[1], vocab_size=VOCAB_SIZE, stop_ids=[1])
    assert vocabulary.pieces == (b"a", b"\xff1", b"ab")
    constraint = ConstraintCompiler(vocabulary).from_grammar('root ::= "abb"', (Role.TEXT,))
    assert allowed(constraint) == {0, 2}
    constraint.advance(2)
    with pytest.raises(ConstraintError, match="dead end after 1 tokens"):
        allowed(constraint)


def test_vocabulary_masks(vocabulary: Vocabulary) -> None:
    mask = vocabulary.mask_of([0, 33, 63])
    assert mask.dtype == np.int32 and mask[0] == 1 and mask[1] == 2 - 2**31 and not mask[2:].any()
    mask = vocabulary.mask_except([1])
    assert mask[0] == ~2 and (mask[1:9] == -1).all() and mask[9] == 2**12 - 1 and mask[10] == 0


def test_detect_walks_x_y_size_until_the_limit(compiler: ConstraintCompiler) -> None:
    constraint = compiler.from_template("detect", VALUES | {"max_objects": 2}, DETECT_ROLES)
    for _ in range(2):
        for token_id, choice, role in ((5, {0, 5}, Role.X), (5, {5}, Role.Y), (6, {6}, Role.SIZE)):
            assert (allowed(constraint), constraint.role) == (choice, role)
            constraint.advance(token_id)
    assert allowed(constraint) == {0}


def test_point_may_end_only_where_an_object_may_start(compiler: ConstraintCompiler) -> None:
    constraint = compiler.from_template("point", VALUES | {"max_objects": 50}, POINT_ROLES)
    assert (allowed(constraint), constraint.role) == ({0, 5}, Role.X)
    constraint.advance(5)
    assert (allowed(constraint), constraint.role) == ({5}, Role.Y)
    with pytest.raises(ConstraintError, match="refuses id 0 after 1 tokens"):
        constraint.advance(0)
    constraint.advance(5)
    assert allowed(constraint) == {0, 5}


@pytest.mark.parametrize(("name", "roles"), [("point-any", POINT_ROLES), ("detect-any", DETECT_ROLES)])
def test_without_a_coordinate_id_every_id_but_the_end_is_one(
    compiler: ConstraintCompiler, name: str, roles: tuple[Role, ...]
) -> None:
    constraint = compiler.from_template(name, {"end": 0, "max_objects": 2}, roles)
    everything = set(range(NUM_TOKENS))  # no padding ids (P8)
    for _ in range(2):
        for index, role in enumerate(roles):
            assert allowed(constraint) == (everything if index == 0 else everything - {0})
            assert constraint.role == role
            constraint.advance(299 - index)
    assert allowed(constraint) == {0}


def test_nothing_may_be_said_after_the_end(compiler: ConstraintCompiler) -> None:
    constraint = compiler.from_template("point", VALUES | {"max_objects": 3}, POINT_ROLES)
    constraint.advance(0)
    with pytest.raises(ConstraintError, match="after the end"):
        allowed(constraint)
    with pytest.raises(ConstraintError, match="refuses id 5"):
        constraint.advance(5)


@pytest.mark.parametrize("token_id", [-1, 6, 16, NUM_TOKENS, VOCAB_SIZE, 10**6])
def test_a_token_outside_the_mask_is_refused_and_changes_nothing(compiler: ConstraintCompiler, token_id: int) -> None:
    constraint = compiler.from_template("detect", VALUES | {"max_objects": 3}, DETECT_ROLES)
    with pytest.raises(ConstraintError, match=f"refuses id {token_id} "):
        constraint.advance(token_id)
    assert (allowed(constraint), constraint.role) == ({0, 5}, Role.X)


@pytest.mark.parametrize("grammar", ["root ::= root", "root ::= Token(300)"])  # endless recursion; a padding id
def test_a_dead_end_is_an_error_before_sampling(compiler: ConstraintCompiler, grammar: str) -> None:
    constraint = compiler.from_grammar(grammar, (Role.TEXT,))
    with pytest.raises(ConstraintError, match="dead end after 0 tokens"):
        allowed(constraint)


def test_special_ids_are_no_text(compiler: ConstraintCompiler) -> None:
    constraint = compiler.from_grammar("root ::= [^a]*", (Role.TEXT,))
    assert allowed(constraint) & set(range(1, 16)) == set()
    assert 16 + ord("b") in allowed(constraint) and 16 + ord("a") not in allowed(constraint)


@pytest.mark.parametrize("grammar", ["root ::= (", 'rule ::= "a"', "root ::= Token(330)", "root ::= Token()"])
def test_what_does_not_compile_is_named(compiler: ConstraintCompiler, grammar: str) -> None:
    with pytest.raises(ConstraintError, match="does not compile"):
        compiler.from_grammar(grammar, (Role.TEXT,))


def test_templates_name_what_is_missing() -> None:
    with pytest.raises(ConstraintError, match=r"unknown grammar 'segment'; known grammars: detect, detect-any, point"):
        instantiate("segment", {})
    with pytest.raises(ConstraintError, match=r"grammar 'detect' needs a value for 'size'"):
        instantiate("detect", {"coord": 5, "max_objects": 3})
    assert "(Token(7) Token(7)){0,4}" in instantiate("point", {"coord": 7, "max_objects": 4, "end": 0, "size": 6})


def test_compiled_grammars_stay_within_their_bytes(vocabulary: Vocabulary) -> None:
    limit = 200_000
    compiler = ConstraintCompiler(vocabulary, cache_bytes=limit)
    for max_objects in range(1, 101):
        compiler.from_template("detect", VALUES | {"max_objects": max_objects}, DETECT_ROLES)
        assert compiler.num_cached_bytes < 1.2 * limit
    assert compiler.num_cached_bytes > 0


def test_many_threads_compile_at_once(vocabulary: Vocabulary) -> None:
    compiler = ConstraintCompiler(vocabulary)

    def first_mask(max_objects: int) -> set[int]:
        return allowed(compiler.from_template("detect", VALUES | {"max_objects": max_objects % 5 + 1}, DETECT_ROLES))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(first_mask, range(64))) == [{0, 5}] * 64


def test_reasoning_by_hand(compiler: ConstraintCompiler) -> None:
    constraint = compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=3)
    everything = set(range(NUM_TOKENS))
    assert (allowed(constraint), constraint.role) == (everything - {0}, Role.GROUNDED)  # the first is free, but no end
    for token_id in (6, 5, 7):
        constraint.advance(token_id)
        assert allowed(constraint) == (everything - {0, 6} if token_id != 7 else {3})
    assert (allowed(constraint), constraint.role) == ({3}, Role.GROUNDED)  # cut by its limit
    constraint.advance(3)
    assert (allowed(constraint), constraint.role) == (everything, Role.TEXT)
    constraint.advance(3)
    assert (allowed(constraint), constraint.role) == (everything - {3}, Role.TEXT)
    constraint.advance(0)
    with pytest.raises(ConstraintError, match="after the end"):
        allowed(constraint)
    with pytest.raises(ConstraintError, match="id 40 may not be said"):
        constraint.advance(40)


def test_reasoning_refuses_what_is_banned(compiler: ConstraintCompiler) -> None:
    constraint = compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=3)
    constraint.advance(40)
    for token_id in (0, 6, -1, NUM_TOKENS, VOCAB_SIZE, 10**6):
        with pytest.raises(ConstraintError, match=f"id {token_id} may not be said"):
            constraint.advance(token_id)
    assert compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=0).role == Role.GROUNDED
    assert allowed(compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=0)) == {3}


@pytest.mark.parametrize("seed", range(40))
def test_reasoning_equals_its_grammar(compiler: ConstraintCompiler, seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.randint(1, 12)
    thinking = f"ExcludeToken(0,3) ExcludeToken(0,3,6){{0,{limit - 1}}}"
    grammar = f"root ::= ({thinking})? Token(3) (ExcludeToken(0) ExcludeToken(0,3)*)?"
    oracle: GrammarConstraint = compiler.from_grammar(grammar, (Role.TEXT,))
    constraint = compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=limit)
    for _ in range(40):
        choices = allowed(constraint)
        assert choices == allowed(oracle)
        marks = sorted(choices & {0, 3, 5, 6, 7, 9})
        token_id = rng.choice(marks) if marks and rng.random() < 0.4 else rng.choice(sorted(choices))
        constraint.advance(token_id)
        oracle.advance(token_id)
        if token_id == 0:
            break


def test_xgrammar_waits_for_the_first_grammar() -> None:
    code = """
import sys
from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.vocabulary import Vocabulary
compiler = ConstraintCompiler(Vocabulary.build([b""] * 9, special_ids=(), vocab_size=9, stop_ids=[0]))
compiler.reasoning(answer_mark=3, banned_ids=(0, 6), limit=3)
assert not {"torch", "xgrammar", "transformers"} & set(sys.modules)
compiler.warm_up()
assert "xgrammar" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
