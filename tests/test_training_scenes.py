"""Scenes that training composes: labels against a renderer of our own, poses and styles kept apart, crops as served."""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import batches
import cutting
import numpy as np
import pytest
import scenes
import torch
import toy_library as toy
from batches import held_out_scenes, make_batch
from cutting import cut
from PIL import Image
from render import Drawn
from scenes import K, Layout, Scenes, draw_layout

from photon.images.crops import prepare_image
from photon.models.moondream.config import MoondreamConfig, VisionConfig

PHOTO = Path(__file__).parent / "data" / "moondream2_tiny" / "photo.png"


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(11)


@pytest.fixture(scope="module")
def vision() -> VisionConfig:
    return MoondreamConfig.from_dict(toy.config()).vision


# --- labels against brute force


def random_layout(rng: random.Random, width: int, height: int, count: int) -> Layout:
    """One scene of `count` sprites, many of them overlapping and some across the edge, in the last places of K."""
    zero, one = torch.zeros(1, K), torch.ones(1, K)
    layout = Layout(
        sprite=zero.long(),
        centre=torch.zeros(1, K, 2),
        size=zero.clone(),
        angle=zero.clone(),
        flip=one.clone(),
        stretch=one.clone(),
        part=zero.bool(),
    )
    for k in range(K - count, K):
        layout.sprite[0, k] = toy.sprite_of(rng.randrange(6), rng.randrange(3))
        layout.centre[0, k] = torch.tensor([rng.uniform(0, width), rng.uniform(0, height)])
        layout.size[0, k] = rng.uniform(14, 150)
        layout.angle[0, k] = rng.uniform(-math.pi, math.pi)
        layout.flip[0, k] = rng.choice([-1, 1])
        layout.stretch[0, k] = rng.uniform(0.9, 1.1)
    return layout


def halved(alpha: np.ndarray) -> np.ndarray:
    """Means of 2x2, rounded."""
    side = len(alpha) // 2
    return np.round(alpha.reshape(side, 2, side, 2).mean((1, 3)))


def opacity_at(alpha: np.ndarray, column: float, row: float) -> float:
    """Bilinear between texel centres, nothing beyond the cell."""
    left, top = math.floor(column), math.floor(row)
    total = 0.0
    for j, i in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= i < len(alpha) and 0 <= j < len(alpha):
            total += alpha[j, i] / 255 * (1 - abs(column - i)) * (1 - abs(row - j))
    return total


def covered(layout: Layout, k: int, width: int, height: int) -> np.ndarray:
    """bool [height, width]: where object k alone is at least 0.35 opaque, by walking back from every pixel."""
    pixels, index = toy.atlas()
    sprite = int(layout.sprite[0, k])
    left, top, right, bottom = index["sprites"][sprite]["box"]
    cell = float(layout.size[0, k]) / max(right - left, bottom - top) * 112
    alpha = pixels[sprite, 3].astype(float)
    for limit in (84, 42):  # a drawing under three quarters of a level's size comes from the next coarser one
        if cell < limit:
            alpha = halved(alpha)
    wide, tall = cell * float(layout.stretch[0, k]), cell / float(layout.stretch[0, k])
    turn, flip = float(layout.angle[0, k]), float(layout.flip[0, k])
    out = np.zeros((height, width), bool)
    for y in range(height):
        for x in range(width):
            offset = complex(x + 0.5 - float(layout.centre[0, k, 0]), y + 0.5 - float(layout.centre[0, k, 1]))
            back = offset * complex(math.cos(turn), -math.sin(turn))
            u, v = flip * back.real / wide, back.imag / tall
            if abs(u) < 0.6 and abs(v) < 0.6:
                out[y, x] = opacity_at(alpha, (u + 0.5) * len(alpha) - 0.5, (v + 0.5) * len(alpha) - 0.5) > 0.35
    return out


@pytest.mark.parametrize("seed", range(3))
def test_boxes_and_shares_are_exactly_what_is_seen(seed: int) -> None:
    width, height, count = 90, 70, 6
    layout = random_layout(random.Random(seed), width, height, count)
    drawn = draw_layout(toy.library(), layout, width, height, plain=True)
    alone = [covered(layout, k, width, height) for k in range(K - count, K)]
    assert not drawn.seen[0, : K - count].any() and (drawn.noun[0, : K - count] == 6).all()
    hidden = 0
    for i, own in enumerate(alone):
        k = K - count + i
        visible = own & ~np.any([np.zeros_like(own), *alone[i + 1 :]], axis=0)
        assert drawn.noun[0, k] == layout.sprite[0, k] // len(toy.STYLES)
        assert float(drawn.seen[0, k]) == pytest.approx(visible.sum() / max(1, own.sum()))
        ys, xs = np.nonzero(visible)
        box = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1] if len(xs) else [0] * 4
        assert (drawn.boxes[0, k] * torch.tensor([width, height, width, height])).tolist() == pytest.approx(box)
        np.testing.assert_array_equal(drawn.drawn.owner[0].numpy() == k, visible)
        hidden += visible.sum() < own.sum()
    assert hidden >= 2  # the scene tests what it should


