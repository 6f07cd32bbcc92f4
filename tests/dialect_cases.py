"""Random places, vocabularies and answers for the tests of the dialects."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.grammar import GrammarConstraint
from photon.constraint.vocabulary import Vocabulary
from photon.dialects.base import Dialect, Kind, Thing
from photon.dialects.frame import Frame
from photon.dialects.known import DIALECTS
from photon.request import Role
from photon.results import Box, Point

FRAME = Frame(1288, 728)
FRAMES = (FRAME, Frame(28, 28), Frame(1000, 9999))
CASES: list[tuple[Dialect, Kind]] = [
    (dialect, cast(Kind, kind)) for dialect in DIALECTS.values() for kind in ("point", "box") if dialect.says(kind)
]
IDS = [f"{dialect.name}-{kind}" for dialect, kind in CASES]
LABELS = ("cat", "a person's hat", "naïve 猫", "R&D, 5 m", "x")
STOP = 0


def random_fraction(rng: random.Random) -> float:
    return rng.choice((0.0, 1.0, rng.random(), rng.random(), round(rng.random(), 2)))


def random_things(rng: random.Random, kind: Kind, count: int, labels: Sequence[str | None]) -> list[Thing]:
    """`count` of them, each named by one of `labels`."""
    things: list[Thing] = []
    for _ in range(count):
        label = rng.choice(labels)
        x = sorted(random_fraction(rng) for _ in range(2))
        y = sorted(random_fraction(rng) for _ in range(2))
        things.append(Point(x[0], y[0], label=label) if kind == "point" else Box(x[0], y[0], x[1], y[1], label=label))
    return things


def coordinates(thing: Thing) -> tuple[float, ...]:
    if isinstance(thing, Point):
        return thing.x, thing.y
    return thing.x_min, thing.y_min, thing.x_max, thing.y_max


def renamed(things: Sequence[Thing], label: str | None) -> list[Thing]:
    return [replace(thing, label=label) for thing in things]


class Words:
    """A vocabulary of the 256 bytes, with each of `marks` as one special token behind them."""

    def __init__(self, marks: Sequence[str] = ()) -> None:
        pieces = [b"", *(bytes([byte]) for byte in range(256)), *(b"" for _ in marks)]
        self.ids = {text: 257 + n for n, text in enumerate(marks)}
        self.vocabulary = Vocabulary.build(
            pieces, special_ids=[STOP, *self.ids.values()], vocab_size=len(pieces) + 40, stop_ids=[STOP]
        )
        self.compiler = ConstraintCompiler(self.vocabulary)
        self._texts = {token_id: text for text, token_id in self.ids.items()}
        self._mark = re.compile("|".join(map(re.escape, marks)) or "(?!)")

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        position = 0
        for mark in self._mark.finditer(text):
            tokens += [byte + 1 for byte in text[position : mark.start()].encode()] + [self.ids[mark[0]]]
            position = mark.end()
        return tokens + [byte + 1 for byte in text[position:].encode()]

    def decode(self, tokens: Sequence[int]) -> str:
        data = b"".join(self._texts[i].encode() if i in self._texts else bytes([i - 1]) for i in tokens)
        return data.decode(errors="replace")

    def constraint(self, grammar: str) -> GrammarConstraint:
        return self.compiler.from_grammar(grammar, (Role.TEXT,))


def allowed_ids(constraint: GrammarConstraint, vocabulary: Vocabulary) -> np.ndarray:
    mask = np.zeros(vocabulary.mask_words, dtype=np.int32)
    constraint.fill_mask(mask)
    return np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))


def walk(constraint: GrammarConstraint, vocabulary: Vocabulary, rng: random.Random, limit: int) -> list[int]:
    """Ids chosen evenly among the allowed ones, until the end or `limit`; the stop id is not among them."""
    tokens: list[int] = []
    while len(tokens) < limit:
        token = int(rng.choice(allowed_ids(constraint, vocabulary)))
        constraint.advance(token)
        if token in vocabulary.stop_ids:
            break
        tokens.append(token)
    return tokens
