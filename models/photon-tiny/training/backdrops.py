"""A bank of square background pictures made on the device: flat, noise, gradients, stripes, two-tone, photographs.

Scenes take a random part of one, recoloured: so a few thousand give endless ones.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

PHOTOGRAPH_SHARE = 0.2
CHUNK = 256


def procedural(count: int, side: int, photographs: Tensor, *, device: str) -> Tensor:
    """uint8 [count, 3, side, side]; photographs uint8 [P, 3, S, S], none is allowed."""
    chunks = []
    for start in range(0, count, CHUNK):
        n = min(CHUNK, count - start)
        chunks.append((_pictures(n, side, photographs, device) * 255).round().to(torch.uint8))
    return torch.cat(chunks)


def _pictures(n: int, side: int, photographs: Tensor, device: str) -> Tensor:
    kinds = [_flat, _noise, _gradient, _stripes, _two_tone, _checks]
    weights = torch.tensor([0.15, 0.2, 0.2, 0.12, 0.25, 0.08], device=device)
    kind = torch.multinomial(weights, n, replacement=True)
    out = torch.empty(n, 3, side, side, device=device)
    for i, make in enumerate(kinds):
        out = torch.where((kind == i)[:, None, None, None], make(n, side, device), out)
    grain = torch.rand(n, 1, 1, 1, device=device) ** 3 * 0.15
    out = out + grain * (_smooth(n, side, 64, device) - 0.5)
    if len(photographs):
        chosen = torch.rand(n, 1, 1, 1, device=device) < PHOTOGRAPH_SHARE
        out = torch.where(chosen, _photograph_parts(n, side, photographs), out)
    return out.clamp(0, 1)


def _colour(n: int, device: str) -> Tensor:
    """Half of the colours pale, as in most drawings."""
    colour = torch.rand(n, 3, 1, 1, device=device)
    pale = torch.rand(n, 1, 1, 1, device=device) < 0.5
    return torch.where(pale, 0.7 + 0.3 * colour, colour)


def _axes(n: int, side: int, device: str) -> tuple[Tensor, Tensor]:
    """Coordinates 0..1 turned by a random angle, upright in half of the pictures."""
    line = (torch.arange(side, device=device) + 0.5) / side - 0.5
    y, x = torch.meshgrid(line, line, indexing="ij")
    angle = torch.rand(n, 1, 1, 1, device=device) * 2 * math.pi
    angle = torch.where(
        torch.rand(n, 1, 1, 1, device=device) < 0.5, (angle / (math.pi / 2)).round() * (math.pi / 2), angle
    )
    return x * angle.cos() + y * angle.sin() + 0.5, y * angle.cos() - x * angle.sin() + 0.5


def _smooth(n: int, side: int, cells: int, device: str, channels: int = 3) -> Tensor:
    return F.interpolate(
        torch.rand(n, channels, cells, cells, device=device), size=(side, side), mode="bilinear", align_corners=False
    )


def _flat(n: int, side: int, device: str) -> Tensor:
    return _colour(n, device).expand(n, 3, side, side)


def _noise(n: int, side: int, device: str) -> Tensor:
    picture = _colour(n, device)
    for cells, strength in ((2, 0.5), (4, 0.4), (8, 0.3), (32, 0.25), (128, 0.25)):
        picture = picture + strength * torch.rand(n, 1, 1, 1, device=device) * (_smooth(n, side, cells, device) - 0.5)
    return picture


def _gradient(n: int, side: int, device: str) -> Tensor:
    x, y = _axes(n, side, device)
    round_one = torch.rand(n, 1, 1, 1, device=device) < 0.3
    t = torch.where(round_one, ((x - 0.5) ** 2 + (y - 0.5) ** 2).sqrt() * 1.6, x).clamp(0, 1)
    return _colour(n, device) * (1 - t) + _colour(n, device) * t


def _stripes(n: int, side: int, device: str) -> Tensor:
    x, _ = _axes(n, side, device)
    period = 3 + torch.rand(n, 1, 1, 1, device=device) * 20
    share = 0.2 + 0.6 * torch.rand(n, 1, 1, 1, device=device)
    return torch.where((x * period) % 1 < share, _colour(n, device), _colour(n, device))


def _checks(n: int, side: int, device: str) -> Tensor:
    x, y = _axes(n, side, device)
    period = 3 + torch.rand(n, 1, 1, 1, device=device) * 12
    odd = ((x * period).floor() + (y * period).floor()) % 2 == 0
    return torch.where(odd, _colour(n, device), _colour(n, device))


def _two_tone(n: int, side: int, device: str) -> Tensor:
    """A wall and a table, or a sky and a ground: an upper and a lower part with an edge between."""
    line = (torch.arange(side, device=device) + 0.5) / side
    y, x = line[None, None, :, None], line[None, None, None, :]
    bumps = torch.rand(n, 1, 1, 1, device=device) ** 2 * 0.06
    phase, waves = torch.rand(2, n, 1, 1, 1, device=device) * 6
    edge = 0.25 + 0.5 * torch.rand(n, 1, 1, 1, device=device) + bumps * (x * 2 * waves + phase).sin()
    planks = 0.08 * torch.rand(n, 1, 1, 1, device=device) * (((y - edge) * 30 * waves) % 1 < 0.12)
    lower = _noise(n, side, device) * (0.85 + 0.3 * y) - planks
    return torch.where(y < edge, _gradient(n, side, device), lower)


def _photograph_parts(n: int, side: int, photographs: Tensor) -> Tensor:
    """Random squares of random photographs, some blurred."""
    device = photographs.device
    share = 0.35 + 0.65 * torch.rand(n, device=device)
    shift = (1 - share)[:, None] * (torch.rand(n, 2, device=device) * 2 - 1)
    zero = torch.zeros_like(share)
    theta = torch.stack([torch.stack([share, zero, shift[:, 0]], -1), torch.stack([zero, share, shift[:, 1]], -1)], 1)
    grid = F.affine_grid(theta, [n, 3, side, side], align_corners=False)
    chosen = photographs[torch.randint(len(photographs), (n,), device=device)].float() / 255
    part = F.grid_sample(chosen, grid, padding_mode="reflection", align_corners=False)
    blurred = F.interpolate(F.avg_pool2d(part, 8), size=(side, side), mode="bilinear", align_corners=False)
    return torch.where(torch.rand(n, 1, 1, 1, device=device) < 0.4, blurred, part)
