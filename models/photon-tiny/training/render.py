"""Draws batches of scenes from rows of numbers: a background, then textured quads from the back, with exact labels.

A GPU uses the kernel of compose_kernel.py, the CPU the plain twin below. Invariant: sprites are premultiplied, packed
RGBA in one int32 a texel, with two coarser levels for small drawings and soft shadows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from constants import constant
from torch import Tensor

CELL = 112
LEVELS = 3
# Of an object: 6 canvas pixel -> (u, v), 4 window, 12 colour matrix, 1 edge;
# of its shadow: 2 offset, gain, opacity, 3 colour.
NUMBERS = 30
INDICES = 8  # of an object: texture start, texture side, x0, y0, x1, y1 (pixels touched), soft texture start, its side
BACK = 18  # of a background: 6 canvas pixel -> (u, v), 12 colour matrix
HIT = 0.35  # opacity from which a pixel belongs to an object


@dataclass(frozen=True)
class Textures:
    """Sprites at three sizes in one flat int32 tensor, and backgrounds int32 [B, side, side]."""

    sprites: Tensor
    num_sprites: int
    backgrounds: Tensor

    def start(self, sprite: Tensor, level: Tensor) -> Tensor:
        """Where a sprite's texels begin at a level of detail (0 is the finest)."""
        sides = [CELL >> i for i in range(LEVELS)]
        begins = constant(tuple(sum(s * s for s in sides[:i]) * self.num_sprites for i in range(LEVELS)), sprite.device)
        return begins[level] + sprite * (CELL >> level) ** 2


@dataclass(frozen=True)
class Drawing:
    """What to draw. numbers [n, K, NUMBERS], indices [n, K, INDICES], back_numbers [n, BACK], back_index [n]."""

    numbers: Tensor
    indices: Tensor
    back_numbers: Tensor
    back_index: Tensor


@dataclass(frozen=True)
class Drawn:
    """canvas uint8 [n, 3, H, W]; owner int8 [n, H, W], -1 the background; boxes [n, K, 4] in pixels; seen [n, K]."""

    canvas: Tensor
    owner: Tensor
    boxes: Tensor
    seen: Tensor


def pack_sprites(atlas: Tensor, backgrounds: Tensor) -> Textures:
    """atlas uint8 [N, 4, 112, 112], premultiplied; backgrounds uint8 [B, 3, side, side]."""
    levels = [atlas]
    for _ in range(LEVELS - 1):
        levels.append(torch.cat([_half(part) for part in levels[-1].split(512)]))
    sprites = torch.cat([pack(level).flatten() for level in levels])
    return Textures(sprites, len(atlas), pack(backgrounds))


def _half(sprites: Tensor) -> Tensor:
    return F.avg_pool2d(sprites.float(), 2).round().to(torch.uint8)


def pack(pixels: Tensor) -> Tensor:
    """uint8 [N, 3 or 4, H, W] to int32 [N, H, W]."""
    if pixels.shape[1] == 3:
        pixels = torch.cat([pixels, torch.full_like(pixels[:, :1], 255)], 1)
    return pixels.permute(0, 2, 3, 1).contiguous().view(torch.int32)[..., 0]


def draw(drawing: Drawing, textures: Textures, height: int, width: int) -> Drawn:
    """All scenes on canvases of one size."""
    n, objects = drawing.indices.shape[:2]
    device = drawing.numbers.device
    canvas = torch.empty(n, 3, height, width, dtype=torch.uint8, device=device)
    owner = torch.empty(n, height, width, dtype=torch.int8, device=device)
    stats = torch.zeros(n, objects, 6, dtype=torch.int32, device=device)
    stats[..., 2:] = 1 << 20
    if device.type == "cuda":
        _draw_kernel(drawing, textures, canvas, owner, stats)
    else:
        for i in range(n):
            _draw_plain(drawing, textures, i, canvas[i], owner[i], stats[i])
    boxes = torch.stack([stats[..., 2], stats[..., 3], -stats[..., 4], -stats[..., 5]], -1).float()
    boxes = torch.where(stats[..., 1:2] > 0, boxes, torch.zeros_like(boxes))
    return Drawn(canvas, owner, boxes, stats[..., 1] / stats[..., 0].clamp(min=1))


