"""A streamed answer as an iterator for plain code. Chunks come from the delivery thread through a queue."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any

from photon.chunks import Chunk, End
from photon.errors import RequestError
from photon.results import Result


class Stream(Iterator[Chunk]):
    """Iterate over the chunks of one answer; the last is the `End` with the result. Errors come out of iterating.

    Leaving a `with` block, `close`, or dropping the stream cancels what is not finished.
    """

    def __init__(self, start: Callable[[Callable[[Chunk], None]], Future[Any]]) -> None:
        """`start` is given where chunks go and gives the future that resolves behind the last one."""
        # What the engine holds must not hold the stream, or dropping it would go unnoticed.
        self._queue: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._has_ended = False
        put = self._queue.put
        self._future = start(put)
        self._future.add_done_callback(lambda _: put(None))

    def __next__(self) -> Chunk:
        if self._has_ended:
            raise StopIteration
        chunk = self._queue.get()
        if chunk is not None:
            return chunk
        self._has_ended = True
        if self._future.cancelled():
            raise StopIteration
        return End(self._future.result())

    def result(self) -> Result:
        """Skip to the end; the whole result. RequestError when the stream was closed before."""
        self._has_ended = True
        try:
            return self._future.result()
        except CancelledError:
            raise RequestError("the stream was closed before its end: there is no result") from None

    def close(self) -> None:
        """End the work within two steps; nothing more comes."""
        self._has_ended = True
        self._future.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_future"):  # it never started where the engine refused
            self.close()
