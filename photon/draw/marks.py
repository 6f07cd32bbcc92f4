"""The marks on a picture: frames, ringed dots and arrows. Not their names.

Each is a colour inside white inside a thin dark edge, so that it shows on any picture.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

WHITE, DARK = "#ffffff", "#1a1a1a"
_MAX_FINE = 4096  # pixels of a side, drawn large before it is reduced

Corners = tuple[int, int, int, int]  # left, top, right, bottom


def frame(canvas: Image, corners: Corners, color: str, line: int) -> None:
    """The coloured line lies on the box's edge, white on both its sides, a dark edge outside, within the picture."""
    from PIL import ImageDraw

    edge = edge_width(line)
    margin = line + edge
    left, right = _span(corners[0], corners[2], canvas.width, margin)
    top, bottom = _span(corners[1], corners[3], canvas.height, margin)
    draw = ImageDraw.Draw(canvas)
    rings = ((margin, DARK, edge_width(line // 2)), (line, WHITE, line + 2 * edge), (line - edge, color, line))
    for outset, fill, width in rings:
        outer = (left - outset, top - outset, right + outset, bottom + outset)
        draw.rectangle(outer, outline=fill, width=width)


def dot(canvas: Image, center: tuple[int, int], color: str, radius: int) -> None:
    """A coloured disc in a white ring in a dark edge, drawn large and reduced, so that it is smooth."""
    from PIL import Image as Images
    from PIL import ImageDraw

    fine, outer = 4, dot_reach(radius)
    edge = edge_width(radius // 6)
    side = 2 * outer + 1
    disc = Images.new("RGBA", (side * fine, side * fine), (0, 0, 0, 0))
    pen, middle = ImageDraw.Draw(disc), side * fine / 2
    for reach, fill in ((outer, DARK), (outer - edge, WHITE), (radius - 1, color)):
        pen.circle((middle, middle), reach * fine, fill=fill)
    small = disc.resize((side, side), Images.Resampling.BOX)
    x, y = (between(c - outer, 0, length - side) for c, length in zip(center, canvas.size, strict=True))
    canvas.paste(small, (x, y), small)


def arrow(canvas: Image, start: tuple[int, int], end: tuple[int, int], color: str, line: int) -> None:
    """From `start`, its tip at `end`; nothing where both are one. The head is eight lines long, or all of the arrow."""
    from PIL import Image as Images
    from PIL import ImageDraw

    edge = edge_width(line)
    reach = 5 * line
    left, top = (min(a, b) - reach for a, b in zip(start, end, strict=True))
    width, height = (abs(a - b) + 2 * reach + 1 for a, b in zip(start, end, strict=True))
    fine = between(_MAX_FINE // max(width, height), 1, 4)
    outline = [((x - left + 0.5) * fine, (y - top + 0.5) * fine) for x, y in _arrow_outline(start, end, line)]
    if not outline:
        return
    for grown, fill in ((line + edge, DARK), (line, WHITE), (0, color)):
        mask = Images.new("L", (width * fine, height * fine))
        pen = ImageDraw.Draw(mask)
        pen.polygon(outline, fill=255)
        if grown:
            pen.line([*outline, outline[0], outline[1]], fill=255, width=2 * grown * fine, joint="curve")
        canvas.paste(fill, (left, top), mask.resize((width, height), Images.Resampling.BOX))


def steps(start: tuple[int, int], end: tuple[int, int], stride: int) -> list[tuple[int, int]]:
    """Places from one to the other, both included, at most `stride` pixels apart."""
    count = max(1, math.ceil(math.dist(start, end) / stride))
    shift_x, shift_y = end[0] - start[0], end[1] - start[1]
    return [(start[0] + round(shift_x * i / count), start[1] + round(shift_y * i / count)) for i in range(count + 1)]


def dot_reach(radius: int) -> int:
    """From a dot's middle to the outside of its edge."""
    return radius + max(2, radius // 3) + edge_width(radius // 6)


def edge_width(line: int) -> int:
    return max(1, line // 3)


def between(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _arrow_outline(start: tuple[int, int], end: tuple[int, int], line: int) -> list[tuple[float, float]]:
    """The seven corners of an arrow whose shaft is 1.5 lines wide; none where it has no length."""
    length = math.dist(start, end)
    if not length:
        return []
    along_x, along_y = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    head = min(8 * line, length)
    neck, wing, half = length - head, 0.45 * head, min(0.75 * line, 0.2 * head)
    corners = [(0, half), (neck, half), (neck, wing), (length, 0), (neck, -wing), (neck, -half), (0, -half)]
    return [(start[0] + along_x * a - along_y * b, start[1] + along_y * a + along_x * b) for a, b in corners]


def _span(low: int, high: int, length: int, margin: int) -> tuple[int, int]:
    """The edges moved off the picture's border by `margin` and kept at least a pixel apart."""
    low = between(low, margin, length - margin - 2)
    return low, max(low + 1, min(high, length - margin - 1))
