"""Point: the places of every object of a name, or of each of several names, in a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from photon.models.recipes import Recipe
from photon.request import PreparedImage, Request, Role, Sampling, Token
from photon.results import FinishReason, Metrics, Point, PointResult
from photon.tasks.base import Part, Task
from photon.tasks.checks import SpatialRef, check_image, check_refs, check_says_places, check_takes_refs, check_timeout
from photon.tasks.context import TaskContext
from photon.tasks.joining import join_results
from photon.tasks.logprobs import report_logprobs
from photon.tasks.objects import (
    MAX_OBJECTS,
    build_objects,
    check_max_objects,
    check_names,
    finish_of_objects,
    only_name,
    parts_by_name,
)
from photon.tasks.prompt import build_prompt, fill_template
from photon.tasks.readers import ObjectReader

if TYPE_CHECKING:
    from PIL.Image import Image

ROLES = (Role.X, Role.Y)


@dataclass(frozen=True, kw_only=True)
class PointTask(Task):
    """`object`: a name, or a list of 1 to 64 different ones, which are as many requests. `max_objects` in [1, 1000], of
    each name."""

    needs_grammar: ClassVar[bool] = True

    object: str | Sequence[str]
    spatial_refs: Sequence[SpatialRef] = ()
    max_objects: int = MAX_OBJECTS
    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "object", check_names(self.object))
        check_max_objects(self.max_objects)
        check_timeout(self.timeout)
        object.__setattr__(self, "spatial_refs", check_refs(self.spatial_refs))

    def parts(self) -> tuple[Part, ...]:
        return parts_by_name(self)

    def join(self, results: Sequence[PointResult]) -> PointResult:
        return join_results(results, points=tuple(point for result in results for point in result.points))

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        check_image("point", has_image=has_image)
        check_says_places(recipe, "point")
        check_takes_refs(recipe, self.spatial_refs)

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        recipe = context.recipe
        self.check(recipe, has_image=image is not None)
        body = fill_template(context, recipe.templates.point, only_name(self.object), self.spatial_refs)
        return build_objects(
            request_id,
            context,
            build_prompt(context, image, body),
            grammar=recipe.grammars["point"],
            roles=ROLES,
            max_objects=self.max_objects,
            sampling=self.sampling,
        )

    def reader(self, context: TaskContext) -> ObjectReader[Point]:
        return ObjectReader(ROLES, self.max_objects, partial(_point, only_name(self.object)))

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> PointResult:
        """As many points as asked for: truncated."""
        reader = self.reader(context)
        points = tuple(reader.read(tokens))
        finish_reason = finish_of_objects(finish_reason, reader.num_said, self.max_objects)
        return PointResult(
            points=points,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )


def _point(label: str, numbers: tuple[float, ...], score: float | None) -> Point:
    x, y = numbers
    return Point(x, y, score, label)
