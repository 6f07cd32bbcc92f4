"""A deterministic toy in place of a model: what comes next is a hash of everything before it. Knows no batch, no page.

A position becomes a cell (its "keys and values"), and the next token is picked by a hash over all cells so far, so that
one foreign, stale or missing cell changes the token. The fake runner and the sequential oracle both use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Series
from dataclasses import dataclass

import numpy as np

from photon.errors import ConstraintError
from photon.request import IMAGE_ID, MAX_LOGPROBS, ImageSpan, Logprobs, Prompt, Request, Role, Token

NUM_IDS = 61  # the tokenizer's length
MASK_WORDS = 2  # logits are 64 wide
END, COORD, SIZE, FRAGILE = 0, 5, 6, 7  # a prompt that ends in FRAGILE makes one in six of its logits not finite


@dataclass(frozen=True, slots=True)
class Sampled:
    token: Token
    score: float
    is_finite: bool
    logprobs: Logprobs  # of as many as may be asked for, or as may be said


def embed(token: Token) -> int:
    return hash((token.id, token.value))


def embed_prompt(prompt: Prompt) -> list[int]:
    cells = [embed(token) for token in prompt.tokens]
    for span in prompt.images:
        cells[span.start : span.end] = _embed_image(span)
    return cells


def next_token(cells: Series[int], request: Request, index: int, *, allowed: Series[int], role: Role) -> Sampled:
    """Token `index` of the request's answer; values are multiples of 1/1024, exact in float32."""
    sampling = request.sampling
    noise = (sampling.seed, index) if sampling.temperature else ()
    bits = hash((*cells, *noise)) & (2**60 - 1)
    token_id = allowed[bits % len(allowed)]
    numbers = ((bits >> 20) % 1024 / 1024, (bits >> 30) % 1024 / 1024)
    token = Token(token_id, numbers[: _value_size(token_id, role)])
    is_finite = request.prompt.tokens[-1].id != FRAGILE or bits % 6 != 0
    return Sampled(token, (bits >> 40) % 1024 / 1024, is_finite, _logprobs(bits, allowed))


def _logprobs(bits: int, allowed: Series[int]) -> Logprobs:
    """As little to be guessed as the token, and exact in float32."""
    first = bits % len(allowed)
    ids = [*allowed[first:], *allowed[:first]][:MAX_LOGPROBS]
    return Logprobs(-(bits % 97) / 8, tuple((i, -(bits % 89) / 8 - place) for place, i in enumerate(ids)))


def allowed_ids(request: Request, index: int, mask: np.ndarray | None) -> list[int]:
    """Ids that may be said: those of the mask where there is one, else all but the banned."""
    if mask is not None:
        bits = int(mask.view(np.uint64)[0])
        return [i for i in range(NUM_IDS) if bits >> i & 1]
    banned = request.banned_ids if index > 0 else ()
    return [i for i in range(NUM_IDS) if i not in banned]


def _embed_image(span: ImageSpan) -> list[int]:
    picture = int(span.image.crops[0, 0, 0, 0])
    return [hash((IMAGE_ID, picture, offset)) for offset in range(span.length)]


def _value_size(token_id: int, role: Role) -> int:
    if role is Role.SIZE:
        return 2
    if role is Role.TEXT or token_id != COORD:
        return 0
    return 1


class Cycle:
    """Objects of `roles`, at most `max_objects`; before each one the model may end instead. As point and detect are."""

    def __init__(self, roles: tuple[Role, ...], max_objects: int) -> None:
        self._roles = roles
        self._length = len(roles) * max_objects
        self._num_said = 0

    @property
    def role(self) -> Role:
        return self._roles[self._num_said % len(self._roles)]

    def _ids(self) -> set[int]:
        if self._num_said == self._length:
            return {END}
        return {Role.X: {COORD, END}, Role.Y: {COORD}, Role.SIZE: {SIZE}}[self.role]

    def fill_mask(self, mask: np.ndarray) -> None:
        _fill(mask, self._ids())

    def advance(self, token_id: int) -> None:
        if token_id not in self._ids():
            raise ConstraintError(f"id {token_id} is not one of {self._ids()}")
        self._num_said += 1


class Chain:
    """Text in which the token before decides what may come next. It can be at a dead end, or refuse what it allowed."""

    role = Role.GROUNDED

    def __init__(self, dead_at: int | None = None, refuses_at: int | None = None) -> None:
        self._last = 1
        self._num_said = 0
        self._dead_at = dead_at
        self._refuses_at = refuses_at

    def _ids(self) -> set[int]:
        return {i for i in range(NUM_IDS) if (i + self._last + self._num_said) % 3 == 0}

    def fill_mask(self, mask: np.ndarray) -> None:
        if self._num_said == self._dead_at:
            raise ConstraintError("nothing may be said")
        _fill(mask, self._ids())

    def advance(self, token_id: int) -> None:
        if token_id not in self._ids() or self._num_said == self._refuses_at:
            raise ConstraintError(f"id {token_id} is refused")
        self._last = token_id
        self._num_said += 1


class Pairs:
    """A stop watch: the answer ends with a token that makes a multiple of 5 with the one before it."""

    def __init__(self) -> None:
        self._last = 1

    def heard(self, token_id: int) -> bool:
        is_last = (self._last + token_id) % 5 == 0
        self._last = token_id
        return is_last


def _fill(mask: np.ndarray, ids: Iterable[int]) -> None:
    assert mask.shape == (MASK_WORDS,) and mask.dtype == np.int32
    mask.view(np.uint64)[0] = sum(1 << i for i in ids)
