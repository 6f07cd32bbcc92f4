"""Faults of engines that constrain answers, each as a whole kind: mixed batches under logits wider than the tokenizer,
the contract of points and boxes, bad constraints that stay local, and answers that end."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_model import write_tiny_model

from photon import ConstraintError, Detect, Engine, Extract, PhotonError, PointAt, Query, RequestError
from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.structure import make_structure
from photon.constraint.vocabulary import Vocabulary
from photon.request import Constraint, Sampling, Token
from photon.results import Box, Metrics, Point
from photon.tasks import DetectTask, PointTask

NUM_TOKENS, VOCAB_SIZE = 512, 552  # a byte is its value plus 16
ITEM = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "k": {"enum": ["a", "b"]}, "t": {"type": "string", "maxLength": 5}},
    "required": ["n", "k", "t"],
}


def boosted(folder: Path, *boosts: tuple[Any, float]) -> Path:
    """The tiny model with an addition to the logits of some ids (an index or a slice)."""
    path = write_tiny_model(folder, vocab_size=VOCAB_SIZE) / "model.safetensors"
    tensors = load_file(path)
    (name,) = (name for name in tensors if name.endswith("lm_head.bias"))
    for ids, amount in boosts:
        tensors[name][ids] += amount
    save_file(tensors, path)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What no token stands for is far the likeliest."""
    return boosted(tmp_path_factory.mktemp("boosted"), (slice(NUM_TOKENS, None), 60.0))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(folder, device="cpu", max_batch_size=4, pipeline_depth=2) as engine:
        yield engine


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (60, 80, 3), dtype=np.uint8))


PICTURES = [picture(seed) for seed in range(4)]


def ask_of(i: int) -> Any:
    """The i-th of a mixed crowd: JSON, regex, choices, grammar, plain, points, boxes; greedy and sampled."""
    sampling: Any = {"temperature": 1.0, "seed": i} if i % 3 else {}
    image = PICTURES[i % 4]
    kinds: list[Callable[[], Any]] = [
        lambda: Query(image, "what?", schema=ITEM, max_tokens=60, sampling=sampling),
        lambda: Query(image, f"q{i}", max_tokens=4 + i % 17, sampling=sampling),
        lambda: PointAt(image, "mug", max_objects=3, sampling=sampling),
        lambda: Query(None, "which?", regex="[a-f]{2,6}-[0-9]+", max_tokens=30, sampling=sampling),
        lambda: Detect(image, "cup", max_objects=2, sampling=sampling),
        lambda: Query(image, "say", choices=["yes", "no", "not at all"], sampling=sampling),
        lambda: Query(None, "plain", max_tokens=20, sampling=sampling),
        lambda: Query(image, "g", grammar='root ::= ("ab" | "c")+ "."', max_tokens=30, sampling=sampling),
    ]
    return kinds[i % len(kinds)]()


def check_answer(ask: Any, result: Any) -> None:
    assert all(0 <= token < NUM_TOKENS for token in result.token_ids), "an id beyond the tokenizer (P8)"
    if not isinstance(ask, Query) or not (ask.schema or ask.regex or ask.choices or ask.grammar):
        return
    structure = make_structure(schema=ask.schema, regex=ask.regex, choices=ask.choices, grammar=ask.grammar)
    assert structure is not None and result.constrained_by == structure.kind
    if result.truncated:
        assert result.value is None
    else:
        assert result.value == structure.value_of(result.text)
        assert ask.choices is None or result.value in ask.choices


# --- check 4: a mixed batch of constrained and plain rows, joining and leaving


def test_check_4_a_mixed_batch_says_what_each_says_alone(engine: Engine) -> None:
    asks = [ask_of(i) for i in range(32)]
    alone = [engine.submit(ask).result(60) for ask in asks]
    for seed in range(3):
        rng = random.Random(seed)
        order = rng.sample(range(len(asks)), len(asks))
        futures: dict[int, Future[Any]] = {}
        strangers: list[Future[Any]] = []
        for i in order:
            futures[i] = engine.submit(asks[i])
            if rng.random() < 0.3:  # one that leaves early
                strangers.append(engine.submit(ask_of(rng.randrange(64))))
            if strangers and rng.random() < 0.5:
                strangers.pop().cancel()
            time.sleep(rng.random() * 0.02)
        for i, future in futures.items():
            result = future.result(60)
            check_answer(asks[i], result)
            assert (result.token_ids, result.finish_reason) == (alone[i].token_ids, alone[i].finish_reason), asks[i]
    kinds = {result.constrained_by for result in alone if hasattr(result, "constrained_by") and not result.truncated}
    assert kinds >= {"schema", "regex", "choices", "grammar"}, "some kind never came to its end"