def test_an_upright_sprite_is_where_it_was_put_and_in_its_colour() -> None:
    layout = random_layout(random.Random(0), 100, 100, 1)
    for name, value in {"sprite": toy.sprite_of(toy.BANANA), "size": 54.0, "angle": 0.0, "flip": 1.0}.items():
        getattr(layout, name)[0, -1] = value
    layout.stretch[0, -1] = 1.0
    layout.centre[0, -1] = torch.tensor([50.0, 40.0])
    drawn = draw_layout(toy.library(), layout, 100, 100, plain=True)
    # The bar is 108x40 texels, half as large here: 54x20 pixels around (50, 40), give or take its faint rim.
    box = (drawn.boxes[0, -1] * 100).tolist()
    assert box == pytest.approx([23, 30, 77, 50], abs=1)
    assert drawn.drawn.canvas[0, :, 40, 50].tolist() == pytest.approx(toy.RGB[toy.BANANA], abs=1)


# --- what training never sees


def watch_layouts(monkeypatch: pytest.MonkeyPatch) -> list[Layout]:
    seen: list[Layout] = []
    draw: Callable[..., Scenes] = scenes.draw_layout

    def watched(library: object, layout: Layout, *sizes: int) -> Scenes:
        seen.append(layout)
        return draw(library, layout, *sizes)

    monkeypatch.setattr(scenes, "draw_layout", watched)
    return seen


def turned(layouts: list[Layout]) -> torch.Tensor:
    """Degrees of everything that was drawn, without the sign."""
    return torch.cat([torch.rad2deg(layout.angle.abs())[layout.size > 0] for layout in layouts])


def test_training_draws_no_held_out_pose_or_style(monkeypatch: pytest.MonkeyPatch, vision: VisionConfig) -> None:
    seen = watch_layouts(monkeypatch)
    monkeypatch.setattr(batches, "random_canvas", lambda rng, c, tiled: (256, 240) if tiled else (160, 176))
    make_batch(toy.library(), toy.book(), vision, random.Random(2), (2, 1))
    assert [len(layout.sprite) for layout in seen] == [2, 1]
    seen.append(scenes.sample_layout(toy.library(), 1000, 320, 240, held_out=False, style=None))
    degrees = turned(seen)
    assert len(degrees) > 4_000
    assert not ((degrees > 10.001) & (degrees < 12.999)).any()
    assert (degrees < 10).any() and (degrees > 13).any() and degrees.max() < 20.001
    styles = torch.cat([layout.sprite[layout.size > 0] for layout in seen])
    shown = styles[styles < len(toy.NOUNS) * len(toy.STYLES)] % len(toy.STYLES)
    assert sorted(shown.unique().tolist()) == [0, 1, 2]  # never the last, the held-out one


def test_held_out_scenes_turn_everything_by_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch_layouts(monkeypatch)
    drawn = held_out_scenes(toy.library(), 4, (160, 160), seed=5, style=toy.HELD_OUT)
    again = held_out_scenes(toy.library(), 4, (160, 160), seed=5, style=toy.HELD_OUT)
    degrees = turned(seen)
    assert len(degrees) > 10 and degrees.min() > 9.999 and degrees.max() < 13.001
    objects = seen[0].sprite[(seen[0].size > 0) & (drawn.noun < 6)]
    assert (objects % len(toy.STYLES) == toy.STYLES.index(toy.HELD_OUT)).all()
    assert torch.equal(drawn.drawn.canvas, again.drawn.canvas) and torch.equal(drawn.boxes, again.boxes)


def test_example_pictures_stay_within_the_gap() -> None:
    layouts = tomllib.loads((toy.MODEL / "training" / "examples.toml").read_text())
    degrees = [abs(row[5]) for layout in layouts.values() for row in layout["objects"]]
    assert len(degrees) > 20 and all(10 <= d <= 13 for d in degrees)


# --- crops


