"""Cuts the photographs behind the sprites out of two Python packages' sample pictures.

A crop shows no object that the vocabulary names, so that a background never answers a question.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image, ImageOps
from sources import read_zip

SIDE = 512
NASA = "public domain"
CC0 = "CC0-1.0"
CC_BY = "CC-BY-2.0"

# (source, picture, (left, top, right, bottom) in its pixels, tint of a grey picture (dark, light), author, licence)
CROPS = [
    ("scikit-image", "brick.png", (0, 0, 512, 512), ("#4a1f14", "#d9a58c"), "CC0Textures", CC0),
    ("scikit-image", "brick.png", (0, 0, 256, 256), None, "CC0Textures", CC0),
    ("scikit-image", "grass.png", (0, 0, 512, 512), ("#12240a", "#b5cf86"), "linolafett", CC0),
    ("scikit-image", "grass.png", (200, 200, 456, 456), None, "linolafett", CC0),
    ("scikit-image", "gravel.png", (0, 0, 512, 512), ("#2b2622", "#e3d8c9"), "CC0Textures", CC0),
    ("scikit-image", "gravel.png", (100, 60, 300, 260), None, "CC0Textures", CC0),
    ("scikit-image", "camera.png", (400, 250, 510, 360), ("#1c2b12", "#c5d3a2"), "Lav Varshney", CC0),
    ("scikit-image", "cell.png", (0, 60, 320, 380), ("#1d2740", "#c3cbe0"), "Paul Müller and others", CC0),
    ("scikit-image", "coffee.png", (0, 310, 80, 390), None, "Rachel Michetti", CC0),
    ("scikit-image", "coffee.png", (480, 200, 600, 320), None, "Rachel Michetti", CC0),
    ("scikit-image", "hubble_deep_field.jpg", (0, 0, 600, 600), None, "NASA and ESA", NASA),
    ("scikit-image", "hubble_deep_field.jpg", (650, 500, 1000, 850), None, "NASA and ESA", NASA),
    ("scikit-image", "retina.jpg", (500, 350, 1150, 1000), None, "Mikael Häggström", CC0),
    ("scikit-image", "rocket.jpg", (90, 0, 290, 120), None, "SpaceX", CC0),
    ("scikit-learn", "china.jpg", (370, 0, 640, 140), None, "Daniel Buechele", CC_BY),
    ("scikit-learn", "china.jpg", (360, 120, 520, 230), None, "Daniel Buechele", CC_BY),
    ("scikit-learn", "flower.jpg", (0, 0, 160, 427), None, "Flickr user vultilion", CC_BY),
    ("scikit-learn", "flower.jpg", (460, 0, 640, 280), None, "Flickr user vultilion", CC_BY),
]
FOLDERS = {"scikit-image": "skimage/data", "scikit-learn": "sklearn/datasets/images"}


def background_pictures(wheels: dict[str, Path]) -> list[tuple[dict, bytes]]:
    """(index row, 512x512 JPEG) for each crop; `wheels` maps a source's name to its archive."""
    entries = []
    for source, name, box, tint, author, licence in CROPS:
        (data,) = read_zip(wheels[source], [f"{FOLDERS[source]}/{name}"])
        picture = Image.open(io.BytesIO(data)).convert("RGB").crop(box)
        if tint is not None:
            picture = ImageOps.colorize(picture.convert("L"), *tint)
        picture = ImageOps.fit(picture, (SIDE, SIDE), Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=85)
        entries.append(({"name": f"{source}/{name}", "author": author, "licence": licence}, buffer.getvalue()))
    return entries
