"""Packs the photographic cut-outs of photos.toml into build/photos: for evaluation only, never in the training's atlas.

Run `python models/photon-tiny/training/photos.py`; it needs apt-get for the first run, which downloads. The pack has
the format of the atlas, with its one style held out.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from atlas import write_pack
from drawing import COLOURS
from sources import BUILD, HERE, fetch, load_sources
from sprites import Drawing, draw, load_vocabulary

STYLE = PACK = "photos"
STAMPS = "./usr/share/tuxpaint/stamps"


def chosen_stamps() -> tuple[dict[str, str], set[str]]:
    """The noun of every chosen cut-out, and those that get no colour word."""
    chosen = tomllib.loads((HERE / "photos.toml").read_text())
    nouns = {stamp: noun for noun, stamps in chosen["stamps"].items() for stamp in stamps}
    return nouns, set(chosen["colour_disputed"])


def stamp_pictures(package: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """The wanted pictures (PNG with alpha) of a Debian package of stamps. ValueError for one that it lacks."""
    members = {f"{STAMPS}/{stamp}.png": stamp for stamp in wanted}
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
    pictures = {}
    with tarfile.open(fileobj=io.BytesIO(files)) as tar:
        for member in tar:
            if member.name in members:
                file = tar.extractfile(member)
                assert file is not None, member.name
                pictures[members[member.name]] = file.read()
    if missing := set(members.values()) - pictures.keys():
        raise ValueError(f"{package} lacks {sorted(missing)}")
    return pictures


def build_photos(folder: Path = BUILD) -> None:
    """Write photos.bin and photos.json."""
    vocabulary = load_vocabulary()
    nouns, disputed = chosen_stamps()
    index = {entry["noun"]: i for i, entry in enumerate(vocabulary)}
    pictures = stamp_pictures(fetch(load_sources()[STYLE]), nouns)
    drawings = [
        Drawing(i, STYLE, stamp, pictures[stamp], vocabulary[i]["coloured"] and stamp not in disputed)
        for stamp, i in ((stamp, index[noun]) for stamp, noun in nouns.items())
    ]
    with ProcessPoolExecutor() as pool:
        drawn = list(pool.map(draw, drawings, chunksize=16))
    head = {"nouns": list(index), "colours": COLOURS, "held_out": [STYLE]}
    write_pack(folder, PACK, head=head, rows_name="sprites", entries=drawn)


if __name__ == "__main__":
    build_photos()
    print(f"{PACK}.bin: {(BUILD / f'{PACK}.bin').stat().st_size / 1e6:.1f} MB")
