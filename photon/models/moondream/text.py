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
    rotation, num_rotated = rotary_table(positions), c.n_heads + c.n_kv_heads
    x = embeds
    for layer, block in enumerate(w.blocks):
        u = layer_norm(x, block.ln)
        qk, v = linear(u, block.attn.qkv).unflatten(-1, (-1, c.head_dim)).split([num_rotated, c.n_kv_heads], dim=-2)
        q, k = rotate(qk, rotation).split([c.n_heads, c.n_kv_heads], dim=-2)
        out = attend(layer, q, k, v)
        x = x + linear(out.flatten(-2), block.attn.proj) + mlp(u, block.mlp)
    return x


def lm_logits(w: TextWeights, hidden: Tensor) -> Tensor:
    """Logits [..., V] of hidden states [..., D]."""
    return linear(layer_norm(hidden, w.post_ln), w.lm_head)


def rotary_table(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Factors [..., T, 1, ROTARY_DIMS] of a dim itself and of its partner, float32: of pair i the cosine for both, and
    -sine and sine, of the angle position * theta^(-2i / ROTARY_DIMS)."""
    half = ROTARY_DIMS // 2
    exponent = torch.arange(half, device=positions.device, dtype=torch.float32) / half
    angles = positions[..., None, None].to(torch.float32) * ROPE_THETA**-exponent
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate dims (i, i + ROTARY_DIMS / 2) of each head of [..., T, H, head_dim]; the rest passes unchanged."""
    own, partners = rotation
    turning = x[..., :ROTARY_DIMS].float()
    turned = torch.addcmul(turning * own, turning.roll(ROTARY_DIMS // 2, dims=-1), partners).to(x.dtype)
    return torch.cat([turned, x[..., ROTARY_DIMS:]], dim=-1)
