"""Composes batches of scenes on one canvas size: which sprites where, drawn, with exact labels of what is seen.

K objects a scene, in the order of drawing: DISTRACTORS first (shapes and small parts of sprites, never asked for), then
up to MAX_OBJECTS sprites. Invariant: training turns no sprite by 10 to 13 degrees; held-out scenes turn all by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from constants import constant
from library import NUM_SHAPES, Library
from render import BACK, CELL, INDICES, LEVELS, NUMBERS, Drawing, Drawn, draw
from torch import Tensor

MAX_OBJECTS = 16
DISTRACTORS = 4
K = DISTRACTORS + MAX_OBJECTS
MAX_NOUNS = 5
SMALLEST, LARGEST = 0.08, 0.45  # an object's longer side, in the canvas's shorter side
GAP_FROM, GAP_TO, LAST = 10.0, 13.0, 20.0  # degrees
PART_SEEN = 0.3  # a part of a sprite counts as an object that is mostly hidden: neither there nor absent
CLEAR, HIDDEN = 0.5, 0.05  # seen at least this much: there; less than that: not there; between: not asked


@dataclass(frozen=True)
class Layout:
    """Sprites and their places. centre [n, K, 2]; size [n, K] the drawing's longer side, 0 for none; both in pixels;
    angle in radians; flip -1 or 1; stretch a factor; part bool: only a window of the sprite is drawn."""

    sprite: Tensor
    centre: Tensor
    size: Tensor
    angle: Tensor
    flip: Tensor
    stretch: Tensor
    part: Tensor


@dataclass(frozen=True)
class Scenes:
    """n drawn scenes. boxes [n, K, 4]: x0, y0, x1, y1 in units of the sides; noun, colour, seen (0..1) [n, K]."""

    drawn: Drawn
    boxes: Tensor
    noun: Tensor
    colour: Tensor
    seen: Tensor

    @property
    def clear(self) -> Tensor:
        return self.seen >= CLEAR


def compose(
    library: Library, n: int, width: int, height: int, *, held_out: bool = False, style: str | None = None
) -> Scenes:
    """Random scenes from the global random state, with sprites of `style`, otherwise of all trained styles."""
    layout = sample_layout(library, n, width, height, held_out=held_out, style=style)
    return draw_layout(library, layout, width, height)


def draw_layout(
    library: Library, layout: Layout, width: int, height: int, *, plain: bool = False, backdrop: Tensor | None = None
) -> Scenes:
    """`plain` leaves out recolouring and soft edges; `backdrop` [n] chooses backgrounds, shown whole as they are."""
    n = len(layout.sprite)
    back_numbers, back_index = _backgrounds(library, n, width, height, backdrop)
    numbers, indices = _objects(library, layout, plain=plain)
    drawn = draw(Drawing(numbers, indices, back_numbers, back_index), library.textures, height, width)
    there = layout.size > 0
    seen = torch.where(there, torch.where(layout.part, drawn.seen.clamp(max=PART_SEEN), drawn.seen), 0)
    noun = torch.where(there, library.noun_S[layout.sprite], library.num_nouns)
    sides = constant((width, height, width, height), seen.device)
    return Scenes(drawn, drawn.boxes / sides, noun, library.colour_S[layout.sprite], seen)


def sample_layout(library: Library, n: int, width: int, height: int, *, held_out: bool, style: str | None) -> Layout:
    device = library.noun_S.device
    short = min(width, height)
    sprite, there, part = _sample_sprites(library, n, style)
    size = _sample_sizes(there, width * height / short**2)
    centre = _spread(size, constant((width / short, height / short), device))
    stretch = torch.exp((torch.rand(n, K, device=device) - 0.5) * 0.25)
    return Layout(
        sprite, centre * short, size * short, _angles(n, held_out, device), _signs(n, K, device), stretch, part
    )


def _signs(*shape: int | torch.device) -> Tensor:
    *sizes, device = shape
    return torch.randint(2, tuple(sizes), device=device) * 2.0 - 1  # type: ignore[arg-type]


def _angles(n: int, held_out: bool, device: torch.device) -> Tensor:
    if held_out:
        degrees = GAP_FROM + (GAP_TO - GAP_FROM) * torch.rand(n, K, device=device)
    else:
        degrees = torch.rand(n, K, device=device) * (LAST - (GAP_TO - GAP_FROM))
        degrees = torch.where(degrees < GAP_FROM, degrees, degrees + (GAP_TO - GAP_FROM))
        upright = torch.rand(n, 1, device=device) < 0.2
        degrees = torch.where(upright, degrees * 0.1, degrees)
    return _signs(n, K, device) * torch.deg2rad(degrees)


def _sample_sprites(library: Library, n: int, style: str | None) -> tuple[Tensor, Tensor, Tensor]:
    """sprite [n, K], there bool [n, K], part bool [n, K]."""
    device = library.noun_S.device
    table = library.trained_VM if style is None else library.styles[style]
    usable = torch.arange(library.num_nouns, device=device)
    if style is not None:
        usable = usable[library.has_style[style]]
    nouns = usable[torch.randint(len(usable), (n, MAX_NOUNS), device=device)]
    kinds = 1 + torch.randint(MAX_NOUNS, (n, 1), device=device)
    which = (torch.rand(n, K, device=device) * kinds).long()
    favourite = table[nouns, torch.randint(table.shape[1], (n, MAX_NOUNS), device=device)].gather(1, which)
    own = table[nouns.gather(1, which), torch.randint(table.shape[1], (n, K), device=device)]
    sprite = torch.where(torch.rand(n, K, device=device) < 0.5, favourite, own)

    # Few objects are likelier than many: the square of a uniform number.
    count = 1 + (torch.rand(n, 1, device=device) ** 1.6 * MAX_OBJECTS).long().clamp(max=MAX_OBJECTS - 1)
    order = torch.arange(K, device=device)
    there = (order >= DISTRACTORS) & (order < DISTRACTORS + count)
    disturbed = (
        (torch.rand(n, 1, device=device) < 0.35) & (order < DISTRACTORS) & (torch.rand(n, K, device=device) < 0.6)
    )
    shape = torch.rand(n, K, device=device) < 0.6
    num_sprites = len(library.noun_S) - NUM_SHAPES
    shapes = num_sprites + torch.randint(NUM_SHAPES, (n, K), device=device)
    other = table[
        usable[torch.randint(len(usable), (n, K), device=device)], torch.randint(table.shape[1], (n, K), device=device)
    ]
    sprite = torch.where(order < DISTRACTORS, torch.where(shape, shapes, other), sprite)
    return sprite, there | disturbed, disturbed & ~shape


def _sample_sizes(there: Tensor, area: float) -> Tensor:
    """Longer sides in units of the shorter side of the canvas, whose area in its square is `area`; 0 where none."""
    n, device = len(there), there.device
    low, high = math.log(SMALLEST), math.log(LARGEST)
    each, alike = (torch.exp(low + (high - low) * torch.rand(n, width, device=device)) for width in (K, 1))
    size = (
        torch.where(torch.rand(n, 1, device=device) < 0.3, alike * (0.8 + 0.4 * torch.rand(n, K, device=device)), each)
        * there
    )
    # Crowded scenes shrink until the cells cover at most so much of the canvas.
    fill = (0.45 + 0.25 * torch.rand(n, 1, device=device)) * area
    shrink = (fill / size.square().sum(1, keepdim=True).clamp(min=1e-6)).sqrt().clamp(max=1)
    return (size * shrink).clamp(SMALLEST, LARGEST) * there


def _spread(size: Tensor, extent: Tensor) -> Tensor:
    """Centres [n, K, 2] within the extent, pushed apart for a while; some scenes stay crowded."""
    n, device = len(size), size.device
    centre = torch.rand(n, K, 2, device=device) * extent
    near = (0.62 + 0.4 * torch.rand(n, 1, 1, device=device)) * 0.5 * (size[:, :, None] + size[:, None])
    pushes = (size[:, :, None] > 0) & (size[:, None] > 0) & ~torch.eye(K, dtype=torch.bool, device=device)
    labelled = torch.arange(K, device=device) >= DISTRACTORS
    pushes &= labelled[:, None] & labelled[None]
    margin = 0.47 * size[..., None]
    for _ in range(24):
        apart = centre[:, :, None] - centre[:, None]
        distance = apart.norm(dim=-1) + 1e-4
        force = (near - distance).clamp(min=0) / distance * pushes
        centre = centre + 0.3 * (apart * force[..., None]).sum(2)
        centre = torch.maximum(torch.minimum(centre, extent - margin), margin)
    return centre


def _backgrounds(library: Library, n: int, width: int, height: int, backdrop: Tensor | None) -> tuple[Tensor, Tensor]:
    device = library.noun_S.device
    numbers = torch.zeros(n, BACK, device=device)
    if backdrop is not None:
        numbers[:, 0], numbers[:, 4] = 1 / width, 1 / height
        numbers[:, 6] = numbers[:, 11] = numbers[:, 16] = 1
        return numbers, backdrop.to(torch.int32)
    share = 0.3 + 0.7 * torch.rand(n, 2, device=device).sqrt()
    start = (1 - share) * torch.rand(n, 2, device=device)
    flip = torch.rand(n, device=device) < 0.5
    numbers[:, 0] = torch.where(flip, -share[:, 0], share[:, 0]) / width
    numbers[:, 2] = torch.where(flip, start[:, 0] + share[:, 0], start[:, 0])
    numbers[:, 4], numbers[:, 5] = share[:, 1] / height, start[:, 1]
    numbers[:, 6:] = _colour_matrix(n, device, hue=math.pi, saturation=0.7, contrast=0.35, brightness=0.15).flatten(1)
    return numbers, torch.randint(len(library.textures.backgrounds), (n,), device=device, dtype=torch.int32)


def _colour_matrix(
    *shape: int | torch.device, hue: float, saturation: float, contrast: float, brightness: float
) -> Tensor:
    """[..., 3, 4] on (r, g, b, alpha): turned in hue by up to `hue` radians, the rest up to 1 +- the given amounts."""
    *sizes, device = shape

    def around(amount: float) -> Tensor:
        return ((torch.rand(*sizes, device=device) * 2 - 1) * amount)[..., None, None]  # type: ignore[arg-type]

    eye = torch.eye(3, device=device)  # type: ignore[arg-type]
    third = torch.full((3, 3), 1 / 3, device=device)  # type: ignore[arg-type]
    across = constant(((0.0, -1, 1), (1, 0, -1), (-1, 1, 0)), device) / math.sqrt(3)  # type: ignore[arg-type]
    angle, strength, scale = around(hue), 1 + around(saturation), 1 + around(contrast)
    turned = angle.cos() * eye + (1 - angle.cos()) * third + angle.sin() * across
    linear = scale * (strength * turned + (1 - strength) * third)
    offset = 0.5 * (1 - scale) + around(brightness)
    return torch.cat([linear, offset.expand(*linear.shape[:-1], 1)], -1)


def _objects(library: Library, layout: Layout, *, plain: bool) -> tuple[Tensor, Tensor]:
    """The rows of numbers and indices that render.py draws."""
    n, device = len(layout.sprite), layout.sprite.device
    cell = layout.size / library.extent_S2[layout.sprite].amax(-1)
    wide, tall = cell * layout.stretch, cell / layout.stretch
    numbers = torch.zeros(n, K, NUMBERS, device=device)
    numbers[..., :6] = _inverse_affine(layout, wide, tall)
    numbers[..., 6:10] = _windows(layout.part)
    numbers[..., 10:22] = _object_colours(library, layout.sprite, plain).flatten(2)
    hard = torch.rand(n, K, device=device) < (0 if plain else 0.2)
    numbers[..., 22] = torch.where(hard, 3.0, 1.0)
    numbers[..., 23:] = _underlays(n, device, plain)
    cos, sin = layout.angle.cos().abs(), layout.angle.sin().abs()
    half = 0.5 * torch.stack([wide * cos + tall * sin, wide * sin + tall * cos], -1) + 0.15 * cell[..., None]
    there = (layout.size > 0)[..., None]
    low = torch.where(there, (layout.centre - half).floor(), 1e6).long()
    high = torch.where(there, (layout.centre + half).ceil(), -1e6).long()
    blurred = torch.rand(n, K, device=device) < (0 if plain else 0.07)
    level = ((cell < 0.75 * CELL).long() + (cell < 0.375 * CELL) + blurred).clamp(max=LEVELS - 1)
    soft = torch.full_like(level, LEVELS - 1)
    textures = library.textures
    indices = [
        textures.start(layout.sprite, level),
        CELL >> level,
        low[..., 0],
        low[..., 1],
        high[..., 0],
        high[..., 1],
    ]
    indices += [textures.start(layout.sprite, soft), CELL >> soft]
    assert len(indices) == INDICES
    return numbers, torch.stack(indices, -1).to(torch.int32)


def _inverse_affine(layout: Layout, wide: Tensor, tall: Tensor) -> Tensor:
    """Canvas pixel to (u, v) in 0..1 of the sprite's cell: [n, K, 6]. Cells of size 0 are never drawn."""
    cos, sin, (x, y) = layout.angle.cos(), layout.angle.sin(), layout.centre.unbind(-1)
    wide, tall = wide.clamp(min=1e-3), tall.clamp(min=1e-3)
    a, b = layout.flip * cos / wide, layout.flip * sin / wide
    d, e = -sin / tall, cos / tall
    return torch.stack([a, b, 0.5 - a * x - b * y, d, e, 0.5 - d * x - e * y], -1)


