"""Molmo: one tag for all points, which names them after it has counted them out; "There are none." for nothing.

<point x="63.5" y="44.5" alt="Mt Rainier">Mt Rainier</point>, or <points x1="..." y1="..." x2="..." y2="..." alt="...">.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dialects import ebnf
from photon.dialects.base import NUMBER, Dialect, Kind, Reader, Terms, Thing
from photon.dialects.frame import Axis

NOTHING = "There are none."
_PAIR = re.compile(rf'\bx([0-9]*)="\s*({NUMBER})\s*"\s+y\1="\s*({NUMBER})\s*"')
_TAG = re.compile(r'<points?\s(?:[^>"]|"[^"]*")*+>')
_ALT = re.compile(r'\balt="([^"]*)"')
_OPEN_TAG = re.compile(r"<[a-z]*$|<points?\s[^>]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagDialect(Dialect):
    """Says points only, all of one answer with one name."""

    points: bool = True

    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str:
        if not things:
            return NOTHING
        said = _said(self._common_label(things))
        places = [self._numbers(thing, axes) for thing in things]
        if len(places) == 1:
            return f'<point x="{places[0][0]}" y="{places[0][1]}"{said}</point>'
        pairs = " ".join(f'x{n}="{x}" y{n}="{y}"' for n, (x, y) in enumerate(places, 1))
        return f"<points {pairs}{said}</points>"

    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str:
        said = ebnf.literal(_said(label))
        many = rf'| "<points x1=\"" x "\" y1=\"" y "\"" p2 {said} "</points>"' if max_objects > 1 else ""
        rules = [
            rf'p{n} ::= " x{n}=\"" x "\" y{n}=\"" y "\""' + (f" p{n + 1}?" if n < max_objects else "")
            for n in range(2, max_objects + 1)
        ]
        values = {"nothing": ebnf.literal(NOTHING), "label": said, "many": many, "rules": "\n".join(rules)}
        return ebnf.fill("points", values | {"x": axes[0].rule(), "y": axes[1].rule()})

    def _reader(self, terms: Terms) -> Reader:
        return _TagReader(terms)


class _TagReader(Reader):
    """With a name that was asked for, a point is complete with its y; else all of a tag with the tag."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._in_tag = False

    @property
    def is_cut(self) -> bool:
        return self._in_tag or bool(_OPEN_TAG.search(self._rest))

    def _take(self) -> list[Thing]:
        return self._take_tags() if self._terms.label is None else self._take_points()

    def _take_tags(self) -> list[Thing]:
        things: list[Thing] = []
        while tag := _TAG.search(self._rest):
            alt = _ALT.search(tag[0])
            label = html.unescape(alt[1]) if alt else None
            things += [self._terms.thing(pair.groups()[1:], label) for pair in _PAIR.finditer(tag[0])]
            self._rest = self._rest[tag.end() :]
        return things

    def _take_points(self) -> list[Thing]:
        things: list[Thing] = []
        while pair := _PAIR.search(self._rest):
            things.append(self._terms.thing(pair.groups()[1:]))
            self._rest = self._rest[pair.end() :]
            self._in_tag = True
        if self._in_tag and ">" in self._rest:
            self._in_tag = False
        return things


def _said(label: str | None) -> str:
    """The rest of the tag and what it encloses."""
    if label is None:
        return ">"
    text = html.escape(label, quote=False).replace('"', "&quot;")
    return f' alt="{text}">{text}'
