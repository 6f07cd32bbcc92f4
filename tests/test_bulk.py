"""Many questions at once: answers in order, each fault in its place, bounded work in flight."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_engine import same
from tiny_model import write_tiny_model

from photon import AsyncEngine, Caption, Detect, Engine, EngineError, ImageError, PointAt, Query, RequestError
from photon.engine.bulk import IN_FLIGHT, CancellableSubmit, answers_in_order, run_all
from photon.runner.runner import ModelRunner

PICTURE = Image.fromarray(np.random.default_rng(3).integers(0, 256, (70, 90, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    made = Engine(folder, device="cpu")
    yield made
    made.close(drain=False)


ASKS = [
    Detect(PICTURE, "x", max_objects=3),
    Query(None, "why?", max_tokens=5),
    PointAt(PICTURE, "y", max_objects=4),
    Caption(PICTURE, "short", max_tokens=6),
    Query(PICTURE, "go", max_tokens=6, sampling={"temperature": 1.0, "seed": 4}),
]


def test_answers_are_in_order_and_those_of_single_calls(engine: Engine) -> None:
    answers = engine.run(ASKS)
    single = [
        engine.detect(PICTURE, "x", max_objects=3),
        engine.query(None, "why?", max_tokens=5),
        engine.point(PICTURE, "y", max_objects=4),
        engine.caption(PICTURE, "short", max_tokens=6),
        engine.query(PICTURE, "go", max_tokens=6, temperature=1.0, seed=4),
    ]
    assert all(same(a, b) for a, b in zip(answers, single, strict=True))
    assert engine.run([]) == []


def test_a_fault_stays_in_its_place(engine: Engine) -> None:
    asks = [ASKS[0], Detect(b"no picture", "x"), Query(None, " "), Detect(PICTURE, "x", max_objects=0), ASKS[1]]
    answers = engine.run(asks, on_error="return")
    assert [type(a) for a in answers[1:4]] == [ImageError, RequestError, RequestError]
    assert same(answers[0], engine.run([ASKS[0]])[0]) and same(answers[4], engine.run([ASKS[1]])[0])
    with pytest.raises(ImageError):
        engine.run(asks)
    with pytest.raises(RequestError, match="'ignore'"):
        engine.run(asks, on_error="ignore")  # type: ignore[arg-type]


def test_an_engine_that_ends_within_a_list_leaves_its_error_in_each_place(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, asks = ModelRunner.launch, [ASKS[1]] * (2 * IN_FLIGHT)

    def fail_at_last(self: ModelRunner, slot: int, plan: Any) -> None:
        if any(row.seq_id > 5 for row in plan.rows):
            raise RuntimeError("the device has gone")
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", fail_at_last)
    answers = engine.run(asks, on_error="return")
    assert len(answers) == len(asks) and {type(answer) for answer in answers[8:]} == {EngineError}
    with pytest.raises(EngineError, match="the device has gone"):
        engine.run(asks)


def test_one_ask_may_be_submitted(engine: Engine) -> None:
    assert same(engine.submit(ASKS[0]).result(30), engine.run([ASKS[0]])[0])
    with pytest.raises(RequestError, match="a Detect holds its picture"):
        engine.submit(ASKS[0], PICTURE)


@pytest.mark.parametrize("wrong", ["hello", None, {"object": "x"}])
def test_what_is_no_question_is_named_and_closing_still_works(engine: Engine, wrong: Any) -> None:
    for call in (lambda: engine.submit(wrong), lambda: engine.run([wrong])):
        with pytest.raises(RequestError, match="Caption, Query, Extract, PointAt, Detect, Gaze or a task, got"):
            call()
    engine.close()


def test_a_keyword_that_does_not_exist_is_named(engine: Engine) -> None:
    with pytest.raises(RequestError, match="'temprature'.*temperature"):
        engine.query(None, "x", temprature=1)  # type: ignore[call-overload]


def test_the_bar_goes_to_stderr(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.run(ASKS, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "5/5" in err


def test_a_long_list_keeps_little_in_flight() -> None:
    """A submit that finishes the oldest question only when too many would be open."""
    open_ones: list[Future[Any]] = []
    most = 0
    lock = threading.Lock()

    def submit(ask: Any) -> Future[Any]:
        nonlocal most
        with lock:
            open_ones.append(Future())
            most = max(most, len(open_ones))
            return open_ones[-1]

    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with lock:
                future = open_ones.pop(0) if open_ones else None
            if future is not None:
                future.set_result(future)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        answers = run_all(submit, [Query(None, "q")] * 1000, progress=False, on_error="raise")
    finally:
        stop.set()
        worker.join()
    assert len(answers) == len(set(map(id, answers))) == 1000 and most <= IN_FLIGHT


def test_asyncio_runs_many(folder: Path, engine: Engine) -> None:
    async def work() -> list[Any]:
        async with AsyncEngine(folder, device="cpu") as asynchronous:
            return await asynchronous.run(ASKS)

    assert all(same(a, b) for a, b in zip(asyncio.run(work()), engine.run(ASKS), strict=True))


class Bench:
    """Questions and their futures, to be answered by hand."""

    def __init__(self, count: int) -> None:
        self.futures: list[Future[Any]] = []
        self.asks = iter([Query(None, "q")] * count)

    def submit(self, ask: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


def test_answers_come_one_by_one_and_no_more_is_read_than_may_be_in_flight() -> None:
    bench = Bench(10)

    def answer_from_behind() -> None:
        for place in (2, 1, 0):
            bench.futures[place].set_result(place)

    answers = answers_in_order(bench.submit, bench.asks, in_flight=3)
    assert bench.futures == [], "nothing is read before the first is asked for"
    timer = threading.Timer(0.05, answer_from_behind)
    timer.start()
    assert next(answers) == 0 and len(bench.futures) == 3
    assert next(answers) == 1 and len(bench.futures) == 4
    bench.futures[3].set_exception(ImageError("none"))
    assert next(answers) == 2 and len(bench.futures) == 5
    assert isinstance(next(answers), ImageError)
    answers.close()
    assert [future.cancelled() for future in bench.futures[4:]] == [True, True]
    assert len(list(bench.asks)) == 4, "and no more is read after it is closed"


def test_cancelling_a_list_cancels_what_is_started_afterwards_too() -> None:
    """It is cancelled while the next question is on its way, before its future is known."""
    bench = Bench(10)

    def submit(ask: Any) -> Future[Any]:
        future = bench.submit(ask)
        if len(bench.futures) == 3:
            cancellable.cancel()
        return future

    cancellable = CancellableSubmit(submit)
    with pytest.raises(CancelledError):
        run_all(cancellable, bench.asks, progress=False, on_error="return")
    assert bench.futures[0].cancelled() and all(future.cancelled() for future in bench.futures)


def test_an_answer_that_was_taken_is_not_kept() -> None:
    bench = Bench(100)

    class Big:
        pass

    def submit(ask: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(Big())
        return future

    alive = weakref.WeakSet[Big]()
    most = 0
    for answer in answers_in_order(submit, bench.asks, in_flight=4):
        alive.add(answer)  # type: ignore[arg-type]
        most = max(most, len(alive))
    assert most <= 2  # the one in hand and the one before it
