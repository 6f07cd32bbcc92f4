"""Makes batches ahead of training, on threads with streams of their own: composing is many small launches, and hides
behind the model's few large ones. Without a GPU a batch is made when it is asked for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch
from batches import Batch


class Feeder:
    """`make` must be safe to call from several threads at once. Errors in it come out of `next`."""

    def __init__(self, make: Callable[[], Batch], *, on_gpu: bool, threads: int = 2, ahead: int = 4) -> None:
        self._make, self._ahead = make, ahead if on_gpu else 0
        self._own = threading.local()
        self._device = torch.cuda.current_device() if on_gpu else None  # a new thread's would be the first GPU
        self._pool = ThreadPoolExecutor(threads)
        self._coming: deque[Future[Batch]] = deque()

    def next(self) -> Batch:
        """The next batch; its memory may be reused only after what the caller's stream does with it."""
        if not self._ahead:
            return self._make()
        while len(self._coming) <= self._ahead:
            self._coming.append(self._pool.submit(self._make_on_own_stream))
        batch = self._coming.popleft().result()
        batch.record_stream(torch.cuda.current_stream())
        return batch

    def settle(self) -> None:
        """Wait until no batch is being made: the random state and the GPU are the caller's alone."""
        wait(self._coming)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _make_on_own_stream(self) -> Batch:
        if not hasattr(self._own, "stream"):
            torch.cuda.set_device(self._device)
            self._own.stream = torch.cuda.Stream()
        with torch.cuda.stream(self._own.stream):
            batch = self._make()
        self._own.stream.synchronize()
        return batch
