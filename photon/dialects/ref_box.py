"""InternVL: a name and the list of its boxes, "<ref>dog</ref><box>[[x1, y1, x2, y2], ...]</box>".

The four marks are special tokens of its vocabularies. Nothing found is an empty answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dialects import ebnf
from photon.dialects.base import NUMBER, Dialect, Kind, Reader, Terms, Thing
from photon.dialects.frame import Axis

REF, END_REF, BOX, END_BOX = "<ref>", "</ref>", "<box>", "</box>"
_PARTIAL_LIST = re.compile(r"\[[-0-9.,\s]*$")
_PARTIAL_NAME = re.compile(r"<(?:r?e?f?|ref>[^<\[]*(?:<[^<\[]*)?)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefBoxDialect(Dialect):
    """Says boxes only, all of one answer with one name. Reading takes several names, each with its boxes."""

    boxes: bool = True
    marks: tuple[str, ...] = (REF, END_REF, BOX, END_BOX)

    @property
    def _banned(self) -> str:
        return "<>[]\n\r"

    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str:
        if not things:
            return ""
        label = self._common_label(things)
        name = "" if label is None else f"{REF}{label}{END_REF}"
        boxes = ", ".join(f"[{', '.join(self._numbers(thing, axes))}]" for thing in things)
        return f"{name}{BOX}[{boxes}]{END_BOX}"

    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str:
        ref, end_ref, box, end_box = (ebnf.mark(text, ids) for text in self.marks)
        values = {
            "label": ebnf.literal("") if label is None else f"{ref} {ebnf.literal(label)} {end_ref}",
            "box": box,
            "end_box": end_box,
            "numbers": ' ", " '.join(self._rules(kind)),
            "more": str(max_objects - 1),
        }
        return ebnf.fill("ref-box", values | {"x": axes[0].rule(), "y": axes[1].rule()})

    def _reader(self, terms: Terms) -> Reader:
        return _RefBoxReader(terms)


class _RefBoxReader(Reader):
    """Looks for names and for lists of four numbers; the marks around the lists may be missing."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        numbers = r"\s*,\s*".join([rf"({NUMBER})"] * terms.num_numbers)
        self._piece = re.compile(rf"{REF}([^<\[]*){END_REF}|\[\s*{numbers}\s*\]")
        self._name: str | None = None
        self._is_open = False

    @property
    def is_cut(self) -> bool:
        return self._is_open or bool(_PARTIAL_LIST.search(self._rest) or _PARTIAL_NAME.search(self._rest))

    def _take(self) -> list[Thing]:
        things: list[Thing] = []
        while found := self._piece.search(self._rest):
            if found[1] is not None:
                self._name = found[1].strip() or None
            else:
                things.append(self._terms.thing(found.groups()[1:], self._name))
            self._is_open = True
            self._rest = self._rest[found.end() :]
        if self._is_open and "]" in self._rest:
            self._is_open = False
        return things
