"""The mask format of every constraint, int32 words of 32 ids each (bit i of word i // 32 = id i may be said), on a
device and on the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

BITS = 32


def num_words(vocab_size: int) -> int:
    return -(-vocab_size // BITS)


def allow_below(vocab_size: int, num_tokens: int, banned: Iterable[int] = ()) -> np.ndarray:
    """int32 [words]: ids under `num_tokens` are allowed, but for the banned."""
    allowed = np.arange(num_words(vocab_size) * BITS) < num_tokens
    allowed[list(banned)] = False
    return _pack(allowed)


def allow_only(vocab_size: int, ids: Iterable[int]) -> np.ndarray:
    """int32 [words]: `ids` are allowed."""
    allowed = np.zeros(num_words(vocab_size) * BITS, dtype=bool)
    allowed[list(ids)] = True
    return _pack(allowed)


def _pack(allowed: np.ndarray) -> np.ndarray:
    return np.packbits(allowed, bitorder="little").view("<i4")


def apply_bitmask(logits_BV: Tensor, mask_BW: Tensor) -> Tensor:
    """Logits with minus infinity wherever the bit is not set."""
    import torch

    return logits_BV.masked_fill(~unpack(mask_BW, logits_BV.shape[1]), -torch.inf)


def unpack(mask_BW: Tensor, vocab_size: int) -> Tensor:
    """bool [B, V]: whether the bit of each id is set."""
    import torch

    shifts = torch.arange(BITS, device=mask_BW.device, dtype=torch.int32)
    return ((mask_BW[:, :, None] >> shifts) & 1).flatten(1)[:, :vocab_size] != 0