# --- check 5: points and boxes, 10,000 random cases


@pytest.mark.parametrize(
    "task", [PointTask(object="x", max_objects=4), DetectTask(object="x", max_objects=4)], ids=repr
)
def test_check_5_points_and_boxes_hold_their_contract(engine: Engine, task: Any) -> None:
    context = engine._loaded.context
    rng = np.random.default_rng(5)
    corners = np.array([0.0, 1.0, 0.5, 1e-7, 1 - 1e-7])
    num_roles, coord, size = (2, 5, 5) if isinstance(task, PointTask) else (3, 5, 6)
    for _ in range(10_000):
        num_tokens = int(rng.integers(0, 4 * num_roles + 1))
        numbers = np.where(
            rng.random((num_tokens, 2)) < 0.3, rng.choice(corners, (num_tokens, 2)), rng.random((num_tokens, 2))
        )
        tokens = tuple(
            Token(size, tuple(pair.tolist())) if i % 3 == 2 and num_roles == 3 else Token(coord, (float(pair[0]),), 0.5)
            for i, pair in enumerate(numbers)
        )
        is_cut = num_tokens % num_roles != 0
        result = task.parse(context, tokens, "length" if is_cut else "stop", metrics=Metrics())
        places: tuple[Any, ...] = tuple(result)
        assert type(places) is tuple and len(places) == num_tokens // num_roles <= task.max_objects
        assert result.truncated or not is_cut
        for place in places:
            if isinstance(place, Point):
                assert 0 <= place.x <= 1 and 0 <= place.y <= 1
            else:
                assert isinstance(place, Box)
                assert 0 <= place.x_min <= place.x_max <= 1 and 0 <= place.y_min <= place.y_max <= 1
        json.dumps(result.to_dict(), allow_nan=False)


# --- check 9: a bad constraint stays local

BAD: list[dict[str, Any]] = [
    {"regex": "[a-"},
    {"regex": "((a{1,40}){1,40}){1,40}"},
    {"grammar": "root ::= root"},
    {"grammar": 'root ::= "a"\nroot ::= "b"'},
    {"grammar": "root ::= Token(0)"},
    {"schema": {"$ref": "#"}},
    {"schema": False},
    {"schema": {"type": "array", "maxItems": 10**12}},
    {"schema": '{"items":' * 3000 + "{}" + "}" * 3000},
    {"schema": {"type": "string", "pattern": "^(.{1,50}){1,50}$"}},
    {"schema": {"type": "integer", "minimum": 5, "maximum": 4}},
]


def test_check_9_a_bad_constraint_is_its_callers_alone(engine: Engine) -> None:
    plain = Query(PICTURES[0], "go on", max_tokens=30, sampling={"temperature": 1.0, "seed": 3})
    alone = engine.submit(plain).result(60)
    answers, times, done = [], [], threading.Event()

    def keep_asking() -> None:
        while not done.is_set():
            started = time.perf_counter()
            answers.append(engine.submit(plain).result(60))
            times.append(time.perf_counter() - started)

    other = threading.Thread(target=keep_asking)
    other.start()
    try:
        for bad in BAD:
            started = time.perf_counter()
            with pytest.raises(PhotonError) as caught:
                engine.query(PICTURES[0], "x", **bad)
            assert isinstance(caught.value, ConstraintError | RequestError) and str(caught.value)
            assert time.perf_counter() - started < 5, bad
            assert engine.query(PICTURES[0], "x", choices=["yes"]).value == "yes"  # the next request is served
    finally:
        done.set()
        other.join()
    assert all(answer.token_ids == alone.token_ids for answer in answers) and len(answers) >= 3
    assert max(times) < 5


def test_check_9_hundreds_of_schemas_stay_within_their_bytes() -> None:
    pieces = [b"", *(bytes([i]) for i in range(256))]
    limit = 2**20
    vocabulary = Vocabulary.build(pieces, special_ids=[0], vocab_size=300, stop_ids=[0])
    compiler = ConstraintCompiler(vocabulary, cache_bytes=limit)
    for i in range(300):
        schema = {"type": "object", "properties": {f"key{i}": {"type": "string"}, f"n{i}": {"type": "number"}}}
        structure = make_structure(schema=schema)
        assert structure is not None
        compiler.structured(structure)
        assert compiler.num_cached_bytes < 1.2 * limit
    assert compiler.num_cached_bytes > 0


def test_check_9_run_leaves_the_error_in_its_place(engine: Engine) -> None:
    good = Query(PICTURES[0], "x", choices=["yes"])
    answers = engine.run(
        [good, Query(PICTURES[0], "x", schema="{"), Extract(PICTURES[0], {"$ref": "#"}), good], on_error="return"
    )
    assert [type(answer).__name__ for answer in answers] == [
        "QueryResult",
        "ConstraintError",
        "ConstraintError",
        "QueryResult",
    ]


