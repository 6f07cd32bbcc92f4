"""A call's way through the engine: from a task and a picture, by one or several requests, to a result in a future."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from photon.chunks import Chunk
from photon.errors import DeadlineError, PhotonError
from photon.request import Deadline, Token
from photon.results import Result
from photon.tasks import Part, Task
from photon.tasks.readers import Reader


@dataclass(eq=False)
class Branch:
    """State of one request of a call. `id`, the request's, and `part` are set by the caller's thread; `prompt_tokens`
    by a worker; `tokens` by the tick thread; `reader` (of a streamed answer) and `result` by the delivery thread."""

    id: int
    part: Part
    prompt_tokens: int = 0
    tokens: list[Token] = field(default_factory=list)
    reader: Reader | None = None
    result: Result | None = None

    def named(self, error: PhotonError) -> PhotonError:
        """The error with the name of the part that it belongs to, where the call has parts."""
        if self.part.name is None:
            return error
        named = type(error)(f"{self.part.name}: {error}")
        named.__cause__ = error
        return named


@dataclass(eq=False)
class Job:
    """State of one call. `task`, `branches`, `source`, `emit` and `future` are set by the caller's thread;
    `has_worker`, `picture` and `image_ms` by a worker. The branches share the picture and stand together in line. The
    first of `fail`, `succeed` and `settle_cancelled` settles the future, whichever threads they come from."""

    task: Task
    branches: tuple[Branch, ...]
    source: Any
    emit: Callable[[Chunk], None] | None = None  # where the chunks of a streamed answer go
    future: Future[Any] = field(default_factory=Future)
    submitted: float = field(default_factory=time.perf_counter)
    has_worker: bool = False
    picture: Image.Image | None = None
    image_ms: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_settled: bool = False

    @property
    def deadline(self) -> Deadline | None:
        """All branches share it."""
        if self.task.timeout is None:
            return None
        timeout = float(self.task.timeout)  # of any kind of number, such as numpy's
        return Deadline(self.submitted + timeout, timeout)

    def late(self) -> DeadlineError:
        """The error of a job whose deadline has passed before its requests were built."""
        assert self.deadline is not None
        return self.deadline.error("was being prepared by a worker" if self.has_worker else "waited for a worker")

    def fail(self, error: BaseException) -> None:
        """Give the error to whoever waits, unless they cancelled."""
        if self._settle():
            self.future.set_exception(error)

    def succeed(self, result: Any) -> None:
        if self._settle():
            self.future.set_result(result)

    def settle_cancelled(self) -> None:
        """Tell those who wait by `concurrent.futures.wait` or `as_completed`, who hear nothing of `cancel` itself."""
        assert self.future.cancelled(), "the future is not cancelled"
        self._settle()

    def _settle(self) -> bool:
        """Whether the future is the caller's to fill: not before anyone else, and not if it was cancelled."""
        with self._lock:
            is_first, self._is_settled = not self._is_settled, True
        return is_first and self.future.set_running_or_notify_cancel()
