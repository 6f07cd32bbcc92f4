"""`Engine`: plain calls that wait for their answers, and iterators over streamed ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, Unpack, overload

from photon.constraint.structure import SchemaLike
from photon.engine.asks import Ask, ImageSource
from photon.engine.bulk import run_all
from photon.engine.core import EngineCore
from photon.engine.skills import (
    QueryOptions,
    SamplingOptions,
    caption_task,
    detect_task,
    extract_task,
    gaze_task,
    point_task,
    query_task,
)
from photon.engine.stream import Stream
from photon.results import CaptionResult, DetectResult, GazeResult, PointResult, QueryResult
from photon.tasks import Task
from photon.tasks.checks import SpatialRef, check_flag
from photon.tasks.extract import MAX_TOKENS as EXTRACT_TOKENS
from photon.tasks.objects import MAX_OBJECTS
from photon.tasks.text import MAX_TOKENS


class Engine(EngineCore):
    """A model at work on one device. Safe to call from many threads at once; a context manager.

    `model` is a recipe's name, a folder, a weights file, or a Hugging Face id; `options` are the other fields of
    `EngineConfig`. ConfigError for a wrong option, ModelError for a model that cannot be loaded.

    Every call raises RequestError for a parameter out of range, ImageError for a picture that cannot be read,
    ConstraintError or NumericsError when the answer itself failed, and EngineError when the engine is closed or its
    tick thread has died. Every call takes the fields of `Sampling` as keywords; by default it is greedy.
    With `timeout`, in [0, 86400] seconds from the call, what is not answered by then raises DeadlineError.
    `stop` is one text or a list of at most 16, each of 1 to 256 characters. The answer is searched as the model says
    it, with the blanks around it that a result leaves out; many models begin with a space.
    With `stream=True` a call returns at once: a `Stream` of chunks, whose iteration raises those errors.
    """

    @overload
    def caption(
        self,
        image: ImageSource,
        length: str = ...,
        *,
        max_tokens: int = ...,
        stop: str | Sequence[str] = ...,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> CaptionResult: ...
    @overload
    def caption(
        self,
        image: ImageSource,
        length: str = ...,
        *,
        max_tokens: int = ...,
        stop: str | Sequence[str] = ...,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...
    def caption(
        self,
        image: ImageSource,
        length: str = "normal",
        *,
        max_tokens: int = MAX_TOKENS,
        stop: str | Sequence[str] = (),
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> CaptionResult | Stream:
        """A caption of `length` "short", "normal" or "long". It ends before the first of the `stop` strings."""
        task = caption_task(length, max_tokens=max_tokens, stop=stop, sampling=sampling, timeout=timeout)
        return self._ask(task, image, stream)

    @overload
    def query(
        self,
        image: ImageSource | None,
        question: str,
        *,
        reasoning: bool = ...,
        spatial_refs: Sequence[SpatialRef] = ...,
        max_tokens: int = ...,
        stop: str | Sequence[str] = ...,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **options: Unpack[QueryOptions],
    ) -> QueryResult: ...
    @overload
    def query(
        self,
        image: ImageSource | None,
        question: str,
        *,
        reasoning: bool = ...,
        spatial_refs: Sequence[SpatialRef] = ...,
        max_tokens: int = ...,
        stop: str | Sequence[str] = ...,
        timeout: float | None = ...,
        stream: Literal[True],
        **options: Unpack[QueryOptions],
    ) -> Stream: ...
    def query(
        self,
        image: ImageSource | None,
        question: str,
        *,
        reasoning: bool = False,
        spatial_refs: Sequence[SpatialRef] = (),
        max_tokens: int = MAX_TOKENS,
        stop: str | Sequence[str] = (),
        timeout: float | None = None,
        stream: bool = False,
        **options: Unpack[QueryOptions],
    ) -> QueryResult | Stream:
        """An answer to `question` about `image`, or about nothing (None). With `reasoning` the model thinks first.

        `spatial_refs`: points (x, y) and boxes (x_min, y_min, x_max, y_max) in [0, 1] that the question speaks of.
        `stop`: the answer (no thought) ends before the first of these texts.

        The answer can be held to one of `schema` (a dict, JSON, or a pydantic model class), `regex`, `grammar` (EBNF,
        or a file of grammars/) and `choices` (1 to 256 texts); then the result has a `value`. docs/structured_output.md
        has the limits. ConstraintError for what is wrong or beyond them, and for a value that the schema refuses.
        """
        task = query_task(
            question,
            reasoning=reasoning,
            spatial_refs=spatial_refs,
            max_tokens=max_tokens,
            stop=stop,
            options=options,
            timeout=timeout,
        )
        return self._ask(task, image, stream)

    @overload
    def extract(
        self,
        image: ImageSource | None,
        schema: SchemaLike,
        *,
        instructions: str | None = ...,
        max_tokens: int = ...,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> QueryResult: ...
    @overload
    def extract(
        self,
        image: ImageSource | None,
        schema: SchemaLike,
        *,
        instructions: str | None = ...,
        max_tokens: int = ...,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...
    def extract(
        self,
        image: ImageSource | None,
        schema: SchemaLike,
        *,
        instructions: str | None = None,
        max_tokens: int = EXTRACT_TOKENS,
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> QueryResult | Stream:
        """What `image` shows, as a `value` of `schema` (as for `query`), of which the question is made.

        `instructions`: words of your own behind it.
        """
        task = extract_task(
            schema, instructions=instructions, max_tokens=max_tokens, sampling=sampling, timeout=timeout
        )
        return self._ask(task, image, stream)

    @overload
    def point(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        spatial_refs: Sequence[SpatialRef] = ...,
        max_objects: int = ...,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> PointResult: ...
    @overload
    def point(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        spatial_refs: Sequence[SpatialRef] = ...,
        max_objects: int = ...,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...
    def point(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        spatial_refs: Sequence[SpatialRef] = (),
        max_objects: int = MAX_OBJECTS,
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> PointResult | Stream:
        """A point on each `object`, at most `max_objects`.

        `object` may be a list of 1 to 64 different names: one call, which reads the picture once. Points stand in the
        names' order, each with its `label`; in a stream they come as they are found. `max_objects` is of each name. An
        error in one name's answer names it and ends the call.
        """
        task = point_task(
            object, spatial_refs=spatial_refs, max_objects=max_objects, sampling=sampling, timeout=timeout
        )
        return self._ask(task, image, stream)

    @overload
    def detect(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        max_objects: int = ...,
        duplicate_iou: float | None = ...,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> DetectResult: ...
    @overload
    def detect(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        max_objects: int = ...,
        duplicate_iou: float | None = ...,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...
    def detect(
        self,
        image: ImageSource,
        object: str | Sequence[str],
        *,
        max_objects: int = MAX_OBJECTS,
        duplicate_iou: float | None = None,
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> DetectResult | Stream:
        """A box around each `object`, at most `max_objects`; of a list of names as for `point`.

        With `duplicate_iou`, in (0, 1], a box that overlaps an earlier one of its name at least so much (`Box.iou`) is
        left out. `max_objects` and `truncated` count it.
        """
        task = detect_task(
            object, max_objects=max_objects, duplicate_iou=duplicate_iou, sampling=sampling, timeout=timeout
        )
        return self._ask(task, image, stream)

    @overload
    def gaze(
        self,
        image: ImageSource,
        eye: Sequence[float],
        *,
        timeout: float | None = ...,
        stream: Literal[False] = False,
        **sampling: Unpack[SamplingOptions],
    ) -> GazeResult: ...
    @overload
    def gaze(
        self,
        image: ImageSource,
        eye: Sequence[float],
        *,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> Stream: ...
    def gaze(
        self,
        image: ImageSource,
        eye: Sequence[float],
        *,
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> GazeResult | Stream:
        """Where the person whose eye is at `eye`, (x, y) in [0, 1], looks: one point, or None outside of the picture.

        RequestError where the model does not have it; the message names those that do.
        """
        return self._ask(gaze_task(eye, sampling=sampling, timeout=timeout), image, stream)

    def run(
        self, asks: Iterable[Ask], *, progress: bool = False, on_error: Literal["raise", "return"] = "raise"
    ) -> list[Any]:
        """Answers to many questions, in their order: `run([Detect("a.png", "mug"), Query("b.png", "How many?")])`.

        `progress` shows a bar on stderr. With on_error="return" a question that fails leaves its error in its place;
        with "raise" the first error in order is raised and what is not finished is cancelled. At most 64 are at work at
        once; the `timeout` of a question runs from when it is taken up. Every answer holds its picture, decoded:
        thousands of photographs are better asked about in several calls.
        """
        return run_all(self.submit, asks, progress=progress, on_error=on_error)

    def _ask(self, task: Task, image: ImageSource | None, stream: bool) -> Any:
        check_flag("stream", stream)
        if not stream:
            return _wait(self.submit(task, image))
        return Stream(lambda emit: self.submit(task, image, emit))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)


def _wait(answer: Future[Any]) -> Any:
    """An interrupt of whoever waits ends the work: nobody else can."""
    try:
        return answer.result()
    finally:
        answer.cancel()  # which does nothing to one that is done
