"""What an engine tells the standard library's logging, under "photon.engine". Never a word of a prompt, nothing of a
picture: an error's message may quote what was asked, so that it goes no higher than DEBUG."""

from __future__ import annotations

import logging
import time

from photon.engine.job import Job
from photon.errors import DeadlineError, EngineError, ImageError, RequestError

logger = logging.getLogger("photon.engine")

# Faults of the caller, or of an engine that has ended, which says so once.
_EXPECTED = (RequestError, ImageError, DeadlineError, EngineError)


def log_loaded(description: str, seconds: float) -> None:
    logger.info("loaded %s in %.1f s", description, seconds)


def log_closed(description: str) -> None:
    logger.info("closed %s", description)


def log_death(error: BaseException) -> None:
    """The tick thread has ended by an error: nothing is answered any more."""
    logger.error("the tick thread has died", exc_info=error)


def log_start(job: Job) -> None:
    logger.debug("request %d begins: %s", job.branches[0].id, job.task.name)


def log_end(job: Job) -> None:
    """Of a job whose future is done."""
    request, milliseconds = job.branches[0].id, 1000 * (time.perf_counter() - job.submitted)
    if job.future.cancelled():
        logger.debug("request %d ends: %s, cancelled, %.0f ms", request, job.task.name, milliseconds)
        return
    error = job.future.exception()
    if error is not None:
        level = logging.DEBUG if isinstance(error, _EXPECTED) else logging.WARNING
        details = error if logger.isEnabledFor(logging.DEBUG) else None
        kind = type(error).__name__
        logger.log(
            level, "request %d failed: %s, %s, %.0f ms", request, job.task.name, kind, milliseconds, exc_info=details
        )
        return
    result = job.future.result()
    num_tokens = len(result.token_ids)
    logger.debug(
        "request %d ends: %s, %s, %d tokens, %.0f ms",
        *(request, job.task.name, result.finish_reason, num_tokens, milliseconds),
    )
