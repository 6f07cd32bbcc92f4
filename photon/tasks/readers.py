"""From tokens as they are committed to chunks for the caller. What a reader gives, joined, is what `parse` gives.

A reader is the state of one streamed request and knows nothing of threads. A point or a box leaves with the commit
that completes it; text leaves as soon as its characters are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from photon.chunks import Chunk, ReasoningDelta, TextDelta
from photon.request import Role, Token
from photon.results import Box, Point
from photon.tasks.context import TaskContext
from photon.tasks.objects import complete_objects
from photon.text.stops import StopFilter

Found = TypeVar("Found", Point, Box)


class Reader(Protocol):
    def read(self, tokens: Iterable[Token]) -> Sequence[Chunk]:
        """The chunks that these tokens complete."""
        ...

    def end(self) -> Sequence[Chunk]:
        """What was held back; no token follows."""
        ...


class TextReader:
    """Text up to the first stop string, without the blanks around it: leading ones are dropped, others wait until a
    character follows."""

    def __init__(self, context: TaskContext, stop: Sequence[str]) -> None:
        self._detokenizer = context.detokenizer()
        self._stops = StopFilter(stop)
        self._has_begun = False
        self._blanks = ""

    def read(self, tokens: Iterable[Token]) -> list[Chunk]:
        return self._deltas(self._stops.push(self._detokenizer.push(token.id for token in tokens)))

    def end(self) -> list[Chunk]:
        return self._deltas(self._stops.push(self._detokenizer.flush()) + self._stops.flush())

    def _deltas(self, text: str) -> list[Chunk]:
        if not self._has_begun:
            text = text.lstrip()
        if not text:
            return []
        self._has_begun = True
        text = self._blanks + text
        said = text.rstrip()
        self._blanks = text[len(said) :]
        return [TextDelta(said)] if said else []


class RawReader:
    """Text as it is said, blanks and all: of a structured answer, each of its characters counts."""

    def __init__(self, context: TaskContext) -> None:
        self._detokenizer = context.detokenizer()

    def read(self, tokens: Iterable[Token]) -> list[Chunk]:
        return _as_delta(self._detokenizer.push(token.id for token in tokens))

    def end(self) -> list[Chunk]:
        return _as_delta(self._detokenizer.flush())


class ReasoningReader:
    """Thoughts and the points among them until the answer mark, then the answer's text."""

    def __init__(self, context: TaskContext, stop: Sequence[str]) -> None:
        ids = context.recipe.ids
        self._context = context
        self._stop = stop
        self._mark, self._special = ids.answer, ids.known()
        self._borders = (ids.start_ground, ids.end_ground)
        self._thoughts = context.detokenizer()
        self._values: list[float] = []
        self._answer: TextReader | None = None

    def read(self, tokens: Iterable[Token]) -> list[Chunk]:
        return [chunk for token in tokens for chunk in self._read(token)]

    def end(self) -> list[Chunk]:
        return self._finish_thought() if self._answer is None else self._answer.end()

    def _read(self, token: Token) -> list[Chunk]:
        if self._answer is not None:
            return self._answer.read([token])
        if token.id == self._mark:
            self._answer = TextReader(self._context, self._stop)
            return self._finish_thought()
        if token.id in self._borders:
            return self._finish_thought()
        if len(token.value) == 1:
            self._values.append(token.value[0])
            return [Point(self._values[-2], self._values[-1])] if len(self._values) % 2 == 0 else []
        return self._thought(self._thoughts.push([] if token.id in self._special else [token.id]))

    def _finish_thought(self) -> list[Chunk]:
        """A border of a grounding: half a character before it never becomes whole, an odd coordinate finds no pair."""
        text, self._thoughts, self._values = self._thoughts.flush(), self._context.detokenizer(), []
        return self._thought(text)

    def _thought(self, text: str) -> list[Chunk]:
        return [ReasoningDelta(text)] if text else []


class ObjectReader(Generic[Found]):
    """Points or boxes: `make` builds one from an object's numbers and its score. One that `repeats` an earlier one is
    left out. `num_said` counts all."""

    def __init__(
        self,
        roles: tuple[Role, ...],
        max_objects: int,
        make: Callable[[tuple[float, ...], float | None], Found],
        repeats: Callable[[Found, Found], bool] | None = None,
    ) -> None:
        self._roles, self._max_objects, self._make, self._repeats = roles, max_objects, make, repeats
        self.num_said = 0
        self._open: list[Token] = []
        self._found: list[Found] = []  # those that later ones might repeat

    def read(self, tokens: Iterable[Token]) -> list[Found]:
        self._open += tokens
        whole = complete_objects(self._open, self._roles, self._max_objects - self.num_said)
        self.num_said += len(whole)
        del self._open[: len(whole) * len(self._roles)]
        made = [self._make(numbers, score) for numbers, score in whole]
        return made if self._repeats is None else [found for found in made if self._is_new(found, self._repeats)]

    def end(self) -> list[Found]:
        return []

    def _is_new(self, found: Found, repeats: Callable[[Found, Found], bool]) -> bool:
        is_new = not any(repeats(found, earlier) for earlier in self._found)
        if is_new:
            self._found.append(found)
        return is_new


def _as_delta(text: str) -> list[Chunk]:
    return [TextDelta(text)] if text else []
