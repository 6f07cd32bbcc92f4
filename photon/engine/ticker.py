"""The tick thread: the only place that calls the scheduler. Others hand it messages and get finished jobs back.

One of the two places with a blanket `except`: whatever ends the loop, every waiting and every later caller learns it.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from photon.engine.job import Branch, Job
from photon.engine.logs import log_death
from photon.errors import EngineError, PhotonError
from photon.request import Request
from photon.scheduler.deadlines import Deadlines
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.update import Update


@dataclass(frozen=True)
class Expect:
    """A job with a deadline, before a worker can have it: it fails in time if its `Add` does not come."""

    job: Job


@dataclass(frozen=True)
class Add:
    """`requests`: one a branch. They come in one message, so that they stand together in line."""

    job: Job
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Cancel:
    """All of a job's. Those that have ended, or were never added, are passed over."""

    request_ids: tuple[int, ...]


class Stop:
    """End the loop; what is still waited for fails."""


class Ticker:
    """Runs ticks while there is work and sleeps while there is none.

    `hand_over(job, branch, update)` is called on the tick thread for a branch that has ended, and for every news of a
    streamed one, and `fail(job, error)` for a job that is late before it has come in; they must only pass them on.
    `end()` is called there once, when the loop has ended; `ended_by` says why from then on, and messages are heard no
    more.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        hand_over: Callable[[Job, Branch, Update], None],
        fail: Callable[[Job, PhotonError], None],
        end: Callable[[], None],
    ) -> None:
        self._scheduler = scheduler
        self._hand_over = hand_over
        self._fail = fail
        self._end = end
        self._inbox: queue.SimpleQueue[Expect | Add | Cancel | Stop] = queue.SimpleQueue()
        self._branches: dict[int, tuple[Job, Branch]] = {}  # by request id
        self._expected: dict[int, Job] = {}  # by its first request's id, as are their deadlines
        self._deadlines = Deadlines()
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

    @property
    def has_died(self) -> bool:
        return self._has_ended and self._cause is not None

    def send(self, message: Expect | Add | Cancel | Stop) -> None:
        """From any thread."""
        self._inbox.put(message)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._handle_messages():
                self._fail_late()
                for update in self._scheduler.tick():
                    self._deliver(update)
        except BaseException as error:
            self._cause = error
            log_death(error)
        self._has_ended = True
        self._branches.clear()
        self._expected.clear()
        self._end()

    def _handle_messages(self) -> bool:
        """Take what has arrived, waiting for it, or for a deadline, when there is nothing else to do; False at Stop."""
        wait = not self._scheduler.has_work
        while True:
            try:
                message = self._inbox.get(wait, self._patience())
            except queue.Empty:
                return True
            if isinstance(message, Stop):
                return False
            self._handle(message)
            wait = not self._scheduler.has_work

    def _patience(self) -> float | None:
        """Seconds after which a deadline may have passed; None for never."""
        seconds = self._deadlines.seconds_left(perf_counter())
        return seconds if seconds < math.inf else None

    def _handle(self, message: Expect | Add | Cancel) -> None:
        if isinstance(message, Expect):
            self._expect(message.job)
        elif isinstance(message, Cancel):
            self._forget(message.request_ids[0])
            for request_id in message.request_ids:
                update = self._scheduler.cancel(request_id)
                if update is not None:
                    self._deliver(update)
        else:
            self._forget(message.job.branches[0].id)
            if not message.job.future.done():
                self._add(message)

    def _expect(self, job: Job) -> None:
        self._expected[job.branches[0].id] = job
        self._deadlines.add(job.branches[0].id, job.deadline)

    def _forget(self, job_id: int) -> None:
        self._expected.pop(job_id, None)
        self._deadlines.discard(job_id)

    def _fail_late(self) -> None:
        for job_id in self._deadlines.take_passed(perf_counter()):
            job = self._expected.pop(job_id)
            self._fail(job, job.late())

    def _add(self, message: Add) -> None:
        """A branch that is refused fails its job, which cancels the branches before it; those behind never come in."""
        for branch, request in zip(message.job.branches, message.requests, strict=True):
            try:
                self._scheduler.add(request)
            except PhotonError as error:
                self._hand_over(message.job, branch, Update(branch.id, finish_reason="error", error=error))
                return
            self._branches[branch.id] = (message.job, branch)

    def _deliver(self, update: Update) -> None:
        job, branch = self._branches[update.request_id]
        branch.tokens.extend(update.tokens)
        if update.finish_reason is not None:
            del self._branches[update.request_id]
        if update.finish_reason is not None or job.emit is not None:
            self._hand_over(job, branch, update)
