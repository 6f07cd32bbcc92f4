"""What every task is: a call of one or several requests on one picture. One request is the rule, and needs no more
than `build`, `reader` and `parse`; a task of several says which they are (`parts`) and makes one of their results
(`join`), and only its parts are built, read and parsed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from photon.models.recipes import Recipe
from photon.request import PreparedImage, Request, Sampling, Token
from photon.results import FinishReason, Metrics, Result
from photon.tasks.context import TaskContext

if TYPE_CHECKING:
    from PIL.Image import Image

    from photon.tasks.readers import Reader


class Task(ABC):
    """`needs_grammar`: its requests have a grammar to be compiled, for which the grammar engine must be loaded.
    `compiles`: the grammar is the user's own, and compiling it may take a while, for which no other task is to wait.
    `timeout`: seconds from the call in which it must be answered, or None; all of a call's requests share it."""

    needs_grammar: ClassVar[bool] = False
    compiles: ClassVar[bool] = False
    sampling: Sampling
    timeout: float | None

    @property
    def name(self) -> str:
        """As the call is named, such as "gaze"."""
        return type(self).__name__.removesuffix("Task").lower()

    def parts(self) -> tuple[Part, ...]:
        """The requests, in the order in which they stand in line and in which `join` gets their results."""
        return (Part(self),)

    def join(self, results: Sequence[Any]) -> Result:
        """The call's result from its parts' results."""
        (result,) = results
        return result

    @abstractmethod
    def check(self, recipe: Recipe, *, has_image: bool) -> None:
        """RequestError when this model cannot be asked so, known before any work; `build` checks it too."""

    @abstractmethod
    def build(self, request_id: int, context: TaskContext, image: PreparedImage | None) -> Request:
        """RequestError as `check`, or when the prompt does not fit into the context."""

    @abstractmethod
    def reader(self, context: TaskContext) -> Reader: ...

    @abstractmethod
    def parse(
        self,
        context: TaskContext,
        tokens: tuple[Token, ...],
        finish_reason: FinishReason,
        *,
        metrics: Metrics,
        image: Image | None = None,
    ) -> Result:
        """`tokens` without the stop token; `image` is the upright picture."""


@dataclass(frozen=True, slots=True)
class Part:
    """One request of a call. `name` is what its errors begin with; None where it is the whole call."""

    task: Task
    name: str | None = None
