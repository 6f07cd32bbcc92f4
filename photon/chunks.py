"""The pieces of an answer as it comes: text, reasoning, a point, a box, and last the end with the whole result."""

from __future__ import annotations

from dataclasses import dataclass

from photon.results import Box, Point, Result


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of a caption or an answer. All of them, joined, are its whole text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what the model thinks before it answers. All of them, joined, are the reasoning's whole text."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The last chunk of a stream."""

    result: Result


Chunk = TextDelta | ReasoningDelta | Point | Box | End
