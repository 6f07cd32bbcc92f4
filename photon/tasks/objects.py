"""What point and detect share: a constrained request for objects, and the complete objects among the tokens said."""

from __future__ import annotations

from collections.abc import Sequence

from photon.models.recipes import Recipe
from photon.request import Prompt, Request, Role, Sampling, Token
from photon.results import FinishReason
from photon.tasks.checks import check_whole
from photon.tasks.context import TaskContext
from photon.tasks.prompt import room_after

MAX_OBJECTS = 50
VALUE_SIZES = {Role.X: 1, Role.Y: 1, Role.SIZE: 2}  # numbers that a token of the role carries


def check_max_objects(max_objects: int) -> None:
    check_whole("max_objects", max_objects, 1, 1000)


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