# --- check 10: generation ends and is bounded


@pytest.mark.parametrize("likely", [" ", "0", "\n", "["], ids=repr)
def test_check_10_a_model_that_prefers_one_character(likely: str, tmp_path: Path) -> None:
    with Engine(boosted(tmp_path, (16 + ord(likely), 40.0)), device="cpu") as engine:
        whole = engine.query(None, "q", schema={"type": "array", "items": {"type": "integer"}, "maxItems": 3})
        assert whole.finish_reason == "stop" and all(abs(n) < 10**15 for n in whole.value)
        assert "  " not in whole.text and "\n" not in whole.text
        number = engine.query(None, "q", schema={"type": "number"})
        assert number.finish_reason == "stop" and np.isfinite(number.value)
        string = engine.query(
            None, "q", schema={"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}
        )
        assert string.truncated == (string.value is None)


def test_check_10_a_cut_answer_says_so_at_every_length(engine: Engine) -> None:
    whole = engine.query(PICTURES[1], "what?", schema=ITEM)
    assert whole.finish_reason == "stop" and isinstance(whole.value, dict)
    for max_tokens in range(1, len(whole.token_ids) + 1):  # the last has no room for the end
        cut = engine.query(PICTURES[1], "what?", schema=ITEM, max_tokens=max_tokens)
        assert (cut.finish_reason, cut.truncated, cut.value) == ("length", True, None)
        assert whole.text.startswith(cut.text) and len(cut.token_ids) == max_tokens
        assert cut.to_dict()["value"] is None
    room = engine.query(PICTURES[1], "what?", schema=ITEM, max_tokens=len(whole.token_ids) + 1)
    assert (room.value, room.finish_reason) == (whole.value, "stop")


def test_check_10_the_end_is_allowed_exactly_where_the_grammar_can_end() -> None:
    """Mask and matcher agree on it, for every text of a small language."""
    pieces = [b"", b"a", b"b", b"ab", b"ba", b"aa"]
    compiler = ConstraintCompiler(Vocabulary.build(pieces, special_ids=[0], vocab_size=8, stop_ids=[0]))
    language = {"ab", "abab", "aab", "b"}
    structure = make_structure(choices=sorted(language))
    assert structure is not None

    def explore(said: tuple[int, ...]) -> None:
        constraint: Constraint = compiler.structured(structure)
        for token in said:
            constraint.advance(token)
        mask = np.zeros(1, np.int32)
        constraint.fill_mask(mask)
        text = b"".join(pieces[token] for token in said).decode()
        for token in range(1, 6):
            longer = text + pieces[token].decode()
            assert bool(mask[0] >> token & 1) == any(word.startswith(longer) for word in language)
            if mask[0] >> token & 1:
                explore((*said, token))
        assert bool(mask[0] & 1) == (text in language)
        if text in language:
            constraint.advance(0)
        else:
            with pytest.raises(ConstraintError, match="refuses id 0"):
                constraint.advance(0)

    explore(())


def test_check_10_what_the_tokenizer_cannot_spell_fails_before_sampling() -> None:
    compiler = ConstraintCompiler(Vocabulary.build([b"", b"a"], special_ids=[0], vocab_size=8, stop_ids=[0]))
    structure = make_structure(choices=["b"])
    assert structure is not None
    with pytest.raises(ConstraintError, match="dead end after 0 tokens"):
        compiler.structured(structure)


def test_check_10_a_stream_joins_to_the_answer_and_can_be_left(engine: Engine) -> None:
    whole = engine.query(PICTURES[2], "what?", schema=ITEM)
    chunks: list[Any] = list(engine.query(PICTURES[2], "what?", schema=ITEM, stream=True))
    *deltas, end = chunks
    assert "".join(delta.text for delta in deltas) == whole.text == end.result.text
    assert end.result.value == whole.value
    future = engine.submit(Query(PICTURES[2], "what?", schema={"type": "string", "minLength": 5000}))
    time.sleep(0.05)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result()


def test_check_10_sampling_and_logprobs_are_of_what_may_be_said(engine: Engine) -> None:
    result = engine.query(PICTURES[3], "x", choices=["yes", "no"], temperature=5.0, seed=1, logprobs=5)
    assert result.value in ("yes", "no") and result.logprobs is not None
    assert sorted(candidate.text for candidate in result.logprobs[0].top) == ["n", "y"]
    assert sum(np.exp(candidate.logprob) for candidate in result.logprobs[0].top) == pytest.approx(1, abs=1e-4)
    assert Sampling(temperature=5.0)
