"""The file formats that are read: which one bytes are in, and the first frame of it with what Pillow leaves undone.

Opening goes past `Image.open`, which compares the size with a limit of its own, process-wide, and warns or raises
before ours can be checked.
"""

from __future__ import annotations

import io
import re

import numpy as np
from PIL import Image, ImageFile

from photon.errors import ImageError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM")
PREFIX_BYTES = 16
MAX_JPEG_SCANS = 100  # encoders write about ten; each costs a pass over the whole picture, whatever its bytes

_SEGMENT_END = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # in coded data: a marker that ends it
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_TILE_WIDTH, _TILE_LENGTH = 322, 323


def find_format(prefix: bytes, name: str) -> str:
    """The format of a file that starts with `prefix`. ImageError names those accepted."""
    if not prefix:
        raise ImageError(f"{name}: empty")
    Image.init()
    for format_name in FORMATS:
        _, accept = Image.OPEN[format_name]
        if accept is None or accept(prefix[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0")) is True:
            return format_name
    raise ImageError(f"{name}: not an image that can be read (accepted: {', '.join(FORMATS)})")


def open_file(file: io.BytesIO, format_name: str, name: str) -> ImageFile.ImageFile:
    """The header, read by the format's own reader; no pixel is decoded."""
    if format_name == "JPEG":
        _check_scans(file.getbuffer(), name)
    factory, _ = Image.OPEN[format_name]
    file.seek(0)
    return factory(file, "")


def load_frame(image: Image.Image) -> Image.Image:
    """The decoded frame that `image` stands at: itself, or a copy where its transparency or range has to be set right.

    Only a file not yet decoded tells how its pixels are packed, so this comes before any other look at the pixels.
    """
    key, covered = _packed_transparency(image), _covered_part(image)
    image.load()
    if key is not None:
        image = image.copy()
        image.info["transparency"] = key
    elif covered is not None:
        page = Image.new("RGB", image.size, (255, 255, 255))
        page.paste(image.convert("RGB").crop(covered), covered[:2])
        page.info = image.info.copy()
        return page
    elif image.format == "PPM" and image.mode == "I":  # read with 65535 as white, which "I" does not tell
        return Image.fromarray(np.asarray(image).astype(np.uint16))
    return image


def decoded_sizes(image: Image.Image) -> list[tuple[int, int]]:
    """What is held at once to decode it, (width, height): the picture, and of a TIFF a tile, which may be larger."""
    tags = getattr(image, "tag_v2", {})
    tile = tags.get(_TILE_WIDTH, 0), tags.get(_TILE_LENGTH, 0)
    return [image.size, tile] if all(isinstance(side, int) and side > 0 for side in tile) else [image.size]


def _packed_transparency(image: Image.Image) -> int | tuple[int, ...] | None:
    """A PNG's transparent colour as its 8-bit pixels have it, where the file has fewer or more bits; otherwise None."""
    key, packing = image.info.get("transparency"), _packing(image, "PNG")
    if isinstance(key, int) and packing in ("L;2", "L;4"):
        return key * (85 if packing == "L;2" else 17)
    if isinstance(key, tuple) and packing == "RGB;16B":
        return tuple(value >> 8 for value in key)
    return None


def _covered_part(image: Image.Image) -> tuple[int, int, int, int] | None:
    """Where a GIF's first frame lies, if it leaves some of the screen empty and knows no transparency; else None."""
    if _packing(image, "GIF") is None or "transparency" in image.info:
        return None
    left, top, right, bottom = image.tile[0].extents  # type: ignore[attr-defined]
    return None if (left, top, right, bottom) == (0, 0, *image.size) else (left, top, right, bottom)


def _packing(image: Image.Image, format_name: str) -> str | None:
    """How the pixels lie in a file of this format that is not decoded yet; None for any other."""
    tiles = getattr(image, "tile", None)
    if image.format != format_name or not tiles or getattr(image, "tell", int)() != 0:
        return None
    arguments = tiles[0].args
    return str(arguments[0] if isinstance(arguments, tuple) else arguments)


def _check_scans(data: memoryview, name: str) -> None:
    """Refuses a JPEG of more than MAX_JPEG_SCANS passes, of which a few bytes each suffice."""
    place, num_scans = 2, 0
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != _END_OF_IMAGE:
        is_scan = data[place + 1] == _START_OF_SCAN
        place += 2 + (data[place + 2] << 8 | data[place + 3])
        if is_scan:
            num_scans += 1
            end = _SEGMENT_END.search(data, place)
            place = end.start() if end else len(data)
        if num_scans > MAX_JPEG_SCANS:
            raise ImageError(f"{name}: a JPEG of more than {MAX_JPEG_SCANS} scans")
