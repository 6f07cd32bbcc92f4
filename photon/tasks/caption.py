"""Caption: one text about a picture, in three lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from photon.errors import RequestError
from photon.models.recipes import Recipe
from photon.request import PreparedImage, Request, Sampling, Token
from photon.results import CaptionResult, FinishReason, Metrics
from photon.tasks.base import Task
from photon.tasks.checks import check_choice, check_image, check_stop, check_takes_image, check_timeout, check_whole
from photon.tasks.context import TaskContext
from photon.tasks.logprobs import report_logprobs
from photon.tasks.prompt import build_prompt, plain, room_after
from photon.tasks.readers import Reader, TextReader
from photon.tasks.text import MAX_TOKENS, banned_in_answer, read_answer, watch_stops

if TYPE_CHECKING:
    from PIL.Image import Image

LENGTHS = ("short", "normal", "long")


@dataclass(frozen=True, kw_only=True)
class CaptionTask(Task):
    """`max_tokens` bounds the caption; the context bounds it too. The caption ends before the first of `stop`."""

    needs_grammar: ClassVar[bool] = False

    length: str = "normal"
    max_tokens: int = MAX_TOKENS
    stop: str | Sequence[str] = ()
    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_choice("length", self.length, LENGTHS)
        check_whole("max_tokens", self.max_tokens, 1, 2**31)
        object.__setattr__(self, "stop", check_stop(self.stop))
        check_timeout(self.timeout)

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        check_image("caption", has_image=has_image)
        check_takes_image(recipe, has_image=has_image)
        if self.length not in recipe.templates.caption:
            known = ", ".join(recipe.templates.caption)
            raise RequestError(f"{recipe.name} has no caption of length {self.length!r}; it has {known}")

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        recipe = context.recipe
        self.check(recipe, has_image=image is not None)
        if context.chat is not None:
            prompt = context.chat.prompt(context.chat.captions[self.length], image)
        else:
            prompt = build_prompt(context, image, plain(recipe.templates.caption[self.length]))
        limit = min(self.max_tokens, room_after(context, prompt))
        return Request(
            id=request_id,
            prompt=prompt,
            max_tokens=limit,
            limit_tokens=limit,
            stop_ids=frozenset(context.constraints.vocabulary.stop_ids),
            sampling=self.sampling,
            banned_ids=banned_in_answer(recipe),
            stop_watch=watch_stops(context, self.stop),
        )

    def reader(self, context: TaskContext) -> Reader:
        return TextReader(context, self.stop)

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> CaptionResult:
        caption, finish_reason = read_answer(context, tokens, self.stop, finish_reason)
        return CaptionResult(
            caption=caption,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )
