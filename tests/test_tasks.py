"""Tasks: prompts counted out by hand, limits, what is refused, and parsing of streams that were written by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.vocabulary import Vocabulary
from photon.errors import RequestError
from photon.models.recipes import load_recipe, recipe_from_config
from photon.request import IMAGE_ID, ImageSpan, PreparedImage, Request, Role, Sampling, Token
from photon.results import Box, FinishReason, Grounding, Metrics, Point, Result
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task, TaskContext
from photon.text.detokenizer import Detokenizer
from photon.text.tokenizer import Tokenizer as PhotonTokenizer

DATA = Path(__file__).parent / "data"
IMAGE = PreparedImage(np.zeros((2, 14, 14, 3), np.uint8), (1, 1), (14, 14))
PLACES = 4  # positions that the picture takes
METRICS = Metrics()


@pytest.fixture(scope="module")
def context() -> TaskContext:
    """The golden tokenizer: a text's ids are its bytes plus 16."""
    tokenizer = Tokenizer.from_file(str(DATA / "moondream2_tiny/tokenizer.json"))
    pieces = [bytes([i - 16]) if 16 <= i < 272 else b"" for i in range(512)]
    return TaskContext(
        recipe=recipe_from_config("golden", json.loads((DATA / "moondream2_tiny/config.json").read_text())),
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        decode=lambda ids: tokenizer.decode(list(ids)),
        detokenizer=lambda: Detokenizer(PhotonTokenizer.from_file(DATA / "moondream2_tiny/tokenizer.json")),
        image_length=PLACES,
        max_context=2048,
        constraints=ConstraintCompiler(Vocabulary.build(pieces, special_ids=(), vocab_size=512, stop_ids=[0])),
    )


@pytest.fixture(scope="module")
def old_context() -> TaskContext:
    """A model without a coordinate id; a text's ids are its letters' codes plus 1,000."""
    vocabulary = Vocabulary.build([b"x"] * 50257, special_ids=[50256], vocab_size=51200, stop_ids=[50256])
    return TaskContext(
        recipe=load_recipe("moondream2-2025-01"),
        encode=lambda text: [1000 + ord(letter) for letter in text],
        decode=lambda ids: "".join(chr(i - 1000) for i in ids),
        detokenizer=lambda: pytest.fail("nothing is streamed here"),
        image_length=PLACES,
        max_context=2048,
        constraints=ConstraintCompiler(vocabulary),
    )


def said(*ids: int) -> tuple[Token, ...]:
    return tuple(Token(i) for i in ids)


def build(task: Task, context: TaskContext, image: PreparedImage | None = IMAGE) -> Request:
    request = task.build(17, context, image)
    assert request.id == 17 and request.sampling is task.sampling
    return request


def body_of(request: Request, context: TaskContext) -> tuple[Token, ...]:
    """The prompt behind BOS and the picture, both of which are checked here."""
    tokens = request.prompt.tokens
    assert tokens[: 1 + PLACES] == said(context.recipe.ids.bos, *[IMAGE_ID] * PLACES)
    assert request.prompt.images == (ImageSpan(IMAGE, start=1, length=PLACES, block_start=0),)
    return tokens[1 + PLACES :]


# Prompts


@pytest.mark.parametrize(("length", "word"), [("short", 301), ("normal", 302), ("long", 303)])
def test_caption_prompt(context: TaskContext, length: str, word: int) -> None:
    request = build(CaptionTask(length=length), context)
    assert body_of(request, context) == said(1, 300, 2, word, 3)
    assert (request.stop_ids, request.banned_ids, request.constraint) == ({0}, (3,), None)
    assert request.max_tokens == request.limit_tokens == 768


def test_query_prompt(context: TaskContext) -> None:
    request = build(QueryTask(question="Hi?"), context)
    assert body_of(request, context) == said(1, 304, 2, 72 + 16, 105 + 16, 63 + 16, 3, 3)
    assert (request.stop_ids, request.banned_ids, request.answer_mark) == ({0}, (3,), None)


def test_query_prompt_without_a_picture(context: TaskContext) -> None:
    request = build(QueryTask(question="Hi"), context, None)
    assert request.prompt.tokens == said(0, 1, 304, 2, 88, 121, 3, 3) and request.prompt.images == ()


