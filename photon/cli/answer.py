"""One skill over all pictures: what to ask, an engine to ask, and a report that takes the answers in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import photon
from photon.cli.options import SkillFlags
from photon.cli.output import say
from photon.cli.pictures import find_pictures
from photon.cli.report import Report
from photon.errors import ConstraintError, RequestError
from photon.tasks import QueryTask

if TYPE_CHECKING:
    from photon.engine import Engine

IN_FLIGHT = 16  # pictures in the engine at a time: two batches, and no more decoded pictures in memory


def answer(flags: SkillFlags) -> int:
    """Exit code: 0, or 1 when a picture failed. What concerns every picture is raised, before the work if it can be."""
    images = find_pictures(flags.images)
    _check(flags, images[0])
    with closing(Report(flags, images)) as report, _open_engine(flags) as engine:
        if flags.stream:
            _answer_live(engine, flags, images, report)
        else:
            _answer_many(engine, flags, images, report)
        return report.exit_code()


def _check(flags: SkillFlags, image: str) -> None:
    """All that can be known before a model is loaded, a grammar included. RequestError."""
    try:
        task = flags.ask(image).task()
        if isinstance(task, QueryTask) and task.structure is not None:
            task.structure.ebnf()
    except ConstraintError as error:
        raise RequestError(str(error)) from error


def _answer_live(engine: Engine, flags: SkillFlags, images: list[str], report: Report) -> None:
    from photon.cli.live import answers_live

    for outcome in answers_live(engine, flags, images):
        report.take(outcome)


def _answer_many(engine: Engine, flags: SkillFlags, images: list[str], report: Report) -> None:
    from photon.engine.bulk import answers_in_order, progress_bar

    asks = (flags.ask(image) for image in images)
    in_flight = IN_FLIGHT if flags.timeout is None else 1  # a picture's time is its own: it waits for no other
    is_shown = len(images) > 1 and not flags.quiet and sys.stderr.isatty()
    with (
        progress_bar(len(images), shown=is_shown) as advance,
        closing(answers_in_order(engine.submit, asks, in_flight=in_flight)) as outcomes,
    ):
        for outcome in outcomes:
            report.take(outcome)
            advance()


@contextmanager
def _open_engine(flags: SkillFlags) -> Iterator[Engine]:
    """Closed behind the block, but not on an interrupt: closing waits for a step, and the process ends at once."""
    engine = photon.Engine(flags.model, device=flags.device)
    try:
        if not flags.quiet:
            say(engine.description)
        yield engine
    except KeyboardInterrupt:
        raise
    except BaseException:
        engine.close(drain=False)
        raise
    engine.close()
