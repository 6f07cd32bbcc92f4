"""The text tower: parallel blocks with partly rotated heads. Attention is an argument, so that paged decoding, ragged
prefill and dense training share these functions.

[..., T] positions, H heads, D width, V vocabulary. Plain functions on weights; usable under autograd.
"""

from __future__ import annotations

import torch
from torch import Tensor

from photon.kernels.attention import Attend
from photon.models.moondream.config import ROTARY_DIMS, TextConfig
from photon.models.moondream.ops import layer_norm, linear, mlp
from photon.models.moondream.weights import TextWeights

ROPE_THETA = 10_000.0


def text_forward(w: TextWeights, c: TextConfig, embeds: Tensor, positions: Tensor, attend: Attend) -> Tensor:
    """All layers. embeds [..., T, D], positions [T] or [..., T]; the hidden state [..., T, D] before the final norm.

    `attend(layer, q, k, v)` takes q [..., T, H, head_dim] and k, v [..., T, KV heads, head_dim]; it gives q's shape.
    """
    rotation = rotary_table(positions)
    x = embeds
    for layer, block in enumerate(w.blocks):
        u = layer_norm(x, block.ln)
        q, k, v = _split_heads(linear(u, block.attn.qkv), c)
        out = attend(layer, rotate(q, rotation), rotate(k, rotation), v)
        x = x + linear(out.flatten(-2), block.attn.proj) + mlp(u, block.mlp)
    return x


def lm_logits(w: TextWeights, hidden: Tensor) -> Tensor:
    """Logits [..., V] of hidden states [..., D]."""
    return linear(layer_norm(hidden, w.post_ln), w.lm_head)


def rotary_table(positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [..., T, 1, ROTARY_DIMS / 2] in float32: angle of pair i = position * theta^(-2i / ROTARY_DIMS)."""
    half = ROTARY_DIMS // 2
    exponent = torch.arange(half, device=positions.device, dtype=torch.float32) / half
    angles = positions[..., None, None].to(torch.float32) * ROPE_THETA**-exponent
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate dims (i, i + ROTARY_DIMS / 2) of each head of [..., T, H, head_dim]; the rest passes unchanged."""
    cos, sin = rotation
    half = ROTARY_DIMS // 2
    a, b = x[..., :half].float(), x[..., half:ROTARY_DIMS].float()
    turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)
    return torch.cat([turned, x[..., ROTARY_DIMS:]], dim=-1)


def _split_heads(qkv: Tensor, c: TextConfig) -> tuple[Tensor, Tensor, Tensor]:
    heads = qkv.unflatten(-1, (c.n_heads + 2 * c.n_kv_heads, c.head_dim))
    q, k, v = heads.split([c.n_heads, c.n_kv_heads, c.n_kv_heads], dim=-2)
    return q, k, v
