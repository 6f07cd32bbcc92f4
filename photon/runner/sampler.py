"""From masked logits to ids: greedy, or by temperature and top-p with a random number of the seed and index alone."""

from __future__ import annotations

import torch
from torch import Tensor

_MASK64 = 2**64 - 1


def uniform(seed: int, index: int) -> float:
    """The random number in [0, 1) of a request's token `index`: splitmix64 of the two (Steele et al., 2014)."""
    z = (seed * 0xD1342543DE82EF95 + (index + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return ((z ^ (z >> 31)) >> 11) / 2**53


def sample_ids(
    logits_BV: Tensor, *, temperature_B: Tensor, top_p_B: Tensor, uniform_B: Tensor, is_greedy: bool
) -> Tensor:
    """int64 [B]. Temperature 0 takes the best id; otherwise the id at which the kept mass, in descending order, passes
    `uniform`. A token is kept while the mass before it is at most top_p. `is_greedy`: every row's temperature is 0."""
    best_B = logits_BV.argmax(-1)
    if is_greedy:
        return best_B
    scaled_BV = logits_BV.double() / torch.where(temperature_B > 0, temperature_B, 1.0)[:, None]
    mass_BV, order_BV = scaled_BV.softmax(-1).sort(stable=True, dim=-1, descending=True)
    before_BV = mass_BV.cumsum(-1) - mass_BV
    kept_BV = torch.where(before_BV <= top_p_B[:, None], mass_BV, 0.0)
    reached_BV = kept_BV.cumsum(-1)
    target_B = uniform_B * reached_BV[:, -1]
    place_B = (reached_BV <= target_B[:, None]).sum(-1)
    last_B = (kept_BV > 0).sum(-1) - 1
    place_B = torch.minimum(place_B, last_B).clamp_min(0)  # where logits are not finite nothing is kept: any id will do
    drawn_B = order_BV.gather(1, place_B[:, None])[:, 0]
    return torch.where(temperature_B > 0, drawn_B, best_B)


def continue_probability(logits_BV: Tensor, end_id_B: Tensor) -> Tensor:
    """Probability [B] of anything but the end, among what may be said."""
    log_end_B = logits_BV.log_softmax(-1).gather(1, end_id_B[:, None])[:, 0]
    return -torch.expm1(log_end_B)
