"""What a user may ask, checked when a task is made: in the caller's thread, before any work."""

from __future__ import annotations

import math
from collections.abc import Sequence

from photon.errors import RequestError

SpatialRef = Sequence[float]  # (x, y) or (x_min, y_min, x_max, y_max)


def check_text(name: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{name} must be a text that is not empty, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} is not valid Unicode: {error}") from None


def check_whole(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} must be a whole number in [{low}, {high}], got {value!r}")


def check_refs(refs: Sequence[SpatialRef]) -> tuple[tuple[float, ...], ...]:
    """Spatial references as tuples of floats; RequestError names the first one that is neither a point nor a box."""
    try:
        listed = tuple(refs)
    except TypeError:
        raise RequestError(f"spatial_refs must be a list of points and boxes, got {refs!r}") from None
    return tuple(_check_ref(ref) for ref in listed)


def _check_ref(ref: SpatialRef) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in ref)
    except (TypeError, ValueError):
        numbers = ()
    is_inside = all(math.isfinite(value) and 0 <= value <= 1 for value in numbers)
    is_ordered = len(numbers) == 2 or (len(numbers) == 4 and numbers[0] <= numbers[2] and numbers[1] <= numbers[3])
    if not (is_inside and is_ordered):
        raise RequestError(
            f"a spatial reference must be (x, y) or (x_min, y_min, x_max, y_max) in order, in [0, 1], got {ref!r}"
        )
    return numbers
