"""The dialects by name, and whether a tokenizer can spell one. Where each is published stands in docs/dialects.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from photon.dialects.base import Dialect, Kind, Thing
from photon.dialects.corners import CornersDialect
from photon.dialects.frame import BINS, PERCENT, PIXELS, THOUSAND, THOUSAND_OPEN, UNIT, Frame
from photon.dialects.json_list import JsonDialect
from photon.dialects.loc import LocDialect
from photon.dialects.ref_box import RefBoxDialect
from photon.dialects.tags import TagDialect
from photon.errors import ConfigError, RequestError
from photon.results import Box, Point

LOC_MARKS = tuple(f"<loc{n:04d}>" for n in range(1024))

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        JsonDialect(name="qwen2.5-vl", scale=PIXELS),
        JsonDialect(name="qwen3-vl", scale=THOUSAND),
        JsonDialect(name="gemma", scale=THOUSAND, order="yxyx", point_key="point", box_key="box_2d", indent="  "),
        JsonDialect(name="json-unit", scale=UNIT),
        JsonDialect(name="json-percent", scale=PERCENT),
        CornersDialect(name="qwen2-vl", scale=THOUSAND_OPEN),
        LocDialect(name="paligemma", scale=BINS, order="yxyx", marks=LOC_MARKS, needs_marks=True),
        TagDialect(name="molmo", scale=PERCENT),
        RefBoxDialect(name="internvl", scale=THOUSAND),
    )
}

_DIGITS = "0123456789"
_NUM_NAMED = 5


def find_dialect(name: str) -> Dialect:
    """RequestError for a name that no dialect has."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise RequestError(f"unknown dialect {name!r}; known dialects: {', '.join(sorted(DIALECTS))}") from None


def missing_pieces(dialect: Dialect, pieces: Collection[bytes], ids: Mapping[str, int]) -> list[str]:
    """What a vocabulary lacks to spell all that the dialect says: marks that must be one token, then characters.

    `pieces`: the bytes that its text tokens add to a text. `ids`: its tokens by name, added and special ones too.
    """
    lacking = [text for text in dialect.marks if dialect.needs_marks and text not in ids]
    known = frozenset(pieces)
    longest = max(map(len, known), default=0)
    texts = [*("" if dialect.needs_marks else _DIGITS), *_samples(dialect)]
    for name in dialect.marks:
        texts = [text.replace(name, "") if name in ids or dialect.needs_marks else text for text in texts]
    unspelled = {char for text in texts if not _can_spell(text, known, longest) for char in text}
    return lacking + sorted(char for char in unspelled if not _can_spell(char, known, longest))


def check_spelling(dialect: Dialect, pieces: Collection[bytes], ids: Mapping[str, int]) -> None:
    """ConfigError when the vocabulary cannot spell the dialect; it names what is missing, and the dialects it can."""
    lacking = missing_pieces(dialect, pieces, ids)
    if not lacking:
        return
    named = ", ".join(map(repr, lacking[:_NUM_NAMED])) + (", ..." if len(lacking) > _NUM_NAMED else "")
    able = ", ".join(name for name, other in sorted(DIALECTS.items()) if not missing_pieces(other, pieces, ids))
    raise ConfigError(
        f"this model's tokenizer cannot spell the dialect {dialect.name}: it lacks {named} ({len(lacking)} in all); "
        f"dialects that it can spell: {able or 'none'}"
    )


@lru_cache
def _samples(dialect: Dialect) -> tuple[str, ...]:
    """Answers that hold every fixed part of the dialect between them: nothing, one thing, two things."""
    point, box = Point(0.25, 0.5, label="0"), Box(0.25, 0.5, 0.75, 1.0, label="0")
    things: dict[Kind, Thing] = {"point": point, "box": box}
    said = [thing for kind, thing in things.items() if dialect.says(kind)]
    return tuple(dialect.encode([thing] * n, frame=Frame(100, 100)) for thing in said for n in range(3))


def _can_spell(text: str, pieces: frozenset[bytes], longest: int) -> bool:
    """Whether `text` is some pieces in a row."""
    data = text.encode()
    reached = {0}
    for end in range(1, len(data) + 1):
        if any(start in reached and data[start:end] in pieces for start in range(max(0, end - longest), end)):
            reached.add(end)
    return len(data) in reached
