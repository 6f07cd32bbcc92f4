"""Builds the training material: every sprite of vocabulary.json and the background photographs, packed into build/.

Run `python models/photon-tiny/training/sprites.py`. It needs resvg_py, Pillow and numpy,
and for the first run, which downloads, npm, pip and apt-get. atlas.py describes the files and reads them back.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from atlas import write_pack
from backgrounds import background_pictures
from drawing import COLOURS, colour_word, draw_svg, encode_webp, icon_svg, open_picture, to_cell
from furniture import furniture_pictures
from sources import BUILD, HERE, Source, fetch, load_sources, read_tar

EMOJI_CLIENT = "npm"
PICTURE_PACK = "fluent-3d"


@dataclass(frozen=True)
class Drawing:
    """One sprite still to be drawn: `art` is an SVG document or the bytes of a picture.

    What is not `coloured` gets no colour word: much of the drawing is something else, such as water under a boat.
    """

    noun: int
    style: str
    emoji: str
    art: str | bytes
    coloured: bool


def load_vocabulary() -> list[dict]:
    """The nouns, in the order that gives them their index."""
    return json.loads((HERE / "vocabulary.json").read_text())["nouns"]


def emoji_drawings(source: Source, nouns: list[dict]) -> list[Drawing]:
    """Every emoji that the vocabulary names in one style."""
    style = source.style
    wanted = [
        ({"noun": index, "style": style, "emoji": emoji["label"], "coloured": noun["coloured"]}, emoji["styles"][style])
        for index, noun in enumerate(nouns)
        for emoji in noun["emoji"]
        if style in emoji["styles"]
    ]
    path = fetch(source)
    if style == PICTURE_PACK:
        members = read_tar(path, {f"package/assets/{name}" for _, name in wanted})
        return [Drawing(**row, art=members[f"package/assets/{name}"]) for row, name in wanted]
    icons = json.loads(read_tar(path, {"package/icons.json"})["package/icons.json"])
    return [Drawing(**row, art=icon_svg(icons, name)) for row, name in wanted]


def furniture_drawings(source: Source, nouns: list[dict]) -> list[Drawing]:
    """The household objects that the vocabulary names."""
    wanted = {name: index for index, noun in enumerate(nouns) for name in noun["furniture"]}
    pictures = furniture_pictures(fetch(source), set(wanted))
    return [
        Drawing(index, source.style, name, pictures[name], nouns[index]["coloured"]) for name, index in wanted.items()
    ]


def draw(drawing: Drawing) -> tuple[dict, bytes]:
    """The sprite's row of the index and its WebP."""
    picture = draw_svg(drawing.art) if isinstance(drawing.art, str) else open_picture(drawing.art)
    cell, box = to_cell(picture)
    colour = colour_word(cell) if drawing.coloured else None
    row = {"noun": drawing.noun, "style": drawing.style, "emoji": drawing.emoji, "box": box, "colour": colour}
    return row, encode_webp(cell)


def build_sprites(folder: Path = BUILD) -> None:
    """Write atlas.bin and atlas.json."""
    nouns, sources = load_vocabulary(), load_sources()
    drawings = [
        drawing
        for source in sources.values()
        if source.client == EMOJI_CLIENT
        for drawing in emoji_drawings(source, nouns)
    ]
    drawings += furniture_drawings(sources["sweethome3d"], nouns)
    with ProcessPoolExecutor() as pool:
        drawn = list(pool.map(draw, drawings, chunksize=32))
    held_out = [source.style for source in sources.values() if source.use == "hold out"]
    head = {"nouns": [noun["noun"] for noun in nouns], "colours": COLOURS, "held_out": held_out}
    write_pack(folder, "atlas", head=head, rows_name="sprites", entries=drawn)


def build_backgrounds(folder: Path = BUILD) -> None:
    """Write backgrounds.bin and backgrounds.json."""
    sources = load_sources()
    entries = background_pictures({name: fetch(sources[name]) for name in ("scikit-image", "scikit-learn")})
    write_pack(folder, "backgrounds", head={}, rows_name="backgrounds", entries=entries)


if __name__ == "__main__":
    build_sprites()
    build_backgrounds()
    for pack in sorted(BUILD.glob("*.bin")):
        print(f"{pack.name}: {pack.stat().st_size / 1e6:.1f} MB")
