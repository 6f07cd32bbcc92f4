"""The two things that make pixels what a viewer shows: the orientation that a camera noted, and RGB of 8 bits."""

from __future__ import annotations

import struct

import numpy as np
from PIL import Image

ORIENTATION_TAG = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_RANGES = (1.0, 255.0, 65535.0)  # what wide pixels may count up to: fractions, 8 bits, 16 bits


def orient(image: Image.Image) -> Image.Image:
    """The loaded picture turned and mirrored as its EXIF (or XMP) says; itself when nothing is said or readable."""
    try:
        orientation = image.getexif().get(ORIENTATION_TAG)
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, EOFError, struct.error):
        return image  # unreadable EXIF says nothing, and the pixels are sound
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of 8 bits; transparent parts composited on white. ValueError for a mode that has no such meaning."""
    if image.mode.startswith("I") or image.mode == "F":
        return _from_wide(image).convert("RGB")
    if image.mode in ("La", "RGBa"):
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _from_wide(image: Image.Image) -> Image.Image:
    """Gray of 8 bits from 16-bit, 32-bit or float gray.

    16-bit modes lose their lower byte. "I" and "F" carry no range: it is the first of 0..1, 0..255, 0..65535 and 0..the
    largest value that holds all values; what is below 0 is black. A 16-bit ramp keeps its 256 levels in all of them.
    """
    values = np.asarray(image)
    if image.mode.startswith("I;16"):
        return Image.fromarray((values >> 8).astype(np.uint8))
    largest = float(values.max())
    if not np.isfinite(values).all():
        raise ValueError("pixels that are not finite numbers")
    ranges = _RANGES[1:] if image.mode == "I" else _RANGES
    top = next((r for r in ranges if largest <= r), largest)
    levels = 256 if top == 1 else 256 / (top + 1)
    return Image.fromarray(np.clip(values.astype(np.float64) * levels, 0, 255).astype(np.uint8))
