"""How an engine's calls end when they do not end well: cancelled at any moment, refused, killed, closed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from test_engine import mixed_tasks, picture, same, slow_steps
from tiny_model import write_tiny_model

from photon import Engine, EngineError, RequestError
from photon.config import EngineConfig
from photon.constraint.compiler import ConstraintCompiler
from photon.device import choose_device
from photon.engine.job import Job
from photon.engine.loading import build_scheduler, load_model
from photon.errors import NumericsError
from photon.models.moondream.model import MoondreamModel
from photon.request import Sampling
from photon.runner.runner import ModelRunner
from photon.tasks import DetectTask, QueryTask

LONG = QueryTask(question="on and on", max_tokens=200, sampling=Sampling(temperature=100.0, seed=1))


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


def block_workers(monkeypatch: pytest.MonkeyPatch, seconds: float) -> threading.Event:
    """Every picture takes so long; the event says that one has begun."""
    begun = threading.Event()

    def load_slowly(source: Any, *, max_pixels: int) -> Any:
        begun.set()
        time.sleep(seconds)
        return source

    monkeypatch.setattr("photon.engine.core.load_image", load_slowly)
    return begun


@pytest.mark.parametrize("depth", [1, 2])
def test_cancelled_at_any_moment(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """Nothing is left behind, and who was not cancelled says what it says alone."""
    tasks = mixed_tasks(18)
    engine = start(pipeline_depth=depth, max_batch_size=3, num_pages=60, page_size=4)
    expected = [engine.submit(*pair).result(30) for pair in tasks]
    scheduler = engine._ticker._scheduler
    rng = Random(depth)
    for _ in range(12):
        futures = [engine.submit(*pair) for pair in tasks]
        for i in rng.sample(range(len(tasks)), 12):
            time.sleep(rng.random() * 0.004)
            futures[i].cancel()
        assert not wait(futures, timeout=30).not_done, "whoever waits for a cancelled future is told"
        for i, future in enumerate(futures):
            assert future.cancelled() or same(future.result(), expected[i]), f"request {i}"
    deadline = time.monotonic() + 5
    while scheduler.has_work and time.monotonic() < deadline:
        time.sleep(0.01)
    scheduler.check_integrity()
    after = scheduler.stats()
    assert (after.num_waiting, after.num_running) == (0, 0)
    assert (after.num_free_rows, after.num_free_pages) == (3, 60)
    assert not engine._pending and not engine._ticker._branches


def test_cancelled_while_its_request_is_built(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """When it comes to the tick thread its cancel has long been heard there."""
    engine, begun, cancelled, rows = start(), threading.Event(), threading.Event(), []
    build, launch = QueryTask.build, ModelRunner.launch

    def build_late(*arguments: Any) -> Any:
        request = build(*arguments)
        begun.set()
        assert cancelled.wait(10)
        return request

    def count(self: ModelRunner, slot: int, plan: Any) -> None:
        rows.extend(plan.rows)
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", count)
    monkeypatch.setattr(QueryTask, "build", build_late)
    future = engine.submit(LONG)
    assert begun.wait(10) and future.cancel()
    cancelled.set()
    engine.query(None, "x", max_tokens=3)  # comes in behind it
    assert {row.request.max_tokens for row in rows} == {3}


def test_a_refused_callers_callback_does_not_run_on_the_tick_thread(start: Callable[..., Engine]) -> None:
    engine = start(num_pages=5, page_size=4)
    threads: list[str] = []
    with pytest.raises(RequestError):
        future = engine.submit(DetectTask(object="x"), picture(0, (900, 900)))
        future.add_done_callback(lambda _: threads.append(threading.current_thread().name))
        future.result(30)
    assert threads and "tick" not in threads[0]


def test_a_dead_tick_thread_does_not_let_workers_finish_first(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = block_workers(monkeypatch, 3)
    engine = start(image_workers=2)

    def fail(self: ModelRunner, slot: int, plan: Any) -> None:
        raise SystemExit("the bus is gone")

    monkeypatch.setattr(ModelRunner, "launch", fail)
    in_worker = engine.submit(DetectTask(object="x"), picture(0))
    assert begun.wait(5)
    errors = [engine.submit(QueryTask(question="q")).exception(1), in_worker.exception(1)]
    for error in errors:
        assert isinstance(error, EngineError) and "the bus is gone" in str(error)
        assert isinstance(error.__cause__, SystemExit)
    assert errors[0] is not errors[1], "raising one must not write into the other"


def test_closing_without_draining_does_not_wait_for_a_picture(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = block_workers(monkeypatch, 3)
    engine = start()
    futures = [engine.submit(DetectTask(object="x"), picture(i)) for i in range(4)]
    assert begun.wait(5)
    started = time.monotonic()
    engine.close(drain=False)
    assert time.monotonic() - started < 1
    assert all(isinstance(future.exception(0), EngineError) for future in futures)


def test_closing_from_many_threads_at_once(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.01)
    engine = start()
    futures = [engine.submit(LONG) for _ in range(8)]
    errors: list[BaseException] = []

    def close() -> None:
        try:
            engine.close(drain=False)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not errors and all(isinstance(future.exception(1), EngineError) for future in futures)


def test_submitting_while_closing_is_refused_or_answered(start: Callable[..., Engine]) -> None:
    engine = start()
    futures: list[Future[Any]] = []

    def submit() -> None:
        with pytest.raises(EngineError, match="closed"):
            while True:
                futures.append(engine.submit(QueryTask(question="q", max_tokens=2)))

    thread = threading.Thread(target=submit)
    thread.start()
    time.sleep(0.2)
    engine.close()
    thread.join(10)
    assert futures and all(future.exception(1) is None for future in futures)


def test_no_more_pictures_are_decoded_than_will_soon_be_asked_about(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_steps(monkeypatch, 0.005)
    engine = start(max_batch_size=2, image_workers=2)
    decoded: list[Any] = []
    futures: list[Future[Any]] = []
    most = 0

    def load(source: Any, *, max_pixels: int) -> Any:
        nonlocal most
        decoded.append(source)
        most = max(most, len(decoded) - sum(future.done() for future in futures))
        return source

    monkeypatch.setattr("photon.engine.core.load_image", load)
    for seed in range(40):
        futures.append(engine.submit(DetectTask(object="x", max_objects=2), picture(seed)))
    assert not wait(futures, timeout=60).not_done
    assert 2 < most <= 2 * 2 + 2


def test_an_interrupted_call_ends_its_work(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.02)
    engine = start(max_batch_size=1)
    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    try:
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            engine.query(None, LONG.question, max_tokens=200, temperature=100.0, seed=1)
    finally:
        signal.signal(signal.SIGINT, before)
    started = time.perf_counter()
    engine.query(None, "x", max_tokens=2)
    assert time.perf_counter() - started < 2  # 200 steps would take 4 seconds


def test_a_call_ends_once() -> None:
    answered, failed, cancelled = (Job(LONG, (), None) for _ in range(3))
    answered.succeed("yes")
    failed.fail(EngineError("first"))
    assert cancelled.future.cancel()
    cancelled.settle_cancelled()
    for job in (answered, failed, cancelled):
        job.fail(EngineError("second"))
        job.succeed("too late")
    assert answered.future.result() == "yes" and str(failed.future.exception()) == "first"
    assert cancelled.future.cancelled()


def test_a_cancelled_future_has_no_result(start: Callable[..., Engine]) -> None:
    future = start().submit(LONG)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(1)
    assert wait([future], timeout=1).done


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_is_no_number_leaves_no_trace(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Its pages, full of NaN, go to the next request, which says what it said before."""
    engine = start(num_pages=8, page_size=16, max_batch_size=1)
    expected = engine.query(None, "x", max_tokens=30)
    assert len(expected.token_ids) >= 5
    embed = MoondreamModel.embed
    monkeypatch.setattr(MoondreamModel, "embed", lambda self, *inputs: embed(self, *inputs) * torch.nan)
    with pytest.raises(NumericsError, match="not finite"):
        engine.query(None, "y" * 60, max_tokens=30, temperature=temperature)
    monkeypatch.undo()
    assert same(engine.query(None, "x", max_tokens=30), expected)


