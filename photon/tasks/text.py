"""What caption and query share: the ban within an answer, and an answer's text."""

from __future__ import annotations

from collections.abc import Iterable

from photon.models.recipes import Ids, Recipe
from photon.request import Token
from photon.tasks.context import TaskContext

MAX_TOKENS = 768


def banned_in_answer(recipe: Recipe) -> Ids:
    """The answer id is never said after an answer's first token."""
    return () if recipe.ids.answer is None else (recipe.ids.answer,)


def decode_answer(context: TaskContext, tokens: Iterable[Token]) -> str:
    """Models begin an answer with a space: it is no part of the text."""
    return context.decode([token.id for token in tokens]).strip()
