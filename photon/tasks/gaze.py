"""Gaze: where the person whose eye is at a place looks. Only for models whose recipe has a template for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from photon.errors import RequestError
from photon.models.recipes import Recipe, recipes_with_gaze
from photon.request import PreparedImage, Request, Role, Sampling, Token
from photon.results import FinishReason, GazeResult, Metrics, Point
from photon.tasks.base import Task
from photon.tasks.checks import check_image, check_place, check_timeout
from photon.tasks.context import TaskContext
from photon.tasks.logprobs import report_logprobs
from photon.tasks.objects import build_objects, complete_objects
from photon.tasks.prompt import build_prompt, plain
from photon.tasks.readers import ObjectReader, Reader

if TYPE_CHECKING:
    from PIL.Image import Image

ROLES = (Role.X, Role.Y)


@dataclass(frozen=True, kw_only=True)
class GazeTask(Task):
    """`eye` (x, y) in [0, 1]."""

    needs_grammar: ClassVar[bool] = True

    eye: Sequence[float]
    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "eye", check_place("eye", self.eye))
        check_timeout(self.timeout)

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        check_image("gaze", has_image=has_image)
        if recipe.templates.gaze is None:
            raise RequestError(f"{recipe.name} has no gaze; these models have it: {', '.join(recipes_with_gaze())}")

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        recipe = context.recipe
        self.check(recipe, has_image=image is not None)
        template = recipe.templates.gaze
        assert template is not None
        place = recipe.ids.eos if recipe.ids.coord is None else recipe.ids.coord  # the value is embedded, not the id
        body = [*plain(template.prefix), *(Token(place, (value,)) for value in self.eye), *plain(template.suffix)]
        return build_objects(
            request_id,
            context,
            build_prompt(context, image, body),
            grammar=recipe.grammars["point"],
            roles=ROLES,
            max_objects=1,
            sampling=self.sampling,
        )

    def reader(self, context: TaskContext) -> Reader:
        return ObjectReader(ROLES, 1, _point)

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> GazeResult:
        points = [_point(numbers, score) for numbers, score in complete_objects(tokens, ROLES, 1)]
        return GazeResult(
            eye=Point(self.eye[0], self.eye[1]),
            point=points[0] if points else None,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )


def _point(numbers: tuple[float, ...], score: float | None) -> Point:
    x, y = numbers
    return Point(x, y, score)
