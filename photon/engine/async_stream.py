"""A streamed answer as an async iterator. Chunks come from the delivery thread into the loop that asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from photon.chunks import Chunk, End
from photon.errors import RequestError
from photon.results import Result


class AsyncStream(AsyncIterator[Chunk]):
    """Iterate with `async for`; the last chunk is the `End` with the result. Errors come out of iterating.

    `aclose`, leaving an `async with` block, cancelling the task that iterates, or dropping the stream cancels the work.
    """

    def __init__(self, start: Callable[[Callable[[Chunk], None]], Future[Any]]) -> None:
        """Inside the loop. `start` is given where chunks go and gives the future that resolves behind the last one."""
        # What the engine holds must not hold the stream, or dropping it would go unnoticed.
        self._queue: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._has_ended = False
        put = partial(_put, asyncio.get_running_loop(), self._queue)
        self._future = start(put)
        self._future.add_done_callback(lambda _: put(None))

    async def __anext__(self) -> Chunk:
        if self._has_ended:
            raise StopAsyncIteration
        try:
            chunk = await self._queue.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if chunk is not None:
            return chunk
        self._has_ended = True
        if self._future.cancelled():
            raise StopAsyncIteration
        return End(self._future.result())

    async def result(self) -> Result:
        """Skip to the end; the whole result. RequestError when the stream was closed before."""
        self._has_ended = True
        try:
            return await asyncio.wrap_future(self._future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # whoever waits is cancelled, and the work with it
                raise
            raise RequestError("the stream was closed before its end: there is no result") from None

    async def aclose(self) -> None:
        """End the work within two steps; nothing more comes."""
        self._cancel()

    def _cancel(self) -> None:
        self._has_ended = True
        self._future.cancel()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if hasattr(self, "_future"):  # it never started where the engine refused
            self._cancel()


def _put(loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[Chunk | None], chunk: Chunk | None) -> None:
    """From any thread. A loop that is closed, perhaps this moment, hears nothing."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(chunks.put_nowait, chunk)
