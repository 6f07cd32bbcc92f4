"""The constraint of a reasoning answer: think, say the answer mark, answer. Four constant masks and a count of tokens.

No grammar engine, though three edges would say it: counting to a limit of 768 costs a grammar 0.2 ms a token (51,200
ids) where copying a mask takes microseconds, and a reasoning alone would have to load the engine.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from photon.constraint.vocabulary import Vocabulary
from photon.errors import ConstraintError
from photon.request import Role


class ReasoningConstraint:
    """Implements `Constraint`.

    At most `limit` tokens of reasoning end with `answer_mark`: said by the model, or the only choice once the limit is
    reached. No stop id is among them, nor, after the first, one of `banned_ids` (as in the reference: the first token
    after a prompt is free). The answer's first token is free; later ones are anything but `answer_mark`.
    """

    def __init__(self, vocabulary: Vocabulary, *, answer_mark: int, banned_ids: Iterable[int], limit: int) -> None:
        assert limit >= 0, limit
        self._answer_mark = answer_mark
        self._stop_ids = vocabulary.stop_ids
        thinking_first = vocabulary.mask_except(vocabulary.stop_ids)
        self._thinking = vocabulary.mask_except({*banned_ids, *vocabulary.stop_ids})
        self._mark = vocabulary.mask_of([answer_mark])
        self._answer_first = vocabulary.mask_except([])
        self._answer = vocabulary.mask_except([answer_mark])
        self._limit = limit
        self._num_thoughts = 0
        self._role = Role.GROUNDED
        self._mask = thinking_first if limit else self._mark

    @property
    def role(self) -> Role:
        return self._role

    def fill_mask(self, mask: np.ndarray) -> None:
        np.copyto(mask, self._mask, casting="no")
        if not self._mask.any():
            raise ConstraintError("nothing may be said after the end of the answer")

    def advance(self, token_id: int) -> None:
        if not self._is_allowed(token_id):
            raise ConstraintError(f"id {token_id} may not be said here, {self._num_thoughts} tokens into the reasoning")
        if self._role == Role.GROUNDED:
            self._think(token_id)
        elif token_id in self._stop_ids:
            self._mask = np.zeros_like(self._mask)
        else:
            self._mask = self._answer

    def _think(self, token_id: int) -> None:
        if token_id == self._answer_mark:
            self._role = Role.TEXT
            self._mask = self._answer_first
            return
        self._num_thoughts += 1
        self._mask = self._mark if self._num_thoughts == self._limit else self._thinking

    def _is_allowed(self, token_id: int) -> bool:
        in_range = 0 <= token_id < len(self._mask) * 32
        return in_range and bool(self._mask[token_id // 32] >> (token_id % 32) & 1)
