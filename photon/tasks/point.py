"""Point: the places of every object of a name in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from photon.request import PreparedImage, Request, Role, Sampling, Token
from photon.results import FinishReason, Metrics, Point, PointResult
from photon.tasks.checks import SpatialRef, check_refs, check_text
from photon.tasks.context import TaskContext
from photon.tasks.logprobs import report_logprobs
from photon.tasks.objects import MAX_OBJECTS, build_objects, check_max_objects, complete_objects, finish_of_objects
from photon.tasks.prompt import build_prompt, fill_template, require_image
from photon.tasks.readers import ObjectReader, Reader

if TYPE_CHECKING:
    from PIL.Image import Image

ROLES = (Role.X, Role.Y)


@dataclass(frozen=True, kw_only=True)
class PointTask:
    """`max_objects` in [1, 1000]."""

    needs_grammar: ClassVar[bool] = True

    object: str
    spatial_refs: Sequence[SpatialRef] = ()
    max_objects: int = MAX_OBJECTS
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        check_text("object", self.object)
        check_max_objects(self.max_objects)
        object.__setattr__(self, "spatial_refs", check_refs(self.spatial_refs))

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        """RequestError without a picture, or when the prompt does not fit into the context."""
        recipe = context.recipe
        body = fill_template(context, recipe.templates.point, self.object, self.spatial_refs)
        return build_objects(
            request_id,
            context,
            build_prompt(context, require_image("point", image), body),
            grammar=recipe.grammars["point"],
            roles=ROLES,
            max_objects=self.max_objects,
            sampling=self.sampling,
        )

    def reader(self, context: TaskContext) -> Reader:
        return ObjectReader(ROLES, self.max_objects, _point)

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> PointResult:
        """`tokens` without the stop token; `image` is the upright picture. As many points as asked for: truncated."""
        objects = complete_objects(tokens, ROLES, self.max_objects)
        finish_reason = finish_of_objects(finish_reason, len(objects), self.max_objects)
        return PointResult(
            points=tuple(_point(numbers, score) for numbers, score in objects),
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )


def _point(numbers: tuple[float, ...], score: float | None) -> Point:
    x, y = numbers
    return Point(x, y, score)
