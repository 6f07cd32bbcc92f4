"""Reads household objects out of the Sweet Home 3D furniture package: rendered pictures, and who made the models.

The package holds libraries (zip archives), each with a catalogue that names the object's picture, creator and licence.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import zipfile
from collections import defaultdict
from pathlib import Path

CATALOGUE = "PluginFurnitureCatalog.properties"
FREE = ("Public domain", "Creative Commons Attribution 3.0")


def furniture_pictures(package: Path, wanted: set[str]) -> dict[str, bytes]:
    """The pictures (PNG with alpha, 128x128) of the wanted objects, by their identity in the catalogue.

    Raises ValueError for an object that the package lacks or whose library is not free to train on.
    """
    pictures = {}
    for library in _libraries(package):
        head, objects = _catalogue(library.read(CATALOGUE).decode("latin-1"))
        if not head["license"].startswith(FREE):
            continue
        for row in objects:
            if row["id"] in wanted:
                pictures[row["id"]] = library.read(row["icon"].lstrip("/"))
    if missing := wanted - pictures.keys():
        raise ValueError(f"no free picture of {sorted(missing)} in {package}")
    return pictures


def furniture_credits(package: Path, wanted: set[str]) -> dict[str, tuple[str, list[str]]]:
    """The wanted objects' creators: name of the library -> (its licence, creators in order)."""
    credits = {}
    for library in _libraries(package):
        head, objects = _catalogue(library.read(CATALOGUE).decode("latin-1"))
        creators = sorted({row["creator"] for row in objects if row["id"] in wanted}, key=str.lower)
        if creators:
            credits[head["name"]] = head["license"], creators
    return credits


def _libraries(package: Path) -> list[zipfile.ZipFile]:
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True).stdout
    libraries = []
    with tarfile.open(fileobj=io.BytesIO(files)) as tar:
        for member in tar:
            if member.name.endswith(".sh3f"):
                file = tar.extractfile(member)
                assert file is not None, member.name
                libraries.append(zipfile.ZipFile(io.BytesIO(file.read())))
    return libraries


def _catalogue(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The library's own fields and those of each object, from `key=value` and `key#number=value` lines."""
    head: dict[str, str] = {}
    objects: dict[str, dict[str, str]] = defaultdict(dict)
    for key, number, value in re.findall(r"^(\w+)(?:#(\d+))?=(.*)$", text, flags=re.MULTILINE):
        (objects[number] if number else head)[key] = value.strip()
    return head, list(objects.values())
