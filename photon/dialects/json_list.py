"""A fenced JSON list, an object a thing: `bbox_2d` and `point_2d` of Qwen, `box_2d` and `point` of Gemini and Gemma.

The layout is the published one, blank for blank, so that a grammar leaves nothing to choose but numbers, names and the
end. Reading takes any layout, numbers in quotes, other keys, no fence, and a single object without a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dialects import ebnf
from photon.dialects.base import NUMBER, Dialect, Kind, Reader, Terms, Thing
from photon.dialects.frame import Axis
from photon.results import Point

_STRING = r'"(?:[^"\\]|\\.)*+"'
_OBJECT = re.compile(rf'\{{(?:[^{{}}"]|{_STRING})*+[{{}}]', re.DOTALL)
_BRACKET = re.compile(r"[\[\]]")
_LABEL = re.compile(rf'"label"\s*:\s*({_STRING})', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDialect(Dialect):
    """`point_key` and `box_key` name the list of numbers; `indent` stands before each object."""

    point_key: str = "point_2d"
    box_key: str = "bbox_2d"
    indent: str = "\t"
    points: bool = True
    boxes: bool = True

    def _key(self, kind: Kind) -> str:
        return self.point_key if kind == "point" else self.box_key

    def _encode(self, things: Sequence[Thing], axes: tuple[Axis, Axis]) -> str:
        if not things:
            return "```json\n[]\n```"
        objects = f",\n{self.indent}".join(self._object(thing, axes) for thing in things)
        return f"```json\n[\n{self.indent}{objects}\n]\n```"

    def _object(self, thing: Thing, axes: tuple[Axis, Axis]) -> str:
        key = self._key("point" if isinstance(thing, Point) else "box")
        return f'{{"{key}": [{", ".join(self._numbers(thing, axes))}]{_said(thing.label)}}}'

    def _grammar(
        self, kind: Kind, label: str | None, max_objects: int, axes: tuple[Axis, Axis], ids: Mapping[str, int]
    ) -> str:
        values = {
            "open": ebnf.literal(f"\n{self.indent}"),
            "between": ebnf.literal(f",\n{self.indent}"),
            "key": ebnf.literal(f'{{"{self._key(kind)}": ['),
            "numbers": ' ", " '.join(self._rules(kind)),
            "label": ebnf.literal(_said(label)),
            "more": str(max_objects - 1),
        }
        return ebnf.fill("json", values | {"x": axes[0].rule(), "y": axes[1].rule()})

    def _reader(self, terms: Terms) -> Reader:
        return _JsonReader(terms, self._key(terms.kind))


class _JsonReader(Reader):
    """Takes whole objects; of the text between them only the brackets matter."""

    def __init__(self, terms: Terms, key: str) -> None:
        super().__init__(terms)
        numbers = r"\s*,\s*".join([rf'"?({NUMBER})"?'] * terms.num_numbers)
        self._numbers = re.compile(rf'"{key}"\s*:\s*\[\s*{numbers}\s*\]')
        self._num_open_lists = 0

    @property
    def is_cut(self) -> bool:
        return self._num_open_lists > 0 or bool(self._rest)

    def _take(self) -> list[Thing]:
        things: list[Thing] = []
        position = 0
        while (start := self._rest.find("{", position)) >= 0:
            self._pass(self._rest[position:start])
            position = start
            found = _OBJECT.match(self._rest, start)
            if found is None:
                break
            position = found.end()
            if self._rest[position - 1] == "{":  # an object in an object: the inner one is looked at, the outer is not
                position -= 1
            else:
                things += self._read(found[0])
        else:
            self._pass(self._rest[position:])
            position = len(self._rest)
        self._rest = self._rest[position:]
        return things

    def _pass(self, text: str) -> None:
        for bracket in _BRACKET.findall(text):
            self._num_open_lists = self._num_open_lists + 1 if bracket == "[" else max(0, self._num_open_lists - 1)

    def _read(self, text: str) -> list[Thing]:
        numbers = self._numbers.search(text)
        label = _LABEL.search(text)
        return [self._terms.thing(numbers.groups(), label and _unescaped(label[1]))] if numbers else []


def _said(label: str | None) -> str:
    return "" if label is None else f', "label": {json.dumps(label, ensure_ascii=False)}'


def _unescaped(string: str) -> str | None:
    """The text of a JSON string; None where it is none, as with an escape that JSON has not."""
    try:
        return json.loads(string, strict=False)
    except ValueError:
        return None
