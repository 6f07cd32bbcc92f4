"""The tick thread: the only place that calls the scheduler. Others hand it messages and get finished jobs back.

One of the two places with a blanket `except`: whatever ends the loop, every waiting and every later caller learns it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from photon.engine.job import Job
from photon.errors import EngineError, PhotonError
from photon.request import Request
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.update import Update


@dataclass(frozen=True)
class Add:
    job: Job
    request: Request


@dataclass(frozen=True)
class Cancel:
    request_id: int


class Stop:
    """End the loop; what is still waited for fails."""


class Ticker:
    """Runs ticks while there is work and sleeps while there is none.

    `hand_over(job, update)` is called on the tick thread for a job that has ended, and for every news of a streamed
    one; it must only pass them on. `end()` is called there once, when the loop has ended; `ended_by` says why from then
    on, and messages are heard no more.
    """

    def __init__(self, scheduler: Scheduler, hand_over: Callable[[Job, Update], None], end: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._hand_over = hand_over
        self._end = end
        self._inbox: queue.SimpleQueue[Add | Cancel | Stop] = queue.SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._has_ended = False
        self._cause: BaseException | None = None  # set before `_has_ended`
        self._thread = threading.Thread(target=self._run, name="photon-tick", daemon=True)
        self._thread.start()

    def ended_by(self) -> EngineError | None:
        """Why the loop has ended, if it has, with the error that ended it as its cause. A new one for each caller:
        raising writes into an error."""
        if not self._has_ended:
            return None
        ended = EngineError(
            "the engine is closed" if self._cause is None else f"the tick thread has died: {self._cause!r}"
        )
        ended.__cause__ = self._cause
        return ended

    def send(self, message: Add | Cancel | Stop) -> None:
        """From any thread."""
        self._inbox.put(message)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._handle_messages():
                for update in self._scheduler.tick():
                    self._deliver(update)
        except BaseException as error:
            self._cause = error
        self._has_ended = True
        self._jobs.clear()
        self._end()

    def _handle_messages(self) -> bool:
        """Take what has arrived, waiting for it when there is nothing else to do; False at Stop."""
        wait = not self._scheduler.has_work
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return True
            if isinstance(message, Stop):
                return False
            self._handle(message)
            wait = not self._scheduler.has_work

    def _handle(self, message: Add | Cancel) -> None:
        if isinstance(message, Cancel):
            update = self._scheduler.cancel(message.request_id)
            if update is not None:
                self._deliver(update)
            return
        job = message.job
        if job.future.cancelled():
            return
        try:
            self._scheduler.add(message.request)
        except PhotonError as error:
            self._hand_over(job, Update(job.id, finish_reason="error", error=error))
            return
        self._jobs[job.id] = job

    def _deliver(self, update: Update) -> None:
        job = self._jobs[update.request_id]
        job.tokens.extend(update.tokens)
        if update.finish_reason is not None:
            del self._jobs[update.request_id]
        if update.finish_reason is not None or job.emit is not None:
            self._hand_over(job, update)