def scenes_of(canvas: np.ndarray, owner: np.ndarray) -> Scenes:
    """A scene of given pixels [H, W, 3], in which object k is the noun k, with boxes from `owner` [H, W]."""
    boxes = torch.zeros(1, K, 4)
    for k in np.unique(owner[owner >= 0]):
        ys, xs = np.nonzero(owner == k)
        boxes[0, k] = torch.tensor([int(v) for v in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)])
    height, width = owner.shape
    pixels = torch.from_numpy(canvas.transpose(2, 0, 1).copy())[None]
    drawn = Drawn(pixels, torch.from_numpy(owner.astype(np.int8))[None], boxes, torch.ones(1, K))
    sides = torch.tensor([width, height, width, height])
    return Scenes(drawn, boxes / sides, torch.arange(K)[None], torch.zeros(1, K).long(), torch.ones(1, K))


@pytest.mark.parametrize("size", [(200, 300), (224, 224), (640, 480), (333, 480), (512, 320)])
def test_crops_are_those_that_the_engine_cuts(size: tuple[int, int], vision: VisionConfig) -> None:
    """Pillow rounds and clamps between its two passes, training does not: within 1.5 of 255 for all but a thousandth of
    the pixels (those beside edges of full contrast), and a quarter of one on average."""
    picture = Image.open(PHOTO).convert("RGB").resize(size, Image.Resampling.BICUBIC)
    pixels = np.asarray(picture)
    one = cut(scenes_of(pixels, np.full(pixels.shape[:2], -1)), vision, K, augment=False)
    served = prepare_image(
        picture,
        crop_size=vision.crop_size,
        patch_size=vision.enc_patch_size,
        overlap_margin=vision.overlap_margin,
        max_crops=vision.max_crops,
    )
    assert one.tiling == served.tiling
    expected = served.crops if served.tiling != (1, 1) else served.crops[:1]
    difference = np.abs((one.pixels[0].permute(0, 2, 3, 1).numpy() + 1) * 127.5 - expected)
    assert (difference > 1.5).mean() < 0.001 and difference.max() < 12 and difference.mean() < 0.25


def test_patches_are_labelled_with_what_the_crop_shows_there(vision: VisionConfig) -> None:
    """Every object is painted in a grey of its own, so that the crop itself tells what lies at a patch's centre."""
    width, height, grey = 640, 480, np.array([0, 60, 120, 180, 240])
    rectangles = [(30, 40, 290, 200), (200, 150, 420, 460), (500, 20, 640, 480), (60, 300, 180, 420)]
    owner = np.full((height, width), -1)
    for k, (x0, y0, x1, y1) in enumerate(rectangles):
        owner[y0:y1, x0:x1] = k
    canvas = np.repeat(grey[owner + 1][..., None], 3, 2).astype(np.uint8)
    one = cut(scenes_of(canvas, owner), vision, K, augment=False)
    crops = (one.pixels[0, :, 0].numpy() + 1) * 127.5
    assert one.tiling == (2, 2) and len(crops) == 5
    # Two windows of 224 - 2 * 28 pixels and two margins make the picture that tiles are cut from 392 pixels wide.
    views = [(0, 0, 224), *((left, top, 392) for top in (0, 168) for left in (0, 168))]
    checked = 0
    for crop, nouns, boxes, (left, top, side) in zip(crops, one.dense_noun[0], one.dense_box[0], views, strict=True):
        for patch, (noun, box) in enumerate(zip(nouns.tolist(), boxes.tolist(), strict=True)):
            row, column = (14 * i + 7 for i in divmod(patch, vision.grid))
            around = crop[row - 2 : row + 2, column - 2 : column + 2]
            shade = np.abs(grey - around.mean()).argmin()
            if np.abs(around - grey[shade]).max() > 3:  # an edge is near
                continue
            assert noun == (K if shade == 0 else shade - 1)
            if noun != K:
                x0, y0, x1, y1 = rectangles[noun]
                here = [x0 / 640 * side - left, y0 / 480 * side - top, x1 / 640 * side - left, y1 / 480 * side - top]
                assert box == pytest.approx((np.array(here) / 224).clip(-0.5, 1.5), abs=1e-5)
                checked += 1
    assert checked > 400


def test_augmented_crops_change_and_stay_in_range(vision: VisionConfig) -> None:
    picture = np.asarray(Image.open(PHOTO).convert("RGB").resize((224, 224)))
    scene = scenes_of(picture, np.full((224, 224), -1))
    plain, changed = (cut(scene, vision, K, augment=flag).pixels for flag in (False, True))
    assert not torch.equal(plain, changed) and changed.abs().max() <= 1
    assert cutting.tiling_of(640, 480, vision) == (2, 2)
