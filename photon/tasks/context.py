"""What a task must know of the engine that it runs on: handed to each call, so that tasks hold no global state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from photon.constraint.compiler import ConstraintCompiler
from photon.models.recipes import Recipe
from photon.text.detokenizer import Detokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """Made by the engine.

    `encode` turns a user's text into ids and reads no special id in it; `decode` turns ids into text, and a new
    `detokenizer` does so as they come. `image_length`: positions that a picture takes; `max_context`: positions of
    prompt and answer together.
    """

    recipe: Recipe
    encode: Callable[[str], Sequence[int]]
    decode: Callable[[Sequence[int]], str]
    detokenizer: Callable[[], Detokenizer]
    image_length: int
    max_context: int
    constraints: ConstraintCompiler
