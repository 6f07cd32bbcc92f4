"""The marks on a picture: frames and ringed dots. Not their names.

Each is a colour inside white inside a thin dark edge, so that it shows on any picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

WHITE, DARK = "#ffffff", "#1a1a1a"

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


def dot_reach(radius: int) -> int:
    """From a dot's middle to the outside of its edge."""
    return radius + max(2, radius // 3) + edge_width(radius // 6)


def edge_width(line: int) -> int:
    return max(1, line // 3)


def between(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _span(low: int, high: int, length: int, margin: int) -> tuple[int, int]:
    """The edges moved off the picture's border by `margin` and kept at least a pixel apart."""
    low = between(low, margin, length - margin - 2)
    return low, max(low + 1, min(high, length - margin - 1))
