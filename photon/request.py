"""What a task hands to the engine: a prompt of positions, how to sample, when to stop. Nothing here knows a model.

A prompt is a flat list of positions. A text position carries a token id, some with a value (a coordinate given as a
spatial reference); an image's positions carry `IMAGE_ID` and get their features from the image that the span names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from numbers import Real
from typing import Protocol

import numpy as np

from photon.errors import RequestError

IMAGE_ID = -1  # the id at positions that are filled with image features


class Role(IntEnum):
    """What the token about to be sampled means; set by the constraint's state, never by the id alone."""

    TEXT = 0
    X = 1  # starts an object: the choice is between "another object" and "end"
    Y = 2
    SIZE = 3
    GROUNDED = 4  # text in which the model's coordinate id is a coordinate


@dataclass(frozen=True, slots=True)
class Token:
    """One position said by the model (or given in a prompt).

    `value` is () for text, (v,) for a coordinate and (width, height) for a size, in units of the picture's sides.
    `score`, where the role is X: probability of "another object" against "end".
    """

    id: int
    value: tuple[float, ...] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedImage:
    """An upright picture cut for the vision tower. Made by `images`, read by the model.

    `crops` uint8 [n, side, side, 3], crop 0 the whole picture, then the tiles row by row; `tiling` (rows, columns);
    `size` (width, height) of the upright picture in pixels.
    """

    crops: np.ndarray
    tiling: tuple[int, int]
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Positions [start, end) hold the image's features; positions [block_start, end) see each other both ways."""

    image: PreparedImage
    start: int
    length: int
    block_start: int

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens[i]` is position i; image positions hold `Token(IMAGE_ID)`. `images` are ordered and disjoint."""

    tokens: tuple[Token, ...]
    images: tuple[ImageSpan, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Sampling:
    """temperature 0 is greedy; top_p in (0, 1] keeps a token while the mass before it is at most top_p.

    `seed`: the random numbers of a request depend on its seed and on the index of the token alone.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, Real) and 0 <= self.temperature <= 100):  # NaN fails every comparison
            raise RequestError(f"temperature must be a number in [0, 100], got {self.temperature!r}")
        if not (isinstance(self.top_p, Real) and 0 < self.top_p <= 1):
            raise RequestError(f"top_p must be a number in (0, 1], got {self.top_p!r}")
        if not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise RequestError(f"seed must be a whole number in [0, 2**63), got {self.seed!r}")


class Constraint(Protocol):
    """Decides what a row may say next: fills one row of the bitmask and names the role. State; one per request."""

    def fill_mask(self, mask: np.ndarray) -> None:
        """Set `mask`, int32 [ceil(vocabulary / 32)]: bit i of word i // 32 says that id i is allowed.

        ConstraintError when none is.
        """
        ...

    @property
    def role(self) -> Role:
        """Role of the token about to be sampled."""
        ...

    def advance(self, token_id: int) -> None:
        """Accept the token that was sampled under the last mask."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One piece of work for the scheduler. Built by `tasks`; `id` is unique within an engine.

    `max_tokens` bounds the answer: all generated tokens, or, with `answer_mark`, those after its first occurrence.
    `limit_tokens` bounds all generated tokens, the stop token included. `banned_ids` are never said after the first
    generated token; a constrained request has none.
    """

    id: int
    prompt: Prompt
    max_tokens: int
    limit_tokens: int
    stop_ids: frozenset[int]
    sampling: Sampling = field(default_factory=Sampling)
    banned_ids: tuple[int, ...] = ()
    constraint: Constraint | None = None
    answer_mark: int | None = None
