"""From whatever the caller has to an upright RGB picture, fully decoded; what is wrong with it is an ImageError.

The content decides the format, never a name. The pixel limit is ours, and is checked from the header, before any pixel
is decoded. No axis of an array is ever guessed.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageFile

from photon.errors import ImageError
from photon.images.upright import orient, to_rgb

ImageSource = str | Path | bytes | bytearray | memoryview | Image.Image | np.ndarray

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM")

# What Pillow's decoders raise on bytes that are damaged or lie about themselves.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    OverflowError,
    RuntimeError,
    struct.error,
)


def load_image(source: ImageSource, *, max_pixels: int) -> Image.Image:
    """The picture as a viewer shows it: EXIF orientation applied, RGB, transparency on white.

    `source`: a path; the bytes of a file; a PIL image; or a uint8 array (height, width, 3) in RGB. Of an animation or
    of several pages the first is taken. The result shares no memory with the source.
    ImageError names the source and the reason: absent, empty, no image, truncated, too many pixels, a wrong array.
    """
    if isinstance(source, str | os.PathLike):
        return _from_path(os.fspath(source), max_pixels)
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_file(io.BytesIO(source), f"bytes of length {len(source)}", max_pixels)
    if isinstance(source, Image.Image):
        return _from_pil(source, max_pixels)
    if isinstance(source, np.ndarray):
        return _from_array(source, max_pixels)
    wanted = "a path, bytes, a PIL image or a uint8 array (height, width, 3)"
    raise ImageError(f"an image must be {wanted}, got {type(source).__name__}")


def _from_path(path: str | bytes, max_pixels: int) -> Image.Image:
    name = os.fsdecode(path)
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        raise ImageError(f"{_short(name)}: no such file") from None
    except (OSError, ValueError) as error:  # a folder, no permission, too long a name, a NUL in it
        raise ImageError(f"{_short(name)}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    with file:
        return _from_file(file, _short(name), max_pixels)


def _from_file(file: BinaryIO, name: str, max_pixels: int) -> Image.Image:
    prefix = file.read(16)
    if not prefix:
        raise ImageError(f"{name}: empty")
    try:
        opened = _open(file, prefix, name)
    except Image.DecompressionBombError as error:  # WebP's reader looks at Pillow's own limit, whoever calls it
        raise ImageError(f"{name}: too many pixels, the limit is {max_pixels}: {error}") from error
    with opened as image:
        _check_size(image, name, max_pixels)
        with _damage_is_image_error(name):
            image.load()
        return _upright(image, name)


def _from_pil(image: Image.Image, max_pixels: int) -> Image.Image:
    name = f"PIL image of mode {image.mode}"
    _check_size(image, name, max_pixels)
    with _damage_is_image_error(name):
        image.load()  # it may still be a file that nobody has decoded, or one that was closed before
    upright = _upright(image, name)
    return upright.copy() if upright is image else upright


def _from_array(array: np.ndarray, max_pixels: int) -> Image.Image:
    name = f"array of shape {array.shape} and dtype {array.dtype}"
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise ImageError(f"{name}: must be uint8 of shape (height, width, 3), RGB")
    height, width = array.shape[:2]
    _check_pixels(width, height, name, max_pixels)
    return Image.frombytes("RGB", (width, height), np.ascontiguousarray(array).tobytes())


def _open(file: BinaryIO, prefix: bytes, name: str) -> ImageFile.ImageFile:
    """The header, read by the format's own reader.

    Not through `Image.open`: that compares the size with a limit of its own, which is process-wide, and warns or raises
    before ours can be checked.
    """
    Image.init()
    for format_name in FORMATS:
        factory, accept = Image.OPEN[format_name]
        if accept is None or accept(prefix.ljust(16, b"\0")) is not True:
            continue
        file.seek(0)
        with _damage_is_image_error(name):
            return factory(file, "")
    raise ImageError(f"{name}: not an image that can be read (accepted: {', '.join(FORMATS)})")


def _upright(image: Image.Image, name: str) -> Image.Image:
    with _damage_is_image_error(name):
        return to_rgb(orient(image))


@contextmanager
def _damage_is_image_error(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ImageError(f"{name}: damaged or truncated: {error or type(error).__name__}") from error


def _check_size(image: Image.Image, name: str, max_pixels: int) -> None:
    _check_pixels(image.width, image.height, name, max_pixels)


def _check_pixels(width: int, height: int, name: str, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"{name}: has no pixels ({width} x {height})")
    if width * height > max_pixels:
        raise ImageError(f"{name}: {width} x {height} = {width * height} pixels, the limit is {max_pixels}")


def _short(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:197]}..."
