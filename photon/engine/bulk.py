"""Many questions at once, and answers in order.

At most so many are in flight, so that a list of any length takes bounded memory. A fault belongs to its own question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

from photon.engine.asks import Ask
from photon.errors import PhotonError, RequestError
from photon.results import Result

IN_FLIGHT = 64

Submit = Callable[[Ask], Future[Any]]


def run_all(
    submit: Submit, asks: Iterable[Ask], *, progress: bool, on_error: Literal["raise", "return"]
) -> list[Result | PhotonError]:
    """The answers in the order of `asks`; see `Engine.run`."""
    if on_error not in ("raise", "return"):
        raise RequestError(f"on_error must be 'raise' or 'return', got {on_error!r}")
    asks = list(asks)
    futures: list[Future[Any]] = []
    room = threading.Semaphore(IN_FLIGHT)
    try:
        with _progress_bar(len(asks), shown=progress) as advance:
            for ask in asks:
                room.acquire()
                futures.append(_start(submit, ask))
                futures[-1].add_done_callback(lambda _: room.release())
                futures[-1].add_done_callback(advance)
            return [_answer(future, on_error) for future in futures]
    finally:
        for future in futures:  # those behind the first error, or an interrupt
            future.cancel()


def _start(submit: Submit, ask: Ask) -> Future[Any]:
    """A question with a wrong parameter is a future that has failed."""
    try:
        return submit(ask)
    except RequestError as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def _answer(future: Future[Any], on_error: str) -> Result | PhotonError:
    try:
        return future.result()
    except PhotonError as error:
        if on_error == "raise":
            raise
        return error


@contextmanager
def _progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[Any], None]]:
    """On stderr, if at all; call what it gives once for each answer, from any thread."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        row = bar.add_task("", total=total)
        yield lambda _: bar.advance(row)
