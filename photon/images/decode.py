"""From whatever the caller has to an upright RGB picture, fully decoded; what is wrong with it is an ImageError.

The content decides the format, never a name. The pixel limit is ours, and is checked from the header, before any pixel
is decoded. No axis of an array is ever guessed. docs/images.md has the table of what becomes what.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from PIL import Image

from photon.errors import ImageError
from photon.images.arrays import array_size, image_from_array
from photon.images.formats import FORMATS, PREFIX_BYTES, decoded_sizes, find_format, load_frame, open_file
from photon.images.sources import (
    check_is_no_link,
    decode_data_url,
    describe_file,
    is_data_url,
    read_whole,
    rewind,
    short,
)
from photon.images.upright import orient, to_rgb

__all__ = ["FORMATS", "ImageSource", "load_image"]


class Readable(Protocol):
    """A binary file object, seekable or not."""

    def read(self, size: int, /) -> bytes: ...


ImageSource = str | os.PathLike[Any] | bytes | bytearray | memoryview | Image.Image | np.ndarray | Readable

_WANTED = "a path, a data URL, bytes, a binary file object, a PIL image or a numpy array"
_BYTES_PER_PIXEL, _METADATA_BYTES = 8, 64 << 20  # a file may have this many: 16-bit RGBA, not compressed

# What Pillow's decoders raise on bytes that are damaged or lie about themselves, or on a file closed too early.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    RuntimeError,
    MemoryError,
    Warning,
    Image.DecompressionBombError,
    struct.error,
)


def load_image(source: ImageSource, *, max_pixels: int) -> Image.Image:
    """The picture as a viewer shows it: turned as EXIF or XMP say, RGB, transparency on white.

    `source`: a path; a data URL; the bytes of a file; a binary file object (from its start if it can seek; it stays
    open); a PIL image of any mode; or an array (height, width[, 1, 3 or 4 channels]) of uint8, uint16 or floats. Of an
    animation or of several pages the first is taken, of a PIL image the one it stands at. The result shares no memory
    with the source. ImageError names the source and the reason: absent, empty, no image, truncated, too many pixels, a
    wrong array.
    """
    if isinstance(source, str) and is_data_url(source):
        data, name = decode_data_url(source)
        return _from_file(io.BytesIO(data), name, max_pixels)
    if isinstance(source, str | os.PathLike):
        return _from_path(os.fspath(source), max_pixels)
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
        return _from_file(io.BytesIO(data), f"bytes of length {len(data)}", max_pixels)
    if isinstance(source, Image.Image):
        return _from_pil(source, max_pixels)
    if isinstance(source, np.ndarray):
        return _from_array(source, max_pixels)
    if callable(getattr(source, "read", None)):
        name = describe_file(source)
        rewind(source, name)
        return _from_file(read_whole(source, name, max_bytes=_max_bytes(max_pixels)), name, max_pixels)
    raise ImageError(f"an image must be {_WANTED}, got {type(source).__name__}")


def _from_path(path: str | bytes, max_pixels: int) -> Image.Image:
    name = os.fsdecode(path)
    check_is_no_link(name)
    if not name:
        raise ImageError(f"the path of an image is empty; an image must be {_WANTED}")
    name = short(name)
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        raise ImageError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:  # a folder, no permission, too long a name, a NUL in it
        raise ImageError(f"{name}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    with file:
        whole = read_whole(file, name, max_bytes=_max_bytes(max_pixels))
    return _from_file(whole, name, max_pixels)


def _from_file(file: io.BytesIO, name: str, max_pixels: int) -> Image.Image:
    format_name = find_format(bytes(file.getbuffer()[:PREFIX_BYTES]), name)
    try:
        with _damage_is_image_error(name):
            opened = open_file(file, format_name, name)
    except ImageError as error:
        if isinstance(error.__cause__, Image.DecompressionBombError):  # some readers look at Pillow's own limit
            raise ImageError(f"{name}: too many pixels, the limit is {max_pixels}: {error.__cause__}") from error
        raise
    with opened as image:
        return _decoded(image, name, max_pixels)


def _from_pil(image: Image.Image, max_pixels: int) -> Image.Image:
    upright = _decoded(image, f"PIL image of mode {image.mode}", max_pixels)
    return upright.copy() if upright is image else upright


def _from_array(array: np.ndarray, max_pixels: int) -> Image.Image:
    name = f"array of shape {array.shape} and dtype {array.dtype}"
    _check_pixels(array_size(array, name), name, max_pixels)
    return to_rgb(image_from_array(array, name))


def _decoded(image: Image.Image, name: str, max_pixels: int) -> Image.Image:
    with _damage_is_image_error(name):
        for size in decoded_sizes(image):
            _check_pixels(size, name, max_pixels)
        frame = orient(load_frame(image))  # a PIL image may be a file not decoded yet, or one that was closed before
        return to_rgb(frame)


@contextmanager
def _damage_is_image_error(name: str) -> Iterator[None]:
    try:
        yield
    except ImageError:
        raise
    except _DAMAGE as error:
        raise ImageError(f"{name}: damaged or truncated: {error or type(error).__name__}") from error


def _check_pixels(size: tuple[int, int], name: str, max_pixels: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"{name}: has no pixels ({width} x {height})")
    if width * height > max_pixels:
        raise ImageError(f"{name}: {width} x {height} = {width * height} pixels, the limit is {max_pixels}")


def _max_bytes(max_pixels: int) -> int:
    return _BYTES_PER_PIXEL * max_pixels + _METADATA_BYTES
