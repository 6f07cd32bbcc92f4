"""Spatial references and grounded reasoning: what the reference says, from both engines, whole and streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from oracle import Oracle

from photon import AsyncEngine, End, Engine, Point, ReasoningDelta, TextDelta
from photon.images.decode import load_image
from photon.request import IMAGE_ID
from photon.tasks import PointTask, QueryTask, Task

FOLDER = Path(__file__).parent / "data/moondream2_tiny_grounding"
PICTURES = {"reasoning": "photo", "query": "small", "point": "small"}  # of the data's, where there is much to see
REFS = ((0.25, 0.5), (0.1, 0.2, 0.6, 0.9))
TASKS: dict[str, Task] = {
    "reasoning": QueryTask(question="Why?", reasoning=True, max_tokens=16, max_reasoning_tokens=16),
    "query": QueryTask(question="What is here?", spatial_refs=REFS, max_tokens=12),
    "point": PointTask(object="circle", spatial_refs=REFS, max_objects=5),
}


def picture_of(name: str) -> Path:
    return FOLDER / f"{PICTURES[name]}.png"


def from_engine(name: str) -> tuple[Any, list[Any]]:
    with Engine(FOLDER, device="cpu") as engine:
        return engine._ask(TASKS[name], picture_of(name), False), list(engine._ask(TASKS[name], picture_of(name), True))


def from_async_engine(name: str) -> tuple[Any, list[Any]]:
    async def work() -> tuple[Any, list[Any]]:
        async with AsyncEngine(FOLDER, device="cpu") as engine:
            streamed = [chunk async for chunk in engine._ask(TASKS[name], picture_of(name), True)]
            return await engine._ask(TASKS[name], picture_of(name), False), streamed

    return asyncio.run(work())


def said_by_reference(skill: str, name: str) -> Any:
    return json.loads((FOLDER / "expected.json").read_text())[PICTURES[skill]][name]


def joined(chunks: Sequence[Any], kind: type) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


@pytest.mark.parametrize("ask", [from_engine, from_async_engine])
def test_reasoning(ask: Any) -> None:
    whole, chunks = ask("reasoning")
    assert chunks[-1] == End(whole) and whole.reasoning is not None
    points = [point for grounding in whole.reasoning.grounding for point in grounding.points]
    assert [chunk for chunk in chunks if isinstance(chunk, Point)] == points
    assert joined(chunks, ReasoningDelta) == whole.reasoning.text and joined(chunks, TextDelta) == whole.answer
    groundings = said_by_reference("reasoning", "reasoning")["grounding"]
    wanted = [tuple(point) for grounding in groundings for point in grounding["points"]]
    assert wanted and [(p.x, p.y) for p in points] == wanted
    shape = whole.to_dict()["reasoning"]["grounding"]
    assert [tuple(p) for grounding in shape for p in grounding["points"]] == [(p.x, p.y) for p in points]


@pytest.mark.parametrize("ask", [from_engine, from_async_engine])
def test_a_question_about_places(ask: Any) -> None:
    whole, chunks = ask("query")
    assert list(whole.token_ids) == [int(i) for i in said_by_reference("query", "query_refs")]
    assert chunks[-1] == End(whole) and joined(chunks, TextDelta) == whole.answer


def points_by_oracle() -> list[tuple[float, float]]:
    """What the sequential decoder points at, given the same references."""
    with Engine(FOLDER, device="cpu") as engine:
        loaded = engine._loaded
    prepared = loaded.prepare(load_image(picture_of("point"), max_pixels=10**6))
    prompt = TASKS["point"].build(0, loaded.context, prepared).prompt.tokens
    oracle = Oracle(loaded.model)  # type: ignore[arg-type]
    oracle.prefill([token for token in prompt if token.id != IMAGE_ID], prepared)
    said = oracle.locate(5, sizes=False)
    return [(x.value[0], y.value[0]) for x, y in zip(said[::2], said[1::2], strict=True)]


@pytest.mark.parametrize("ask", [from_engine, from_async_engine])
def test_pointing_with_places(ask: Any) -> None:
    whole, chunks = ask("point")
    assert [(p.x, p.y) for p in whole.points] == points_by_oracle() and whole.points
    assert chunks == [*whole.points, End(whole)]
    with Engine(FOLDER, device="cpu") as engine:
        plain = engine.point(picture_of("point"), "circle", max_objects=5)
    assert plain.points != whole.points, "the references change what is pointed at"
