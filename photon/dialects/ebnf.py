"""Pieces of EBNF as xgrammar reads it: literals, marks, number ranges, and the grammar files' templates.

An alternative or a sequence comes in parentheses, so that every piece can stand anywhere in a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from photon.datadir import grammars_dir

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def literal(text: str) -> str:
    """A rule that says exactly `text`."""
    return f'"{"".join(_escape(char) for char in text)}"'


def mark(text: str, ids: Mapping[str, int]) -> str:
    """A rule that says `text` as the one token it is in the vocabulary, or spelled out where it is none."""
    return f"Token({ids[text]})" if text in ids else literal(text)


def any_of(texts: list[str], ids: Mapping[str, int]) -> str:
    """A rule that says one of `texts`, each of them one token of the vocabulary."""
    return f"Token({', '.join(str(ids[text]) for text in texts)})"


def number(top: int, *, decimals: int = 0) -> str:
    """A rule for n / 10**decimals, n in 0..top: with all its decimals, without needless zeros before them."""
    assert top >= 0 and decimals >= 0, (top, decimals)
    if decimals == 0:
        return _either(_whole(top))
    whole, part = divmod(top, 10**decimals)
    point = f'"." {_digits(decimals)}'
    if part == 10**decimals - 1:
        return f"({_either(_whole(whole))} {point})"
    last = [f'"{whole}." {_either(_padded(str(part).zfill(decimals)))}']
    return _either([f"{_either(_whole(whole - 1))} {point}", *last] if whole else last)


def padded_number(top: int, width: int) -> str:
    """A rule for 0..top, each with zeros before it up to `width` digits."""
    assert 0 <= top < 10**width, (top, width)
    return _either(_padded(str(top).zfill(width)))


def fill(name: str, values: Mapping[str, str]) -> str:
    """The grammar file `name` of the dialects with `values` in place of its $names."""
    path = grammars_dir() / "dialects" / f"{name}.ebnf"
    return Template(path.read_text(encoding="utf-8")).substitute(values)


def _whole(top: int) -> list[str]:
    """Alternatives for 0..top: by the number of digits, only 0 itself begins with a zero."""
    text = str(top)
    if len(text) == 1:
        return [_range(0, top)]
    shorter = ["[0-9]", *(f"[1-9] {_digits(n - 1)}" for n in range(2, len(text)))]
    return shorter + _padded(text, lowest_first=1)


def _padded(top: str, *, lowest_first: int = 0) -> list[str]:
    """Alternatives for the numbers of as many digits as `top`, up to it, whose first digit is at least the lowest."""
    rest = top[1:]
    first = int(top[0])
    if not rest.strip("9"):
        return [_join(_range(lowest_first, first), _digits(len(rest)))]
    below = [_join(_range(lowest_first, first - 1), _digits(len(rest)))] if first > lowest_first else []
    return [*below, f'"{first}" {_either(_padded(rest))}']


def _range(low: int, high: int) -> str:
    return f'"{low}"' if low == high else f"[{low}-{high}]"


def _digits(count: int) -> str:
    return "" if count == 0 else "[0-9]" if count == 1 else f"[0-9]{{{count}}}"


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _either(alternatives: list[str]) -> str:
    return f"({' | '.join(alternatives)})"


def _escape(char: str) -> str:
    return _ESCAPES.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}")
