"""Crops of a batch of canvases on the device, like those that `photon.images` cuts with Pillow, and their dense labels.

Resizing is Lanczos with three lobes as two matrix products. Invariant: crop 0 of each picture is the whole, then its
tiles row by row; a picture that is not tiled has one crop, which stands for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from constants import constant
from facts import owner_at
from scenes import Scenes
from torch import Tensor

from photon.images.crops import choose_tiling
from photon.models.moondream.config import VisionConfig

LOBES = 3.0


@dataclass(frozen=True)
class Cut:
    """pixels [n, crops, 3, side, side] in -1..1; tiling (rows, columns). Of the object at each patch's centre:
    dense_noun [n, crops, P], V where there is none, and dense_box [n, crops, P, 4] in units of the crop's side."""

    pixels: Tensor
    dense_noun: Tensor
    dense_box: Tensor
    tiling: tuple[int, int]


def tiling_of(width: int, height: int, c: VisionConfig) -> tuple[int, int]:
    margin = c.overlap_margin * c.enc_patch_size
    return choose_tiling(height, width, crop=c.crop_size, margin_pixels=margin, max_tiles=c.max_crops)


def cut(scenes: Scenes, c: VisionConfig, num_nouns: int, *, augment: bool) -> Cut:
    canvas = scenes.drawn.canvas
    height, width = canvas.shape[-2:]
    tiling = rows, columns = tiling_of(width, height, c)
    side = c.crop_size
    window = side - 2 * c.overlap_margin * c.enc_patch_size
    origins, sizes = [(0, 0)], [(side, side)]
    crops = [resize(canvas, side, side)[:, None]]
    if tiling != (1, 1):
        size = columns * window + side - window, rows * window + side - window
        tiled = resize(canvas, size[1], size[0])
        for top, left in ((i * window, j * window) for i in range(rows) for j in range(columns)):
            crops.append(tiled[:, None, :, top : top + side, left : left + side])
            origins.append((left, top))
            sizes.append(size)
    pixels = torch.cat(crops, 1) / 127.5 - 1
    noun, box = _dense(scenes, tuple(origins), tuple(sizes), c, num_nouns)
    return Cut(_augmented(pixels) if augment else pixels, noun, box, tiling)


def resize(canvas: Tensor, height: int, width: int) -> Tensor:
    """uint8 [n, 3, H, W] to [n, 3, height, width] in 0..255, bfloat16 on a GPU."""
    dtype = torch.bfloat16 if canvas.is_cuda else torch.float32
    across = _lanczos(canvas.shape[-1], width, canvas.device, dtype)
    down = _lanczos(canvas.shape[-2], height, canvas.device, dtype)
    return torch.matmul(down, torch.matmul(canvas.to(dtype), across.T)).clamp(0, 255)


@lru_cache(maxsize=256)
def _lanczos(old: int, new: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Weights [new, old] as Pillow has them: the kernel widens when shrinking, and is cut at the edges."""
    scale = old / new
    widened = max(scale, 1.0)
    centre = (torch.arange(new, dtype=torch.float64) + 0.5) * scale
    support = LOBES * widened
    first = (centre - support + 0.5).floor().clamp(min=0)
    last = (centre + support + 0.5).floor().clamp(max=old)
    x = torch.arange(old, dtype=torch.float64)
    t = (x + 0.5 - centre[:, None]) / widened
    weights = torch.where(t.abs() < LOBES, torch.sinc(t) * torch.sinc(t / LOBES), 0.0)
    weights = weights * ((x >= first[:, None]) & (x < last[:, None]))
    return (weights / weights.sum(1, keepdim=True)).to(device, dtype)


def _augmented(pixels: Tensor) -> Tensor:
    """Contrast, brightness, noise and blur, the same for all crops of a picture."""
    n, device = len(pixels), pixels.device

    def each(chance: float = 1.0) -> Tensor:
        on = torch.rand(n, device=device) < chance
        return ((torch.rand(n, device=device) * 2 - 1) * on).to(pixels.dtype)[:, None, None, None, None]

    out = pixels * (1 + 0.25 * each()) + 0.15 * each()
    soft = torch.nn.functional.avg_pool2d(out.flatten(0, 1), 3, 1, 1, count_include_pad=False).view_as(out)
    out = torch.where(each(0.1) != 0, soft, out)
    return (out + 0.06 * each(0.3) * torch.randn_like(out)).clamp(-1, 1)


Pairs = tuple[tuple[int, int], ...]


def _dense(scenes: Scenes, origins: Pairs, sizes: Pairs, c: VisionConfig, num_nouns: int) -> tuple[Tensor, Tensor]:
    """Per crop, its origin and the whole size, in pixels of the resized picture that it is cut from: (x, y)."""
    device, n = scenes.noun.device, len(scenes.noun)
    origin, size = constant(origins, device), constant(sizes, device)
    line = (torch.arange(c.grid, device=device) + 0.5) * c.enc_patch_size
    y, x = torch.meshgrid(line, line, indexing="ij")
    centres = torch.stack([x, y], -1).flatten(0, 1)
    points = (origin[:, None] + centres) / size[:, None]  # [crops, P, 2]
    owner = owner_at(scenes, points.flatten(0, 1).expand(n, -1, 2)).view(n, *points.shape[:2])
    flat = owner.clamp(min=0).flatten(1)
    noun = torch.where(owner >= 0, scenes.noun.gather(1, flat).view_as(owner), num_nouns)
    box = scenes.boxes.gather(1, flat[..., None].expand(-1, -1, 4)).view(*owner.shape, 4)
    scaled = box * size.repeat(1, 2)[:, None] - origin.repeat(1, 2)[:, None]
    return noun, (scaled / c.crop_size).clamp(-0.5, 1.5)
