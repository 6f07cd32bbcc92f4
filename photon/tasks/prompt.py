"""Prompts: a picture's positions, a template's ids, spatial references, the user's text; and the room left after them.

A picture prompt is BOS, the picture's positions, the template; BOS and the picture see each other both ways. A text
prompt is BOS and the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from photon.errors import RequestError
from photon.models.recipes import Ids, PromptIds, Template
from photon.request import IMAGE_ID, ImageSpan, PreparedImage, Prompt, Token
from photon.tasks.checks import SpatialRef
from photon.tasks.context import TaskContext


def build_prompt(context: TaskContext, image: PreparedImage | None, body: Sequence[Token]) -> Prompt:
    bos = Token(context.recipe.ids.bos)
    if image is None:
        return Prompt((bos, *body))
    length = context.image_length
    span = ImageSpan(image, start=1, length=length, block_start=0)
    return Prompt((bos, *[Token(IMAGE_ID)] * length, *body), (span,))


def fill_template(
    context: TaskContext, template: Template, text: str, refs: Sequence[SpatialRef] = (), tail: Ids = ()
) -> list[Token]:
    """Prefix, references, text, suffix, and `tail` behind them."""
    said = context.encode(template.lead + text)
    refs_tokens = [token for ref in refs for token in _ref_tokens(ref, context.recipe.ids)]
    return [*plain(template.prefix), *refs_tokens, *plain(said), *plain(template.suffix), *plain(tail)]


def plain(ids: Iterable[int]) -> list[Token]:
    return [Token(i) for i in ids]


def room_after(context: TaskContext, prompt: Prompt) -> int:
    """Tokens that may still be said; RequestError when the prompt leaves none."""
    room = context.max_context - len(prompt)
    if room < 1:
        raise RequestError(
            f"the prompt takes {len(prompt)} positions, the context of the model has {context.max_context}"
        )
    return room


def _ref_tokens(ref: SpatialRef, ids: PromptIds) -> list[Token]:
    """A point is x and y; a box is its centre's x and y, then its width and height in one token."""
    assert ids.coord is not None and ids.size is not None, "the task was to be checked"
    if len(ref) == 2:
        return [Token(ids.coord, (value,)) for value in ref]
    x_min, y_min, x_max, y_max = ref
    center = ((x_min + x_max) / 2, (y_min + y_max) / 2)
    return [*(Token(ids.coord, (value,)) for value in center), Token(ids.size, (x_max - x_min, y_max - y_min))]
