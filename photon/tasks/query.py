"""Query: a question, about a picture or not, answered in text; with reasoning, the model thinks and points first.

With a structure the answer is what that admits, and has a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from photon.constraint.structure import Structure
from photon.errors import RequestError
from photon.models.recipes import Recipe
from photon.request import PreparedImage, Prompt, Request, Sampling, Token
from photon.results import FinishReason, Metrics, QueryResult
from photon.tasks.base import Task
from photon.tasks.checks import (
    SpatialRef,
    check_flag,
    check_refs,
    check_stop,
    check_takes_image,
    check_takes_refs,
    check_text,
    check_timeout,
    check_whole,
)
from photon.tasks.context import TaskContext
from photon.tasks.logprobs import report_logprobs
from photon.tasks.prompt import build_prompt, fill_template, room_after
from photon.tasks.readers import RawReader, Reader, ReasoningReader, TextReader
from photon.tasks.reasoning import parse_reasoning, split_at_mark
from photon.tasks.text import MAX_TOKENS, banned_in_answer, read_answer, watch_stops

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, kw_only=True)
class QueryTask(Task):
    """`max_tokens` bounds the answer and `max_reasoning_tokens` what is thought before it; the context bounds both.
    The answer, but no thought, ends before the first of `stop`. `structure`: what the answer must be; then its grammar
    says where it ends, and there is neither reasoning nor a stop string."""

    question: str
    reasoning: bool = False
    spatial_refs: Sequence[SpatialRef] = ()
    max_tokens: int = MAX_TOKENS
    max_reasoning_tokens: int = MAX_TOKENS
    stop: str | Sequence[str] = ()
    structure: Structure | None = None
    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_text("question", self.question)
        check_flag("reasoning", self.reasoning)
        check_whole("max_tokens", self.max_tokens, 1, 2**31)
        check_whole("max_reasoning_tokens", self.max_reasoning_tokens, 1, 2**31)
        object.__setattr__(self, "spatial_refs", check_refs(self.spatial_refs))
        object.__setattr__(self, "stop", check_stop(self.stop))
        check_timeout(self.timeout)
        if self.structure is not None and self.stop:
            raise RequestError(f"stop cannot be with {self.structure.kind}, which says where the answer ends")
        if self.structure is not None and self.reasoning:
            raise RequestError(f"reasoning cannot be with {self.structure.kind}: ask without reasoning")

    @property
    def needs_grammar(self) -> bool:
        return self.structure is not None

    @property
    def compiles(self) -> bool:
        return self.structure is not None

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        if self.spatial_refs and not has_image:
            raise RequestError(f"spatial_refs need an image to refer to, got {self.spatial_refs!r} without one")
        if recipe.templates.query.needs_image and not has_image:
            raise RequestError(f"{recipe.name} answers only questions about an image, got None")
        if self.reasoning and not recipe.can_reason:
            raise RequestError(f"{recipe.name} cannot reason: ask with reasoning=False")
        check_takes_refs(recipe, self.spatial_refs)
        check_takes_image(recipe, has_image=has_image)

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        self.check(context.recipe, has_image=image is not None)
        prompt = self._prompt(context, image)
        if self.structure is not None:
            return self._build_structured(request_id, context, prompt, self.structure)
        build = self._build_reasoning if self.reasoning else self._build_plain
        return build(request_id, context, prompt)

    def _prompt(self, context: TaskContext, image: PreparedImage | None) -> Prompt:
        if context.chat is not None:
            return context.chat.prompt(self.question, image)
        template = context.recipe.templates.query
        tail = template.reasoning_suffix if self.reasoning else template.answer_suffix
        assert tail is not None
        body = fill_template(context, template, self.question, self.spatial_refs, tail)
        return build_prompt(context, image, body)

    def _build_structured(self, request_id: int, context: TaskContext, prompt: Prompt, structure: Structure) -> Request:
        limit = min(self.max_tokens, room_after(context, prompt))
        return Request(
            id=request_id,
            prompt=prompt,
            max_tokens=limit,
            limit_tokens=limit,
            stop_ids=frozenset(context.constraints.vocabulary.stop_ids),  # those that the grammar's end allows
            sampling=self.sampling,
            constraint=context.constraints.structured(structure),
        )

    def _build_plain(self, request_id: int, context: TaskContext, prompt: Prompt) -> Request:
        limit = min(self.max_tokens, room_after(context, prompt))
        return Request(
            id=request_id,
            prompt=prompt,
            max_tokens=limit,
            limit_tokens=limit,
            stop_ids=frozenset(context.constraints.vocabulary.stop_ids),
            sampling=self.sampling,
            banned_ids=banned_in_answer(context.recipe),
            stop_watch=watch_stops(context, self.stop),
        )

    def _build_reasoning(self, request_id: int, context: TaskContext, prompt: Prompt) -> Request:
        ids = context.recipe.ids
        assert ids.answer is not None
        room = room_after(context, prompt)
        num_thoughts = max(0, min(self.max_reasoning_tokens, room - 2))  # leaves room for the mark and one token
        return Request(
            id=request_id,
            prompt=prompt,
            max_tokens=self.max_tokens,
            limit_tokens=min(num_thoughts + 1 + self.max_tokens, room),
            stop_ids=frozenset([ids.eos]),
            sampling=self.sampling,
            constraint=context.constraints.reasoning(
                answer_mark=ids.answer,
                banned_ids=tuple(i for i in (ids.eos, ids.size) if i is not None),
                limit=num_thoughts,
            ),
            answer_mark=ids.answer,
            stop_watch=watch_stops(context, self.stop, ids.answer),
        )

    def reader(self, context: TaskContext) -> Reader:
        if self.structure is not None:
            return RawReader(context)
        return ReasoningReader(context, self.stop) if self.reasoning else TextReader(context, self.stop)

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> QueryResult:
        if self.structure is not None:
            return self._parse_structured(context, tokens, finish_reason, self.structure, metrics, image)
        thoughts, answer = split_at_mark(tokens, context.recipe.ids.answer) if self.reasoning else ((), tokens)
        text, finish_reason = read_answer(context, answer, self.stop, finish_reason)
        return QueryResult(
            answer=text,
            reasoning=parse_reasoning(context, thoughts) if self.reasoning else None,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )

    def _parse_structured(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        structure: Structure,
        metrics: Metrics,
        image: Image | None,
    ) -> QueryResult:
        """The text as it was said, blanks and all. One that was cut has no value."""
        detokenizer = context.detokenizer()  # which takes nothing off, as `decode` may
        text = detokenizer.push(token.id for token in tokens) + detokenizer.flush()
        return QueryResult(
            answer=text,
            constrained_by=structure.kind,
            value=structure.value_of(text) if finish_reason == "stop" else None,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )
