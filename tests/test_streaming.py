"""Streams and asyncio: the same answers, as they come; and work that stops when nobody listens."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from test_engine import same
from tiny_model import write_tiny_model

from photon import (
    AsyncEngine,
    Box,
    Caption,
    Detect,
    End,
    Engine,
    EngineError,
    ImageError,
    PointAt,
    Query,
    RequestError,
    TextDelta,
)
from photon.engine.asks import Ask
from photon.engine.async_stream import AsyncStream
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


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[Engine]:
    """A model that always sees one object more."""
    file = write_tiny_model(tmp_path) / "model.safetensors"
    weights = load_file(file)
    weights["model.text.lm_head.bias"][0] = -100.0
    save_file(weights, file)
    with Engine(tmp_path, device="cpu") as made:
        yield made


def slow_steps(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[int]:
    """Every launch takes so long; the rows of each launch."""
    launch, launched = ModelRunner.launch, []

    def slow(self: ModelRunner, slot: int, plan: Any) -> None:
        time.sleep(seconds)
        launched.append(len(plan.rows))
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", slow)
    return launched


def test_boxes_come_one_by_one_and_then_the_end(eager: Engine) -> None:
    whole = eager.detect(PICTURE, "x", max_objects=4)
    chunks = list(eager.detect(PICTURE, "x", max_objects=4, stream=True))
    end = chunks.pop()
    assert isinstance(end, End) and end.result == whole
    assert tuple(chunks) == whole.boxes and all(isinstance(c, Box) for c in chunks)


@pytest.mark.parametrize("seed", range(5))
def test_text_chunks_join_to_the_answer(engine: Engine, seed: int) -> None:
    options = {"temperature": 2.0, "seed": seed, "max_tokens": 60}
    chunks = list(engine.query(PICTURE, "why?", stream=True, **options))  # type: ignore[call-overload]
    end = chunks.pop()
    assert isinstance(end, End)
    assert "".join(c.text for c in chunks if isinstance(c, TextDelta)) == end.result.answer  # type: ignore[attr-defined]
    assert end.result == engine.query(PICTURE, "why?", **options)  # type: ignore[arg-type]


def test_chunks_come_before_the_answer_is_whole(eager: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.01)
    stream = eager.detect(PICTURE, "x", max_objects=20, stream=True)
    started = time.perf_counter()
    next(stream)
    first = time.perf_counter() - started
    result = stream.result()
    assert len(result.boxes) == 20 and first < (time.perf_counter() - started) / 2  # type: ignore[attr-defined]


def test_errors_come_out_of_iterating(engine: Engine) -> None:
    with pytest.raises(RequestError, match="max_objects"):
        engine.detect(PICTURE, "x", max_objects=0, stream=True)
    stream = engine.detect(b"no picture", "x", stream=True)
    with pytest.raises(ImageError):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_a_closed_stream_stops_the_work(engine: Engine, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    launched = slow_steps(monkeypatch, 0.01)
    stream = engine.query(PICTURE, "on and on", temperature=100.0, seed=1, max_tokens=200, stream=True)
    next(stream)
    if how == "with":
        with stream:
            pass
    elif how == "close":
        stream.close()
    if how == "drop":
        del stream
    else:
        assert list(stream) == []
        with pytest.raises(RequestError, match="closed"):
            stream.result()
    time.sleep(0.1)
    after = len(launched)
    time.sleep(0.2)
    assert len(launched) == after < 100


def test_nothing_more_comes_once_an_answer_is_cancelled(eager: Engine) -> None:
    """Nor what was said before and has not been given out."""
    chunks: list[Any] = []
    has_cancelled = threading.Event()

    def emit(chunk: Any) -> None:
        chunks.append(chunk)
        time.sleep(0.3)  # more boxes are found meanwhile
        future.cancel()
        has_cancelled.set()

    future = eager.submit(Detect(PICTURE, "x", max_objects=20), emit=emit)
    assert has_cancelled.wait(30)
    eager.query(None, "x", max_tokens=1)  # is given out behind them
    assert len(chunks) == 1


def test_a_stream_of_a_closed_engine_ends_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.02)
    engine = Engine(folder, device="cpu")
    stream = engine.query(PICTURE, "on and on", temperature=100.0, seed=1, max_tokens=200, stream=True)
    next(stream)
    engine.close(drain=False)
    with pytest.raises(EngineError, match="closed"):
        list(stream)


def run(folder: Path, work: Any) -> Any:
    async def inside() -> Any:
        async with AsyncEngine(folder, device="cpu") as engine:
            return await work(engine)

    return asyncio.run(inside())


def test_asyncio_gives_the_same_answers(folder: Path, engine: Engine) -> None:
    async def work(asynchronous: AsyncEngine) -> Any:
        return await asyncio.gather(
            asynchronous.detect(PICTURE, "x", max_objects=4),
            asynchronous.point(PICTURE, "y", max_objects=3),
            asynchronous.caption(PICTURE, "short", max_tokens=9),
            asynchronous.query(None, "z", max_tokens=9),
        )

    plain = [
        engine.detect(PICTURE, "x", max_objects=4),
        engine.point(PICTURE, "y", max_objects=3),
        engine.caption(PICTURE, "short", max_tokens=9),
        engine.query(None, "z", max_tokens=9),
    ]
    assert all(same(a, b) for a, b in zip(run(folder, work), plain, strict=True))


@pytest.mark.parametrize("call", [name for name in vars(AsyncEngine) if not name.startswith("_")])
def test_both_engines_take_the_same(call: str) -> None:
    plain, asynchronous = (inspect.signature(getattr(engine, call)) for engine in (Engine, AsyncEngine))
    assert plain.parameters == asynchronous.parameters


@pytest.mark.parametrize("ask", get_args(Ask), ids=lambda ask: ask.__name__)
def test_an_ask_has_the_fields_of_its_call(ask: type) -> None:
    call = getattr(Engine, "point" if ask is PointAt else ask.__name__.lower())
    parameters = inspect.signature(call).parameters.values()
    taken = {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in ("self", "stream")}
    fields = {p.name: p.default for p in inspect.signature(ask).parameters.values()}
    assert taken.items() <= fields.items()


def test_a_call_can_be_a_task_of_its_own(folder: Path) -> None:
    async def work(engine: AsyncEngine) -> Any:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(engine.query(None, "x", max_tokens=3))
        return asking.result()

    assert run(folder, work).answer is not None


def test_asyncio_streams(folder: Path, engine: Engine) -> None:
    async def collect(chunks: AsyncIterator[Any]) -> list[Any]:
        return [chunk async for chunk in chunks]

    async def work(asynchronous: AsyncEngine) -> list[Any]:
        return await collect(asynchronous.detect(PICTURE, "x", max_objects=4, stream=True))

    whole = engine.detect(PICTURE, "x", max_objects=4)
    assert run(folder, work) == [*whole.boxes, End(whole)]


def test_asyncio_skips_to_the_end(folder: Path, engine: Engine) -> None:
    async def work(asynchronous: AsyncEngine) -> Any:
        stream = asynchronous.detect(PICTURE, "x", max_objects=4, stream=True)
        result = await stream.result()
        assert [chunk async for chunk in stream] == []
        return result

    assert same(run(folder, work), engine.detect(PICTURE, "x", max_objects=4))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_asyncio_has_no_result_of_a_closed_stream(folder: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Not CancelledError, by which the loop would take whoever waits for cancelled."""
    slow_steps(monkeypatch, 0.02)

    async def work(engine: AsyncEngine) -> None:
        stream = engine.query(PICTURE, "on and on", temperature=100.0, seed=1, max_tokens=200, stream=True)
        waiting = asyncio.ensure_future(stream.result()) if when == "meanwhile" else None
        await asyncio.sleep(0.1)
        await stream.aclose()
        with pytest.raises(RequestError, match="closed"):
            await (waiting or stream.result())

    run(folder, work)