def test_query_prompt_with_spatial_references(context: TaskContext) -> None:
    request = build(QueryTask(question="Hi", spatial_refs=[(0.25, 0.5), (0.125, 0.25, 0.625, 1)]), context)
    point = (Token(5, (0.25,)), Token(5, (0.5,)))
    box = (Token(5, (0.375,)), Token(5, (0.625,)), Token(6, (0.5, 0.75)))
    assert body_of(request, context) == said(1, 304, 2) + point + box + said(88, 121, 3, 3)


def test_reasoning_prompt(context: TaskContext) -> None:
    request = build(QueryTask(question="Hi", reasoning=True, max_tokens=5, max_reasoning_tokens=9), context)
    assert body_of(request, context) == said(1, 304, 2, 88, 121, 3, 4)
    assert (request.answer_mark, request.max_tokens, request.limit_tokens) == (3, 5, 9 + 1 + 5)
    assert request.banned_ids == () and request.constraint is not None
    assert request.constraint.role == Role.GROUNDED
    first, later = (allowed for allowed, _ in walk(request, [6, 5]))
    assert first == set(range(512)) - {0} and later == first - {6}


def test_detect_prompt(context: TaskContext) -> None:
    request = build(DetectTask(object="cat", max_objects=7), context)
    assert body_of(request, context) == said(1, 305, 306, 2, 48, 115, 113, 132, 3)
    assert request.max_tokens == request.limit_tokens == 22
    assert walk(request, [5, 5, 6]) == [({0, 5}, Role.X), ({5}, Role.Y), ({6}, Role.SIZE)]


def test_point_prompt(context: TaskContext) -> None:
    request = build(PointTask(object="cat", spatial_refs=[(0.25, 1)], max_objects=7), context)
    references = (Token(5, (0.25,)), Token(5, (1.0,)))
    assert body_of(request, context) == said(1, 307, 2) + references + said(48, 115, 113, 132, 3)
    assert request.max_tokens == request.limit_tokens == 15
    assert walk(request, [5, 5]) == [({0, 5}, Role.X), ({5}, Role.Y)]


def test_prompts_of_older_models(old_context: TaskContext) -> None:
    space, a = 1032, 1097
    query = build(QueryTask(question="a"), old_context)
    assert body_of(query, old_context) == said(198, 198, 24361, 25, space, a, 198, 198, 33706, 25)
    assert query.banned_ids == () and query.stop_ids == {50256}
    caption = build(CaptionTask(), old_context)
    assert body_of(caption, old_context) == said(198, 198, 24334, 1159, 25)
    detect = build(DetectTask(object="a"), old_context)
    assert body_of(detect, old_context) == said(198, 198, 47504, 25, space, a, 628)
    point = build(PointTask(object="a"), old_context)
    assert body_of(point, old_context) == said(198, 198, 12727, 25, space, a, 628)
    (first, x), (then, y) = walk(point, [628, 0])
    assert (len(first), len(then), x, y) == (50257, 50256, Role.X, Role.Y) and first - then == {50256}


def walk(request: Request, ids: Sequence[int]) -> list[tuple[set[int], Role]]:
    """What may be said, and its role, at each of `ids`."""
    constraint = request.constraint
    assert constraint is not None
    states = []
    for token_id in ids:
        mask = np.zeros(16 if max(request.stop_ids) == 0 else 1600, np.int32)
        constraint.fill_mask(mask)
        allowed = set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist())
        states.append((allowed, constraint.role))
        constraint.advance(token_id)
    return states


# Limits


def test_the_context_bounds_what_may_be_said(context: TaskContext) -> None:
    def limits(task: Task, max_context: int) -> tuple[int, int]:
        request = build(task, replace(context, max_context=max_context))
        return request.max_tokens, request.limit_tokens

    assert limits(CaptionTask(), 10 + 5) == (5, 5)  # the prompt takes 1 + 4 + 5 positions
    assert limits(CaptionTask(max_tokens=3), 10 + 5) == (3, 3)
    assert limits(DetectTask(object="cat", max_objects=1000), 114) == (100, 100)
    assert limits(QueryTask(question="Hi", reasoning=True), 12 + 2000) == (768, 1537)
    assert limits(QueryTask(question="Hi", reasoning=True), 12 + 1000) == (768, 1000)


