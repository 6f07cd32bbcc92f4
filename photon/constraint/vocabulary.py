"""What each id may be said as, for grammars and masks: its bytes, the logits' width, the ids that end an answer.

A special id gets bytes that are not empty (the grammar engine refuses empty ones) and that no text can match (0xFF
never occurs in UTF-8), so that a grammar can name the id and no text can say it. An id without bytes is treated so too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from photon.kernels.bitmask import allow_below, allow_only, num_words


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """`pieces[i]` are the bytes of id i; ids at or above `num_tokens` are padding of the logits, never said (P8)."""

    pieces: tuple[bytes, ...]
    vocab_size: int
    stop_ids: tuple[int, ...]

    @classmethod
    def build(
        cls,
        token_bytes: Sequence[bytes],
        *,
        special_ids: Collection[int],
        vocab_size: int,
        stop_ids: Iterable[int],
    ) -> Vocabulary:
        """From the tokenizer's bytes an id (b"" where it has none) and the width of the model's logits."""
        special = frozenset(special_ids)
        pieces = tuple(
            _unsayable(i) if i in special or not piece else piece for i, piece in enumerate(token_bytes[:vocab_size])
        )
        stop_ids = tuple(stop_ids)
        assert all(0 <= i < len(pieces) for i in stop_ids), f"stop ids {stop_ids} in a vocabulary of {len(pieces)}"
        return cls(pieces, vocab_size, stop_ids)

    @property
    def num_tokens(self) -> int:
        return len(self.pieces)

    @property
    def mask_words(self) -> int:
        """int32 words in a mask row."""
        return num_words(self.vocab_size)

    def mask_of(self, ids: Iterable[int]) -> np.ndarray:
        """int32 [mask_words]: only `ids` are allowed."""
        return allow_only(self.vocab_size, ids)

    def mask_except(self, ids: Iterable[int]) -> np.ndarray:
        """int32 [mask_words]: every id of the tokenizer but `ids` is allowed."""
        return allow_below(self.vocab_size, self.num_tokens, ids)


def _unsayable(token_id: int) -> bytes:
    return b"\xff" + str(token_id).encode()
