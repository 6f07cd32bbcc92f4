"""What a task must know of the engine that it runs on: handed to each call, so that tasks hold no global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from photon.constraint.compiler import ConstraintCompiler
from photon.models.recipes import Recipe
from photon.request import Prompt
from photon.text.detokenizer import Detokenizer


@dataclass(frozen=True, slots=True)
class Chat:
    """How a model is asked that has a chat template of its own, not one of ids in its recipe.

    `prompt` puts a text, and a prepared picture or None, through it; `captions` says what to ask for, by length.
    """

    prompt: Callable[[str, Any], Prompt]
    captions: Mapping[str, str]


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
    chat: Chat | None = None
