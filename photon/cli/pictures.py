"""From what a user names to pictures: files, folders and patterns, in the order named. Opens no file."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache

import typer

from photon.images.sources import is_data_url


def find_pictures(names: Sequence[str]) -> list[str]:
    """The paths of all pictures named; one named twice is there twice. BadParameter for a folder or a pattern without.

    A folder gives its own pictures, a pattern all that match (`**` any folders), each in natural order and by suffix.
    Any other name is that of a file, whatever its suffix and whether it is there or not.
    """
    return [path for name in names for path in _find(name)]


def check_is_no_picture(words: str) -> str:
    """BadParameter where a last argument that is to be words is a picture's name: then the words were left out."""
    if os.path.isfile(words) and is_picture_name(words):
        raise typer.BadParameter(f"the last argument, {words}, is a picture")
    return words


def is_picture_name(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in picture_suffixes()


def natural_key(path: str) -> tuple[list[list[str | int]], str]:
    """Sorts `a2.png` before `a10.png`, folder by folder."""
    return [_parts(part) for part in path.split(os.sep)], path


@cache
def picture_suffixes() -> frozenset[str]:
    """Of the formats that are read, lower case, as ".png"."""
    from PIL import Image

    from photon.images.formats import FORMATS

    known = Image.registered_extensions()
    return frozenset(suffix for suffix, format_name in known.items() if format_name in FORMATS)


def _find(name: str) -> list[str]:
    if is_data_url(name):
        return [name]
    if os.path.isdir(name):
        return _pictures(_listed(name), f"the folder {name}")
    if os.path.lexists(name) or not any(mark in name for mark in "*?["):
        return [name]
    return _pictures(glob.iglob(os.path.expanduser(name), recursive=True), f"what matches {name}")


def _pictures(paths: Iterable[str], where: str) -> list[str]:
    found = [path for path in paths if is_picture_name(path) and os.path.isfile(path)]
    if not found:
        usual = ".jpg, .png, .webp, .gif, .bmp, .tif, .avif, .ppm"
        raise typer.BadParameter(f"there is no picture in {where} ({usual} and their like)", param_hint="IMAGE")
    return sorted(found, key=natural_key)


def _listed(folder: str) -> list[str]:
    """What the folder holds, but for what is hidden."""
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if not name.startswith(".")]
    except OSError as error:
        reason = f"the folder {folder} cannot be read: {error.strerror}"
        raise typer.BadParameter(reason, param_hint="IMAGE") from None


def _parts(name: str) -> list[str | int]:
    """Text and numbers in turn, text first."""
    pieces = re.split(r"(\d+)", name.casefold())
    return [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
