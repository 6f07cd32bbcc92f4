"""Numpy arrays as pictures. The last axis holds the channels, always: no axis is guessed from its length."""

from __future__ import annotations

import numpy as np
from PIL import Image

from photon.errors import ImageError
from photon.images.levels import to_levels

WANTED_ARRAY = (
    "shape (height, width), (height, width, 1), (height, width, 3) in RGB or (height, width, 4) in RGBA "
    "and dtype uint8, uint16 or float"
)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def array_size(array: np.ndarray, name: str) -> tuple[int, int]:
    """(width, height); ImageError for a shape or a dtype that is no picture's."""
    is_known = array.dtype.kind == "f" or (array.dtype.kind == "u" and array.dtype.itemsize <= 2)
    has_shape = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in _MODES)
    if not (is_known and has_shape):
        raise ImageError(f"{name}: must have {WANTED_ARRAY}{_hint(array)}")
    return array.shape[1], array.shape[0]


def image_from_array(array: np.ndarray, name: str) -> Image.Image:
    """L, RGB or RGBA of 8 bits, a copy; `array_size` has passed it. Colour and alpha are scaled each by its range."""
    values = np.asarray(array)
    if values.ndim == 2:
        values = values[:, :, None]
    height, width, channels = values.shape
    try:
        if channels == 4:
            levels = np.concatenate([to_levels(values[:, :, :3]), to_levels(values[:, :, 3:])], axis=2)
        else:
            levels = to_levels(values)
    except ValueError as error:
        raise ImageError(f"{name}: {error}") from None
    return Image.frombytes(_MODES[channels], (width, height), levels.tobytes())


def _hint(array: np.ndarray) -> str:
    if array.ndim == 1 and array.dtype == np.uint8:
        return "; of an encoded file pass array.tobytes()"
    if array.ndim == 3 and array.shape[0] in _MODES and array.shape[2] not in _MODES:
        return "; are the channels first? array.transpose(1, 2, 0) puts them last"
    if array.dtype.kind in "iub" and array.dtype.itemsize != 2:
        return "; array.astype(numpy.uint8) for values 0..255"
    return ""
