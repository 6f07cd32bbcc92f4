"""What each request must say: one request, one contiguous list of cells, one token after the other. No scheduler.

Shares the toy model with the fake runner, and nothing with the package's scheduler but the types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from toy_model import MASK_WORDS, allowed_ids, embed, embed_prompt, next_token

from photon.errors import ConstraintError
from photon.request import Logprobs, Request, Role, Token


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended: tokens, finish reason, name of the error's class ("" where there is none)."""

    tokens: tuple[Token, ...]
    reason: str
    error: str = ""


def may_ever_run(request: Request, *, max_context: int, room: int) -> bool:
    """Whether the prompt leaves place in the context, and the whole request in `room` positions of KV memory."""
    length = len(request.prompt)
    if length >= max_context:
        return False
    longest = request.limit_tokens if request.answer_mark is not None else min(request.max_tokens, request.limit_tokens)
    return min(length + longest, max_context) - 1 <= room  # the last token is said, not computed on


def run_alone(request: Request, *, max_context: int) -> Outcome:
    cells = embed_prompt(request.prompt)
    said: list[Token] = []
    while True:
        try:
            token = _say_one(request, cells, len(said))
        except ConstraintError:
            return Outcome(tuple(said), "error", "ConstraintError")
        if token is None:
            return Outcome(tuple(said), "error", "NumericsError")
        if token.id in request.stop_ids:
            return Outcome(tuple(said), "stop")
        said.append(token)
        cells.append(embed(token))
        if request.stop_watch is not None and request.stop_watch.heard(token.id):
            return Outcome(tuple(said), "stop")
        if _is_full(request, said, max_context):
            return Outcome(tuple(said), "length")


def _say_one(request: Request, cells: list[int], index: int) -> Token | None:
    mask, role = None, Role.TEXT
    constraint = request.constraint
    if constraint is not None:
        mask = np.zeros(MASK_WORDS, np.int32)
        constraint.fill_mask(mask)
        role = constraint.role
    sampled = next_token(cells, request, index, allowed=allowed_ids(request, index, mask), role=role)
    if not sampled.is_finite:
        return None
    token = sampled.token
    if constraint is not None and token.id not in request.stop_ids:
        constraint.advance(token.id)
    logprobs = _asked_for(sampled.logprobs, request.sampling.logprobs)
    return Token(token.id, token.value, sampled.score if role is Role.X else None, logprobs)


def _asked_for(logprobs: Logprobs, num_top: int | None) -> Logprobs | None:
    return None if num_top is None else Logprobs(logprobs.chosen, logprobs.top[:num_top])


def _is_full(request: Request, said: list[Token], max_context: int) -> bool:
    if len(request.prompt) + len(said) >= max_context or len(said) >= request.limit_tokens:
        return True
    ids = [token.id for token in said]
    if request.answer_mark is None:
        return len(ids) >= request.max_tokens
    return request.answer_mark in ids and len(ids) - ids.index(request.answer_mark) - 1 >= request.max_tokens
