"""Name plates beside marks: white text on the mark's colour, placed so that no plate hides another where there is room.

Of the places around a mark, at full size and smaller, a plate takes the cheapest: hiding another plate or lying under a
dot costs most, then a box that it covers, then lying on another's box, a smaller plate and a less usual place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from photon.draw.marks import WHITE, Corners, between, edge_width

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

_SCALES = (1.0, 0.8, 0.65)
_SMALLEST_FONT = 11
_HIDING, _STRANGE, _SHRINKING, _STRAYING = 20.0, 0.4, 2.0, 0.06


@dataclass(frozen=True)
class Tag:
    """What is to be named. `corners`: the mark's outside; a dot's plate goes beside it, a box's above."""

    text: str
    corners: Corners
    color: str
    is_dot: bool = False


@dataclass(frozen=True)
class _Plate:
    text: str
    font: FreeTypeFont
    place: Corners
    penalty: float


def font_of(size: int) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=size)  # type: ignore[return-value]


def paint_plates(canvas: Image, tags: Sequence[Tag], *, line: int, font_size: int) -> None:
    """A plate for each tag that has text; the upper ones are placed first."""
    taken: list[Corners] = []
    for tag in sorted(tags, key=lambda tag: (tag.corners[1], tag.corners[0])):
        if not tag.text:
            continue
        choices = _choices(canvas, tag, line, font_size)
        plate = min(choices, key=lambda plate: _cost(plate, tag, tags, taken))
        _paint(canvas, plate, tag.color, edge_width(line))
        taken.append(plate.place)


def _choices(canvas: Image, tag: Tag, line: int, font_size: int) -> Iterator[_Plate]:
    sizes = dict.fromkeys(max(_SMALLEST_FONT, round(font_size * scale)) for scale in _SCALES)
    for size in sizes:
        font = font_of(size)
        pad = _pad(font)
        text = _shortened(tag.text, font, canvas.width - 2 * pad)
        width = round(font.getlength(text)) + 2 * pad
        height = sum(font.getmetrics()) + pad
        places = _places_by_dot if tag.is_dot else _places_by_box
        for rank, (x, y) in enumerate(places(tag.corners, width, height, line)):
            left, top = between(x, 0, max(0, canvas.width - width)), between(y, 0, max(0, canvas.height - height))
            penalty = _SHRINKING * (1 - size / font_size) + _STRAYING * rank
            yield _Plate(text, font, (left, top, left + width, top + height), penalty)


def _places_by_box(corners: Corners, width: int, height: int, line: int) -> list[tuple[int, int]]:
    """Top left corners: above, below and inside the box, at its left and at its right."""
    left, top, right, bottom = corners
    end = right - width
    inner_left, inner_end = left + 2 * line, right - width - 2 * line
    above, below, inside, inside_below = top - height, bottom, top + 2 * line, bottom - height - 2 * line
    outside = [(left, above), (end, above), (left, below), (end, below)]
    return [*outside, *((x, y) for y in (inside, inside_below) for x in (inner_left, inner_end))]


def _places_by_dot(corners: Corners, width: int, height: int, line: int) -> list[tuple[int, int]]:
    left, top, right, bottom = corners
    middle, centred = (top + bottom - height) // 2, (left + right - width) // 2
    beside = [(right + line, middle), (left - line - width, middle)]
    over = [(centred, top - line - height), (centred, bottom + line)]
    corner = [(x, y) for y in (top - height, bottom) for x in (right, left - width)]
    return [*beside, *over, *corner]


def _cost(plate: _Plate, tag: Tag, tags: Sequence[Tag], taken: Sequence[Corners]) -> float:
    """Dots are painted over plates, so one under a plate hides it; a box is covered by as much of it as is."""
    hidden = sum(_shared(plate.place, other) for other in taken)
    hidden += sum(_shared(plate.place, other.corners) for other in tags if other.is_dot)
    boxes = [other for other in tags if not other.is_dot]
    covered = sum(_shared(plate.place, other.corners) / _area(other.corners) for other in boxes)
    strange = sum(_shared(plate.place, other.corners) for other in boxes if other is not tag)
    area = _area(plate.place)
    return _HIDING * hidden / area + covered + _STRANGE * strange / area + plate.penalty


def _area(corners: Corners) -> int:
    left, top, right, bottom = corners
    return max(1, (right - left) * (bottom - top))


def _shared(a: Corners, b: Corners) -> int:
    """The area that two rectangles share."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0


def _paint(canvas: Image, plate: _Plate, color: str, edge: int) -> None:
    from PIL import ImageDraw

    left, top, right, bottom = plate.place
    pad = _pad(plate.font)
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((left, top, right - 1, bottom - 1), fill=color, outline=WHITE, width=edge)
    draw.text((left + pad, top + pad // 2), plate.text, fill=WHITE, font=plate.font)


def _pad(font: FreeTypeFont) -> int:
    return max(3, round(font.size / 3))


def _shortened(text: str, font: FreeTypeFont, width: int) -> str:
    """`text` on one line, its end dropped for "..." where it is wider than `width` pixels."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    lengths = range(len(text) - 1, 0, -1)
    return next((f"{text[:n]}..." for n in lengths if font.getlength(f"{text[:n]}...") <= width), text[:1])
