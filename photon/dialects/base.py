"""What a dialect is: how one family of models says points and boxes as text, told in both directions and as a grammar.

Plain text in, typed things out; no tokenizer and no model. Corners are in order and coordinates within [0, 1] in all
that a dialect gives, whatever the text said.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from photon.dialects.frame import Axis, Frame, Scale
from photon.errors import RequestError
from photon.results import Box, Point

Kind = Literal["point", "box"]
Thing = Point | Box
Order = Literal["xyxy", "yxyx"]

NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
NO_IDS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a whole text said: its complete things, and whether it ends inside a list or a thing."""

    things: tuple[Thing, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Terms:
    """How the things of one answer are read: their kind, their numbers' order and axes, the name asked for."""

    kind: Kind
    order: Order
    axes: tuple[Axis, Axis]
    label: str | None

    @property
    def num_numbers(self) -> int:
        return 2 if self.kind == "point" else 4

    def thing(self, numbers: Sequence[str], said_label: str | None = None) -> Thing:
        """From a thing's numbers as they stand in the text."""
        label = said_label if self.label is None else self.label
        pairs = [self._place(*numbers[i : i + 2]) for i in range(0, self.num_numbers, 2)]
        if self.kind == "point":
            return Point(*pairs[0], label=label)
        (x_min, x_max), (y_min, y_max) = (sorted(values) for values in zip(*pairs, strict=True))
        return Box(x_min, y_min, x_max, y_max, label=label)

    def _place(self, first: str, second: str) -> tuple[float, float]:
        x, y = (first, second) if self.order == "xyxy" else (second, first)
        return self.axes[0].read(x), self.axes[1].read(y)


class Reader(ABC):
    """The state of one answer that is being said, fed piece by piece. What `feed` and `end` give, joined, does not
    depend on where the text is cut."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._rest = ""

    def feed(self, text: str) -> list[Thing]:
        """The things that this piece of text completes."""
        self._rest += text
        return self._take()

    def end(self) -> list[Thing]:
        """A thing that only the end of the text completes."""
        return []

    @property
    @abstractmethod
    def is_cut(self) -> bool:
        """Whether the text so far ends inside a list or a thing."""

    @abstractmethod
    def _take(self) -> list[Thing]:
        """Take the complete things from the front of `_rest`, and what lies before them; leave what may become one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(ABC):
    """One way of saying points, boxes or both. `marks`: pieces that some vocabularies have as one token each."""

    name: str
    points: bool = False
    boxes: bool = False
    order: Order = "xyxy"
    scale: Scale
    marks: tuple[str, ...] = ()
    needs_marks: bool = False

    def says(self, kind: Kind) -> bool:
        return self.points if kind == "point" else self.boxes

    def encode(self, things: Sequence[Thing], *, frame: Frame | None = None) -> str:
        """What the model says for `things`, all of one kind. RequestError for a kind or a label that it cannot say."""
        self._check_kinds(things)
        for thing in things:
            self.check_label(thing.label)
        return self._encode(things, self.scale.axes(frame))

    def grammar(
        self,
        kind: Kind,
        *,
        label: str | None = None,
        max_objects: int,
        frame: Frame | None = None,
        ids: Mapping[str, int] = NO_IDS,
    ) -> str:
        """EBNF of at most `max_objects` things, none included, each of them in range.

        They are all named `label`; without one they have no names. `ids`: the vocabulary, by name; marks that it has
        are said as one token, even a special one that no text can say.
        """
        self.check_kind(kind)
        self.check_label(label)
        if max_objects < 1:
            raise RequestError(f"max_objects must be at least 1, got {max_objects}")
        return self._grammar(kind, label, max_objects, self.scale.axes(frame), ids)

    def reader(self, kind: Kind, *, label: str | None = None, frame: Frame | None = None) -> Reader:
        """Reads an answer as it comes. All things are named `label`; without one, as the text names them, and a thing
        whose name stands behind its numbers waits for it."""
        self.check_kind(kind)
        return self._reader(Terms(kind, self.order, self.scale.axes(frame), label))

    def decode(self, text: str, kind: Kind, *, label: str | None = None, frame: Frame | None = None) -> Reading:
        """Read a whole answer, said under a grammar or not: prose around the things does not matter."""
        reader = self.reader(kind, label=label, frame=frame)
        things = (*reader.feed(text), *reader.end())
        return Reading(things, reader.is_cut)

    def check_kind(self, kind: Kind) -> None:
        """RequestError when the dialect has no such things."""
        if not self.says(kind):
            other = "points" if self.points else "boxes"
            raise RequestError(f"the dialect {self.name} has no way to say a {kind}; it says {other}")

    def check_label(self, label: str | None) -> None:
        """RequestError when `label` cannot stand in the dialect: nothing, no Unicode, or a character with a meaning."""
        if label is None:
            return
        found = sorted(set(label) & set(self._banned))
        if found:
            raise RequestError(f"a label in the dialect {self.name} may not contain {found[0]!r}, got {label!r}")
        if not label.strip() or label != label.strip() or any("\ud800" <= char <= "\udfff" for char in label):
            raise RequestError(f"a label must be Unicode text without blanks around it, got {label!r}")

    @property
    def _banned(self) -> str:
        """Characters that end a label or begin something else."""
        return ""

    def _numbers(self, thing: Thing, axes: tuple[Axis, Axis]) -> list[str]:
        """The thing's numbers in the dialect's order."""
        if isinstance(thing, Point):
            pairs = [(thing.x, thing.y)]
        else:
            pairs = [(thing.x_min, thing.y_min), (thing.x_max, thing.y_max)]
        written = [(axes[0].write(x), axes[1].write(y)) for x, y in pairs]
        return [text for x, y in written for text in ((x, y) if self.order == "xyxy" else (y, x))]

    def _rules(self, kind: Kind) -> list[str]:
        """Names of the rules of a thing's numbers, in the dialect's order."""
        return list(self.order[: 2 if kind == "point" else 4])

    def _check_kinds(self, things: Sequence[Thing]) -> None:
        kinds: set[Kind] = {"point" if isinstance(thing, Point) else "box" for thing in things}
        if len(kinds) > 1:
            raise RequestError("points and boxes cannot stand in one answer")
        for kind in kinds:
            self.check_kind(kind)

    def _common_label(self, things: Sequence[Thing]) -> str | None:
        """The one name of all of them."""
        first, *others = dict.fromkeys(thing.label for thing in things)
        if others:
            raise RequestError(f"an answer in the dialect {self.name} has one name, got {first!r} and {others[0]!r}")
        return first

    @abstractmethod
    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str: ...

    @abstractmethod
    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str: ...

    @abstractmethod
    def _reader(self, terms: Terms) -> Reader: ...
