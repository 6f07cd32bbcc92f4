"""What a model thought before its answer: text in passages, and the points that a passage speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from photon.request import Token
from photon.results import Grounding, Point, Reasoning
from photon.tasks.context import TaskContext


def split_at_mark(tokens: tuple[Token, ...], mark: int | None) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """(reasoning, answer) around the first `mark`; no answer where it was never said."""
    at = next((i for i, token in enumerate(tokens) if token.id == mark), len(tokens))
    return tokens[:at], tokens[at + 1 :]


def parse_reasoning(context: TaskContext, tokens: Iterable[Token]) -> Reasoning:
    """Text without the special ids, as it was said (not stripped: the grounding's offsets are its characters).

    The ids that start and end a grounding begin a new passage. A passage with at least two coordinates is grounded in
    the points that they make, pair by pair; an odd last one is dropped.
    """
    text, groundings = "", []
    for passage in _passages(context, tokens):
        start = len(text)
        text += context.decode(_text_ids(context, passage))
        points = _points(passage)
        if points:
            groundings.append(Grounding(start, len(text), points))
    return Reasoning(text, tuple(groundings))


def _passages(context: TaskContext, tokens: Iterable[Token]) -> list[list[Token]]:
    ids = context.recipe.ids
    passages: list[list[Token]] = [[]]
    for token in tokens:
        if token.id in (ids.start_ground, ids.end_ground):
            passages.append([])
        else:
            passages[-1].append(token)
    return passages


def _text_ids(context: TaskContext, passage: Sequence[Token]) -> list[int]:
    special = context.recipe.ids.known()
    return [token.id for token in passage if token.id not in special]


def _points(passage: Sequence[Token]) -> tuple[Point, ...]:
    values = [token.value[0] for token in passage if len(token.value) == 1]
    return tuple(Point(x, y) for x, y in zip(values[::2], values[1::2], strict=False))