def _windows(part: Tensor) -> Tensor:
    side = 0.25 + 0.15 * torch.rand(*part.shape, 2, device=part.device)
    start = 0.1 + (0.8 - side) * torch.rand(*part.shape, 2, device=part.device)
    whole = constant((-1.0, -1, 2, 2), part.device)
    return torch.where(part[..., None], torch.cat([start, start + side], -1), whole)


def _object_colours(library: Library, sprite: Tensor, plain: bool) -> Tensor:
    """Small changes for sprites, one flat colour for shapes: [n, K, 3, 4]."""
    n, device = len(sprite), sprite.device
    strength = 0.0 if plain else 1.0
    matrix = _colour_matrix(
        n,
        K,
        device,
        hue=0.16 * strength,
        saturation=0.25 * strength,
        contrast=0.2 * strength,
        brightness=0.06 * strength,
    )
    flat = torch.zeros(n, K, 3, 4, device=device)
    flat[..., 3] = torch.rand(n, K, 3, device=device)
    is_shape = library.noun_S[sprite] == library.num_nouns
    return torch.where(is_shape[..., None, None], flat, matrix)


def _underlays(n: int, device: torch.device, plain: bool) -> Tensor:
    """Shadow, outline or nothing beneath each object: offset 2, gain, opacity, colour 3."""
    shadow = torch.rand(n, 1, device=device) < 0.35
    shadow = shadow & (torch.rand(n, K, device=device) < 0.85)
    outline = ~shadow & (torch.rand(n, K, device=device) < (0 if plain else 0.15))
    offset = torch.where(shadow[..., None], 0.02 + 0.06 * torch.rand(n, 1, 2, device=device), 0.0)
    gain = torch.where(outline, 3.0, 1.0)
    opacity = torch.where(shadow, 0.2 + 0.3 * torch.rand(n, 1, device=device), torch.where(outline, 1.0, 0.0))
    light = (torch.rand(n, K, device=device) < 0.7).float() * outline
    return torch.cat([offset, gain[..., None], opacity[..., None], light[..., None].expand(n, K, 3)], -1)
