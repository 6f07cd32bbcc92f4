"""Readers: whatever way the tokens are split over commits, the chunks joined are what `parse` gives."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from photon.chunks import Chunk, ReasoningDelta, TextDelta
from photon.config import EngineConfig
from photon.device import choose_device
from photon.engine.loading import load_model
from photon.request import Token
from photon.results import Box, Metrics, Point, QueryResult
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task, TaskContext

GOLDEN = Path(__file__).parent / "data" / "moondream2_tiny"  # a text's ids are its UTF-8 bytes plus 16


@cache
def context() -> TaskContext:
    config = EngineConfig(model=str(GOLDEN))
    return load_model(config, choose_device("cpu", "float32")).context


def text(words: str) -> list[Token]:
    return [Token(byte + 16) for byte in words.encode()]


def stream(task: Task, tokens: list[Token], seed: int) -> list[Chunk]:
    """The chunks of a random split into commits."""
    rng, reader, chunks, at = random.Random(seed), task.reader(context()), [], 0
    while at < len(tokens):
        step = rng.randint(1, 4)
        chunks += reader.read(tokens[at : at + step])
        at += step
    return [*chunks, *reader.end()]


def said(chunks: list[Chunk], kind: type[TextDelta] | type[ReasoningDelta]) -> str:
    return "".join(c.text for c in chunks if isinstance(c, kind))


TEXTS = [
    "",
    "   ",
    " a plain answer.",
    "  two  blanks   inside \n",
    "naïve café, 日本語, 👩‍🚀🚀 and 𝄞 ",
    "\n\n",
    "ends in half a char: ",
]


@pytest.mark.parametrize("words", TEXTS)
@pytest.mark.parametrize("seed", range(8))
def test_text_joined_is_the_whole_text(words: str, seed: int) -> None:
    tokens = text(words) + ([Token(0xE6 + 16)] if words.startswith("ends") else [])
    task = CaptionTask()
    chunks = stream(task, tokens, seed)
    whole = task.parse(context(), tuple(tokens), "stop", metrics=Metrics()).caption
    assert said(chunks, TextDelta) == whole
    assert all(isinstance(c, TextDelta) and c.text for c in chunks), "a chunk without text"
    assert words.startswith("ends") or whole == words.strip()


def test_no_chunk_ends_in_half_a_character() -> None:
    reader = CaptionTask().reader(context())
    chunks = [*(c for token in text("é🚀") for c in reader.read([token])), *reader.end()]
    assert chunks == [TextDelta("é"), TextDelta("🚀")]


def coordinate(value: float) -> Token:
    return Token(5, (value,))


@pytest.mark.parametrize("seed", range(8))
def test_reasoning_then_answer(seed: int) -> None:
    thoughts = [
        *text(" a cat "),
        Token(7),
        *text("sits"),
        coordinate(0.25),
        coordinate(0.5),
        coordinate(0.75),
        Token(9),
        *text(" there"),
        coordinate(0.1),
        coordinate(0.2),
    ]
    tokens = [*thoughts, Token(3), *text(" Yes, 日本. ")]
    task = QueryTask(question="?", reasoning=True)
    chunks = stream(task, tokens, seed)
    whole = task.parse(context(), tuple(tokens), "stop", metrics=Metrics())
    assert isinstance(whole, QueryResult) and whole.reasoning is not None
    assert said(chunks, ReasoningDelta) == whole.reasoning.text == " a cat sits there"
    assert said(chunks, TextDelta) == whole.answer == "Yes, 日本."
    points = [p for g in whole.reasoning.grounding for p in g.points]
    assert [c for c in chunks if isinstance(c, Point)] == points == [Point(0.25, 0.5), Point(0.1, 0.2)]


def test_an_object_leaves_with_the_token_that_completes_it() -> None:
    reader = DetectTask(object="x", max_objects=2).reader(context())
    tokens = [Token(5, (0.5,), 0.9), coordinate(0.5), Token(6, (0.5, 0.25))]
    assert reader.read(tokens[:1]) == [] and reader.read(tokens[1:2]) == []
    assert reader.read(tokens[2:]) == [Box(0.25, 0.375, 0.75, 0.625, 0.9, "x")]
    assert len(reader.read([*tokens, *tokens])) == 1, "more than max_objects"
    assert reader.end() == []


@pytest.mark.parametrize("seed", range(8))
def test_points_streamed_are_the_points_parsed(seed: int) -> None:
    rng = random.Random(seed)
    tokens = [Token(5, (rng.random(),), 0.5 if i % 2 == 0 else None) for i in range(rng.randint(0, 13))]
    task = PointTask(object="x", max_objects=5)
    whole = task.parse(context(), tuple(tokens), "length", metrics=Metrics())
    assert stream(task, tokens, seed + 100) == list(whole.points)


def box_tokens(box: tuple[float, float, float, float], score: float = 0.5) -> list[Token]:
    x_min, y_min, x_max, y_max = box
    return [
        Token(5, ((x_min + x_max) / 2,), score),
        coordinate((y_min + y_max) / 2),
        Token(6, (x_max - x_min, y_max - y_min)),
    ]


def test_a_box_said_again_is_left_out_and_counts() -> None:
    """Quarters of a second box's place: overlaps of 1/3 and 1/7 with the first, by hand."""
    said_boxes = [(0, 0, 0.5, 0.5), (0.25, 0, 0.75, 0.5), (0.25, 0.25, 0.75, 0.75), (0, 0, 0.5, 0.5)]
    tokens = [token for box in said_boxes for token in box_tokens(box)]
    kept = {None: [0, 1, 2, 3], 1: [0, 1, 2], 0.34: [0, 1, 2], 0.33: [0, 2], 0.15: [0, 2], 0.14: [0]}
    for duplicate_iou, expected in kept.items():
        task = DetectTask(object="x", max_objects=4, duplicate_iou=duplicate_iou)
        whole = task.parse(context(), tuple(tokens), "stop", metrics=Metrics())
        assert [(b.x_min, b.y_min, b.x_max, b.y_max) for b in whole] == [said_boxes[i] for i in expected]
        assert whole.truncated and len(whole.token_ids) == 12, "four were said"
        assert [stream(task, tokens, seed) for seed in range(4)] == [list(whole.boxes)] * 4


def test_boxes_that_are_kept_are_those_of_a_plain_search() -> None:
    """10,000 random answers, with corners on a grid so that overlaps come often; areas are counted in cells."""
    rng = random.Random(0)
    num_left_out = 0
    for _ in range(10_000):
        corners = [sorted(rng.sample(range(5), 2)) + sorted(rng.sample(range(5), 2)) for _ in range(rng.randint(0, 7))]
        limit = rng.choice([0.1, 0.25, 0.5, 0.75, 1.0])
        cells = [{(x, y) for x in range(a, b) for y in range(c, d)} for a, b, c, d in corners]
        kept: list[int] = []
        for i, mine in enumerate(cells):
            if all(len(mine & cells[k]) < limit * len(mine | cells[k]) for k in kept):
                kept.append(i)
        tokens = [token for a, b, c, d in corners for token in box_tokens((a / 4, c / 4, b / 4, d / 4))]
        task = DetectTask(object="x", max_objects=9, duplicate_iou=limit)
        found = task.parse(context(), tuple(tokens), "stop", metrics=Metrics()).boxes
        assert [[4 * b.x_min, 4 * b.x_max, 4 * b.y_min, 4 * b.y_max] for b in found] == [corners[k] for k in kept]
        num_left_out += len(corners) - len(kept)
    assert num_left_out > 5000
