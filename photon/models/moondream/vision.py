"""The vision tower: crops to features, tiles stitched and pooled to one grid, both projected to the text width.

N crops or images, P patches a crop, E encoder width, D text width. Plain functions on weights; usable under autograd.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.models.moondream.config import VisionConfig
from photon.models.moondream.ops import layer_norm, linear, mlp
from photon.models.moondream.weights import Attention, VisionWeights


def normalize_crops(crops_NHWC: Tensor, dtype: torch.dtype) -> Tensor:
    """uint8 [N, H, W, 3] to [N, 3, H, W] in [-1, 1]."""
    pixels = crops_NHWC.to(torch.float32).div_(127.5).sub_(1)
    return pixels.permute(0, 3, 1, 2).to(dtype)


def encode_crops(w: VisionWeights, c: VisionConfig, pixels_NCHW: Tensor) -> Tensor:
    """Features [N, P, E] of normalised crops [N, 3, crop_size, crop_size]."""
    x = linear(_patches(pixels_NCHW, c.enc_patch_size), w.patch_emb) + w.pos_emb
    for block in w.blocks:
        x = x + _attention(layer_norm(x, block.ln1), block.attn, c.enc_n_heads)
        x = x + mlp(layer_norm(x, block.ln2), block.mlp)
    return layer_norm(x, w.post_ln)


def pool_tiles(c: VisionConfig, tiles_NTPE: Tensor, tiling: tuple[int, int]) -> Tensor:
    """Tile features [N, rows * columns, P, E] to one grid [N, P, E].

    Tiles overlap by twice the margin; a margin is kept on the outer border only, then the whole is pooled by averages.
    """
    (rows, columns), grid, margin = tiling, c.grid, c.overlap_margin
    tiles = tiles_NTPE.unflatten(1, (rows, columns)).unflatten(3, (grid, grid))  # [N, rows, columns, g, g, E]

    def kept(index: int, count: int) -> slice:
        return slice(0 if index == 0 else margin, grid if index == count - 1 else grid - margin)

    lines = [
        torch.cat([tiles[:, i, j, kept(i, rows), kept(j, columns)] for j in range(columns)], dim=2) for i in range(rows)
    ]
    stitched_NEHW = torch.cat(lines, dim=1).permute(0, 3, 1, 2)
    return F.adaptive_avg_pool2d(stitched_NEHW, (grid, grid)).flatten(2).transpose(1, 2)


def project(w: VisionWeights, whole_NPE: Tensor, pooled_NPE: Tensor) -> Tensor:
    """Features of the whole picture and of its tiles, joined and projected: [N, P, D]."""
    return mlp(torch.cat([whole_NPE, pooled_NPE], dim=-1), w.proj_mlp)


def _patches(pixels_NCHW: Tensor, size: int) -> Tensor:
    """[N, P, channels * size * size], inner order channel, row, column."""
    n, channels, height, width = pixels_NCHW.shape
    x = pixels_NCHW.reshape(n, channels, height // size, size, width // size, size)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, channels * size * size)


def _attention(x_NPE: Tensor, w: Attention, heads: int) -> Tensor:
    q, k, v = linear(x_NPE, w.qkv).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(q, k, v)
    return linear(out.transpose(1, 2).flatten(2), w.proj)
