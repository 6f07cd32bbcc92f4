"""Drawing answers on pictures, for people: boxes, ringed dots, arrows, name plates, and text under the picture.

Sizes follow the picture. Objects of one name have one colour; without names each has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from photon.draw.marks import DARK, WHITE, Corners, arrow, dot, dot_reach, edge_width, frame, steps
from photon.draw.plates import Tag, font_of, paint_plates
from photon.errors import RequestError
from photon.results import Box, Point

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

# White text on any of them has a contrast of 4.5 or more.
COLORS = ("#d81b45", "#0969da", "#0b7a3b", "#a821bd", "#c2410c", "#0b7480", "#6d45e0", "#8a5a06")
_FEW = 10  # names that are written at full size
MIN_SIDE = 400  # a smaller picture is enlarged, so that lines and names have room

Labels = str | Sequence[str] | None


def draw_boxes(image: Image, boxes: Sequence[Box], label: Labels = None, *, scores: bool = False) -> Image:
    """A copy of `image` with each box framed and, with a label or `scores`, named on a plate beside it.

    `label`: one name for all, or one for each box; by default each has its own. Small boxes lie over large ones.
    """
    canvas = _canvas(image)
    line = _line_width(canvas)
    names = _names(label, boxes)
    colors = _colors(names)
    corners = [box.to_pixels(*canvas.size) for box in boxes]
    for i in sorted(range(len(boxes)), key=lambda i: -_area(corners[i])):
        frame(canvas, corners[i], colors[i], line)
    reach = line + edge_width(line)
    tags = [
        Tag(_caption(names[i], box.score if scores else None), _grown(corners[i], reach), colors[i])
        for i, box in enumerate(boxes)
    ]
    paint_plates(canvas, tags, line=line, font_size=_font_size(canvas, len(tags)))
    return canvas


def draw_points(image: Image, points: Sequence[Point], label: Labels = None, *, scores: bool = False) -> Image:
    """A copy of `image` with a ringed dot at each point and, with a label or `scores`, its plate beside it.

    `label`: as for `draw_boxes`.
    """
    canvas = _canvas(image)
    line = _line_width(canvas)
    radius = 3 * line
    names = _names(label, points)
    colors = _colors(names)
    places = [point.to_pixels(*canvas.size) for point in points]
    reach = dot_reach(radius)
    tags = [
        Tag(_caption(names[i], point.score if scores else None), _grown((*place, *place), reach), colors[i], True)
        for i, (point, place) in enumerate(zip(points, places, strict=True))
    ]
    paint_plates(canvas, tags, line=line, font_size=_font_size(canvas, len(tags)))
    for place, color in zip(places, colors, strict=True):
        dot(canvas, place, color, radius)
    return canvas


def draw_gaze(image: Image, eye: Point, point: Point | None, label: Labels = None, *, scores: bool = False) -> Image:
    """A copy of `image` with a ringed dot at `eye` and, if there is a point, an arrow to it and its plate."""
    canvas = _canvas(image)
    line = _line_width(canvas)
    color, source = COLORS[0], eye.to_pixels(*canvas.size)
    if point is not None:
        target = point.to_pixels(*canvas.size)
        arrow(canvas, source, target, color, line)
        caption = _caption(_names(label, [point])[0], point.score if scores else None)
        shaft = [Tag("", _grown((x, y, x, y), 3 * line), color, True) for x, y in steps(target, source, 3 * line)]
        tags = [Tag(caption, _grown((*target, *target), 3 * line), color, True), *shaft]
        paint_plates(canvas, tags, line=line, font_size=_font_size(canvas))
    dot(canvas, source, color, 3 * line)
    return canvas


def draw_text(image: Image, text: str) -> Image:
    """A copy of `image` with `text`, wrapped, on a white strip under it."""
    from PIL import Image as Images
    from PIL import ImageDraw

    canvas = _canvas(image)
    font = font_of(_font_size(canvas))
    pad = round(font.size * 0.8)
    width = max(canvas.width, MIN_SIDE)
    wrapped = "\n".join(_wrap(text, font, width - 2 * pad))
    spacing = round(font.size * 0.4)
    probe = ImageDraw.Draw(canvas)
    bottom = probe.multiline_textbbox((0, 0), wrapped, font=font, spacing=spacing)[3]
    page = Images.new("RGB", (width, canvas.height + round(bottom) + 2 * pad), WHITE)
    page.paste(canvas, ((width - canvas.width) // 2, 0))
    ImageDraw.Draw(page).multiline_text((pad, canvas.height + pad), wrapped, fill=DARK, font=font, spacing=spacing)
    return page


def _canvas(image: Image) -> Image:
    """An RGB copy to draw on, enlarged by a whole factor when the picture is small."""
    from PIL import Image as Images

    longest = max(image.size)
    factor = -(-MIN_SIDE // longest) if longest < MIN_SIDE else 1
    size = (image.width * factor, image.height * factor)
    return image.convert("RGB") if factor == 1 else image.convert("RGB").resize(size, Images.Resampling.BICUBIC)


def _line_width(canvas: Image) -> int:
    return max(2, round((canvas.width * canvas.height) ** 0.5 / 240))


def _font_size(canvas: Image, num_names: int = 1) -> int:
    """Smaller where there are many names, down to two thirds."""
    share = max(2 / 3, min(1.0, (_FEW / max(1, num_names)) ** 0.25))
    return max(14, round((canvas.width * canvas.height) ** 0.5 / 36 * share))


def _names(label: Labels, objects: Sequence[Box | Point]) -> list[str | None]:
    if label is None:
        return [found.label for found in objects]
    if isinstance(label, str):
        return [label] * len(objects)
    if len(label) != len(objects):
        raise RequestError(f"a label for each object: {len(objects)} objects, got {len(label)} labels")
    return list(label)


def _colors(names: Sequence[str | None]) -> list[str]:
    known = list(dict.fromkeys(names)) if any(names) else []
    keys = [known.index(name) for name in names] if known else range(len(names))
    return [COLORS[key % len(COLORS)] for key in keys]


def _caption(name: str | None, score: float | None) -> str:
    return " ".join(part for part in (name, None if score is None else f"{score:.0%}") if part)


def _area(corners: Corners) -> int:
    left, top, right, bottom = corners
    return (right - left) * (bottom - top)


def _grown(corners: Corners, reach: int) -> Corners:
    left, top, right, bottom = corners
    return left - reach, top - reach, right + reach, bottom + reach


def _wrap(text: str, font: FreeTypeFont, width: int) -> list[str]:
    """Lines no wider than `width` pixels; a word that is wider alone is cut."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            while font.getlength(joined) > width:
                cut = len(line) or _fitting(joined, font, width)
                lines.append(joined[:cut])
                joined, line = joined[cut:].lstrip(" "), ""
            line = joined
        lines.append(line)
    return lines


def _fitting(word: str, font: FreeTypeFont, width: int) -> int:
    """How many characters of `word` fit in `width`; at least 1."""
    return max(1, next((n for n in range(len(word), 0, -1) if font.getlength(word[:n]) <= width), 1))
