"""What a user may ask, checked in the caller's thread, before any work: values when a task is made, and what the model
at hand can do when it is submitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TypeVar

from photon.errors import RequestError
from photon.models.recipes import Recipe

MAX_STOPS = 16
MAX_STOP_LENGTH = 256  # characters
MAX_TIMEOUT = 86400  # seconds
Item = TypeVar("Item")
SpatialRef = Sequence[float]  # (x, y) or (x_min, y_min, x_max, y_max)


def check_text(name: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{name} must be a text that is not empty, got {text!r}")
    check_unicode(name, text)


def check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{name} is not valid Unicode: {error}") from None


def check_whole(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} must be a whole number in [{low}, {high}], got {value!r}")


def check_stop(stop: str | Sequence[str]) -> tuple[str, ...]:
    """Stop strings as a tuple. RequestError names the one that is none."""
    wanted = f"at most {MAX_STOPS} texts of 1 to {MAX_STOP_LENGTH} characters"
    listed = (stop,) if isinstance(stop, str) else stop
    if not isinstance(listed, Sequence) or isinstance(listed, bytes | bytearray):
        raise RequestError(f"stop must be a text or a list of {wanted}, got {stop!r}")
    if len(listed) > MAX_STOPS:
        raise RequestError(f"stop must be {wanted}, got {len(listed)}: {stop!r}")
    for one in listed:
        if not isinstance(one, str) or not 1 <= len(one) <= MAX_STOP_LENGTH:
            raise RequestError(f"stop must be {wanted}, got {one!r}")
        check_unicode("a stop string", one)
    return tuple(listed)


def check_timeout(timeout: float | None) -> None:
    if timeout is None:
        return
    is_number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not (is_number and 0 <= timeout <= MAX_TIMEOUT):  # NaN fails every comparison
        raise RequestError(f"timeout must be a number of seconds in [0, {MAX_TIMEOUT}] or None, got {timeout!r}")


def check_list(name: str, values: Iterable[Item], wanted: str) -> list[Item]:
    """Anything that can be iterated, but for texts."""
    try:
        iterator = None if isinstance(values, str | bytes) else iter(values)
    except TypeError:
        iterator = None
    if iterator is None:
        raise RequestError(f"{name} must be a list of {wanted}, got {values!r}")
    return list(iterator)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in choices):
        raise RequestError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_flag(name: str, value: bool) -> None:
    """Refuses what would only be taken for one, such as "no"."""
    if not isinstance(value, bool):
        raise RequestError(f"{name} must be True or False, got {value!r}")


def check_refs(refs: Sequence[SpatialRef]) -> tuple[tuple[float, ...], ...]:
    """Spatial references as tuples of floats; RequestError names the first one that is neither a point nor a box."""
    return tuple(_check_ref(ref) for ref in check_list("spatial_refs", refs, "points and boxes"))


def check_place(name: str, place: Sequence[float]) -> tuple[float, float]:
    numbers = _fractions(place)
    if len(numbers) != 2:
        raise RequestError(f"{name} must be a point (x, y), both in [0, 1], got {place!r}")
    return numbers[0], numbers[1]


def check_image(task: str, *, has_image: bool) -> None:
    if not has_image:
        raise RequestError(f"{task} needs an image, got None")


def check_takes_image(recipe: Recipe, *, has_image: bool) -> None:
    if has_image and not recipe.takes_images:
        raise RequestError(f"{recipe.name} is a text model and takes no image: query it with image=None")


def check_says_places(recipe: Recipe, task: str) -> None:
    if task not in recipe.grammars:
        raise RequestError(
            f"{recipe.name} has no recipe that says how it speaks of places, so there is no {task}: "
            "caption and query work; dialect= is not available yet"
        )


def check_takes_refs(recipe: Recipe, refs: Sequence[SpatialRef]) -> None:
    if refs and (recipe.ids.coord is None or recipe.ids.size is None):
        raise RequestError(f"{recipe.name} takes no spatial references: ask without spatial_refs")


def _check_ref(ref: SpatialRef) -> tuple[float, ...]:
    numbers = _fractions(ref)
    is_ordered = len(numbers) == 2 or (len(numbers) == 4 and numbers[0] <= numbers[2] and numbers[1] <= numbers[3])
    if not is_ordered:
        raise RequestError(
            f"a spatial reference must be (x, y) or (x_min, y_min, x_max, y_max) in order, in [0, 1], got {ref!r}"
        )
    return numbers


def _fractions(values: Sequence[float]) -> tuple[float, ...]:
    """The values as floats; none where one is no number in [0, 1]."""
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        return ()
    return numbers if all(0 <= value <= 1 for value in numbers) else ()  # NaN fails every comparison
