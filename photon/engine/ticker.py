"""The tick thread: the only place that calls the scheduler. Others hand it messages and get finished jobs back.

One of the two places with a blanket `except`: whatever ends the loop is given to every waiting and every later caller.
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

    `finish(job, update)` is called on the tick thread for a job that has ended, and must only hand it on.
    """

    def __init__(self, scheduler: Scheduler, finish: Callable[[Job, Update], None]) -> None:
        self._scheduler = scheduler
        self._finish = finish
        self._inbox: queue.SimpleQueue[Add | Cancel | Stop] = queue.SimpleQueue()
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()  # between `send` and the end of the loop, so that no message is lost
        self._ended: EngineError | None = None
        self._thread = threading.Thread(target=self._run, name="photon-tick", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> EngineError | None:
        """Why the loop has ended, if it has; its cause is the error that ended it."""
        return self._ended

    def send(self, message: Add | Cancel | Stop) -> None:
        """From any thread. A job sent after the loop has ended fails at once."""
        with self._lock:
            if self._ended is None:
                self._inbox.put(message)
                return
        if isinstance(message, Add):
            message.job.fail(self._ended)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        cause: Exception | None = None
        try:
            while self._handle_messages():
                for update in self._scheduler.tick():
                    self._deliver(update)
        except Exception as error:
            cause = error
        self._end(cause)

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
            job.fail(error)
            return
        self._jobs[job.id] = job

    def _deliver(self, update: Update) -> None:
        job = self._jobs[update.request_id]
        job.tokens.extend(update.tokens)
        if update.finish_reason is not None:
            self._finish(self._jobs.pop(update.request_id), update)

    def _end(self, cause: Exception | None) -> None:
        ended = EngineError("the engine is closed" if cause is None else f"the tick thread has died: {cause!r}")
        ended.__cause__ = cause
        with self._lock:
            self._ended = ended
        while not self._inbox.empty():
            message = self._inbox.get()
            if isinstance(message, Add):
                message.job.fail(ended)
        for job in self._jobs.values():
            job.fail(ended)
        self._jobs.clear()
