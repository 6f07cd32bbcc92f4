"""Coordinates and sizes: encoders that turn a number into an embedding, and heads that read one from a hidden state.

A coordinate is a bin / bins, a size 2^(bin / (bins - 1) * 10 - 10), both in units of the picture's sides; the heads
read the hidden state before the final norm. Formulas for n bins from the published 1,024.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from photon.models.moondream.ops import linear, mlp
from photon.models.moondream.weights import RegionWeights

SIZE_OCTAVES = 10  # the smallest size is 2^-10 of a side


def encode_coordinate(w: RegionWeights, values: Tensor) -> Tensor:
    """[...] in [0, 1] to embeddings [..., D]."""
    return linear(_fourier(values[..., None], w.coord_features), w.coord_encoder)


def encode_size(w: RegionWeights, sizes: Tensor) -> Tensor:
    """Width and height [..., 2] in (0, 1] to embeddings [..., D]."""
    return linear(_fourier(sizes, w.size_features), w.size_encoder)


def coordinate_logits(w: RegionWeights, hidden: Tensor) -> Tensor:
    """[..., D] to [..., bins]."""
    return mlp(hidden, w.coord_decoder)


def size_logits(w: RegionWeights, hidden: Tensor) -> Tensor:
    """[..., D] to [..., 2, bins]: width, then height."""
    return mlp(hidden, w.size_decoder).unflatten(-1, (2, -1))


def bins_to_coordinate(bins: Tensor, num_bins: int) -> Tensor:
    return bins.to(torch.float32) / num_bins


def bins_to_size(bins: Tensor, num_bins: int) -> Tensor:
    return torch.exp2(bins.to(torch.float32) / (num_bins - 1) * SIZE_OCTAVES - SIZE_OCTAVES)


def _fourier(values: Tensor, features: Tensor) -> Tensor:
    """[cos f, sin f] with f = 2 pi (values @ features)."""
    f = 2 * math.pi * (values.to(features.dtype) @ features)
    return torch.cat([f.cos(), f.sin()], dim=-1)