@pytest.mark.parametrize(("room", "thoughts"), [(1, 0), (2, 0), (3, 1), (6, 4)])
def test_a_reasoning_leaves_room_for_its_answer(context: TaskContext, room: int, thoughts: int) -> None:
    request = build(QueryTask(question="Hi", reasoning=True), replace(context, max_context=12 + room))
    assert request.limit_tokens == room
    states = walk(request, [40] * thoughts + [3])
    assert [allowed == {3} for allowed, _ in states] == [False] * thoughts + [True]


@pytest.mark.parametrize(
    "task",
    [
        CaptionTask(),
        QueryTask(question="abcdefg"),
        QueryTask(question="abcdefg", reasoning=True),
        PointTask(object="abcdefg"),
        DetectTask(object="abcdefg"),
    ],
)
def test_a_prompt_too_long_is_refused_with_both_numbers(context: TaskContext, task: Task) -> None:
    length = len(build(task, context).prompt)
    with pytest.raises(RequestError, match=rf"takes {length} positions, the context of the model has {length}$"):
        build(task, replace(context, max_context=length))
    assert build(task, replace(context, max_context=length + 1)).limit_tokens == 1


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CaptionTask(length="tiny"), "length must be one of short, normal, long, got 'tiny'"),
        (lambda: CaptionTask(max_tokens=0), "max_tokens must be a whole number in .1, .*got 0"),
        (lambda: CaptionTask(max_tokens=True), "max_tokens .* got True"),
        (lambda: QueryTask(question=" \n"), "question must be a text that is not empty"),
        (lambda: QueryTask(question="\ud800"), "question is not valid Unicode"),
        (lambda: QueryTask(question="a", max_tokens=1.5), "max_tokens .* got 1.5"),  # type: ignore[arg-type]
        (lambda: QueryTask(question="a", max_reasoning_tokens=0), "max_reasoning_tokens .* got 0"),
        (lambda: PointTask(object=""), "object must be a text that is not empty"),
        (lambda: DetectTask(object=None), "object .* got None"),  # type: ignore[arg-type]
        (lambda: DetectTask(object="a", max_objects=0), r"max_objects must be a whole number in \[1, 1000\], got 0"),
        (lambda: PointTask(object="a", max_objects=1001), "max_objects .* got 1001"),
        (lambda: DetectTask(object="a", duplicate_iou=0), r"duplicate_iou must be .* in \(0, 1\], or None, got 0"),
        (lambda: DetectTask(object="a", duplicate_iou=1.01), "duplicate_iou .* got 1.01"),
        (lambda: DetectTask(object="a", duplicate_iou=-0.5), "duplicate_iou .* got -0.5"),
        (lambda: DetectTask(object="a", duplicate_iou=float("nan")), "duplicate_iou .* got nan"),
        (lambda: DetectTask(object="a", duplicate_iou=True), "duplicate_iou .* got True"),
        (lambda: DetectTask(object="a", duplicate_iou="0.5"), "duplicate_iou .* got '0.5'"),  # type: ignore[arg-type]
    ],
)
def test_bad_values_are_refused_when_the_task_is_made(make: type, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        make()


@pytest.mark.parametrize(
    "ref",
    [
        (),
        (0.5,),
        (0.1, 0.2, 0.3),
        (0.5, 1.01),
        (-0.01, 0.5),
        (float("nan"), 0.5),
        (0.5, float("inf")),
        (0.6, 0.1, 0.5, 0.9),
        (0.1, 0.9, 0.5, 0.8),
        "ab",
        7,
        (0.1, 0.2, 0.3, 0.4, 0.5),
    ],
)
def test_bad_spatial_references_are_refused(ref: Sequence[float]) -> None:
    with pytest.raises(RequestError, match="a spatial reference must be"):
        QueryTask(question="a", spatial_refs=[(0.1, 0.1), ref])
    with pytest.raises(RequestError, match="a spatial reference must be"):
        PointTask(object="a", spatial_refs=[ref])


def test_what_a_model_cannot_do_is_refused(context: TaskContext, old_context: TaskContext) -> None:
    for task in (CaptionTask(), PointTask(object="a"), DetectTask(object="a")):
        with pytest.raises(RequestError, match="needs an image"):
            build(task, context, None)
    with pytest.raises(RequestError, match="need an image"):
        build(QueryTask(question="a", spatial_refs=[(0, 0)]), context, None)
    with pytest.raises(RequestError, match="moondream2-2025-01 cannot reason"):
        build(QueryTask(question="a", reasoning=True), old_context)
    with pytest.raises(RequestError, match="takes no spatial references"):
        build(PointTask(object="a", spatial_refs=[(0, 0)]), old_context)


# Parsing


def test_texts_are_stripped(context: TaskContext) -> None:
    tokens = said(*(b + 16 for b in b" A cat.\n"))
    caption = CaptionTask().parse(context, tokens, "stop", metrics=METRICS)
    assert (caption.caption, caption.finish_reason, caption.truncated) == ("A cat.", "stop", False)
    assert caption.token_ids == tuple(token.id for token in tokens)
    answer = QueryTask(question="a").parse(context, tokens, "length", metrics=METRICS)
    assert (answer.answer, answer.reasoning, answer.truncated) == ("A cat.", None, True)
    assert CaptionTask().parse(context, (), "stop", metrics=METRICS).caption == ""


def test_detect_gives_boxes_cut_at_the_edges(context: TaskContext) -> None:
    tokens = (Token(5, (0.5,), 0.75), Token(5, (0.25,)), Token(6, (0.25, 0.125)))
    tokens += (Token(5, (0.875,), 0.5), Token(5, (0.0,)), Token(6, (0.5, 1.0)))
    result = DetectTask(object="a").parse(context, tokens, "stop", metrics=METRICS)
    assert result.boxes == (Box(0.375, 0.1875, 0.625, 0.3125, 0.75, "a"), Box(0.625, 0.0, 1.0, 0.5, 0.5, "a"))
    assert (result.finish_reason, result.truncated, result.token_ids) == ("stop", False, (5, 5, 6, 5, 5, 6))


def test_point_gives_points_whatever_the_ids(context: TaskContext) -> None:
    tokens = (Token(77, (0.5,), 0.75), Token(300, (0.25,)), Token(5, (1.0,), 0.1), Token(5, (0.0,)))
    result = PointTask(object="a").parse(context, tokens, "stop", metrics=METRICS)
    assert result.points == (Point(0.5, 0.25, 0.75, "a"), Point(1.0, 0.0, 0.1, "a"))
    assert PointTask(object="a").parse(context, (), "stop", metrics=METRICS).points == ()


def test_complete_leading_objects_are_kept_when_the_answer_is_cut(context: TaskContext) -> None:
    whole = (Token(5, (0.5,), 0.9), Token(5, (0.5,)), Token(6, (0.25, 0.25)))
    for extra in range(3):
        result = DetectTask(object="a").parse(context, whole + whole[:extra], "length", metrics=METRICS)
        assert len(result.boxes) == 1 and result.truncated and result.finish_reason == "length"


def test_as_many_objects_as_asked_for_is_truncated(context: TaskContext) -> None:
    point = (Token(5, (0.5,), 0.9), Token(5, (0.5,)))
    for num, expected in ((2, ("stop", False)), (3, ("length", True))):
        result = PointTask(object="a", max_objects=3).parse(context, point * num, "stop", metrics=METRICS)
        assert (len(result), (result.finish_reason, result.truncated)) == (num, expected)
    cancelled = PointTask(object="a", max_objects=3).parse(context, point * 3, "cancelled", metrics=METRICS)
    assert cancelled.finish_reason == "cancelled"


def test_reasoning_is_split_at_the_first_mark(context: TaskContext) -> None:
    task = QueryTask(question="a", reasoning=True)
    a, b = (letter + 16 for letter in b"ab")
    result = task.parse(context, said(a, 7, b, 9, a, 3, b, a), "stop", metrics=METRICS)
    assert result.reasoning is not None
    assert (result.reasoning.text, result.answer, result.reasoning.grounding) == ("aba", "ba", ())
    for tokens, text, answer in ((said(a), "a", ""), (said(3, a), "", "a"), ((), "", ""), (said(a, 3, 3), "a", "")):
        result = task.parse(context, tokens, "length", metrics=METRICS)
        assert result.reasoning is not None
        assert result.reasoning.text == text and result.answer.replace("[3]", "") == answer


def test_reasoning_is_grounded_where_a_chunk_has_two_coordinates(context: TaskContext) -> None:
    a, b = (Token(letter + 16) for letter in b"ab")
    x, y, z = Token(5, (0.25,)), Token(5, (0.5,)), Token(5, (0.75,))
    start, end, mark = Token(7), Token(9), Token(3)
    tokens = (a, x, start, b, b, x, y, z, end, a, start, b, x, y, y, z, end, z, mark, a)
    result = QueryTask(question="a", reasoning=True).parse(context, tokens, "stop", metrics=METRICS)
    assert result.reasoning is not None
    assert result.reasoning.text == "abbab" and result.answer == "a"
    assert result.reasoning.grounding == (
        Grounding(1, 3, (Point(0.25, 0.5),)),
        Grounding(4, 5, (Point(0.25, 0.5), Point(0.5, 0.75))),
    )


def test_special_ids_are_no_part_of_a_reasoning_even_where_the_tokenizer_prints_them(context: TaskContext) -> None:
    printing = replace(context, decode=lambda ids: "".join(f"<{i}>" for i in ids))
    tokens = (Token(40), Token(7), Token(41), Token(5, (0.5,)), Token(5, (0.5,)), Token(6), Token(9), Token(42))
    result = QueryTask(question="a", reasoning=True).parse(printing, tokens, "length", metrics=METRICS)
    assert result.reasoning is not None
    assert result.reasoning.text == "<40><41><42>"
    assert [(g.start, g.end) for g in result.reasoning.grounding] == [(4, 8)]


@pytest.mark.parametrize("picture", ["small", "wide", "photo"])
def test_groundings_of_the_golden_data(context: TaskContext, picture: str) -> None:
    """The data print the ids that were said and the points; ids and points give back the same points."""
    expected = json.loads((DATA / "moondream2_tiny_grounding/expected.json").read_text())[picture]["reasoning"]
    values = iter([v for grounding in expected["grounding"] for point in grounding["points"] for v in point])
    ids = [int(i) for i in expected["text"].split()]
    tokens = tuple(Token(i, (next(values, 0.0),)) if i == 5 else Token(i) for i in ids)
    tokens += said(3, *(int(i) for i in expected["answer"]))
    result = QueryTask(question="Why?", reasoning=True).parse(context, tokens, "length", metrics=METRICS)
    assert result.reasoning is not None
    points = [[[p.x, p.y] for p in grounding.points] for grounding in result.reasoning.grounding]
    assert points == [grounding["points"] for grounding in expected["grounding"]]


def test_ten_thousand_random_streams_parse(context: TaskContext) -> None:
    rng = random.Random(0)
    for _ in range(10_000):
        tokens = random_stream(rng)
        max_objects = rng.randint(1, 8)
        reason: FinishReason = rng.choice(("stop", "length", "cancelled"))
        tasks: list[Task] = [DetectTask(object="a", max_objects=max_objects), QueryTask(question="a", reasoning=True)]
        tasks.append(PointTask(object="a", max_objects=max_objects))
        results: list[Result] = [task.parse(context, tokens, reason, metrics=METRICS) for task in tasks]
        detected, pointed = results[0], results[2]
        for result in results:
            assert len(result.token_ids) == len(tokens) and result.truncated == (result.finish_reason == "length")
        for box in detected:  # type: ignore[attr-defined]
            assert 0 <= box.x_min <= box.x_max <= 1 and 0 <= box.y_min <= box.y_max <= 1
        for point in pointed:  # type: ignore[attr-defined]
            assert 0 <= point.x <= 1 and 0 <= point.y <= 1
        for objects in (detected, pointed):
            assert len(objects) <= max_objects  # type: ignore[arg-type]
        if reason == "stop" and len(pointed) == max_objects:  # type: ignore[arg-type]
            assert pointed.finish_reason == "length"


def random_stream(rng: random.Random) -> tuple[Token, ...]:
    """Objects with a slip here and there, or anything."""
    shape = rng.choice([(1,), (1, 1, 2), (1, 1), (0, 1, 2)])
    tokens = []
    for i in range(rng.randrange(40)):
        size = shape[i % len(shape)] if rng.random() < 0.98 else rng.randrange(3)
        values = tuple(rng.choice([0.0, 1.0, rng.random()]) for _ in range(size))
        tokens.append(Token(rng.randrange(512) if size == 0 else 4 + size, values, rng.random()))
    return tuple(tokens)


def test_sampling_is_handed_on(context: TaskContext) -> None:
    sampling = Sampling(temperature=0.5, top_p=0.3, seed=7)
    for task in (CaptionTask(sampling=sampling), DetectTask(object="a", sampling=sampling)):
        assert build(task, context).sampling == sampling
