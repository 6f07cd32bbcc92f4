"""Cutting an upright picture for a vision tower that sees squares: the whole picture and overlapping tiles.

The tiling is that of the Moondream family; every number in it is a parameter. Resizing is Pillow's Lanczos, whose
rounding the model was trained with, and never keeps the aspect.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from photon.request import PreparedImage


def choose_tiling(height: int, width: int, *, crop: int, margin_pixels: int, max_tiles: int) -> tuple[int, int]:
    """(rows, columns) of tiles for a picture of `height` x `width` pixels, at most `max_tiles` in all.

    `crop` is a tile's side; neighbours overlap by `margin_pixels` on each side, so that a tile adds a window of
    `crop - 2 * margin_pixels`. A side within one window makes a single tile; a picture too large for `max_tiles`
    windows gets its aspect in fewer; otherwise the tiles fill the allowance with the picture's aspect. (The published
    formula gives a ribbon more than `max_tiles`, in one line: that line ends at `max_tiles`.)
    """
    window = crop - 2 * margin_pixels
    assert window > 0 and max_tiles > 0
    h, w = height - 2 * margin_pixels, width - 2 * margin_pixels
    if h <= window or w <= window:
        return 1, 1
    least_rows, least_columns = math.ceil(h / window), math.ceil(w / window)
    if least_rows * least_columns > max_tiles:
        ratio = math.sqrt(max_tiles / (least_rows * least_columns))
        rows, columns = max(1, math.floor(least_rows * ratio)), max(1, math.floor(least_columns * ratio))
        return min(rows, max_tiles), min(columns, max_tiles)
    rows = max(least_rows, math.floor(math.sqrt(max_tiles * h / w)))
    columns = max(least_columns, math.floor(math.sqrt(max_tiles * w / h)))
    if rows * columns > max_tiles:
        if columns > rows:
            columns = math.floor(max_tiles / rows)
        else:
            rows = math.floor(max_tiles / columns)
    return max(1, rows), max(1, columns)


def prepare_image(
    image: Image.Image, *, crop_size: int, patch_size: int, overlap_margin: int, max_crops: int
) -> PreparedImage:
    """Crops of an upright RGB picture, uint8 [1 + rows * columns, crop_size, crop_size, 3]: the whole, then the tiles.

    `overlap_margin` counts patches on each side of a tile, `max_crops` the tiles at most (the whole picture apart).
    """
    assert image.mode == "RGB" and crop_size % patch_size == 0
    margin = overlap_margin * patch_size
    window = crop_size - 2 * margin
    tiling = choose_tiling(image.height, image.width, crop=crop_size, margin_pixels=margin, max_tiles=max_crops)
    rows, columns = tiling
    crops = np.empty((1 + rows * columns, crop_size, crop_size, 3), dtype=np.uint8)
    if tiling == (1, 1):
        crops[:] = _resized(image, crop_size, crop_size)
    else:
        with ThreadPoolExecutor(1) as beside:  # Pillow resizes without the interpreter's lock
            small = beside.submit(_resized, image, crop_size, crop_size)
            whole = _resized(image, columns * window + 2 * margin, rows * window + 2 * margin)
            crops[0] = small.result()
        for index in range(rows * columns):
            top, left = (window * i for i in divmod(index, columns))
            crops[1 + index] = whole[top : top + crop_size, left : left + crop_size]
    return PreparedImage(crops=crops, tiling=tiling, size=image.size)


def _resized(image: Image.Image, width: int, height: int) -> np.ndarray:
    """uint8 [height, width, 3]."""
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
