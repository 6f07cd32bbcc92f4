"""What point and detect share: names, a constrained request for objects, and the complete objects among the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING

from photon.errors import RequestError
from photon.models.recipes import Recipe
from photon.request import Prompt, Request, Role, Sampling, Token
from photon.results import FinishReason
from photon.tasks.base import Part
from photon.tasks.checks import check_text, check_whole
from photon.tasks.context import TaskContext
from photon.tasks.prompt import room_after

if TYPE_CHECKING:
    from photon.tasks.detect import DetectTask
    from photon.tasks.point import PointTask

MAX_OBJECTS = 50
MAX_NAMES = 64
VALUE_SIZES = {Role.X: 1, Role.Y: 1, Role.SIZE: 2}  # numbers that a token of the role carries


def check_names(names: str | Sequence[str]) -> str | tuple[str, ...]:
    """One name as it is, several as a tuple. RequestError names what is no text, empty, said twice or too much."""
    if isinstance(names, str):
        check_text("object", names)
        return names
    if not isinstance(names, Sequence) or isinstance(names, bytes | bytearray):
        raise RequestError(f"object must be a name or a list of names, got {names!r}")
    if not 1 <= len(names) <= MAX_NAMES:
        said = f"{len(names)} names" if names else repr(names)
        raise RequestError(f"object must be a name or a list of 1 to {MAX_NAMES} names, got {said}")
    seen: set[str] = set()
    for name in names:
        check_text("each name of object", name)
        if name.strip() in seen:
            raise RequestError(f"the names of object must be different, got {name!r} twice")
        seen.add(name.strip())
    return tuple(names)


def only_name(names: str | Sequence[str]) -> str:
    """The name that a request asks for."""
    assert isinstance(names, str), f"{names} are several requests: only their parts are built, read and parsed"
    return names


def parts_by_name(task: DetectTask | PointTask) -> tuple[Part, ...]:
    """One request for each name of a list; what else was asked holds for each of them."""
    if isinstance(task.object, str):
        return (Part(task),)
    return tuple(Part(replace(task, object=name), f"object {name!r}") for name in task.object)


def check_max_objects(max_objects: int) -> None:
    check_whole("max_objects", max_objects, 1, 1000)


def check_duplicate_iou(duplicate_iou: float | None) -> None:
    if duplicate_iou is None:
        return
    is_number = isinstance(duplicate_iou, Real) and not isinstance(duplicate_iou, bool)
    if not (is_number and 0 < duplicate_iou <= 1):  # NaN fails every comparison
        raise RequestError(f"duplicate_iou must be a number in (0, 1], or None, got {duplicate_iou!r}")


def build_objects(
    request_id: int,
    context: TaskContext,
    prompt: Prompt,
    *,
    grammar: str,
    roles: tuple[Role, ...],
    max_objects: int,
    sampling: Sampling,
) -> Request:
    """At most `max_objects` objects of one token a role, and the end; fewer where the context is full before."""
    limit = min(len(roles) * max_objects + 1, room_after(context, prompt))
    values = _grammar_values(context.recipe) | {"max_objects": max_objects}
    return Request(
        id=request_id,
        prompt=prompt,
        max_tokens=limit,
        limit_tokens=limit,
        stop_ids=frozenset([context.recipe.ids.eos]),
        sampling=sampling,
        constraint=context.constraints.from_template(grammar, values, roles),
    )


def complete_objects(
    tokens: Sequence[Token], roles: tuple[Role, ...], max_objects: int
) -> list[tuple[tuple[float, ...], float | None]]:
    """(all numbers of an object, its score) for the leading objects that are whole; what was cut is left out."""
    objects = []
    width = len(roles)
    for start in range(0, min(len(tokens) // width, max_objects) * width, width):
        said = tokens[start : start + width]
        if [len(token.value) for token in said] != [VALUE_SIZES[role] for role in roles]:
            break
        objects.append((tuple(number for token in said for number in token.value), said[0].score))
    return objects


def finish_of_objects(finish_reason: FinishReason, num_objects: int, max_objects: int) -> FinishReason:
    """As many objects as were asked for means that a limit ended the answer: the end was then the only choice."""
    return "length" if finish_reason == "stop" and num_objects == max_objects else finish_reason


def _grammar_values(recipe: Recipe) -> dict[str, int]:
    named = {"end": recipe.ids.eos, "coord": recipe.ids.coord, "size": recipe.ids.size}
    return {name: value for name, value in named.items() if value is not None}
