"""What caption and query share: the ban within an answer, an answer's text, and the strings that end it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from photon.models.recipes import Ids, Recipe
from photon.request import Token
from photon.results import FinishReason
from photon.tasks.context import TaskContext
from photon.text.stops import StopFilter, StopStrings

MAX_TOKENS = 768


def banned_in_answer(recipe: Recipe) -> Ids:
    """The answer id is never said after an answer's first token."""
    return () if recipe.ids.answer is None else (recipe.ids.answer,)


def watch_stops(context: TaskContext, stop: Sequence[str], answer_mark: int | None = None) -> StopStrings | None:
    """What ends the answer at a stop string; None where there are none."""
    return StopStrings(stop, context.detokenizer(), answer_mark) if stop else None


def read_answer(
    context: TaskContext, tokens: Iterable[Token], stop: Sequence[str], finish_reason: FinishReason
) -> tuple[str, FinishReason]:
    """The answer's text, without the blanks around it, and how it ended.

    A stop string may need the very end: half a character that was cut there is U+FFFD in the text.
    """
    ids = [token.id for token in tokens]
    if not stop:
        return context.decode(ids).strip(), finish_reason
    detokenizer, stops = context.detokenizer(), StopFilter(stop)
    text = stops.push(detokenizer.push(ids)) + stops.push(detokenizer.flush()) + stops.flush()
    return text.strip(), "stop" if stops.is_stopped else finish_reason
