"""A call's way through the engine: from a task and a picture to a result in a future."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from photon.request import Token
from photon.tasks import Task


@dataclass(eq=False)
class Job:
    """State of one call. `id`, `task`, `source` and `future` are set by the caller's thread; `picture`, `image_ms` and
    `prompt_tokens` by a worker; `tokens` by the tick thread."""

    id: int
    task: Task
    source: Any
    future: Future[Any] = field(default_factory=Future)
    submitted: float = field(default_factory=time.perf_counter)
    picture: Image.Image | None = None
    image_ms: float = 0.0
    prompt_tokens: int = 0
    tokens: list[Token] = field(default_factory=list)

    def fail(self, error: BaseException) -> None:
        """Give the error to whoever waits, unless they cancelled."""
        if not self.future.done() and self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)

    def succeed(self, result: Any) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(result)
