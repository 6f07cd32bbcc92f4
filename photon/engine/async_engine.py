"""`AsyncEngine`: the same calls for asyncio. Cancelling a task, or closing a stream, ends the work within two steps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Unpack, overload

from photon.constraint.structure import SchemaLike
from photon.engine.asks import Ask, ImageSource
from photon.engine.async_stream import AsyncStream
from photon.engine.bulk import CancellableSubmit, run_all
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
from photon.results import CaptionResult, DetectResult, GazeResult, PointResult, QueryResult
from photon.tasks import Task
from photon.tasks.checks import SpatialRef, check_flag
from photon.tasks.extract import MAX_TOKENS as EXTRACT_TOKENS
from photon.tasks.objects import MAX_OBJECTS
from photon.tasks.text import MAX_TOKENS


class AsyncEngine:
    """As `Engine`, with coroutines to be awaited and streams to be iterated by `async for`. An async context manager.

    It may be made outside of a loop (loading a model blocks: `await asyncio.to_thread(AsyncEngine, ...)` does not), and
    be used by one loop at a time. A coroutine begins its work, and its `timeout`, when it is awaited; a stream at once.
    """

    def __init__(self, model: str | Path = "photon-tiny", **options: Any) -> None:
        self.core = EngineCore(model, **options)

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
    ) -> Coroutine[Any, Any, CaptionResult]: ...
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
    ) -> AsyncStream: ...
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
    ) -> Coroutine[Any, Any, CaptionResult] | AsyncStream:
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
    ) -> Coroutine[Any, Any, QueryResult]: ...
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
    ) -> AsyncStream: ...
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
    ) -> Coroutine[Any, Any, QueryResult] | AsyncStream:
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
    ) -> Coroutine[Any, Any, QueryResult]: ...
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
    ) -> AsyncStream: ...
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
    ) -> Coroutine[Any, Any, QueryResult] | AsyncStream:
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
    ) -> Coroutine[Any, Any, PointResult]: ...
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
    ) -> AsyncStream: ...
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
    ) -> Coroutine[Any, Any, PointResult] | AsyncStream:
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
    ) -> Coroutine[Any, Any, DetectResult]: ...
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
    ) -> AsyncStream: ...
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
    ) -> Coroutine[Any, Any, DetectResult] | AsyncStream:
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
    ) -> Coroutine[Any, Any, GazeResult]: ...
    @overload
    def gaze(
        self,
        image: ImageSource,
        eye: Sequence[float],
        *,
        timeout: float | None = ...,
        stream: Literal[True],
        **sampling: Unpack[SamplingOptions],
    ) -> AsyncStream: ...
    def gaze(
        self,
        image: ImageSource,
        eye: Sequence[float],
        *,
        timeout: float | None = None,
        stream: bool = False,
        **sampling: Unpack[SamplingOptions],
    ) -> Coroutine[Any, Any, GazeResult] | AsyncStream:
        """Where the person whose eye is at `eye`, (x, y) in [0, 1], looks: one point, or None outside of the picture.

        RequestError where the model does not have it; the message names those that do.
        """
        return self._ask(gaze_task(eye, sampling=sampling, timeout=timeout), image, stream)

    async def run(
        self, asks: Iterable[Ask], *, progress: bool = False, on_error: Literal["raise", "return"] = "raise"
    ) -> list[Any]:
        """As `Engine.run`; the loop goes on meanwhile."""
        submit = CancellableSubmit(self.core.submit)
        try:
            return await asyncio.to_thread(run_all, submit, asks, progress=progress, on_error=on_error)
        except asyncio.CancelledError:  # the thread does not hear of it
            submit.cancel()
            raise

    async def close(self, *, drain: bool = True) -> None:
        """As `Engine.close`; the loop goes on meanwhile."""
        await asyncio.to_thread(self.core.close, drain=drain)

    def _ask(self, task: Task, image: ImageSource | None, stream: bool) -> Any:
        check_flag("stream", stream)
        if not stream:
            return self._answer(task, image)
        return AsyncStream(lambda emit: self.core.submit(task, image, emit))

    async def _answer(self, task: Task, image: ImageSource | None) -> Any:
        return await asyncio.wrap_future(self.core.submit(task, image))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.core.description}, {self.core.state}>"

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(drain=error is None)