def _draw_kernel(drawing: Drawing, textures: Textures, canvas: Tensor, owner: Tensor, stats: Tensor) -> None:
    from compose_kernel import TILE, compose

    n, objects = drawing.indices.shape[:2]
    height, width = owner.shape[1:]
    tiles_x, tiles_y = -(-width // TILE), -(-height // TILE)
    compose[(n, tiles_x * tiles_y)](
        canvas,
        owner,
        stats,
        textures.sprites,
        textures.backgrounds,
        drawing.back_numbers,
        drawing.back_index,
        drawing.numbers,
        drawing.indices,
        height,
        width,
        tiles_x,
        textures.backgrounds.shape[-1],
        OBJECTS=objects,
        NUMBERS=NUMBERS,
        INDICES=INDICES,
        BACK=BACK,
        SIZE=TILE,
        HIT=HIT,
        num_warps=4,
    )


def _draw_plain(drawing: Drawing, textures: Textures, i: int, canvas: Tensor, owner: Tensor, stats: Tensor) -> None:
    height, width = owner.shape
    back = drawing.back_numbers[i]
    u, v = _texture_coordinates(back, 0, 0, width, height)
    pixels = _bilinear(textures.backgrounds[drawing.back_index[i]], u.clamp(0.002, 0.998), v.clamp(0.002, 0.998))
    picture = _recolour(back[6:], pixels[:3], torch.ones_like(u))
    owner.fill_(-1)
    for k in range(drawing.indices.shape[1]):
        start, side, x0, y0, x1, y1, soft_start, soft_side = drawing.indices[i, k].tolist()
        x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
        if x0 >= x1 or y0 >= y1:
            continue
        p = drawing.numbers[i, k]
        u, v = _texture_coordinates(p, x0, y0, x1, y1)
        area = picture[:, y0:y1, x0:x1]
        soft = textures.sprites[soft_start : soft_start + soft_side**2].view(soft_side, soft_side)
        under = (_bilinear(soft, u - p[23], v - p[24])[3] * p[25]).clamp(max=1) * p[26]
        area.mul_(1 - under).add_(p[27:30, None, None] * under)
        sprite = _bilinear(textures.sprites[start : start + side**2].view(side, side), u, v)
        alpha = sprite[3]
        window = (u >= p[6]) & (v >= p[7]) & (u <= p[8]) & (v <= p[9])
        hard = ((alpha - 0.5) * p[22] + 0.5).clamp(0, 1) * (window & (alpha > 0.004))
        colour = _recolour(p[10:], sprite[:3] * (hard / alpha.clamp(min=0.004)), hard)
        area.mul_(1 - hard).add_(colour)
        hit = hard > HIT
        owner[y0:y1, x0:x1][hit] = k
        stats[k, 0] = int(hit.sum())
    canvas.copy_((picture * 255 + 0.5).to(torch.uint8))
    for k in owner.unique().tolist():
        if k >= 0:
            ys, xs = torch.nonzero(owner == k, as_tuple=True)
            limits = [len(xs), xs.min(), ys.min(), -xs.max() - 1, -ys.max() - 1]
            stats[k, 1:] = torch.tensor([int(x) for x in limits], dtype=torch.int32)


def _texture_coordinates(p: Tensor, x0: int, y0: int, x1: int, y1: int) -> tuple[Tensor, Tensor]:
    y, x = torch.meshgrid(torch.arange(y0, y1) + 0.5, torch.arange(x0, x1) + 0.5, indexing="ij")
    return p[0] * x + p[1] * y + p[2], p[3] * x + p[4] * y + p[5]


def _bilinear(texture: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Channels [4, h, w] in 0..1 of a packed texture [side, side], zeros outside."""
    channels = torch.stack([(texture >> shift) & 255 for shift in (0, 8, 16, 24)]).float() / 255
    grid = torch.stack([u * 2 - 1, v * 2 - 1], -1)
    return F.grid_sample(channels[None], grid[None], align_corners=False)[0]


def _recolour(matrix: Tensor, premultiplied: Tensor, alpha: Tensor) -> Tensor:
    m = matrix[:12].view(3, 4)
    mixed = torch.einsum("ij,jhw->ihw", m[:, :3], premultiplied) + m[:, 3, None, None] * alpha
    return torch.minimum(mixed.clamp(min=0), alpha)
