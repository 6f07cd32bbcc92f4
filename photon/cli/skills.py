"""The flags of each skill, and what is asked with them. A flag that is wrong is found by the ask's own task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import photon
from photon.cli.options import CHOOSING, STRUCTURE, SkillFlags
from photon.cli.pictures import check_is_no_picture
from photon.tasks.extract import MAX_TOKENS as EXTRACT_TOKENS
from photon.tasks.objects import MAX_OBJECTS
from photon.tasks.text import MAX_TOKENS

if TYPE_CHECKING:
    from photon.engine.asks import Ask


class Length(StrEnum):
    short = "short"
    normal = "normal"
    long = "long"


@dataclass(frozen=True, kw_only=True)
class TextFlags(SkillFlags):
    """Of the skills that answer in words."""

    max_tokens: Annotated[int, typer.Option(help="At most so many tokens (words and pieces of words).")] = MAX_TOKENS
    stop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="End the answer before this text. May be given several times.",
            show_default=False,
            rich_help_panel=CHOOSING,
        ),
    ] = None

    @property
    def of_text(self) -> dict[str, Any]:
        """The fields that asks for text have in common."""
        return {"max_tokens": self.max_tokens, "stop": self.stop or (), **self.of_all}


@dataclass(frozen=True, kw_only=True)
class CaptionFlags(TextFlags):
    length: Annotated[Length, typer.Option(help="How much to say.")] = Length.normal

    def ask(self, image: Any) -> Ask:
        return photon.Caption(image, self.length.value, **self.of_text)


@dataclass(frozen=True, kw_only=True)
class QueryFlags(TextFlags):
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION", help="What to answer.", show_default=False, is_eager=True, callback=check_is_no_picture
        ),
    ]
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Let the model think first.")] = False
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The answer is JSON of this JSON schema.",
            show_default=False,
            rich_help_panel=STRUCTURE,
        ),
    ] = None
    regex: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="The answer matches it, whole.", show_default=False, rich_help_panel=STRUCTURE
        ),
    ] = None
    grammar: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The answer is of this EBNF grammar.", show_default=False, rich_help_panel=STRUCTURE
        ),
    ] = None
    choice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="The answer is one of these. Given several times.",
            show_default=False,
            rich_help_panel=STRUCTURE,
        ),
    ] = None

    @cached_property
    def structure(self) -> dict[str, Any]:
        files = {"schema": self.schema, "grammar": self.grammar}
        texts = {name: read_text(path, f"--{name}") for name, path in files.items() if path is not None}
        return {**texts, "regex": self.regex, "choices": self.choice or None}

    def ask(self, image: Any) -> Ask:
        return photon.Query(image, self.question, reasoning=self.reasoning, **self.of_text, **self.structure)


@dataclass(frozen=True, kw_only=True)
class ExtractFlags(SkillFlags):
    schema: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A JSON schema: what to look for, and its form.", show_default=False),
    ]
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="More to tell the model.", show_default=False)
    ] = None
    max_tokens: Annotated[int, typer.Option(help="At most so many tokens (words and pieces of words).")] = (
        EXTRACT_TOKENS
    )

    @cached_property
    def schema_text(self) -> str:
        return read_text(self.schema, "--schema")

    def ask(self, image: Any) -> Ask:
        return photon.Extract(
            image, self.schema_text, instructions=self.instructions, max_tokens=self.max_tokens, **self.of_all
        )


@dataclass(frozen=True, kw_only=True)
class ObjectFlags(SkillFlags):
    """Of the skills that look for objects."""

    object: Annotated[
        str,
        typer.Argument(
            metavar="OBJECT", help="What to look for.", show_default=False, is_eager=True, callback=check_is_no_picture
        ),
    ]
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="OBJECT", help="Look for this too. May be given several times.", show_default=False),
    ] = None
    max_objects: Annotated[int, typer.Option(help="At most so many of each object, 1 to 1000.")] = MAX_OBJECTS

    @property
    def objects(self) -> list[str]:
        return [self.object, *(self.also or ())]

    @property
    def of_objects(self) -> dict[str, Any]:
        """The fields that asks for objects have in common."""
        return {"object": self.objects, "max_objects": self.max_objects, **self.of_all}


@dataclass(frozen=True, kw_only=True)
class PointFlags(ObjectFlags):
    def ask(self, image: Any) -> Ask:
        return photon.PointAt(image, **self.of_objects)


@dataclass(frozen=True, kw_only=True)
class DetectFlags(ObjectFlags):
    duplicate_iou: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Leave out a box that overlaps an earlier one so much, in (0, 1].",
            show_default=False,
        ),
    ] = None

    def ask(self, image: Any) -> Ask:
        return photon.Detect(image, duplicate_iou=self.duplicate_iou, **self.of_objects)


@dataclass(frozen=True, kw_only=True)
class GazeFlags(SkillFlags):
    x: Annotated[
        float,
        typer.Argument(metavar="X", help="Of the eye, from left (0) to right (1).", show_default=False, is_eager=True),
    ]
    y: Annotated[
        float,
        typer.Argument(metavar="Y", help="Of the eye, from top (0) to bottom (1).", show_default=False, is_eager=True),
    ]

    def ask(self, image: Any) -> Ask:
        return photon.Gaze(image, eye=(self.x, self.y), **self.of_all)


def read_text(path: Path, flag: str) -> str:
    """BadParameter when it is no file of text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint=flag) from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is no text", param_hint=flag) from None
