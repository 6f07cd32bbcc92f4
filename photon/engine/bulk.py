"""Many questions at once, and answers in order.

At most so many are in flight, so that what is at work takes bounded memory, whatever the list's length. A fault belongs
to its own question.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, Literal

from photon.engine.asks import Ask
from photon.errors import PhotonError
from photon.results import Result
from photon.tasks.checks import check_choice, check_flag, check_list

IN_FLIGHT = 64

Submit = Callable[[Ask], Future[Any]]


class CancellableSubmit:
    """A `submit` all of whose questions can be cancelled, from any thread: those that are started afterwards too, so
    that whoever works through a list ends by CancelledError."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._open: set[Future[Any]] = set()
        self._is_cancelled = False

    def __call__(self, ask: Ask) -> Future[Any]:
        future = self._submit(ask)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        if self._is_cancelled:  # perhaps before this one was among the open
            future.cancel()
        return future

    def cancel(self) -> None:
        self._is_cancelled = True
        for future in self._open.copy():
            future.cancel()


def run_all(
    submit: Submit, asks: Iterable[Ask], *, progress: bool, on_error: Literal["raise", "return"]
) -> list[Result | PhotonError]:
    """The answers in the order of `asks`; see `Engine.run`."""
    check_choice("on_error", on_error, ("raise", "return"))
    check_flag("progress", progress)
    asks = check_list("asks", asks, "Caption, Query, Extract, PointAt, Detect or Gaze")
    answers: list[Result | PhotonError] = []
    with progress_bar(len(asks), shown=progress) as advance, closing(answers_in_order(submit, asks)) as coming:
        for answer in coming:
            if on_error == "raise" and isinstance(answer, PhotonError):
                raise answer
            answers.append(answer)
            advance()
    return answers


def answers_in_order(
    submit: Submit, asks: Iterable[Ask], *, in_flight: int = IN_FLIGHT
) -> Generator[Result | PhotonError, None, None]:
    """Each answer when it and all before it are there; a question that fails leaves its error in its place.

    `asks` is read as answers are taken, so that at most `in_flight` are anywhere between. Closing cancels those.
    """
    waiting: deque[Future[Any]] = deque()
    try:
        for ask in asks:
            waiting.append(_start(submit, ask))
            if len(waiting) == in_flight:
                yield _next_answer(waiting)
        while waiting:
            yield _next_answer(waiting)
    finally:
        for future in waiting:
            future.cancel()


@contextmanager
def progress_bar(total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """On stderr, if at all; call what it gives once for each answer. What is printed meanwhile stands above it."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_one_terminal = sys.stdout.isatty()  # otherwise stdout is none of the bar's business
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=is_one_terminal) as bar:
        row = bar.add_task("", total=total)
        yield lambda: bar.advance(row)


def _start(submit: Submit, ask: Ask) -> Future[Any]:
    """A question that is refused, by its own fault or because the engine has ended, is a future that has failed."""
    try:
        return submit(ask)
    except PhotonError as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed


def _next_answer(waiting: deque[Future[Any]]) -> Result | PhotonError:
    """It leaves the line when it is there: an interrupt before that finds it still in line."""
    try:
        answer = waiting[0].result()
    except PhotonError as error:
        answer = error
    waiting.popleft()
    return answer
