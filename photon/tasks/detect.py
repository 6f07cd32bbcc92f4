"""Detect: a box around every object of a name, or of each of several names, in a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from photon.models.recipes import Recipe
from photon.request import PreparedImage, Request, Role, Sampling, Token
from photon.results import Box, DetectResult, FinishReason, Metrics
from photon.tasks.base import Part, Task
from photon.tasks.checks import check_image, check_says_places, check_timeout
from photon.tasks.context import TaskContext
from photon.tasks.joining import join_results
from photon.tasks.logprobs import report_logprobs
from photon.tasks.objects import (
    MAX_OBJECTS,
    build_objects,
    check_duplicate_iou,
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

ROLES = (Role.X, Role.Y, Role.SIZE)


@dataclass(frozen=True, kw_only=True)
class DetectTask(Task):
    """`object`: a name, or a list of 1 to 64 different ones, which are as many requests. `max_objects` in [1, 1000], of
    each name. `duplicate_iou` in (0, 1], or None: a box is left out that overlaps an earlier one of its name so much
    (`Box.iou`); it counts as said."""

    needs_grammar: ClassVar[bool] = True

    object: str | Sequence[str]
    max_objects: int = MAX_OBJECTS
    duplicate_iou: float | None = None
    sampling: Sampling = field(default_factory=Sampling)
    timeout: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "object", check_names(self.object))
        check_max_objects(self.max_objects)
        check_duplicate_iou(self.duplicate_iou)
        check_timeout(self.timeout)

    def parts(self) -> tuple[Part, ...]:
        return parts_by_name(self)

    def join(self, results: Sequence[DetectResult]) -> DetectResult:
        return join_results(results, boxes=tuple(box for result in results for box in result.boxes))

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        check_image("detect", has_image=has_image)
        check_says_places(recipe, "detect")

    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        recipe = context.recipe
        self.check(recipe, has_image=image is not None)
        body = fill_template(context, recipe.templates.detect, only_name(self.object))
        return build_objects(
            request_id,
            context,
            build_prompt(context, image, body),
            grammar=recipe.grammars["detect"],
            roles=ROLES,
            max_objects=self.max_objects,
            sampling=self.sampling,
        )

    def reader(self, context: TaskContext) -> ObjectReader[Box]:
        make = partial(_box, only_name(self.object))
        return ObjectReader(ROLES, self.max_objects, make, _repetition(self.duplicate_iou))

    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> DetectResult:
        """As many boxes said as asked for: truncated."""
        reader = self.reader(context)
        boxes = tuple(reader.read(tokens))
        finish_reason = finish_of_objects(finish_reason, reader.num_said, self.max_objects)
        return DetectResult(
            boxes=boxes,
            token_ids=tuple(token.id for token in tokens),
            finish_reason=finish_reason,
            metrics=metrics,
            image=image,
            logprobs=report_logprobs(context, self.sampling, tokens),
        )


def _box(label: str, numbers: tuple[float, ...], score: float | None) -> Box:
    x, y, width, height = numbers
    return Box.from_center(x, y, width=width, height=height, score=score, label=label)


def _repetition(duplicate_iou: float | None) -> Callable[[Box, Box], bool] | None:
    """Whether two boxes of one name are taken for one object."""
    return None if duplicate_iou is None else lambda box, earlier: box.iou(earlier) >= duplicate_iou
