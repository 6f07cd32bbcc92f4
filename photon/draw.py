"""Drawing answers on pictures, for people: boxes, ringed dots, label plates, and text under the picture.

Every line is a colour inside white inside a thin dark edge, so that it shows on any picture; sizes follow the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from photon.results import Box, Point

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

COLORS = ("#e6194b", "#0a7cff", "#12a150", "#c026d3", "#d9480f", "#0f9aa8", "#7048e8", "#a16207")
WHITE, DARK = "#ffffff", "#1a1a1a"
MIN_SIDE = 400  # a smaller picture is enlarged, so that lines and labels have room


def draw_boxes(image: Image, boxes: Sequence[Box], label: str | None = None) -> Image:
    """A copy of `image` with each box framed and, with a label or a score, named on a plate at its top left."""
    canvas = _canvas(image)
    line = _line_width(canvas)
    corners = [box.to_pixels(*canvas.size) for box in boxes]
    for i in _largest_first(corners):
        _frame(canvas, corners[i], _color(i), line)
    for i in _largest_first(corners):
        left, top, _, _ = corners[i]
        _plate(canvas, _caption(label, boxes[i].score), (left, top), _color(i), line)
    return canvas


def draw_points(image: Image, points: Sequence[Point], label: str | None = None) -> Image:
    """A copy of `image` with a ringed dot at each point and, with a label or a score, its plate beside it."""
    canvas = _canvas(image)
    line = _line_width(canvas)
    places = [point.to_pixels(*canvas.size) for point in points]
    for i, (x, y) in enumerate(places):
        leftward = x > canvas.width / 2
        place = (x - 4 * line if leftward else x + 4 * line, y - 3 * line)
        _plate(canvas, _caption(label, points[i].score), place, _color(i), line, leftward=leftward)
    for i, (x, y) in enumerate(places):
        _dot(canvas, (x, y), _color(i), 3 * line)
    return canvas


def draw_text(image: Image, text: str) -> Image:
    """A copy of `image` with `text`, wrapped, on a white strip under it."""
    from PIL import Image as Images
    from PIL import ImageDraw

    canvas = _canvas(image)
    font = _font(canvas)
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
    return max(2, round((canvas.width * canvas.height) ** 0.5 / 220))


def _font(canvas: Image) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default(size=max(14, 6 * _line_width(canvas)))  # type: ignore[return-value]


def _color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _caption(label: str | None, score: float | None) -> str:
    return " ".join(part for part in (label, None if score is None else f"{score:.0%}") if part)


def _largest_first(corners: Sequence[tuple[int, int, int, int]]) -> list[int]:
    """Indices so that a small box is drawn over the large one that it lies in."""
    return sorted(range(len(corners)), key=lambda i: -_area(corners[i]))


def _area(corners: tuple[int, int, int, int]) -> int:
    left, top, right, bottom = corners
    return (right - left) * (bottom - top)


def _frame(canvas: Image, corners: tuple[int, int, int, int], color: str, line: int) -> None:
    """The coloured line lies on the box's edge, white on both its sides, a dark edge outside, within the picture."""
    from PIL import ImageDraw

    edge = max(1, line // 3)
    margin = line + edge
    left, right = _span(corners[0], corners[2], canvas.width, margin)
    top, bottom = _span(corners[1], corners[3], canvas.height, margin)
    draw = ImageDraw.Draw(canvas)
    for outset, fill, width in ((margin, DARK, 1), (line, WHITE, line + 2 * edge), (line - edge, color, line)):
        outer = (left - outset, top - outset, right + outset, bottom + outset)
        draw.rectangle(outer, outline=fill, width=width)


def _span(low: int, high: int, length: int, margin: int) -> tuple[int, int]:
    """The edges moved off the picture's border by `margin` and kept at least a pixel apart."""
    low = _between(low, margin, length - margin - 2)
    return low, max(low + 1, min(high, length - margin - 1))


def _between(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def _dot(canvas: Image, center: tuple[int, int], color: str, radius: int) -> None:
    """A coloured disc in a white ring in a dark edge, drawn large and reduced, so that it is smooth."""
    from PIL import Image as Images
    from PIL import ImageDraw

    fine, outer = 4, radius + max(2, radius // 3) + 1
    side = 2 * outer + 1
    disc = Images.new("RGBA", (side * fine, side * fine), (0, 0, 0, 0))
    pen, middle = ImageDraw.Draw(disc), side * fine / 2
    for reach, fill in ((outer, DARK), (outer - 1, WHITE), (radius - 1, color)):
        pen.circle((middle, middle), reach * fine, fill=fill)
    small = disc.resize((side, side), Images.Resampling.BOX)
    x, y = (_between(c - outer, 0, length - side) for c, length in zip(center, canvas.size, strict=True))
    canvas.paste(small, (x, y), small)


def _plate(canvas: Image, text: str, place: tuple[int, int], color: str, line: int, *, leftward: bool = False) -> None:
    """White text on colour, its bottom left (right, if leftward) at `place` where that fits, otherwise moved inside."""
    from PIL import ImageDraw

    if not text:
        return
    draw, font = ImageDraw.Draw(canvas), _font(canvas)
    pad = max(2, round(font.size / 4))
    ascent, descent = font.getmetrics()
    width, height = round(font.getlength(text)) + 2 * pad, ascent + descent + pad
    y = place[1] - height if place[1] >= height else place[1] + line
    x = place[0] + line - width if leftward else place[0] - line
    x, y = _between(x, 0, canvas.width - width), _between(y, 0, canvas.height - height)
    draw.rectangle((x, y, x + width - 1, y + height - 1), fill=color, outline=WHITE, width=max(1, line // 3))
    draw.text((x + pad, y + pad // 2), text, fill=WHITE, font=font)


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
