"""Many questions about one picture as one call: it is decoded, cut and computed once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from photon.errors import RequestError
from photon.models.recipes import Recipe
from photon.request import Sampling
from photon.results import Metrics, Result
from photon.tasks import Part, Task

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class PictureResult(Result):
    """`results`: of the questions, in their order; the other fields hold for all of them together."""

    results: tuple[Result, ...]

    def _answer(self) -> dict[str, Any]:
        return {"results": [result.to_dict() for result in self.results]}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> NoReturn:
        raise RequestError("the answers to several questions are drawn one by one")


@dataclass(frozen=True)
class PictureTask(Task):
    """`tasks`: questions of one request each. One that fails fails the call."""

    tasks: tuple[Task, ...]
    sampling: Sampling = Sampling()
    timeout: float | None = None
    needs_grammar: ClassVar[bool] = True

    def parts(self) -> tuple[Part, ...]:
        return tuple(Part(task, f"question {i} ({task.name})") for i, task in enumerate(self.tasks, 1))

    def join(self, results: Sequence[Result]) -> PictureResult:
        return PictureResult(
            results=tuple(results),
            token_ids=tuple(chain.from_iterable(result.token_ids for result in results)),
            finish_reason="length" if any(result.truncated for result in results) else results[0].finish_reason,
            metrics=Metrics.join([result.metrics for result in results]),
        )

    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        for task in self.tasks:
            task.check(recipe, has_image=has_image)

    def _of_parts(self, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError("only its parts are built, read and parsed")

    build = reader = parse = _of_parts
