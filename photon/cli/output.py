"""What an answer looks like on stdout: text and aligned numbers for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from photon.errors import PhotonError
from photon.results import Box, CaptionResult, DetectResult, GazeResult, Point, PointResult, QueryResult, Result

if TYPE_CHECKING:
    from rich.console import Console

Size = tuple[int, int]  # width, height in pixels of the upright picture

COLUMNS: dict[type, tuple[str, ...]] = {Box: ("left", "top", "right", "bottom"), Point: ("x", "y")}


def console() -> Console:
    """Tables fit a terminal; a file or a pipe gets room enough that nothing wraps."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def say(message: str) -> None:
    """One line on stderr."""
    print("photon:", " ".join(message.split()), file=sys.stderr)


def say_fault(image: str, error: PhotonError | OSError) -> None:
    """What went wrong with one picture; most errors do not name it themselves."""
    message = str(error)
    say(message if message.startswith(image) else f"{image}: {message}")


def put(text: str, end: str = "\n") -> None:
    """On stdout, at once."""
    print(text, end=end, flush=True)


def to_json(value: dict[str, Any]) -> str:
    """One line, of plain ASCII where stdout cannot say all that JSON can."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(value, ensure_ascii=not is_unicode, allow_nan=False)


def answer_record(image: str, outcome: Result | PhotonError) -> dict[str, Any]:
    """{"image", "width", "height", the result as `to_dict` has it}, or {"image", "error": {"type", "message"}}."""
    if isinstance(outcome, PhotonError):
        return {"image": image, "error": {"type": type(outcome).__name__, "message": str(outcome)}}
    size = {} if outcome.image is None else dict(zip(("width", "height"), outcome.image.size, strict=True))
    return {"image": image, **size, **outcome.to_dict()}


def answer_text(image: str, result: Result, objects: Sequence[str], *, is_one_of_many: bool) -> str:
    """For people. Coordinates are pixels of the upright picture."""
    if isinstance(result, DetectResult | PointResult):
        return _places_text(image, result, objects)
    if isinstance(result, GazeResult):
        return _gaze_text(image, result)
    said = _said(result)
    return f"{image}:\n{said}" if is_one_of_many else said


def found_nothing(image: str, objects: Sequence[str]) -> str:
    return f"{image}: no {' and no '.join(objects)} found"


def table_head(image: str, kind: type, size: Size, objects: Sequence[str]) -> str:
    """What is in the table, and the names of its columns, the object's only where there are several objects."""
    names = "".join(f"{name:>8}" for name in (*COLUMNS[kind], "score"))
    title = f"{', '.join(objects)} in {image} ({size[0]} x {size[1]} pixels)"
    return f"{title}\n  #{names}{'  object' if len(objects) > 1 else ''}"


def table_row(number: int, place: Point | Box, size: Size, objects: Sequence[str]) -> str:
    score = "" if place.score is None else f"{place.score:.2f}"
    cells = "".join(f"{cell:>8}" for cell in (*place.to_pixels(*size), score))
    return f"{number:>3}{cells}{f'  {place.label}' if len(objects) > 1 else ''}".rstrip()


def _places_text(image: str, result: DetectResult | PointResult, objects: Sequence[str]) -> str:
    places: Sequence[Point | Box] = tuple(result)
    if not places:
        return found_nothing(image, objects)
    assert result.image is not None
    size = result.image.size
    rows = [table_row(number, place, size, objects) for number, place in enumerate(places, 1)]
    return "\n".join([table_head(image, type(places[0]), size, objects), *rows])


def _gaze_text(image: str, result: GazeResult) -> str:
    assert result.image is not None
    width, height = size = result.image.size
    aim = "out of the picture" if result.point is None else "at {} {}".format(*result.point.to_pixels(*size))
    eye_x, eye_y = result.eye.to_pixels(*size)
    return f"{image} ({width} x {height} pixels): the eye at {eye_x} {eye_y} looks {aim}"


def _said(result: Result) -> str:
    if isinstance(result, CaptionResult):
        return result.caption
    assert isinstance(result, QueryResult)
    return result.answer if result.reasoning is None else f"({result.reasoning.text})\n{result.answer}"
