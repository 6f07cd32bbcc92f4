"""Pixel values wider than 8 bits as levels 0..255, by one rule for arrays and for pictures. No axis is looked at.

uint8 is as it is; uint16 loses its lower byte. Floats and wider integers carry no range, so theirs is the first of 0..1
(floats alone), 0..255, 0..65535 and 0..the largest value that holds all values. Float values may pass a range by a
quarter, as resampling makes them do; what is outside the range is black or white.
"""

from __future__ import annotations

import numpy as np

_RANGES = (1.0, 255.0, 65535.0)
_SLACK = 0.25
_BAND = 1 << 20  # values widened at a time


def to_levels(values: np.ndarray) -> np.ndarray:
    """uint8 of the shape of `values` (uint8, uint16, int32 or float). ValueError: not finite, or far below 0."""
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        return (values >> 8).astype(np.uint8)
    top = _range_of(values)
    # A level is 1/256 of the range; within 0..255 it is the nearest whole number.
    factor, shift = {1.0: (256.0, 0.0), 255.0: (1.0, 0.5)}.get(top, (256 / (top + 1), 0.0))
    flat = np.ascontiguousarray(values).reshape(-1)
    levels = np.empty(flat.shape, dtype=np.uint8)
    for start in range(0, flat.size, _BAND):
        band = flat[start : start + _BAND].astype(np.float64)
        levels[start : start + _BAND] = np.clip(np.floor(band * factor + shift), 0, 255)
    return levels.reshape(values.shape)


def _range_of(values: np.ndarray) -> float:
    lowest, highest = float(values.min()), float(values.max())
    if not (np.isfinite(lowest) and np.isfinite(highest)):
        raise ValueError("has values that are not finite numbers")
    is_float = values.dtype.kind == "f"
    ranges, slack = (_RANGES, _SLACK) if is_float else (_RANGES[1:], 0.0)
    top = next((r for r in ranges if highest <= r * (1 + slack)), highest)
    if lowest < -top * _SLACK:
        raise ValueError(f"values from {lowest:g} to {highest:g} must lie in 0..1 (floats), 0..255 or 0..65535")
    return top
