"""Everything that scenes are made from, on one device: textures, what each sprite shows, and which nouns are kin.

Invariant: sprites of held-out styles are in the tables of their own style only, never in the trained table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from atlas import load_atlas, load_backgrounds
from backdrops import procedural
from phrases import COLOURS
from PIL import Image, ImageDraw
from render import CELL, Textures, pack_sprites
from torch import Tensor

BACKDROP_SIDE = 256
NUM_SHAPES = 24
SHIPPED = "shipped"
SHIPPED_STYLES = {"noto", "fluent-flat", "fluent-3d", "twemoji"}  # as sprite_sources.toml marks them


@dataclass(frozen=True)
class Library:
    """S sprites, of which the last NUM_SHAPES are plain shapes; V nouns.

    noun_S        what a sprite shows, V for a shape
    colour_S      index into COLOURS, -1 where people would not agree
    extent_S2     width and height of the drawing in its cell, in 0..1 (it is centred)
    trained_VM    sprites of each noun in trained styles, repeated to M
    styles        the same for single styles, and for SHIPPED, the ones whose drawings may appear in the repository
    has_style     per style, bool [V]
    kin_VV        asking for a noun where a kin is shown has no clear answer
    """

    vocabulary: list[dict]
    textures: Textures
    noun_S: Tensor
    colour_S: Tensor
    extent_S2: Tensor
    trained_VM: Tensor
    styles: dict[str, Tensor]
    has_style: dict[str, Tensor]
    kin_VV: Tensor

    @property
    def num_nouns(self) -> int:
        return len(self.vocabulary)


def load_library(folder: Path, *, device: str, num_backdrops: int, seed: int = 0, pack: str = "atlas") -> Library:
    """From the vocabulary in `folder` and the packs in `folder/build`; `pack` names that of the sprites."""
    vocabulary = json.loads((folder / "vocabulary.json").read_text())["nouns"]
    pixels, index = load_atlas(folder / "build", pack=pack)
    photographs, _ = load_backgrounds(folder / "build")
    return make_library(
        vocabulary, pixels, index, photographs=photographs, device=device, num_backdrops=num_backdrops, seed=seed
    )


def make_library(
    vocabulary: list[dict],
    pixels: np.ndarray,
    index: dict,
    *,
    photographs: np.ndarray,
    device: str,
    num_backdrops: int,
    seed: int,
) -> Library:
    """pixels uint8 [N, 4, 112, 112] premultiplied; photographs uint8 [P, 3, side, side]."""
    names = [entry["noun"] for entry in vocabulary]
    assert index["nouns"] == names, "the atlas was built from another vocabulary"
    rows = index["sprites"]
    shapes = _shapes()
    extent = [[(r["box"][2] - r["box"][0]) / CELL, (r["box"][3] - r["box"][1]) / CELL] for r in rows]
    noun = [r["noun"] for r in rows]
    colour = [-1 if r["colour"] is None else COLOURS.index(r["colour"]) for r in rows]
    torch.manual_seed(seed)
    backdrops = procedural(num_backdrops, BACKDROP_SIDE, torch.from_numpy(photographs).to(device), device=device)
    textures = pack_sprites(torch.from_numpy(np.concatenate([pixels, shapes])).to(device), backdrops)
    held_out = set(index["held_out"])
    style_names = sorted({r["style"] for r in rows})
    groups = {s: {s} for s in style_names} | {SHIPPED: SHIPPED_STYLES}

    def put(values: list, fill: object) -> Tensor:
        return torch.tensor([*values, *[fill] * len(shapes)], device=device)

    return Library(
        vocabulary=vocabulary,
        textures=textures,
        noun_S=put(noun, len(names)),
        colour_S=put(colour, -1),
        extent_S2=put(extent, [1.0, 1.0]),
        trained_VM=_table(rows, len(names), set(style_names) - held_out).to(device),
        styles={name: _table(rows, len(names), group).to(device) for name, group in groups.items()},
        has_style={name: _present(rows, len(names), group).to(device) for name, group in groups.items()},
        kin_VV=_kin(vocabulary).to(device),
    )


def _table(rows: list[dict], num_nouns: int, styles: set[str]) -> Tensor:
    of_noun: list[list[int]] = [[] for _ in range(num_nouns)]
    for i, row in enumerate(rows):
        if row["style"] in styles:
            of_noun[row["noun"]].append(i)
    longest = max(1, *map(len, of_noun))
    # Where the length does not divide, the first ones are a little likelier: no matter.
    repeated = [(sprites * longest)[:longest] if sprites else [0] * longest for sprites in of_noun]
    return torch.tensor([row[:longest] for row in repeated])


def _present(rows: list[dict], num_nouns: int, styles: set[str]) -> Tensor:
    present = torch.zeros(num_nouns, dtype=torch.bool)
    present[torch.tensor([r["noun"] for r in rows if r["style"] in styles], dtype=torch.long)] = True
    return present


def _kin(vocabulary: list[dict]) -> Tensor:
    ids = {entry["noun"]: i for i, entry in enumerate(vocabulary)}
    kin = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    for i, entry in enumerate(vocabulary):
        for other in entry["related"]:
            if other in ids:
                kin[i, ids[other]] = kin[ids[other], i] = True
    return kin


def _shapes() -> np.ndarray:
    """White discs, rings, bars, polygons: uint8 [NUM_SHAPES, 4, 112, 112]."""
    rng = np.random.default_rng(5)
    drawn = []
    for i in range(NUM_SHAPES):
        picture = Image.new("L", (CELL * 4, CELL * 4))
        pen = ImageDraw.Draw(picture)
        box = (16, 16, CELL * 4 - 16, CELL * 4 - 16)
        if i % 4 == 0:
            pen.ellipse(box, fill=255)
        elif i % 4 == 1:
            pen.ellipse(box, outline=255, width=int(rng.integers(10, 90)))
        elif i % 4 == 2:
            pen.rounded_rectangle(
                (16, 16 + 10 * i % 190, 432, 432 - 10 * i % 190), radius=int(rng.integers(0, 60)), fill=255
            )
        else:
            corners, turn = int(rng.integers(3, 9)), rng.random() * 6
            radius = 205 * np.where(np.arange(corners) % 2, rng.uniform(0.4, 1), 1)
            angle = turn + np.arange(corners) * 2 * np.pi / corners
            pen.polygon(
                [(224 + r * np.cos(a), 224 + r * np.sin(a)) for r, a in zip(radius, angle, strict=True)], fill=255
            )
        drawn.append(np.asarray(picture.resize((CELL, CELL), Image.Resampling.BOX)))
    return np.repeat(np.stack(drawn)[:, None], 4, axis=1)
