"""What `Engine` and `AsyncEngine` share: all but the waiting. Callers validate, workers prepare, one tick thread runs.

A call's way: `submit` makes a job; a worker decodes the picture, cuts it and builds the requests, mostly one; the tick
thread runs them; the delivery thread gives out the chunks of a streamed answer, parses what was said, joins the parts
and resolves the future. No stage waits for another call, but that workers decode no more pictures than will soon be
asked about: those of calls in line behind take no memory.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from photon.chunks import Chunk
from photon.config import EngineConfig
from photon.device import choose_device
from photon.engine.asks import Ask, ImageSource
from photon.engine.job import Branch, Job
from photon.engine.loading import build_scheduler, load_model
from photon.engine.logs import log_closed, log_end, log_loaded, log_start
from photon.engine.ticker import Add, Cancel, Expect, Stop, Ticker
from photon.errors import EngineError, PhotonError, RequestError
from photon.images.decode import load_image
from photon.request import PreparedImage, Request
from photon.results import Metrics
from photon.scheduler.update import Update
from photon.tasks import Task


class EngineCore:
    """A model at work on one device. Safe to call from many threads at once.

    ConfigError for a wrong option, ModelError for a model that cannot be loaded.
    """

    def __init__(self, model: str | Path = "photon-tiny", **options: Any) -> None:
        started = time.perf_counter()
        self.config = EngineConfig.from_options(model, **options)
        device = choose_device(self.config.device, self.config.dtype)
        self._loaded = load_model(self.config, device)
        self._device = device
        scheduler = build_scheduler(self.config, self._loaded.model, device)
        self._ids = itertools.count(1)
        self._pending: set[Job] = set()
        self._idle = threading.Condition()
        self._is_closed = False
        self._is_warm = False
        self._workers = ThreadPoolExecutor(self.config.image_workers, thread_name_prefix="photon-image")
        # Of calls whose picture is decoded and not yet answered: two batches, and what workers have in hand.
        self._picture_places = threading.Semaphore(2 * self.config.max_batch_size + self.config.image_workers)
        self._compilers = ThreadPoolExecutor(self.config.image_workers, thread_name_prefix="photon-grammar")
        self._delivery = ThreadPoolExecutor(1, thread_name_prefix="photon-deliver")
        self._ticker = Ticker(scheduler, self._hand_over, self._fail, self._fail_pending)
        log_loaded(self.description, time.perf_counter() - started)

    @property
    def description(self) -> str:
        """Model, device and dtype for people, as "photon-tiny on cpu (2 threads), float32", and what is quantised."""
        quantised = ", int8 vision, float16 text" if self._loaded.quantization == "int8" else ""
        return f"{self._loaded.context.recipe.name} on {self._device.describe()}{quantised}"

    @property
    def state(self) -> Literal["running", "closed", "dead"]:
        """Dead: the tick thread has ended by an error, which every call raises."""
        if self._ticker.has_died:
            return "dead"
        return "closed" if self._is_closed else "running"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.description}, {self.state}>"

    def submit(
        self, task: Task | Ask, image: ImageSource | None = None, emit: Callable[[Chunk], None] | None = None
    ) -> Future[Any]:
        """Start what was asked, as `Detect("a.png", "mug")` or as a task and its picture, and return at once.

        `future.cancel()` ends its work within two steps. `emit` gets the chunks as they come, all but the `End`. It and
        the future's callbacks run on a thread of the engine and must not wait for it: not for another answer, nor for
        `close`.
        """
        if isinstance(task, Ask):
            if image is not None:
                raise RequestError(f"a {type(task).__name__} holds its picture: pass no second one to submit")
            task, image = task.task(), task.image
        if not isinstance(task, Task):
            raise RequestError(f"submit takes a Caption, Query, Extract, PointAt, Detect, Gaze or a task, got {task!r}")
        task.check(self._loaded.context.recipe, has_image=image is not None)
        branches = tuple(Branch(next(self._ids), part) for part in task.parts())
        job = Job(task, branches, image, emit)
        with self._idle:
            if self._is_closed:
                raise EngineError("the engine is closed")
            if (ended := self._ticker.ended_by()) is not None:
                raise ended
            if job.deadline is not None:
                self._ticker.send(Expect(job))
            workers = self._compilers if task.compiles else self._workers  # a slow grammar delays no plain call
            preparation = workers.submit(self._prepare, job)
            self._pending.add(job)
            if task.needs_grammar and not self._is_warm:  # beside the first picture, if there is a second worker
                self._is_warm = True
                self._workers.submit(self._loaded.context.constraints.warm_up)
        log_start(job)
        job.future.add_done_callback(lambda _: self._forget(job))
        preparation.add_done_callback(lambda done: self._fail_if_failed(job, done))
        return job.future

    def close(self, *, drain: bool = True) -> None:
        """Wait for all that was submitted, then stop the threads. With drain=False what is not answered fails with
        EngineError within a step or two; a worker in the middle of a picture is not waited for."""
        with self._idle:
            was_open, self._is_closed = not self._is_closed, True
            while drain and self._pending and self._ticker.ended_by() is None:
                self._idle.wait(0.1)
        self._ticker.send(Stop())
        self._ticker.join()
        self._compilers.shutdown(wait=drain, cancel_futures=True)
        self._workers.shutdown(wait=drain, cancel_futures=True)
        self._delivery.shutdown()
        if was_open:
            log_closed(self.description)

    def _prepare(self, job: Job) -> None:
        """On a worker: picture and requests, then over to the tick thread. Stops where nobody waits any more."""
        if job.source is not None:
            self._picture_places.acquire()
            job.future.add_done_callback(lambda _: self._picture_places.release())
        if job.future.done():
            return
        job.has_worker = True
        started = time.perf_counter()
        prepared = None
        if job.source is not None:
            job.picture = load_image(job.source, max_pixels=self.config.max_image_pixels)
            prepared = self._loaded.prepare(job.picture)
            if job.future.done():
                return
        job.source = None
        job.image_ms = 1000 * (time.perf_counter() - started)
        requests = (self._build(branch, prepared) for branch in job.branches)
        self._ticker.send(Add(job, tuple(replace(request, deadline=job.deadline) for request in requests)))

    def _build(self, branch: Branch, prepared: PreparedImage | None) -> Request:
        try:
            request = branch.part.task.build(branch.id, self._loaded.context, prepared)
        except PhotonError as error:
            named = branch.named(error)
            raise named from named.__cause__
        branch.prompt_tokens = len(request.prompt)
        return request

    def _fail_if_failed(self, job: Job, done: Future[None]) -> None:
        """A fault on the way is that job's alone: its caller gets it."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            job.fail(error)

    def _hand_over(self, job: Job, branch: Branch, update: Update) -> None:
        """On the tick thread: parsing and the caller's callbacks belong to the delivery thread."""
        done = self._delivery.submit(self._deliver, job, branch, update)
        done.add_done_callback(lambda done: self._fail_if_failed(job, done))

    def _fail(self, job: Job, error: PhotonError) -> None:
        """On the tick thread, as `_hand_over`."""
        self._delivery.submit(job.fail, error)

    def _deliver(self, job: Job, branch: Branch, update: Update) -> None:
        if job.future.done():  # cancelled, or failed by another branch: nobody listens any more
            return
        if job.emit is not None:
            self._emit(branch, job.emit, update)
        if update.finish_reason is None:
            return
        if update.error is not None:
            job.fail(branch.named(update.error))
            return
        assert update.finish_reason != "error"
        branch.result = branch.part.task.parse(
            self._loaded.context,
            tuple(branch.tokens),
            update.finish_reason,
            metrics=_metrics(job, branch, update),
            image=job.picture,
        )
        results = [branch.result for branch in job.branches]
        if None not in results:
            job.succeed(job.task.join(results))

    def _emit(self, branch: Branch, emit: Callable[[Chunk], None], update: Update) -> None:
        branch.reader = branch.reader or branch.part.task.reader(self._loaded.context)
        for chunk in branch.reader.read(update.tokens):
            emit(chunk)
        for chunk in branch.reader.end() if update.finish_reason else ():
            emit(chunk)

    def _forget(self, job: Job) -> None:
        """The future is done: by a result, or by an error or its caller's cancel, of which the tick must hear, since
        branches may be at work still."""
        if job.future.cancelled():
            job.settle_cancelled()
        if job.future.cancelled() or job.future.exception() is not None:
            self._ticker.send(Cancel(tuple(branch.id for branch in job.branches)))
        log_end(job)
        with self._idle:
            self._pending.discard(job)
            self._idle.notify_all()

    def _fail_pending(self) -> None:
        """On the tick thread, which has ended: whoever is waited for hears it now, wherever the job has got to."""
        with self._idle:
            jobs = list(self._pending)
        for job in jobs:
            error = self._ticker.ended_by()
            assert error is not None
            job.fail(error)


def _metrics(job: Job, branch: Branch, update: Update) -> Metrics:
    timing = update.timing
    assert timing is not None
    first = timing.first_token or timing.finished
    admitted = timing.admitted or timing.finished
    return Metrics(
        queue_ms=1000 * (admitted - job.submitted) - job.image_ms,
        image_ms=job.image_ms,
        prefill_ms=1000 * (first - admitted),
        time_to_first_token_ms=1000 * (first - job.submitted),
        decode_ms=1000 * (timing.finished - first),
        total_ms=1000 * (time.perf_counter() - job.submitted),
        prompt_tokens=branch.prompt_tokens,
        output_tokens=len(branch.tokens),
    )
