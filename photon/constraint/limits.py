"""What a user's grammar may cost, and whether it can end: read off it before it is compiled.

The grammar engine cannot be interrupted, so what would take it long is refused here; docs/structured_output.md has the
measurements behind the numbers. Reads the form in which xgrammar prints a grammar, not EBNF at large.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from photon.errors import ConstraintError

MAX_GRAMMAR_CHARS = 65536  # of a grammar as xgrammar prints it
MAX_COUNTED = 128  # what the counted repetitions of a regex or a grammar may come to, written out
WIDE = 4  # an item that holds a class of most characters counts as so many,
ENDLESS = 16  # one that has no longest text as so many: within one token, there are many ways to have counted

# One token: a literal, a class, a count, the start of a lookahead, a name, or a sign.
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]\*?|\{\d+, ?(?:-1|\d*)\}|\(=|[\w.-]+|[()|,=]')
SPECIALS = frozenset({"Regex", "Token", "ExcludeToken", "TagDispatch", "TokenTagDispatch"})


@dataclass(slots=True)
class Rule:
    """`alternatives`: the rules that each cannot do without. `parts`: (rule, how often at most, or at least where there
    is no most) of all that is referred to. `specials`: what is no rule, literal or class, with its first argument."""

    alternatives: list[list[str]] = field(default_factory=lambda: [[]])
    parts: list[tuple[str, int]] = field(default_factory=list)
    specials: list[tuple[str, str]] = field(default_factory=list)
    is_wide: bool = False
    is_endless: bool = False


def read_rules(ebnf: str) -> dict[str, Rule]:
    """ConstraintError when the grammar is too large."""
    if len(ebnf) > MAX_GRAMMAR_CHARS:
        raise ConstraintError(f"the grammar is too large: {len(ebnf)} characters, {MAX_GRAMMAR_CHARS} may be at most")
    rules = {}
    for line in ebnf.splitlines():
        name, is_rule, body = line.partition(" ::= ")
        if is_rule:
            rules[name] = _read_rule(TOKEN.findall(body))
    return rules


def check_can_end(rules: dict[str, Rule]) -> None:
    """ConstraintError where no text is ever whole: `root ::= "a" root`, a list that holds a list that holds a list."""
    ending = _smallest({name: rule.alternatives for name, rule in rules.items()})
    if "root" not in ending:
        raise ConstraintError("nothing can be said to its end: every way through the grammar leads back into itself")


def check_is_text(rules: dict[str, Rule]) -> None:
    """ConstraintError for ids of tokens: they belong to the model, and one that ends an answer would be no text."""
    for rule in rules.values():
        for name, _ in rule.specials:
            if name != "Regex":
                raise ConstraintError(f"a grammar of text takes no {name}(...): it has literals, classes and rules")


def check_counts(rules: dict[str, Rule], convert: Callable[[str], str]) -> None:
    """ConstraintError where counted repetitions come to too much. `convert` prints a regex as a grammar."""
    _check_total(rules)
    check_regexes(rules, convert)


def check_regexes(rules: dict[str, Rule], convert: Callable[[str], str]) -> None:
    """As `check_counts`, of the regexes within a grammar only."""
    for rule in rules.values():
        for name, text in rule.specials:
            if name == "Regex":
                _check_total(read_rules(convert(text)))


def _check_total(rules: dict[str, Rule]) -> None:
    try:
        total = _written_out(rules, _units(rules), "root", {})
    except RecursionError:
        raise ConstraintError(f"too many rules within each other, of {len(rules)} in all") from None
    if total > MAX_COUNTED:
        raise ConstraintError(
            f"counted repetitions may come to {MAX_COUNTED} in all, one within another multiplied; what most "
            f"characters match, such as '.', counts {WIDE} times, what itself has no end, such as '[a-z]+ ', {ENDLESS} "
            f"times. These come to {min(total, 10**9)}. Use '*' or '+', or a schema with maxLength or maxItems, which "
            "cost nothing"
        )


def _written_out(rules: dict[str, Rule], units: dict[str, int], name: str, known: dict[str, int]) -> int:
    """Items that the counted repetitions within a rule come to. `known` holds what was counted; 0 while it is."""
    if name in known or name not in rules:
        return known.get(name, 0)
    known[name] = total = 0
    for part, count in rules[name].parts:
        within = _written_out(rules, units, part, known)
        if count > 1:
            within = count * max(within, units.get(part, 1))
        total += within
    known[name] = total
    return total


def _smallest(ways: dict[str, list[list[str]]]) -> set[str]:
    """The smallest set of rules that holds each of which one way needs only rules in the set."""
    missing: dict[tuple[str, int], int] = {}
    waiting: dict[str, list[tuple[str, int]]] = {}
    ready: list[str] = []
    for name, several in ways.items():
        for index, needed in enumerate(map(set, several)):
            missing[name, index] = len(needed)
            for one in needed:
                waiting.setdefault(one, []).append((name, index))
            if not needed:
                ready.append(name)
    found: set[str] = set()
    while ready:
        name = ready.pop()
        if name in found:
            continue
        found.add(name)
        for way in waiting.get(name, ()):
            missing[way] -= 1
            if missing[way] == 0:
                ready.append(way[0])
    return found


def _units(rules: dict[str, Rule]) -> dict[str, int]:
    """What one text of each rule counts as."""
    finite = _smallest(  # rules that have a longest text
        {
            name: [] if rule.is_endless else [[part for part, _ in rule.parts if part in rules]]
            for name, rule in rules.items()
        }
    )
    return {name: (WIDE if rule.is_wide else 1) if name in finite else ENDLESS for name, rule in rules.items()}


def _read_rule(tokens: list[str]) -> Rule:
    """`((a b{1, 3}) | ("c"))`, behind it perhaps `(=(...))`, a lookahead, which narrows nothing."""
    rule, depth = Rule(), 0
    reading = iter(enumerate(tokens))
    for index, token in reading:
        if token == "(=":
            return rule
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 1:
            rule.alternatives.append([])
        elif token in SPECIALS and tokens[index + 1 : index + 2] == ["("]:
            rule.specials.append((token, _first_argument(tokens, index)))
            _skip_call(reading)
        elif token[0] == "[":
            rule.is_wide |= token.startswith("[^") or r"\U0010ffff" in token
            rule.is_endless |= token.endswith("*")
        elif token[0] not in '"{(|),=':
            _refer(rule, token, tokens[index + 1] if index + 1 < len(tokens) else "")
    return rule


def _refer(rule: Rule, name: str, behind: str) -> None:
    least, most = read_count(behind) if behind.startswith("{") else (1, 1)
    rule.parts.append((name, max(least, most)))
    rule.is_endless |= most < 0
    if least > 0:
        rule.alternatives[-1].append(name)


def read_count(token: str) -> tuple[int, int]:
    """(least, most) of "{2, 5}"; most is -1 where there is none, printed as "{2, -1}" and written as "{2,}"."""
    least, most = token[1:-1].split(",")
    return int(least), int(most or -1)


def _first_argument(tokens: list[str], index: int) -> str:
    return unescape(tokens[index + 2][1:-1]) if tokens[index + 2].startswith('"') else tokens[index + 2]


def _skip_call(reading: Iterator[tuple[int, str]]) -> None:
    depth = 0
    for _, token in reading:
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}


def unescape(text: str) -> str:
    """The characters that the inside of a printed literal stands for."""
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else _NAMED.get(escape[4], escape[4])
