"""What questions are made from: the labels of scenes, joined over canvases of different sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from constants import constant
from library import Library
from scenes import HIDDEN, Scenes
from torch import Tensor

AIMED = 0.85  # of the places asked about, the share that is aimed at an object


@dataclass(frozen=True)
class Facts:
    """n pictures of K objects.

    noun, colour, clear, visible  [n, K]; clear and visible are bool, and false for shapes
    boxes, centres                [n, K, 4] and [n, K, 2] in units of the sides
    extent                        [n, 2] width and height over the shorter of them
    place, placed_on              [n, 2] a place to ask about, and [n] the object drawn there, -1 for the background
    """

    noun: Tensor
    colour: Tensor
    clear: Tensor
    visible: Tensor
    boxes: Tensor
    centres: Tensor
    extent: Tensor
    place: Tensor
    placed_on: Tensor

    @classmethod
    def of(cls, scenes: Scenes, library: Library) -> Facts:
        height, width = scenes.drawn.owner.shape[1:]
        short = min(width, height)
        real = scenes.noun < library.num_nouns
        clear = scenes.clear & real
        centres = (scenes.boxes[..., :2] + scenes.boxes[..., 2:]) / 2
        place = _random_places(clear, scenes.boxes, centres)
        return cls(
            noun=scenes.noun,
            colour=scenes.colour,
            clear=clear,
            visible=(scenes.seen > HIDDEN) & real,
            boxes=scenes.boxes,
            centres=centres,
            extent=constant((width / short, height / short), place.device).expand(len(place), 2),
            place=place,
            placed_on=owner_at(scenes, place[:, None])[:, 0],
        )


def join_facts(parts: list[Facts]) -> Facts:
    """Pictures one after another."""
    return Facts(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(Facts)))


def pick(mask: Tensor) -> tuple[Tensor, Tensor]:
    """A random true place of each row of bool [n, K], and whether there is one."""
    return torch.rand_like(mask, dtype=torch.float32).masked_fill(~mask, -1).argmax(1), mask.any(1)


def at(values: Tensor, index: Tensor) -> Tensor:
    """values[i, index[i]] for [n, K] or [n, K, c]."""
    return values[torch.arange(len(values), device=values.device), index]


def owner_at(scenes: Scenes, points: Tensor) -> Tensor:
    """Which object is drawn at points [n, P, 2] in units of the sides: [n, P], -1 for the background."""
    height, width = scenes.drawn.owner.shape[1:]
    x = (points[..., 0] * width).long().clamp(0, width - 1)
    y = (points[..., 1] * height).long().clamp(0, height - 1)
    row = torch.arange(len(points), device=points.device)[:, None]
    return scenes.drawn.owner[row, y, x].long()


def _random_places(clear: Tensor, boxes: Tensor, centres: Tensor) -> Tensor:
    n, device = len(clear), clear.device
    chosen, any_clear = pick(clear)
    size = at(boxes[..., 2:] - boxes[..., :2], chosen)
    on_object = at(centres, chosen) + 0.4 * size * (torch.rand(n, 2, device=device) - 0.5)
    aimed = (torch.rand(n, device=device) < AIMED) & any_clear
    return torch.where(aimed[:, None], on_object, torch.rand(n, 2, device=device)).clamp(0, 0.999)
