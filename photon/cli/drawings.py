"""Pictures with their answers drawn on them, as files: of one picture, or of all in a folder beside their answers.

A file is there when it is whole. No picture that was asked about is ever written over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from photon.images.sources import is_data_url

if TYPE_CHECKING:
    from PIL.Image import Image

ANSWERS = "answers.jsonl"


class OutFolder:
    """A folder with DIR/<name>.png for each picture and its answer in a line of DIR/answers.jsonl.

    BadParameter when the folder cannot be made. What an earlier run left there under the same names is replaced.
    """

    def __init__(self, folder: Path, images: Sequence[str]) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"{folder} cannot be made: {error.strerror}", param_hint="--out") from None
        self.paths = name_drawings(folder, images)
        self._answers = folder / ANSWERS
        self._file: TextIO | None = None

    def add_answer(self, line: str) -> None:
        if self._file is None:
            # What is no valid text in a file's name is escaped as JSON escapes it.
            self._file = self._answers.open("w", encoding="utf-8", errors="backslashreplace", buffering=1)
        self._file.write(f"{line}\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def name_drawings(folder: Path, images: Sequence[str]) -> list[Path]:
    """A path in `folder` for each picture: its name with .png, and a number where that is taken."""
    taken = {os.path.realpath(image).casefold() for image in images if not is_data_url(image)}
    paths = []
    for image in images:
        stem = "picture" if is_data_url(image) else Path(image).stem
        number, path = 1, folder / f"{stem}.png"
        while os.path.realpath(path).casefold() in taken:
            number += 1
            path = folder / f"{stem}-{number}.png"
        taken.add(os.path.realpath(path).casefold())
        paths.append(path)
    return paths


def check_drawable(out: Path, images: Sequence[str]) -> None:
    """BadParameter when no drawing of the one picture can be saved as `out`, known before any work is done."""
    if reason := _why_not_drawable(out, images):
        raise typer.BadParameter(reason, param_hint="--draw")


def save_drawing(drawing: Image, path: Path) -> None:
    """OSError when it cannot be written; then nothing is left of it."""
    from PIL import Image

    part = path.with_name(f".photon-{os.getpid()}.part")
    try:
        drawing.save(part, format=Image.registered_extensions()[path.suffix.lower()])
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _why_not_drawable(out: Path, images: Sequence[str]) -> str | None:
    from PIL import Image

    if len(images) != 1:
        return f"one file for {len(images)} pictures; --out DIR saves a drawing of each"
    try:
        if out.is_dir():
            return f"{out} is a folder; name a file, such as {out / 'drawn.png'}, or use --out"
        if not out.parent.is_dir():
            return f"there is no folder {out.parent}"
        if os.path.exists(images[0]) and out.exists() and os.path.samefile(images[0], out):
            return f"{out} is the picture itself"
    except OSError as error:
        return f"{out}: {error.strerror}"
    if Image.registered_extensions().get(out.suffix.lower()) not in Image.SAVE:
        return f"{out.name} does not end in a picture's suffix, such as .png or .jpg"
    return None
