"""A call's way through the engine: from a task and a picture to a result in a future."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from photon.chunks import Chunk
from photon.request import Token
from photon.tasks import Task
from photon.tasks.readers import Reader


@dataclass(eq=False)
class Job:
    """State of one call. `id`, `task`, `source`, `emit` and `future` are set by the caller's thread; `picture`,
    `image_ms` and `prompt_tokens` by a worker; `tokens` by the tick thread. The first of `fail`, `succeed` and
    `settle_cancelled` settles the future, whichever threads they come from."""

    id: int
    task: Task
    source: Any
    emit: Callable[[Chunk], None] | None = None  # where the chunks of a streamed answer go
    future: Future[Any] = field(default_factory=Future)
    submitted: float = field(default_factory=time.perf_counter)
    picture: Image.Image | None = None
    image_ms: float = 0.0
    prompt_tokens: int = 0
    tokens: list[Token] = field(default_factory=list)
    reader: Reader | None = None  # of a streamed answer; made and used by the delivery thread
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_settled: bool = False

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
