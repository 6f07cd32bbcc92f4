"""Timeouts: in the scheduler by a clock that the test winds, in the engine wherever a call may be."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_engine import picture
from test_scheduler import SCRIPT, ScriptedRunner, drain, news, request, said
from test_streaming import slow_steps
from tiny_model import write_tiny_model

from photon import AsyncEngine, Caption, DeadlineError, Detect, Engine, Gaze, PointAt, Query, RequestError
from photon.cache.pages import PagePool
from photon.request import Deadline, Sampling
from photon.scheduler.deadlines import Deadlines
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.update import Update
from photon.tasks import CaptionTask, DetectTask, GazeTask, PointTask, QueryTask

LONG = QueryTask(question="on and on", max_tokens=200, sampling=Sampling(temperature=100.0, seed=1))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def scheduler(runner: ScriptedRunner, clock: Clock, *, depth: int = 2, max_rows: int = 4) -> Scheduler:
    pool = PagePool(40, 4)
    return Scheduler(runner, pool, max_rows=max_rows, max_context=64, depth=depth, max_prefill_tokens=64, clock=clock)


def launches(runner: ScriptedRunner) -> list[str]:
    return [call for call in runner.calls if call.startswith("launch")]


def failure(updates: list[Update], i: int) -> str:
    (error,) = [update.error for update in updates if update.request_id == i and update.error is not None]
    assert isinstance(error, DeadlineError)
    return str(error)


def test_deadlines_pass_once_each_and_in_order() -> None:
    rng, deadlines, times = random.Random(0), Deadlines(), {}
    passed: list[int] = []
    for step in range(500):
        time_now = float(step)
        taken = deadlines.take_passed(time_now)
        assert taken == sorted(taken, key=times.__getitem__)
        for i in taken:
            passed.append(i)
            assert times.pop(i) <= time_now
        assert all(deadline > time_now for deadline in times.values())
        until_next = min(times.values(), default=math.inf) - time_now
        assert deadlines.seconds_left(time_now) <= until_next
        assert deadlines.seconds_left(time_now) == until_next or not taken, "who waits wakes for nothing"
        if rng.random() < 0.5:
            times[step] = time_now + rng.choice([0.5, 3, 10, 40])
            deadlines.add(step, Deadline(times[step], 1))
        if times and rng.random() < 0.15:
            gone = rng.choice(list(times))
            del times[gone]
            deadlines.discard(gone)
        assert len(deadlines) == len(times)
    assert len(passed) > 100
    deadlines.add(1000, None)
    assert len(deadlines) == len(times)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("num_ticks", [0, 1, 2, 3])
def test_out_of_time_in_every_phase(num_ticks: int, depth: int) -> None:
    runner, clock = ScriptedRunner(SCRIPT), Clock()
    s = scheduler(runner, clock, depth=depth)
    s.add(replace(request(0), deadline=Deadline(105.0, 5.0)))
    updates = [update for _ in range(num_ticks) for update in s.tick()]
    num_launches = len(launches(runner))
    clock.now = 105.0
    updates += s.tick()
    assert updates[-1].finish_reason == "error" and updates[-1].timing is not None
    assert len(launches(runner)) == num_launches, "it is in no step from here on"
    assert not s.has_work and (s.stats().num_free_pages, s.stats().num_free_rows) == (40, 4)
    s.check_integrity()
    num_said = len(said(updates, 0))
    assert num_said == max(0, num_ticks - (depth - 1))
    where = f"was running and had said {num_said} of at most 10 tokens" if num_ticks else "was in line"
    assert "no answer within the timeout of 5 s" in failure(updates, 0) and where in failure(updates, 0)
    assert s.tick() == []
    s.add(request(1))
    assert said(drain(s), 1) == [21, 22]


def test_nobody_else_notices() -> None:
    runner, clock = ScriptedRunner(SCRIPT), Clock()
    s = scheduler(runner, clock)
    s.add(replace(request(0), deadline=Deadline(101.0, 1.0)))
    s.add(replace(request(1), deadline=Deadline(200.0, 100.0)))
    s.add(request(2))
    updates = s.tick() + s.tick()
    clock.now = 199.0
    updates += drain(s)
    assert "said 1 of" in failure(updates, 0)
    assert said(updates, 0) == [11], "what its last step said is not heard"
    assert said(updates, 1) == [21, 22] and said(updates, 2) == [31]


def test_a_row_comes_free_within_two_steps() -> None:
    runner, clock = ScriptedRunner(SCRIPT), Clock()
    s = scheduler(runner, clock, max_rows=1)
    s.add(replace(request(0), deadline=Deadline(101.0, 1.0)))
    s.add(request(1))
    s.tick()
    s.tick()
    clock.now = 101.0
    s.tick()
    s.tick()
    assert launches(runner)[-1] == "launch 0: prefill 1.0"


def test_those_in_line_fail_in_time_behind_others() -> None:
    runner, clock = ScriptedRunner(SCRIPT), Clock()
    s = scheduler(runner, clock, max_rows=1)
    s.add(request(0))
    s.add(replace(request(1), deadline=Deadline(101.0, 1.0)))
    s.add(request(2))
    s.tick()
    clock.now = 101.0
    assert news(s.tick())[0] == (1, (), "error")
    updates = drain(s)
    assert said(updates, 2) == [31] and not any(" 1." in call for call in launches(runner))


def test_an_answer_in_time_has_no_deadline_left() -> None:
    clock = Clock()
    s = scheduler(ScriptedRunner(SCRIPT), clock)
    s.add(replace(request(0), deadline=Deadline(101.0, 1.0)))
    s.add(replace(request(1), deadline=Deadline(101.0, 1.0)))
    s.cancel(1)
    drain(s)
    clock.now = 102.0
    assert len(s._deadlines) == 0 and s.tick() == []


# What is asked


@pytest.mark.parametrize("wrong", [-1, -0.001, 86400.5, math.nan, math.inf, True, "5", [1], 1j])
def test_what_is_no_timeout_is_named(wrong: Any) -> None:
    makes: list[Callable[[], Any]] = [
        lambda: CaptionTask(timeout=wrong),
        lambda: QueryTask(question="q", timeout=wrong),
        lambda: PointTask(object="x", timeout=wrong),
        lambda: DetectTask(object="x", timeout=wrong),
        lambda: GazeTask(eye=(0.5, 0.5), timeout=wrong),
    ]
    for make in makes:
        with pytest.raises(RequestError, match=r"timeout must be .* in \[0, 86400\] or None, got"):
            make()


def test_the_limits_themselves_are_allowed() -> None:
    for timeout in (None, 0, 0.0, 1e-9, 86400):
        assert CaptionTask(timeout=timeout).timeout == timeout


# In the engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Engine]]:
    """Starts engines and closes them at the end."""
    engines: list[Engine] = []

    def make(**options: Any) -> Engine:
        engines.append(Engine(folder, device="cpu", **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close(drain=False)


def settle(engine: Engine) -> None:
    """Wait until nothing is at work, and see that all memory is free."""
    ticker, until = engine._ticker, time.monotonic() + 5
    scheduler = ticker._scheduler
    while (scheduler.has_work or engine._pending or ticker._expected) and time.monotonic() < until:
        time.sleep(0.01)
    scheduler.check_integrity()
    assert (scheduler.stats().num_waiting, scheduler.stats().num_running) == (0, 0)
    assert not engine._pending and not ticker._expected and not ticker._branches and len(ticker._deadlines) == 0


CALLS: list[Callable[[Engine | AsyncEngine, dict[str, Any]], Any]] = [
    lambda engine, options: engine.caption(picture(0), "short", **options),
    lambda engine, options: engine.query(None, "why?", **options),
    lambda engine, options: engine.query(picture(0), "why?", reasoning=True, **options),
    lambda engine, options: engine.point(picture(0), "x", **options),
    lambda engine, options: engine.detect(picture(0), ["x", "y"], **options),
]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_timeout_of_nothing_always_fails_and_runs_no_step(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    launched = slow_steps(monkeypatch, 0.0)
    engine = start(pipeline_depth=depth)
    for call in CALLS * 3:
        with pytest.raises(DeadlineError, match="no answer within the timeout of 0 s: the request"):
            call(engine, {"timeout": 0})
        with pytest.raises(DeadlineError, match="timeout of 0 s"):
            next(call(engine, {"timeout": 0, "stream": True}))
    settle(engine)
    assert launched == []
    assert engine.query(None, "why?", max_tokens=3, timeout=60).token_ids
    assert engine.query(None, "why?", max_tokens=3).token_ids and launched


@pytest.mark.parametrize("depth", [1, 2])
def test_asyncio(folder: Path, depth: int) -> None:
    async def work() -> None:
        async with AsyncEngine(folder, device="cpu", pipeline_depth=depth) as engine:
            for call in CALLS:
                with pytest.raises(DeadlineError):
                    await call(engine, {"timeout": 0})
                with pytest.raises(DeadlineError):
                    await anext(call(engine, {"timeout": 0, "stream": True}))
            assert (await engine.query(None, "why?", max_tokens=3, timeout=60)).token_ids

    asyncio.run(work())


def test_asks_pass_it_on(start: Callable[..., Engine]) -> None:
    engine = start()
    asks: list[Any] = [
        Caption(picture(0), timeout=0),
        Query(None, "q", timeout=0),
        PointAt(picture(0), "x", timeout=0),
        Detect(picture(0), "x", timeout=0),
        Detect(picture(0), "x", max_objects=2, timeout=60),
    ]
    answers = engine.run(asks, on_error="return")
    assert [type(answer) for answer in answers[:4]] == [DeadlineError] * 4 and answers[4].token_ids
    assert Gaze(picture(0), (0.5, 0.5), timeout=7).task().timeout == 7
    with pytest.raises(RequestError, match="'timeout'"):
        Query(None, "q", sampling={"timeout": 1}).task()  # type: ignore[typeddict-unknown-key]


def test_a_running_request_ends_in_time(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    launched = slow_steps(monkeypatch, 0.02)
    engine = start()
    started = time.perf_counter()
    with pytest.raises(DeadlineError, match=r"timeout of 0\.3 s: the request was running and had said \d+ of at most"):
        engine.submit(replace(LONG, timeout=0.3)).result(30)
    assert 0.3 <= time.perf_counter() - started < 2
    settle(engine)
    num = len(launched)
    time.sleep(0.1)
    assert len(launched) == num, "its work has stopped"


def test_a_stream_gives_what_came_in_time(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.02)
    stream = start().query(None, "on and on", max_tokens=200, temperature=100.0, seed=1, timeout=0.3, stream=True)
    chunks = []
    with pytest.raises(DeadlineError, match="was running"):
        for chunk in stream:
            chunks.append(chunk)
    assert chunks and list(stream) == []


def test_one_in_line_fails_in_time(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.02)
    engine = start(max_batch_size=1)
    first = engine.submit(LONG)
    started = time.perf_counter()
    with pytest.raises(DeadlineError, match="was in line for a place in the batch"):
        engine.submit(replace(LONG, timeout=0.2)).result(30)
    assert 0.2 <= time.perf_counter() - started < 2 and not first.done()


@pytest.mark.parametrize("num_workers", [1, 2])
def test_one_that_waits_for_a_worker_fails_in_time(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    """Nothing is at work meanwhile: the tick thread sleeps, and the workers are stuck."""
    go_on = threading.Event()

    def load_slowly(source: Any, *, max_pixels: int) -> Any:
        go_on.wait(10)
        return source

    monkeypatch.setattr("photon.engine.core.load_image", load_slowly)
    engine = start(image_workers=num_workers)
    task = DetectTask(object="x", max_objects=2)
    stuck = [engine.submit(task, picture(0)) for _ in range(num_workers - 1)]
    started = time.perf_counter()
    prepared, waiting = [engine.submit(replace(task, timeout=t), picture(0)) for t in (1, 0.2)]
    with pytest.raises(DeadlineError, match=r"timeout of 0\.2 s: the request waited for a worker"):
        waiting.result(30)
    assert 0.2 <= time.perf_counter() - started < 0.9
    with pytest.raises(DeadlineError, match=r"timeout of 1 s: the request was being prepared by a worker"):
        prepared.result(30)
    assert 1 <= time.perf_counter() - started < 3
    go_on.set()
    for future in [*stuck, engine.submit(task, picture(0))]:
        assert future.result(30).finish_reason in ("stop", "length")
    settle(engine)


def test_a_callback_does_not_run_on_the_tick_thread(start: Callable[..., Engine]) -> None:
    threads: list[str] = []
    future = start().submit(replace(LONG, timeout=0.05))
    future.add_done_callback(lambda _: threads.append(threading.current_thread().name))
    assert isinstance(future.exception(30), DeadlineError)
    time.sleep(0.05)
    assert threads and "tick" not in threads[0]


def test_what_has_ended_otherwise_is_no_longer_expected(start: Callable[..., Engine]) -> None:
    engine = start()
    futures = [engine.submit(replace(LONG, timeout=86400), None) for _ in range(4)]
    futures.append(engine.submit(DetectTask(object="x", timeout=86400), b"no picture"))
    for future in futures[:4]:
        future.cancel()
    assert futures[4].exception(30) is not None
    settle(engine)
