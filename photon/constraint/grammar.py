"""A constraint that walks a compiled grammar: one xgrammar matcher and a count of tokens.

The role of a token comes from the count alone, never from its id: some models have no coordinate id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from photon.constraint.vocabulary import Vocabulary
from photon.errors import ConstraintError
from photon.request import Role

if TYPE_CHECKING:
    from xgrammar import GrammarMatcher


class GrammarConstraint:
    """Implements `Constraint`. `roles` is the cycle of roles that the grammar's tokens go through."""

    def __init__(self, matcher: GrammarMatcher, vocabulary: Vocabulary, roles: tuple[Role, ...]) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._sayable = vocabulary.mask_except([])
        self._roles = roles
        self._num_tokens = 0

    @property
    def role(self) -> Role:
        return self._roles[self._num_tokens % len(self._roles)]

    def fill_mask(self, mask: np.ndarray) -> None:
        """Fill `mask` in place, without a copy or a padding id (P8). ConstraintError when no id is allowed."""
        assert mask.shape == (self._vocabulary.mask_words,) and mask.dtype == np.int32, (mask.shape, mask.dtype)
        if self._matcher.is_terminated():
            raise ConstraintError(f"nothing may be said after the end, reached after {self._num_tokens} tokens")
        try:
            self._matcher.fill_next_token_bitmask(mask)
        except RuntimeError as error:
            raise ConstraintError(f"the grammar failed after {self._num_tokens} tokens: {error}") from error
        mask &= self._sayable  # xgrammar may set the bits of the last word that lie beyond the logits
        if not mask.any():
            raise ConstraintError(f"the grammar is at a dead end after {self._num_tokens} tokens: nothing may be said")

    def advance(self, token_id: int) -> None:
        """ConstraintError when the grammar refuses the token; it was then not sampled under the last mask."""
        # xgrammar complains on stderr about ids that it does not know, so those never reach it.
        known = 0 <= token_id < self._vocabulary.num_tokens and not self._matcher.is_terminated()
        if not (known and self._accept(token_id)):
            raise ConstraintError(f"the grammar refuses id {token_id} after {self._num_tokens} tokens")
        self._num_tokens += 1

    def _accept(self, token_id: int) -> bool:
        try:
            return self._matcher.accept_token(token_id)
        except RuntimeError as error:
            raise ConstraintError(f"the grammar failed at id {token_id}: {error}") from error
