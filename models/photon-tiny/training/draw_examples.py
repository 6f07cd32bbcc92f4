"""Draws the example pictures of the repository from examples.toml: `draw_examples.py --out examples/images`.

Backgrounds are painted, sprites put on them with a soft shadow by Pillow alone: none of the training's renderer.
"""

from __future__ import annotations

import argparse
import io
import json
import tomllib
from pathlib import Path

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

HERE = Path(__file__).parent
WIDTH, HEIGHT = 640, 480
DETAIL = 3  # backgrounds are painted so much larger, then reduced: smooth edges
GAP = (10.0, 13.0)  # degrees that training leaves out


def gradient(top: tuple[int, int, int], bottom: tuple[int, int, int], width: int, height: int) -> Image.Image:
    line = np.linspace(np.array(top), np.array(bottom), height)
    return Image.fromarray(np.repeat(line[:, None], width, axis=1).round().astype(np.uint8))


class Painter:
    """A canvas in units of the picture's pixels, painted at DETAIL times its size."""

    def __init__(self, top: tuple[int, int, int], bottom: tuple[int, int, int]) -> None:
        self.picture = gradient(top, bottom, WIDTH * DETAIL, HEIGHT * DETAIL)
        self.pen = ImageDraw.Draw(self.picture)

    def polygon(self, points: list[tuple[float, float]], fill: tuple[int, int, int]) -> None:
        self.pen.polygon([(x * DETAIL, y * DETAIL) for x, y in points], fill=fill)

    def band(self, y0: float, y1: float, top: tuple[int, int, int], bottom: tuple[int, int, int]) -> None:
        part = gradient(top, bottom, WIDTH * DETAIL, round((y1 - y0) * DETAIL))
        self.picture.paste(part, (0, round(y0 * DETAIL)))

    def ellipse(self, box: tuple[float, float, float, float], fill: tuple[int, int, int]) -> None:
        self.pen.ellipse([v * DETAIL for v in box], fill=fill)

    def done(self) -> Image.Image:
        return self.picture.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)


def market() -> Image.Image:
    """A striped awning, a wall, and a wooden stall of two steps."""
    p = Painter((250, 240, 218), (238, 214, 178))
    for i in range(-1, 17):
        left = i * 40
        colour = (206, 62, 58) if i % 2 else (252, 246, 236)
        p.polygon([(left, 0), (left + 40, 0), (left + 44, 92), (left + 4, 92)], colour)
        p.ellipse((left + 4, 74, left + 44, 112), colour)
    for y0, y1, light in ((282, 330, 0), (330, 480, 14)):
        p.band(y0, y1, (196 - light, 140 - light, 86 - light), (164 - light, 108 - light, 60 - light))
    for y in (330, 372, 414, 456):
        p.polygon([(0, y), (WIDTH, y), (WIDTH, y + 2), (0, y + 2)], (128, 82, 44))
    return p.done()


def desk() -> Image.Image:
    """A pale wall with a window's light, and a desk of light wood."""
    p = Painter((214, 228, 236), (232, 238, 240))
    p.polygon([(196, 22), (444, 22), (444, 150), (196, 150)], (250, 252, 252))
    p.polygon([(206, 32), (434, 32), (434, 140), (206, 140)], (172, 212, 238))
    p.polygon([(316, 32), (324, 32), (324, 140), (316, 140)], (250, 252, 252))
    p.band(300, 480, (222, 184, 138), (196, 152, 104))
    p.polygon([(0, 298), (WIDTH, 298), (WIDTH, 303), (0, 303)], (164, 122, 80))
    for y in (348, 398, 446):
        p.polygon([(0, y), (WIDTH, y + 4), (WIDTH, y + 5), (0, y + 1)], (206, 166, 120))
    return p.done()


def park() -> Image.Image:
    """Sky, two hills, a meadow and a path."""
    p = Painter((118, 188, 240), (214, 238, 250))
    p.ellipse((-180, 180, 420, 520), (148, 204, 120))
    p.ellipse((260, 196, 860, 560), (132, 192, 106))
    p.band(300, 480, (122, 188, 92), (86, 156, 66))
    p.polygon([(330, 300), (356, 300), (420, 480), (300, 480)], (226, 206, 164))
    return p.done()


def street() -> Image.Image:
    """Sky, a lawn, a kerb and a road with a dashed line."""
    p = Painter((136, 196, 240), (226, 240, 248))
    p.band(252, 286, (134, 190, 110), (116, 174, 96))
    p.band(286, 300, (206, 204, 198), (190, 188, 184))
    p.band(300, 400, (96, 100, 108), (84, 88, 96))
    for x in range(-20, WIDTH, 110):
        p.polygon([(x, 396), (x + 60, 396), (x + 60, 402), (x, 402)], (240, 226, 150))
    p.band(402, 480, (206, 204, 198), (186, 184, 180))
    return p.done()


BACKGROUNDS = {"market": market, "desk": desk, "park": park, "street": street}


def load_sprites() -> dict[tuple[str, str], Image.Image]:
    """RGBA cells by (emoji, style), cropped to what is drawn."""
    index, data = json.loads((HERE / "build" / "atlas.json").read_text()), (HERE / "build" / "atlas.bin").read_bytes()
    return {
        (row["emoji"], row["style"]): Image.open(io.BytesIO(data[row["offset"] : row["offset"] + row["length"]])).crop(
            row["box"]
        )
        for row in index["sprites"]
    }


def put(
    picture: Image.Image, sprite: Image.Image, x: float, y: float, size: float, degrees: float, mirrored: bool
) -> None:
    """Draw the sprite with its middle at (x, y), its longer side `size` pixels, and a shadow under it."""
    assert GAP[0] <= abs(degrees) <= GAP[1], f"{degrees} degrees may have been trained on"
    sprite = sprite.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else sprite
    scale = size / max(sprite.size)
    sprite = sprite.resize((round(sprite.width * scale), round(sprite.height * scale)), Image.Resampling.LANCZOS)
    sprite = sprite.convert("RGBa").rotate(degrees, Image.Resampling.BICUBIC, expand=True).convert("RGBA")
    corner = round(x - sprite.width / 2), round(y - sprite.height / 2)
    shadow = Image.new("L", picture.size)
    shadow.paste(sprite.getchannel("A"), (corner[0] + 5, corner[1] + 7))
    shadow = shadow.filter(ImageFilter.GaussianBlur(5)).point(lambda v: v * 0.35)
    picture.paste(ImageChops.multiply(picture, Image.new("RGB", picture.size, (40, 40, 60))), mask=shadow)
    picture.paste(sprite, corner, sprite)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    sprites = load_sprites()
    for name, layout in tomllib.loads((HERE / "examples.toml").read_text()).items():
        picture = BACKGROUNDS[layout["background"]]()
        for emoji, style, x, y, size, degrees, mirrored in layout["objects"]:
            put(picture, sprites[emoji, style], x, y, size, degrees, mirrored)
        picture.save(out / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
