"""What a task hands to the engine: a prompt of positions, how to sample, when to stop. Nothing here knows a model.

A prompt is a flat list of positions. A text position carries a token id, some with a value (a coordinate given as a
spatial reference); an image's positions carry `IMAGE_ID` and get their features from the image that the span names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from numbers import Real
from typing import Any, Protocol

import numpy as np

from photon.errors import DeadlineError, RequestError

IMAGE_ID = -1  # the id at positions that are filled with image features
MAX_LOGPROBS = 20  # candidates that may be asked for at each token


class Role(IntEnum):
    """What the token about to be sampled means; set by the constraint's state, never by the id alone."""

    TEXT = 0
    X = 1  # starts an object: the choice is between "another object" and "end"
    Y = 2
    SIZE = 3
    GROUNDED = 4  # text in which the model's coordinate id is a coordinate


@dataclass(frozen=True, slots=True)
class Logprobs:
    """Natural logarithms of probabilities at one token, among what could be said there; see `Sampling.logprobs`.

    `chosen` belongs to the id that was said; `top` holds the likeliest (id, log-probability), best first.
    """

    chosen: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """One position said by the model (or given in a prompt).

    `value` is () for text, (v,) for a coordinate and (width, height) for a size, in units of the picture's sides.
    `score`, where the role is X: probability of "another object" against "end". `logprobs`, where asked for.
    """

    id: int
    value: tuple[float, ...] = ()
    score: float | None = None
    logprobs: Logprobs | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PreparedImage:
    """An upright picture cut for the vision tower of the Moondream family. Made by `images`, read by the model.

    `crops` uint8 [n, side, side, 3], crop 0 the whole picture, then the tiles row by row; `tiling` (rows, columns);
    `size` (width, height) of the upright picture in pixels.
    """

    crops: np.ndarray
    tiling: tuple[int, int]
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Those of the positions [start, end) that carry IMAGE_ID hold the image's features, in order; all of them do in
    most models. Positions [block_start, block_end) see each other both ways, up to `end` where no block_end is given;
    block_start == block_end: none do.

    `image` is a picture as its family prepares it (`PreparedImage` for Moondream's); only its model looks inside.
    """

    image: Any
    start: int
    length: int
    block_start: int
    block_end: int | None = None

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def block(self) -> tuple[int, int]:
        return self.block_start, self.end if self.block_end is None else self.block_end


@dataclass(frozen=True, slots=True)
class Prompt:
    """`tokens[i]` is position i; image positions hold `Token(IMAGE_ID)`. `images` are ordered and disjoint.

    `rotary`: where the model is to believe that each position stands, int64 [positions, axes of the model], if that is
    not i; an answer's positions go on behind the largest of them.
    """

    tokens: tuple[Token, ...]
    images: tuple[ImageSpan, ...] = ()
    rotary: np.ndarray | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How ids are chosen. What may not be said is masked first; then each step works on what the one before has left:
    repetition_penalty, temperature, top_k, top_p, min_p.

    `temperature` in [0, 100]: 0 is greedy, and then the three after it change nothing.
    `top_p` in (0, 1]: an id is kept while the mass before it, of what top_k has left, is at most top_p.
    `top_k`: as many of the best ids are kept; 0 keeps all.
    `min_p` in [0, 1]: an id is kept if it has at least this part of the best id's probability.
    `repetition_penalty` in [0.01, 100]: of every id that the prompt's text or the answer holds, a positive logit is
    divided by it and a negative one multiplied. Coordinates and ids that stop an answer are no words: never counted.
    `seed` in [0, 2**63): the random numbers of a request depend on its seed and on the index of the token alone.
    `logprobs` in [0, 20], or None: report for each token the log-probability of the id that was chosen and of this
    many of the likeliest. They are the model's own, among what may be said there: neither penalised nor tempered nor
    cut. An id that may not be said is not listed, so that there is no minus infinity; then fewer are.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0, 100)
        if not (_is_number(self.top_p) and 0 < self.top_p <= 1):
            raise RequestError(f"top_p must be a number in (0, 1], got {self.top_p!r}")
        _check_whole("seed", self.seed, 2**63 - 1)
        _check_whole("top_k", self.top_k, 2**31 - 1)
        _check_number("min_p", self.min_p, 0, 1)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        if self.logprobs is not None:
            _check_whole("logprobs", self.logprobs, MAX_LOGPROBS)

    @property
    def is_penalised(self) -> bool:
        return self.repetition_penalty != 1


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    if not (_is_number(value) and low <= value <= high):  # NaN fails every comparison
        raise RequestError(f"{name} must be a number in [{low}, {high}], got {value!r}")


def _check_whole(name: str, value: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
        raise RequestError(f"{name} must be a whole number in [0, {high}], got {value!r}")


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


class StopWatch(Protocol):
    """Hears an answer token by token and knows where it ends, as a stop string does. State; one per request."""

    def heard(self, token_id: int) -> bool:
        """Take in the next token that was said; whether the answer ends with it. Nothing is heard after that."""
        ...


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a request fails if it has not ended: at `time` of `time.perf_counter`, `timeout` seconds after its call."""

    time: float
    timeout: float

    def error(self, progress: str) -> DeadlineError:
        """`progress` completes "the request ..."."""
        return DeadlineError(f"no answer within the timeout of {self.timeout:g} s: the request {progress}")


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One piece of work for the scheduler. Built by `tasks`; `id` is unique within an engine.

    `max_tokens` bounds the answer: all generated tokens, or, with `answer_mark`, those after its first occurrence.
    `limit_tokens` bounds all generated tokens, the stop token included. `banned_ids` are never said after the first
    generated token; a constrained request has none. `stop_watch` hears every token but those in `stop_ids`. `deadline`
    is set by the engine.
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
    stop_watch: StopWatch | None = None
    deadline: Deadline | None = None
