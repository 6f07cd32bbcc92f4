"""An engine for tests of the command line: it answers at once, from a table, and records what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest
from PIL import Image

import photon
from photon import Caption, Detect, Extract, Gaze, PointAt, Query
from photon.chunks import Chunk, ReasoningDelta, TextDelta
from photon.errors import ImageError
from photon.results import (
    Box,
    CaptionResult,
    DetectResult,
    GazeResult,
    Metrics,
    Point,
    PointResult,
    QueryResult,
    Reasoning,
    Result,
)

PICTURE = Image.new("RGB", (640, 480), (90, 90, 90))
SHARED: dict[str, Any] = {
    "token_ids": (5, 6, 0),
    "finish_reason": "stop",
    "metrics": Metrics(total_ms=1.5),
    "image": PICTURE,
}
BOXES = (Box(0.25, 0.5, 0.5, 1.0, 0.97, "banana"), Box(0.0, 0.0, 0.1, 0.1, 0.5, "plate"))
THOUGHT = Reasoning("One and one.")
OPENED = "photon: fake on cpu\n"  # what the command line says of model and device


class FakeEngine:
    """Answers at once; an image named `bad` is none. `asks` holds what was asked, `opened` with what."""

    opened: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    asks: ClassVar[list[Any]] = []
    num_closed: ClassVar[int] = 0
    raises: ClassVar[BaseException | None] = None
    boxes: ClassVar[tuple[Box, ...]] = BOXES
    finish_reason: ClassVar[str] = "stop"
    description = "fake on cpu"

    def __init__(self, model: str, **options: Any) -> None:
        self.opened.append((model, options))

    def close(self, *, drain: bool = True) -> None:
        type(self).num_closed += 1

    def submit(self, ask: Any, image: None = None, emit: Callable[[Chunk], None] | None = None) -> Future[Any]:
        self.asks.append(ask)
        future: Future[Any] = Future()
        try:
            if self.raises is not None:
                raise self.raises
            if isinstance(ask.image, str) and "bad" in ask.image:
                raise ImageError(f"{ask.image}: empty")
        except photon.PhotonError as error:
            future.set_exception(error)
            return future
        for chunk in chunks_of(ask) if emit else ():
            emit(chunk)  # type: ignore[misc]
        future.set_result(self.answer(ask))
        return future

    def answer(self, ask: Any) -> Result:
        shared = {**SHARED, "finish_reason": self.finish_reason}
        if isinstance(ask, Caption):
            return CaptionResult("Two “cats”, 猫.", **shared)
        if isinstance(ask, Query):
            return QueryResult("Two.", THOUGHT if ask.reasoning else None, **shared)
        if isinstance(ask, Extract):
            return QueryResult('{"n": 2}', value={"n": 2}, constrained_by="schema", **shared)
        if isinstance(ask, PointAt):
            return PointResult((Point(0.5, 0.25, 0.75, "banana"),), **shared)
        if isinstance(ask, Gaze):
            return GazeResult(Point(ask.eye[0], ask.eye[1]), Point(0.5, 0.25), **shared)
        assert isinstance(ask, Detect)
        return DetectResult(self.boxes, **shared)


def chunks_of(ask: Any) -> list[Chunk]:
    if isinstance(ask, Detect):
        return list(FakeEngine.boxes)
    if isinstance(ask, PointAt):
        return [Point(0.5, 0.25, 0.75, "banana")]
    if isinstance(ask, Gaze):
        return [Point(0.5, 0.25)]
    if isinstance(ask, Extract):
        return [TextDelta('{"n": '), TextDelta("2}")]
    thought = [ReasoningDelta("One and "), Point(0.1, 0.1), ReasoningDelta("one.")]
    words = [TextDelta("Two"), TextDelta(".")] if isinstance(ask, Query) else [TextDelta("Two “cats”, 猫.")]
    return [*(thought if getattr(ask, "reasoning", False) else []), *words]


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    monkeypatch.setitem(photon.__dict__, "Engine", FakeEngine)
    for name, value in (("opened", []), ("asks", []), ("num_closed", 0)):
        monkeypatch.setattr(FakeEngine, name, value)
    return FakeEngine
