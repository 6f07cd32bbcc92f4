"""PaliGemma: four `<locNNNN>` a box, each one token, then the name: "<loc0051><loc0309><loc0708><loc0646> shoe".

Several stand with " ; " between them; nothing found is an empty answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dialects import ebnf
from photon.dialects.base import Dialect, Kind, Reader, Terms, Thing
from photon.dialects.frame import Axis

_LOC = r"<loc([0-9]{4})>"
_PARTIAL = re.compile(rf"(?:<l?o?c?[0-9]*|{_LOC}|;)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocDialect(Dialect):
    """Says boxes only."""

    boxes: bool = True

    @property
    def _banned(self) -> str:
        return "<;\n\r"

    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str:
        return " ; ".join(
            "".join(f"<loc{number}>" for number in self._numbers(thing, axes)) + _said(thing.label) for thing in things
        )

    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str:
        has_marks = all(text in ids for text in self.marks)
        rules = [ebnf.any_of(list(self.marks), ids) if has_marks else f'"<loc" {axis.rule()} ">"' for axis in axes]
        values = {
            "numbers": " ".join(self._rules(kind)),
            "label": ebnf.literal(_said(label)),
            "more": str(max_objects - 1),
        }
        return ebnf.fill("loc", values | {"x": rules[0], "y": rules[1]})

    def _reader(self, terms: Terms) -> Reader:
        return _LocReader(terms)


class _LocReader(Reader):
    """With a name that was asked for, a box is complete with its last number; else at what ends its name."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        numbers = _LOC * terms.num_numbers
        self._item = re.compile(numbers if terms.label is not None else rf"{numbers}([^<;\n]*)(?=[<;\n])")
        self._last = re.compile(rf"{numbers}([^<;\n]*)$")
        self._goes_on = False

    def end(self) -> list[Thing]:
        if self._terms.label is not None or not (found := self._last.search(self._rest)):
            return []
        self._rest = ""
        return [self._thing(found)]

    @property
    def is_cut(self) -> bool:
        return bool(_PARTIAL.search(self._rest))

    def _take(self) -> list[Thing]:
        things: list[Thing] = []
        while found := self._item.search(self._rest):
            things.append(self._thing(found))
            self._rest = self._rest[found.end() :]
        return things

    def _thing(self, found: re.Match[str]) -> Thing:
        numbers = found.groups()[: self._terms.num_numbers]
        said = found[self._terms.num_numbers + 1].strip() if len(found.groups()) > len(numbers) else ""
        return self._terms.thing(numbers, said or None)


def _said(label: str | None) -> str:
    return "" if label is None else f" {label}"
