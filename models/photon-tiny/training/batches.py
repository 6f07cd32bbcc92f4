"""A training step's batch: scenes on two canvas sizes, one that is not tiled and one that is, with their questions."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from cutting import Cut, cut, tiling_of
from facts import Facts, join_facts
from library import Library
from phrasebook import Phrasebook
from questions import make_slots
from scenes import Scenes, compose
from slots import Slots
from torch import Tensor

from photon.models.moondream import vision
from photon.models.moondream.config import VisionConfig

SMALLEST_SIDE, LARGEST_SIDE, STEP = 160, 640, 16


@dataclass(frozen=True)
class Batch:
    """`cuts` of the untiled and of the tiled pictures; slots of all, untiled first."""

    cuts: list[Cut]
    slots: Slots

    def flat(self, name: str) -> Tensor:
        """A field of the cuts with pictures and crops in one dimension."""
        return torch.cat([getattr(c, name).flatten(0, 1) for c in self.cuts])

    def record_stream(self, stream: torch.cuda.Stream) -> None:
        """Tell the allocator that `stream` uses what another stream made."""
        for part in (*self.cuts, self.slots):
            for value in vars(part).values():
                if isinstance(value, Tensor):
                    value.record_stream(stream)


def random_canvas(rng: random.Random, c: VisionConfig, *, tiled: bool) -> tuple[int, int]:
    """(width, height), sides multiples of STEP, aspect between 1:2 and 2:1."""
    while True:
        width, height = (rng.randrange(SMALLEST_SIDE, LARGEST_SIDE + 1, STEP) for _ in range(2))
        if max(width, height) <= 2 * min(width, height) and (tiling_of(width, height, c) != (1, 1)) == tiled:
            return width, height


@torch.no_grad()
def make_batch(
    library: Library, book: Phrasebook, c: VisionConfig, rng: random.Random, counts: tuple[int, int]
) -> Batch:
    """`counts` pictures untiled and tiled."""
    cuts, facts = [], []
    for tiled, n in enumerate(counts):
        scenes = compose(library, n, *random_canvas(rng, c, tiled=bool(tiled)))
        cuts.append(cut(scenes, c, library.num_nouns, augment=True))
        facts.append(Facts.of(scenes, library))
    return Batch(cuts, make_slots(join_facts(facts), library, book))


def join_views(c: VisionConfig, features: Tensor, cuts: list[Cut]) -> tuple[Tensor, Tensor]:
    """Features [C, P, E] of all crops to those of the wholes and of the pooled tiles, both [n, P, E]."""
    wholes, pooled, start = [], [], 0
    for one in cuts:
        n, crops = one.pixels.shape[:2]
        part = features[start : start + n * crops].unflatten(0, (n, crops))
        start += n * crops
        wholes.append(part[:, 0])
        pooled.append(part[:, 0] if crops == 1 else vision.pool_tiles(c, part[:, 1:], one.tiling))
    return torch.cat(wholes), torch.cat(pooled)


def held_out_scenes(library: Library, n: int, size: tuple[int, int], seed: int, style: str | None = None) -> Scenes:
    """Scenes of an evaluation: their own seed, sprites turned as training never turns them."""
    devices = [library.noun_S.device] if library.noun_S.is_cuda else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        return compose(library, n, *size, held_out=True, style=style)
