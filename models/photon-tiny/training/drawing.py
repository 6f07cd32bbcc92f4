"""Draws one sprite: from SVG or picture bytes to a 112x112 RGBA cell, its box and its colour word.

Invariant: the drawing touches its box on all four sides and is centred in the cell, its longer side 108 pixels.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

CELL = 112
LONGER_SIDE = 108
RENDER = 320
# Fainter pixels than this (soft shadows, blurred edges) do not belong to an object's box.
BOX_ALPHA = 64
COLOURS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray"]
DOMINANT = 0.6


def draw_svg(svg: str) -> Image.Image:
    """An SVG document as an RGBA picture RENDER pixels wide."""
    import resvg_py

    return Image.open(io.BytesIO(resvg_py.svg_to_bytes(svg_string=svg, width=RENDER, skip_system_fonts=True)))


def icon_svg(icons: dict, name: str) -> str:
    """The SVG document of one icon of a set in Iconify's format (the icon may be an alias of another)."""
    alias = icons.get("aliases", {}).get(name)
    if alias is not None:
        name = alias["parent"]
    icon = icons["icons"][name]
    left, top = icon.get("left", 0), icon.get("top", 0)
    width, height = (icon.get(side, icons.get(side, 16)) for side in ("width", "height"))
    frame = f'viewBox="{left} {top} {width} {height}" width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>{icon["body"]}</svg>'


def to_cell(picture: Image.Image) -> tuple[Image.Image, list[int]]:
    """Crop to what is visible, scale, centre: the RGBA cell and the box (left, top, right, bottom) in cell pixels.

    Raises ValueError for an empty picture.
    """
    picture = picture.convert("RGBA")
    seen = _visible_box(picture)
    if seen is None:
        raise ValueError("the picture is empty")
    picture = picture.crop(seen)
    scale = LONGER_SIDE / max(picture.size)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    picture = picture.resize(size, Image.Resampling.LANCZOS)
    cell = Image.new("RGBA", (CELL, CELL))
    left, top = (CELL - size[0]) // 2, (CELL - size[1]) // 2
    cell.paste(picture, (left, top))
    return cell, list(_visible_box(cell) or (left, top, left + size[0], top + size[1]))


def _visible_box(picture: Image.Image) -> tuple[int, int, int, int] | None:
    return picture.getchannel("A").point(lambda alpha: 255 if alpha >= BOX_ALPHA else 0).getbbox()


def colour_word(cell: Image.Image) -> str | None:
    """The one colour that covers at least DOMINANT of the opaque pixels, or None when no colour does."""
    pixels = np.asarray(cell, dtype=np.float32).reshape(-1, 4)
    rgb = pixels[pixels[:, 3] >= 128, :3] / 255
    share = np.bincount(_pixel_colours(rgb), minlength=len(COLOURS) + 1)[: len(COLOURS)] / max(1, len(rgb))
    best = int(share.argmax())
    return COLOURS[best] if share[best] >= DOMINANT else None


def _pixel_colours(rgb: np.ndarray) -> np.ndarray:
    """Index into COLOURS for each pixel of [N, 3] in 0..1, or len(COLOURS) where people would not agree on a word."""
    value, low = rgb.max(1), rgb.min(1)
    chroma = value - low
    saturation = chroma / np.maximum(value, 1e-6)
    hue = _hue_degrees(rgb, value, chroma)
    neutral = (saturation < 0.12) | (chroma < 0.06)
    vivid = (saturation > 0.4) & (value > 0.4)
    reddish = (hue >= 325) | (hue < 12)
    rules = [
        (value < 0.22, "black"),
        (neutral & (value > 0.88), "white"),
        (neutral & (value < 0.7) & (value > 0.3), "gray"),
        (neutral, None),
        (reddish & (saturation > 0.22) & (saturation < 0.55) & (value > 0.8), "pink"),
        ((hue >= 8) & (hue < 45) & (saturation > 0.3) & (value > 0.22) & (value < 0.7), "brown"),
        (~vivid, None),
        ((hue >= 300) & (hue < 335) & (value > 0.65), "pink"),
        ((hue >= 348) | (hue < 13), "red"),
        ((hue >= 17) & (hue < 35) & (saturation > 0.65) & (value > 0.75), "orange"),
        ((hue >= 43) & (hue < 64), "yellow"),
        ((hue >= 74) & (hue < 165), "green"),
        ((hue >= 192) & (hue < 245), "blue"),
        ((hue >= 255) & ((hue < 295) | ((hue < 315) & (value < 0.65))), "purple"),
    ]
    words = [len(COLOURS) if word is None else COLOURS.index(word) for _, word in rules]
    return np.select([mask for mask, _ in rules], words, default=len(COLOURS))


def _hue_degrees(rgb: np.ndarray, value: np.ndarray, chroma: np.ndarray) -> np.ndarray:
    red, green, blue = rgb.T
    safe = np.maximum(chroma, 1e-6)
    sector = np.select(
        [value == red, value == green],
        [((green - blue) / safe) % 6, (blue - red) / safe + 2],
        default=(red - green) / safe + 4,
    )
    return sector * 60


def open_picture(data: bytes) -> Image.Image:
    """A PNG or WebP as RGBA."""
    return Image.open(io.BytesIO(data)).convert("RGBA")


def encode_webp(cell: Image.Image) -> bytes:
    """A cell as a lossy WebP with alpha."""
    buffer = io.BytesIO()
    cell.save(buffer, "WEBP", quality=85, method=4)
    return buffer.getvalue()