def test_the_grammar_engine_is_loaded_for_grammars_only(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    compiler = ConstraintCompiler._grammar_compiler

    def count(self: ConstraintCompiler) -> Any:
        if self is engine._loaded.context.constraints:
            made.append(threading.current_thread().name)
        return compiler(self)

    engine = start()
    monkeypatch.setattr(ConstraintCompiler, "_grammar_compiler", count)
    engine.query(picture(0), "x", max_tokens=2)
    engine.query(picture(0), "x", reasoning=True, max_tokens=2)
    engine.caption(picture(0), max_tokens=2)
    assert not made
    engine.detect(picture(0), "x", max_objects=1)
    assert made


def test_more_rows_than_positions_of_a_prefill(tmp_path: Path) -> None:
    config = EngineConfig(
        model=str(write_tiny_model(tmp_path, max_context=40)), max_batch_size=60, max_prefill_tokens=1
    )
    device = choose_device("cpu", "auto")
    loaded = load_model(config, device)
    scheduler = build_scheduler(config, loaded.model, device)
    for i in range(60):
        scheduler.add(QueryTask(question="q", max_tokens=20).build(i, loaded.context, None))
    ended = set()
    while scheduler.has_work:
        ended |= {update.request_id for update in scheduler.tick() if update.finish_reason in ("stop", "length")}
    assert len(ended) == 60