def test_a_loop_may_close_at_any_moment(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the question whether it is closed and what is handed to it too."""
    futures: list[Future[Any]] = []

    def start(emit: Callable[[Any], None]) -> Future[Any]:
        futures.append(engine.submit(Caption(PICTURE, max_tokens=9), emit=emit))
        return futures[-1]

    async def work() -> AsyncStream:
        always_open.setattr(asyncio.get_running_loop(), "is_closed", lambda: False)
        return AsyncStream(start)

    with monkeypatch.context() as always_open:
        stream = asyncio.run(work())
        assert futures[0].result() == engine.caption(PICTURE, max_tokens=9)
    del stream


@pytest.mark.parametrize("how", ["whole", "streamed", "in a list"])
def test_cancelling_a_task_stops_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    launched = slow_steps(monkeypatch, 0.01)
    options: dict[str, Any] = {"temperature": 100.0, "seed": 1, "max_tokens": 200}
    streams: list[AsyncStream] = []  # which keeps it from being dropped

    async def ask(engine: AsyncEngine) -> None:
        if how == "whole":
            await engine.query(PICTURE, "on and on", **options)
        elif how == "in a list":
            asks = [Query(PICTURE, "on and on", max_tokens=200, sampling={"temperature": 100.0, "seed": 1})]
            await engine.run(asks * 200)
        else:
            streams.append(engine.query(PICTURE, "on and on", stream=True, **options))
            async for _ in streams[0]:
                pass

    async def work(engine: AsyncEngine) -> tuple[int, int]:
        task = asyncio.create_task(ask(engine))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
        after = len(launched)
        await asyncio.sleep(0.2)
        return after, len(launched)

    after, later = run(folder, work)
    assert 0 < after == later < 100


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_asyncio_a_closed_stream_stops_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    launched = slow_steps(monkeypatch, 0.01)

    async def work(engine: AsyncEngine) -> tuple[int, int]:
        stream = engine.query(PICTURE, "on and on", temperature=100.0, seed=1, max_tokens=200, stream=True)
        await anext(stream)
        if how == "with":
            async with stream:
                pass
        elif how == "close":
            await stream.aclose()
        if how == "drop":
            del stream
        else:
            assert [chunk async for chunk in stream] == []
        await asyncio.sleep(0.1)
        after = len(launched)
        await asyncio.sleep(0.2)
        return after, len(launched)

    after, later = run(folder, work)
    assert 0 < after == later < 100


def test_asyncio_leaving_by_an_error_fails_what_is_pending(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = slow_steps(monkeypatch, 0.01)

    async def work() -> None:
        async with AsyncEngine(folder, device="cpu") as engine:
            streams.append(engine.query(PICTURE, "on", temperature=100.0, seed=1, max_tokens=200, stream=True))
            await anext(streams[0])
            raise ZeroDivisionError

    streams: list[AsyncStream] = []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(work())
    assert 0 < len(launched) < 100


def test_the_loop_goes_on_while_the_engine_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.01)

    async def work(engine: AsyncEngine) -> tuple[float, float]:
        started = last = time.perf_counter()
        asking = asyncio.ensure_future(engine.query(None, "x", temperature=100.0, seed=1, max_tokens=100))
        longest = 0.0
        while not asking.done():
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        await asking
        return longest, last - started

    longest, whole = run(folder, work)
    assert whole > 0.5, "the answer came too soon to tell"
    assert longest < whole / 2, "the loop stood still for most of the answer"
