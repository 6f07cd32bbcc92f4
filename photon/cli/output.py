"""How answers are shown: text and small tables for people, one JSON object a picture for programs, drawn pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from photon.results import CaptionResult, DetectResult, PointResult, QueryResult, Result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console() -> Console:
    """Tables fit a terminal; a file or a pipe gets room enough that nothing wraps."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def say(message: str) -> None:
    """One line on stderr."""
    print("photon:", " ".join(message.split()), file=sys.stderr)


def show_json(image: str, result: Result) -> None:
    size = {} if result.image is None else dict(zip(("width", "height"), result.image.size, strict=True))
    print(json.dumps({"image": image, **size, **result.to_dict()}, ensure_ascii=False, allow_nan=False), flush=True)


def show(image: str, result: Result, label: str | None, *, is_one_of_many: bool) -> None:
    """For people. Coordinates are pixels of the upright picture."""
    if isinstance(result, DetectResult | PointResult):
        _show_table(image, result, label or "object")
    else:
        if is_one_of_many:
            print(f"{image}:")
        print(_text(result), flush=True)
    if result.truncated:
        say(f"{image}: the answer was cut by a limit")


def drawing_path(out: Path, index: int, count: int) -> Path:
    """Where the drawing of picture `index` goes: OUT itself, or with its number when there are several."""
    return out if count == 1 else out.with_name(f"{out.stem}-{index + 1}{out.suffix}")


def why_not_drawable(out: Path) -> str | None:
    """Why a drawing cannot be saved as `out`, known before any work is done; None when it can."""
    from PIL import Image

    try:
        if out.is_dir():
            return f"{out} is a folder; name a file, such as {out / 'drawn.png'}"
        if not out.parent.is_dir():
            return f"there is no folder {out.parent}"
    except OSError as error:
        return f"{out}: {error.strerror}"
    if Image.registered_extensions().get(out.suffix.lower()) not in Image.SAVE:
        return f"{out.name} does not end in a picture's suffix, such as .png or .jpg"
    return None


def _text(result: Result) -> str:
    if isinstance(result, CaptionResult):
        return result.caption
    assert isinstance(result, QueryResult)
    return result.answer if result.reasoning is None else f"({result.reasoning.text})\n{result.answer}"


def _show_table(image: str, result: DetectResult | PointResult, label: str) -> None:
    if not len(result):
        print(f"{image}: no {label} found", flush=True)
        return
    assert result.image is not None
    width, height = result.image.size
    print(f"{label} in {image} ({width} x {height} pixels)")
    console().print(_table(result, width, height))


def _table(result: DetectResult | PointResult, width: int, height: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns = ("left", "top", "right", "bottom") if isinstance(result, DetectResult) else ("x", "y")
    table = Table("#", *columns, "score", box=SIMPLE_HEAD)
    for column in table.columns:
        column.justify = "right"
    for number, place in enumerate(result, 1):
        score = "" if place.score is None else f"{place.score:.2f}"
        table.add_row(str(number), *map(str, place.to_pixels(width, height)), score)
    return table
