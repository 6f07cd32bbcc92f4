"""From a schema that can be said to EBNF: xgrammar's own conversion, with an end to digits and only sound characters.

JSON is written on one line, as `json.dumps` does by default: after "," and ":" one space, no other.
"""

from __future__ import annotations

import json
import re
from typing import Any

from photon.constraint.limits import MAX_GRAMMAR_CHARS, TOKEN, read_count
from photon.errors import ConstraintError

MAX_DIGITS = 15  # of a whole number, and behind a point: what a float64 holds exactly
_DIGIT_RULE = re.compile(r"^([\w.-]+) ::= \(\(\[0-9\]\)\)$", re.MULTILINE)

# The rules that xgrammar's conversion gives every schema, where they have no end or let too much through: endless
# digits, an exponent past float64's range, an escaped half of a surrogate pair.
_REPLACED = {
    "basic_integer": f'(("0") | (basic_integer_1 [1-9] [0-9]{{0,{MAX_DIGITS - 1}}}))',
    "basic_number_2": f'(("0") | ([1-9] [0-9]{{0,{MAX_DIGITS - 1}}}))',
    "basic_number_3": f'("" | ("." [0-9]{{1,{MAX_DIGITS}}}))',
    "basic_number_5": '("" | ([eE] basic_number_4 [0-9]{1,2}))',
    "basic_escape": r'(([\"\\/bfnrt]) | ("u" [0-9A-CE-Fa-ce-f] HEX HEX HEX) | ("u" [Dd] [0-7] HEX HEX))'.replace(
        "HEX", "[0-9A-Fa-f]"
    ),
}
_CHARACTER = r"[^\"\\\r\n]"  # of a string of limited length: lets through control characters, which JSON does not
_SOUND_CHARACTER = r"[^\0-\x1f\"\\]"


def schema_to_ebnf(schema: Any) -> str:
    """ConstraintError where xgrammar cannot convert the schema."""
    from xgrammar import Grammar

    text = json.dumps(schema)
    if len(text) > MAX_GRAMMAR_CHARS:
        raise ConstraintError(f"the schema is too large: {len(text)} characters when its parts are put together")
    try:
        printed = str(Grammar.from_json_schema(text, any_whitespace=False))
    except RuntimeError as error:
        raise ConstraintError(f"the schema cannot be put into a grammar: {reason_of(error)}") from error
    return _bound(printed)


def reason_of(error: RuntimeError) -> str:
    """xgrammar's message without its time and place in the source."""
    return re.sub(r"^\[[^\]]*\] \S+: ", "", str(error)).strip()


def _bound(printed: str) -> str:
    digits = frozenset(_DIGIT_RULE.findall(printed))
    lines = []
    for line in printed.splitlines():
        name, _, body = line.partition(" ::= ")
        lines.append(f"{name} ::= {_REPLACED[name]}" if name in _REPLACED else _bound_line(line, digits))
    return "\n".join(lines)


def _bound_line(line: str, digits: frozenset[str] | None) -> str:
    """`digits`: the rules that are a digit, of which there are not to be too many; None bounds nothing."""
    before = ""

    def rewrite(match: re.Match[str]) -> str:
        nonlocal before
        token, last = match[0], before
        before = token
        if digits is not None and token == "[0-9]*":
            return f"[0-9]{{0,{MAX_DIGITS - 1}}}"
        if token.startswith("{"):
            return _count(token, MAX_DIGITS - 1 if digits and last in digits else None)
        if digits is not None and token == _CHARACTER:
            return _SOUND_CHARACTER
        return _four_digits(token) if token[0] in '"[' else token

    return TOKEN.sub(rewrite, line)


def readable(printed: str) -> str:
    """A grammar that xgrammar has printed, in a form that it reads as the same grammar."""
    return "\n".join(_bound_line(line, None) for line in printed.splitlines())


def _count(token: str, most_of_none: int | None) -> str:
    """xgrammar prints "{1, -1}" for "{1,}", and does not read it."""
    least, most = read_count(token)
    if most >= 0:
        return token
    return f"{{{least},{max(least, most_of_none)}}}" if most_of_none else f"{{{least},}}"


def _four_digits(token: str) -> str:
    r"""xgrammar prints "\xe9" and, where a hexadecimal digit follows, reads more into it; "\u00e9" has an end."""
    return re.sub(r"\\(x([0-9a-f]{2})|.)", lambda m: f"\\u00{m[2]}" if m[2] else m[0], token, flags=re.DOTALL)
