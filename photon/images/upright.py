"""The two things that make pixels what a viewer shows: the orientation that a camera noted, and RGB of 8 bits."""

from __future__ import annotations

import io
import re
import struct

import numpy as np
from PIL import Image

from photon.images.levels import to_levels

ORIENTATION_TAG = 0x0112
WHITE = (255, 255, 255)
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_XMP_ORIENTATION = re.compile(rb"""tiff:Orientation\s*(?:=\s*["']|>)\s*([1-8])\s*["'<]""")


def orient(image: Image.Image) -> Image.Image:
    """The loaded picture turned and mirrored as its EXIF, or without that its XMP, says; itself when nothing is said.

    PNG has both as chunks of their own and as text.
    """
    orientation = _exif_orientation(image)
    if orientation is None:
        orientation = _xmp_orientation(image)
    turn = _TURNS.get(orientation) if isinstance(orientation, int) else None
    return image if turn is None else image.transpose(turn)


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of 8 bits; transparent parts composited on white. ValueError for a mode that has no such meaning."""
    if image.mode.startswith("I") or image.mode == "F":
        return _from_wide(image)
    if image.mode == "CMYK":
        return _from_inks(image)
    if image.mode in ("La", "RGBa"):
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, (*WHITE, 255)), rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _exif_orientation(image: Image.Image) -> object:
    try:
        return image.getexif().get(ORIENTATION_TAG)
    except (OSError, SyntaxError, ValueError, LookupError, TypeError, EOFError, struct.error, Warning):
        return None  # unreadable EXIF says nothing, and the pixels are sound


def _xmp_orientation(image: Image.Image) -> int | None:
    xmp = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")
    found = _XMP_ORIENTATION.search(xmp.encode() if isinstance(xmp, str) else xmp) if xmp else None
    return int(found[1]) if found else None


def _from_inks(image: Image.Image) -> Image.Image:
    """By the colour profile in the file, as viewers do, since inks mean little without; else subtracted from white."""
    from PIL import ImageCms

    profile = image.info.get("icc_profile")
    if profile:
        try:
            inks, screen = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
            shown = ImageCms.profileToProfile(image, inks, screen, outputMode="RGB")
        except (OSError, ImageCms.PyCMSError):
            shown = None  # a damaged profile, or one for something else
        if shown is not None:
            return shown
    return image.convert("RGB")


def _from_wide(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    gray = Image.fromarray(to_levels(values)).convert("RGB")
    key = image.info.get("transparency")  # a 16-bit PNG may name one gray as transparent
    if isinstance(key, int):
        gray.paste(WHITE, mask=Image.fromarray(values == key))
    return gray
