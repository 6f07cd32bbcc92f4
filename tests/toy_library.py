"""A library of scenes for tests of the training: six nouns, each one plain shape in three styles and a held-out one.

The shapes are cut out of a 112x112 cell by arithmetic; every sprite is opaque inside and has a half-transparent rim.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from library import Library, make_library
from phrasebook import Phrasebook
from tokenizers import Tokenizer

MODEL = Path(__file__).parents[1] / "models" / "photon-tiny"
NOUNS = ["apple", "banana", "dog", "car", "race car", "clock"]
APPLE, BANANA, DOG, CAR, RACE_CAR, CLOCK = range(6)
STYLES = ["noto", "twemoji", "emojione", "openmoji"]
HELD_OUT = "openmoji"
RGB = [(200, 30, 30), (220, 200, 40), (120, 80, 40), (40, 80, 200), (30, 30, 30), (240, 240, 240)]
COLOURS = ["red", "yellow", "brown", "blue", "black", None]
CELL = 112


def sprite_of(noun: int, style: int = 0) -> int:
    """The number of a sprite in the library."""
    return noun * len(STYLES) + style


@cache
def config() -> dict[str, Any]:
    return json.loads((MODEL / "config.json").read_text())


@cache
def vocabulary() -> list[dict[str, Any]]:
    entries = json.loads((MODEL / "training" / "vocabulary.json").read_text())["nouns"]
    by_noun = {entry["noun"]: entry for entry in entries}
    return [by_noun[noun] for noun in NOUNS]


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@cache
def book() -> Phrasebook:
    return Phrasebook(tokenizer(), vocabulary(), config(), "cpu")


@cache
def atlas() -> tuple[np.ndarray, dict[str, Any]]:
    """Premultiplied uint8 [N, 4, 112, 112] and the index, as atlas.py describes them."""
    pixels, rows = [], []
    for noun, colour in enumerate(RGB):
        for style in STYLES:
            alpha = _alpha(noun)
            ys, xs = np.nonzero(alpha)
            box = [int(v) for v in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)]
            channels = [alpha * value // 255 for value in colour]
            pixels.append(np.stack([*channels, alpha]).astype(np.uint8))
            row = {"noun": noun, "style": style, "emoji": NOUNS[noun], "box": box, "colour": COLOURS[noun]}
            rows.append(row)
    return np.stack(pixels), {"nouns": NOUNS, "held_out": [HELD_OUT], "sprites": rows}


@cache
def library() -> Library:
    pixels, index = atlas()
    none = np.zeros((0, 3, 8, 8), np.uint8)
    return make_library(vocabulary(), pixels, index, photographs=none, device="cpu", num_backdrops=4, seed=3)


def _alpha(noun: int) -> np.ndarray:
    """int64 [112, 112]: a different shape for each noun, centred, 108 pixels long; 128 on its rim."""
    y, x = np.mgrid[:CELL, :CELL] - (CELL - 1) / 2
    if noun % 2:  # a bar, or a wedge
        inside = (abs(x) < 54) & (abs(y) < 12 + 8 * noun) & ((noun != CAR) | (x + y < 30))
    else:  # a disc with a bite
        inside = (x**2 + y**2 < 54**2) & ~((x > 10 * noun - 5) & (y > 20))
    core = inside & np.roll(inside, 1, 0) & np.roll(inside, -1, 0) & np.roll(inside, 1, 1) & np.roll(inside, -1, 1)
    return np.where(core, 255, np.where(inside, 128, 0))
