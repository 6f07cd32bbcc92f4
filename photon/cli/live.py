"""Answers as they come (`--stream`): text and places for people, one JSON object a chunk for programs.

A chunk's object is {"image", "type", ...} with the type "reasoning" or "text" and its "text", "point" or "box" and its
fields, last "end" with all of `answer_record`, or "error".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from photon.chunks import Chunk, End, ReasoningDelta, TextDelta
from photon.cli.options import SkillFlags
from photon.cli.output import (
    Size,
    answer_record,
    answer_text,
    console,
    found_nothing,
    put,
    table_head,
    table_row,
    to_json,
)
from photon.errors import PhotonError
from photon.results import Box, GazeResult, Point, Result

if TYPE_CHECKING:
    from photon.engine import Engine

TYPES: dict[type, str] = {TextDelta: "text", ReasoningDelta: "reasoning", Point: "point", Box: "box"}


def answers_live(engine: Engine, flags: SkillFlags, images: Sequence[str]) -> Iterator[Result | PhotonError]:
    """Ask and show one picture after the other; gives what became of each when it has been shown."""
    from photon.config import EngineConfig
    from photon.images.decode import load_image

    max_pixels = EngineConfig().max_image_pixels
    for image in images:
        live = LiveJson(image) if flags.json else LiveText(image, flags.objects, is_one_of_many=len(images) > 1)
        try:
            picture = load_image(image, max_pixels=max_pixels)  # here, since its size is needed to show a place
            outcome: Result | PhotonError = _listen(engine, flags.ask(picture), picture.size, live.show)
        except PhotonError as error:
            outcome = error
        live.end(outcome)
        yield outcome


def _listen(engine: Engine, ask: Any, size: Size, show: Callable[[Chunk, Size], None]) -> Result:
    from photon.engine.stream import Stream

    with Stream(lambda emit: engine.submit(ask, emit=emit)) as stream:
        for chunk in stream:
            if isinstance(chunk, End):
                return chunk.result
            show(chunk, size)
    raise AssertionError("a stream ends with its result or an error")


class LiveJson:
    def __init__(self, image: str) -> None:
        self._image = image

    def show(self, chunk: Chunk, size: Size) -> None:
        put(to_json({"image": self._image, "type": TYPES[type(chunk)], **asdict(chunk)}))

    def end(self, outcome: Result | PhotonError) -> None:
        kind = "error" if isinstance(outcome, PhotonError) else "end"
        put(to_json({"image": self._image, "type": kind, **answer_record(self._image, outcome)}))


class LiveText:
    """Reasoning in parentheses, dim on a terminal; the places of objects as rows of a table."""

    def __init__(self, image: str, objects: Sequence[str], *, is_one_of_many: bool) -> None:
        self._image, self._objects = image, objects
        self._head = f"{image}:\n" if is_one_of_many and not objects else ""
        self._num_places = 0
        self._is_thinking = self._is_in_line = False
        terminal = console()
        self._can_dim = terminal.is_terminal and not terminal.is_dumb_terminal

    def show(self, chunk: Chunk, size: Size) -> None:
        if isinstance(chunk, TextDelta):
            self._finish_thought()
            self._say(chunk.text)
        elif isinstance(chunk, ReasoningDelta):
            self._think(chunk.text)
        elif isinstance(chunk, Point | Box) and self._objects:  # others are what a thought points at
            self._place(chunk, size)

    def end(self, outcome: Result | PhotonError) -> None:
        self._finish_thought()
        if self._is_in_line:
            put("")
        if isinstance(outcome, GazeResult):
            put(answer_text(self._image, outcome, (), is_one_of_many=False))
        if self._objects and not self._num_places and isinstance(outcome, Result):
            put(found_nothing(self._image, self._objects))

    def _place(self, place: Point | Box, size: Size) -> None:
        if not self._num_places:
            put(table_head(self._image, type(place), size, self._objects))
        self._num_places += 1
        put(table_row(self._num_places, place, size, self._objects))

    def _think(self, text: str) -> None:
        self._say(self._dim(text if self._is_thinking else f"({text}"))
        self._is_thinking = True

    def _finish_thought(self) -> None:
        if self._is_thinking:
            put(self._dim(")"))
            self._is_thinking = self._is_in_line = False

    def _say(self, text: str) -> None:
        put(f"{self._head}{text}", end="")
        self._head, self._is_in_line = "", True

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[22m" if self._can_dim else text
