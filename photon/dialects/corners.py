"""Qwen2-VL: a name and two corners, "<|object_ref_start|>dog<|object_ref_end|><|box_start|>(x,y),(x,y)<|box_end|>".

The four marks are special tokens of its vocabulary. Several boxes stand side by side, each with its name; nothing found
is an empty answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dialects import ebnf
from photon.dialects.base import NUMBER, Dialect, Kind, Reader, Terms, Thing
from photon.dialects.frame import Axis

REF, END_REF, BOX, END_BOX = "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>"
_NAME = rf"{re.escape(REF)}([^<(]*){re.escape(END_REF)}"
_CORNER = rf"\(\s*({NUMBER})\s*,\s*({NUMBER})\s*\)"
_PIECE = re.compile(rf"{_NAME}|{_CORNER}\s*,\s*{_CORNER}")
_PARTIAL = re.compile(r"\([-0-9.,\s]*(?:\)[\s,]*(?:\([-0-9.,\s]*)?)?$|<\|?[a-z_]*(?:\|>[^<(]*(?:<[|a-z_]*)?)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CornersDialect(Dialect):
    """Says boxes only."""

    boxes: bool = True
    marks: tuple[str, ...] = (REF, END_REF, BOX, END_BOX)

    @property
    def _banned(self) -> str:
        return "<>()|\n\r"

    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str:
        return "".join(self._one(thing, axes) for thing in things)

    def _one(self, thing: Thing, axes: tuple[Axis, Axis]) -> str:
        name = "" if thing.label is None else f"{REF}{thing.label}{END_REF}"
        left, top, right, bottom = self._numbers(thing, axes)
        return f"{name}{BOX}({left},{top}),({right},{bottom}){END_BOX}"

    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str:
        ref, end_ref, box, end_box = (ebnf.mark(text, ids) for text in self.marks)
        values = {
            "label": ebnf.literal("") if label is None else f"{ref} {ebnf.literal(label)} {end_ref}",
            "box": box,
            "end_box": end_box,
            "max_objects": str(max_objects),
        }
        return ebnf.fill("corners", values | {"x": axes[0].rule(), "y": axes[1].rule()})

    def _reader(self, terms: Terms) -> Reader:
        return _CornersReader(terms)


class _CornersReader(Reader):
    """Looks for names and for pairs of corners; the marks around the corners may be missing."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._name: str | None = None
        self._awaits_box = False

    @property
    def is_cut(self) -> bool:
        return self._awaits_box or bool(_PARTIAL.search(self._rest.removeprefix(END_BOX)))

    def _take(self) -> list[Thing]:
        things: list[Thing] = []
        while found := _PIECE.search(self._rest):
            self._awaits_box = found[1] is not None
            if self._awaits_box:
                self._name = found[1].strip() or None
            else:
                things.append(self._terms.thing(found.groups()[1:], self._name))
                self._name = None
            self._rest = self._rest[found.end() :]
        return things
