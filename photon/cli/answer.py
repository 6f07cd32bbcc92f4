"""One skill over several pictures: ask the engine, show, draw; a picture that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import photon
from photon.cli.output import drawing_path, say, show, show_json, why_not_drawable
from photon.errors import ConstraintError, ImageError, NumericsError
from photon.results import Result

if TYPE_CHECKING:
    from photon.engine.engine import Engine


@dataclass(frozen=True)
class Options:
    """What every skill's command takes. Set by the user."""

    model: str
    device: str
    as_json: bool
    draw: Path | None


def answer_all(
    images: Sequence[str], options: Options, ask: Callable[[Engine, str], Result], *, label: str | None = None
) -> int:
    """Exit code: 0, or 1 when a picture failed. What concerns every picture is raised."""
    if options.draw is not None and (reason := why_not_drawable(options.draw)):
        raise typer.BadParameter(reason, param_hint="--draw")
    num_failed = 0
    with photon.Engine(options.model, device=options.device) as engine:
        for index, image in enumerate(images):
            try:
                result = ask(engine, image)
            except (ImageError, ConstraintError, NumericsError) as error:  # this picture's alone
                say(str(error) if isinstance(error, ImageError) else f"{image}: {error}")
                num_failed += 1
                continue
            if options.as_json:
                show_json(image, result)
            else:
                show(image, result, label, is_one_of_many=len(images) > 1)
            if options.draw is not None:
                num_failed += not _save(result, label, drawing_path(options.draw, index, len(images)))
    return 1 if num_failed else 0


def _save(result: Result, label: str | None, path: Path) -> bool:
    try:
        result.draw(label).save(path)
    except OSError as error:
        say(f"{path}: cannot be written: {error.strerror or error}")
        return False
    return True
