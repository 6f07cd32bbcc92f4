"""From masked logits to ids, and to what is reported of them. A row's outcome depends on no other row of the step."""

from __future__ import annotations

import torch
from torch import Tensor

from photon.kernels.bitmask import BITS, unpack
from photon.request import MAX_LOGPROBS

_MASK64 = 2**64 - 1


def uniform(seed: int, index: int) -> float:
    """The random number in [0, 1) of a request's token `index`: splitmix64 of the two (Steele et al., 2014)."""
    z = (seed * 0xD1342543DE82EF95 + (index + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return ((z ^ (z >> 31)) >> 11) / 2**53


def penalise(logits_BV: Tensor, said_BW: Tensor, penalty_B: Tensor) -> Tensor:
    """Logits in which the ids that were said (bits as in a mask) have become less likely, for a penalty above 1.

    The repetition penalty of CTRL (Keskar et al., 2019, section 4.1) in the form that all libraries have taken over
    from transformers: a positive logit is divided, a negative one multiplied. A penalty of 1 leaves a row as it is.
    """
    penalty_B1 = penalty_B[:, None]
    penalised_BV = torch.where(logits_BV < 0, logits_BV * penalty_B1, logits_BV / penalty_B1)
    return torch.where(unpack(said_BW, logits_BV.shape[1]), penalised_BV, logits_BV)


def mark_said(said_RW: Tensor, rows_B: Tensor, ids_B: Tensor, is_word_B: Tensor) -> None:
    """Set the bits of `ids_B` in the rows `rows_B`, all different, where the id is a word."""
    words_B = ids_B // BITS
    bits_B = is_word_B.to(torch.int32) << (ids_B % BITS).to(torch.int32)
    said_RW[rows_B, words_B] |= bits_B


def sample_ids(
    logits_BV: Tensor, *, temperature_B: Tensor, top_k_B: Tensor, top_p_B: Tensor, min_p_B: Tensor, uniform_B: Tensor
) -> Tensor:
    """int64 [B]. Temperature 0 takes the best id; otherwise the id at which the kept mass, in descending order, passes
    `uniform`. Kept are the first top_k; of these an id while the mass before it is at most top_p of theirs; of these
    what has at least min_p of the first one's mass. So the first is always kept."""
    scaled_BV = logits_BV.double() / torch.where(temperature_B > 0, temperature_B, 1.0)[:, None]
    mass_BV, order_BV = scaled_BV.softmax(-1).sort(stable=True, dim=-1, descending=True)
    kept_BV = _cut(mass_BV, top_k_B, top_p_B, min_p_B)
    reached_BV = kept_BV.cumsum(-1)
    target_B = uniform_B * reached_BV[:, -1]
    place_B = (reached_BV <= target_B[:, None]).sum(-1)
    last_B = (kept_BV > 0).sum(-1) - 1
    place_B = torch.minimum(place_B, last_B).clamp_min(0)  # where logits are not finite nothing is kept: any id will do
    drawn_B = order_BV.gather(1, place_B[:, None])[:, 0]
    return torch.where(temperature_B > 0, drawn_B, logits_BV.argmax(-1))


def _cut(mass_BV: Tensor, top_k_B: Tensor, top_p_B: Tensor, min_p_B: Tensor) -> Tensor:
    """Descending masses with 0 where an id is dropped."""
    places_V = torch.arange(mass_BV.shape[1], device=mass_BV.device)
    best_BV = torch.where(places_V < top_k_B[:, None], mass_BV, 0.0)
    reached_BV = best_BV.cumsum(-1)
    is_in_top_p = reached_BV - best_BV <= top_p_B[:, None] * reached_BV[:, -1:]
    is_likely = best_BV >= min_p_B[:, None] * best_BV[:, :1]
    return torch.where(is_in_top_p & is_likely, best_BV, 0.0)


def continue_probability(logits_BV: Tensor, end_id_B: Tensor) -> Tensor:
    """Probability [B] of anything but the end, among what may be said."""
    log_end_B = logits_BV.log_softmax(-1).gather(1, end_id_B[:, None])[:, 0]
    return -torch.expm1(log_end_B)


def log_probabilities(logits_BV: Tensor, ids_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the chosen ids [B], never minus infinity; and the best ids [B, N] with theirs [B, N], best first.

    N is always the most that may be asked for, so that a row's do not depend on what another asks for.
    """
    log_BV = logits_BV.log_softmax(-1)
    chosen_B = log_BV.gather(1, ids_B[:, None])[:, 0].clamp_min(torch.finfo(log_BV.dtype).min)
    top_BN, ids_BN = log_BV.topk(min(MAX_LOGPROBS, log_BV.shape[1]))
    return chosen_B, ids_BN, top_BN
