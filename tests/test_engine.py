"""The engine's own duties: threads, faults that stay with their request, cancelling, closing, dying, and saying so."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_model import write_tiny_model

from photon import ConfigError, Engine, EngineError, ImageError, RequestError
from photon.errors import NumericsError
from photon.request import Sampling
from photon.runner.runner import ModelRunner
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Engine]]:
    """Starts engines and closes them at the end."""
    engines: list[Engine] = []

    def make(model: Path = folder, **options: Any) -> Engine:
        engines.append(Engine(model, device="cpu", **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close(drain=False)


def picture(seed: int, size: tuple[int, int] = (90, 70)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(noise)


def mixed_tasks(count: int) -> list[tuple[Task, Image.Image | None]]:
    def one(i: int) -> tuple[Task, Image.Image | None]:
        sampling = Sampling(temperature=0.0 if i % 2 else 1.0, top_p=0.9, seed=i)
        tasks: list[Task] = [
            DetectTask(object=f"thing {i}", max_objects=4),
            PointTask(object=f"thing {i}", max_objects=5, spatial_refs=((0.5, 0.25),)),
            QueryTask(question=f"why {i}?", max_tokens=12, sampling=sampling),
            QueryTask(question=f"why {i}?", max_tokens=8, reasoning=True, max_reasoning_tokens=8, sampling=sampling),
            CaptionTask(length="short", max_tokens=10, sampling=sampling),
            QueryTask(question=f"text {i}", max_tokens=9),
        ]
        return tasks[i % 6], None if i % 6 == 5 else picture(i, (60 + 13 * i % 90, 58 + 7 * i % 60))

    return [one(i) for i in range(count)]


def same(a: Any, b: Any) -> bool:
    """Equal but for float noise in scores."""
    return (a.token_ids, a.finish_reason, a.to_dict() | {"metrics": 0}) == (
        b.token_ids,
        b.finish_reason,
        b.to_dict() | {"metrics": 0},
    )


def test_many_threads_get_what_each_would_get_alone(start: Callable[..., Engine]) -> None:
    tasks = mixed_tasks(36)
    alone = start(pipeline_depth=1, max_batch_size=1)
    expected = [alone.submit(task, image).result(30) for task, image in tasks]
    assert len({result.token_ids for result in expected}) > 20, "the requests are too alike to tell rows apart"
    for depth in (1, 2):
        engine = start(pipeline_depth=depth, max_batch_size=5, num_pages=60, page_size=4)
        results: dict[int, Any] = {}

        def work(first: int, engine: Engine = engine, results: dict[int, Any] = results) -> None:
            for i in range(first, len(tasks), 6):
                results[i] = engine.submit(*tasks[i]).result(60)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, result in enumerate(expected):
            assert same(results[i], result), f"request {i} at depth {depth}"


def test_a_bad_picture_disturbs_nobody(start: Callable[..., Engine], tmp_path: Path) -> None:
    engine = start()
    good = [engine.submit(DetectTask(object="x", max_objects=3), picture(i)) for i in range(4)]
    (tmp_path / "text.png").write_text("no picture")
    for bad in (tmp_path / "text.png", tmp_path / "absent.png", b"", np.zeros((4, 4, 7), np.uint8)):
        with pytest.raises(ImageError):
            engine.detect(bad, "x")
    for future in good:
        assert future.result(30).finish_reason in ("stop", "length")


def test_pixel_limit_names_both_numbers(start: Callable[..., Engine]) -> None:
    with pytest.raises(ImageError, match=r"6,?300.*1,?000"):
        start(max_image_pixels=1000).detect(picture(0), "x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pipeline_dept": 2}, "pipeline_dept.*pipeline_depth"),
        ({"pipeline_depth": 3}, r"\[1, 2\], got 3"),
        ({"max_batch_size": 0}, r"got 0"),
        ({"page_size": True}, "got True"),
        ({"dtype": "float8"}, "float32, bfloat16"),
        ({"device": "tpu"}, "tpu"),
        ({"device": None}, "got 'None'"),
        ({"device": "cuda:one"}, "cuda:one"),
        ({"revision": 5}, "revision .* got 5"),
        ({"kv_bytes": 10}, "kv_bytes=10"),
    ],
)
def test_wrong_options_are_named(folder: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Engine(folder, **{"device": "cpu", **options})


def test_cuda_is_not_silently_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ConfigError, match="cuda"):
        Engine(folder, device="cuda")


def test_an_engine_says_what_it_is(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, dying = start(dtype="bfloat16"), start()
    said = rf"<Engine {engine.config.model.split('/')[-1]} on cpu \(\d+ threads\), bfloat16, "
    assert re.fullmatch(said + "running>", repr(engine))
    engine.close()
    assert re.fullmatch(said + "closed>", repr(engine))
    monkeypatch.setattr(ModelRunner, "launch", lambda *_: 1 / 0)
    with pytest.raises(EngineError):
        dying.query(None, "x")
    assert dying.state == "dead" and repr(dying).endswith("float32, dead>")


def test_wrong_parameters_are_named(start: Callable[..., Engine]) -> None:
    engine = start()
    for call, said in [
        (lambda: engine.caption(picture(0), temperature=float("nan")), "nan"),
        (lambda: engine.caption(picture(0), temperature="hot"), "temperature .* 'hot'"),  # type: ignore[arg-type]
        (lambda: engine.caption(picture(0), top_p=0), "top_p"),
        (lambda: engine.caption(picture(0), top_p=None), "top_p .* None"),  # type: ignore[arg-type]
        (lambda: engine.caption(picture(0), seed=-1), "seed .* -1"),
        (lambda: engine.caption(picture(0), length="huge"), "huge"),
        (lambda: engine.caption(picture(0), max_tokens=0), "max_tokens"),
        (lambda: engine.detect(picture(0), " "), "object"),
        (lambda: engine.detect(picture(0), "x", max_objects=0), "max_objects"),
        (lambda: engine.query(picture(0), "x", spatial_refs=[(0.5, 1.5)]), "1.5"),
        (lambda: engine.query(picture(0), "x", spatial_refs=5), "spatial_refs .* 5"),  # type: ignore[arg-type]
        (lambda: engine.query(None, "x" * 300), "256"),
    ]:
        with pytest.raises(RequestError, match=said):
            call()
    assert engine.query(None, "x", max_tokens=3).token_ids is not None


def test_prompt_too_long_says_both_numbers(start: Callable[..., Engine]) -> None:
    with pytest.raises(RequestError, match=r"306.*256"):
        start().query(None, "x" * 300)  # BOS, three of the prefix, 300, two of the suffix


def test_the_end_of_the_context_is_length(folder: Path, tmp_path: Path, start: Callable[..., Engine]) -> None:
    engine = start(write_tiny_model(tmp_path, max_context=40))
    result = engine.query(None, "x" * 20, temperature=100.0, seed=5)
    assert (result.finish_reason, result.truncated) == ("length", True)
    assert len(result.token_ids) == 40 - 26


def test_a_request_larger_than_the_memory_is_refused_at_once(start: Callable[..., Engine]) -> None:
    engine = start(num_pages=5, page_size=4)
    with pytest.raises(RequestError, match="20"):
        engine.query(None, "x" * 30)
    assert engine.query(None, "x", max_tokens=3).token_ids is not None


def test_seed_alone_decides(start: Callable[..., Engine]) -> None:
    engine = start()
    once = engine.query(picture(1), "go", temperature=1.0, seed=7, max_tokens=20)
    crowd = [engine.submit(*pair) for pair in mixed_tasks(12)]
    again = engine.query(picture(1), "go", temperature=1.0, seed=7, max_tokens=20)
    other = engine.query(picture(1), "go", temperature=1.0, seed=8, max_tokens=20)
    assert once.token_ids == again.token_ids != other.token_ids
    assert all(future.result(30).finish_reason for future in crowd)


def slow_steps(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    launch = ModelRunner.launch

    def slow(self: ModelRunner, slot: int, plan: Any) -> None:
        time.sleep(seconds)
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", slow)


def test_cancel_stops_the_work(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.02)
    engine = start(max_batch_size=1)
    long = QueryTask(question="on and on", max_tokens=200, sampling=Sampling(temperature=100.0, seed=1))
    running, waiting = engine.submit(long), engine.submit(long)
    time.sleep(0.3)
    assert not running.done(), running.result()
    assert running.cancel() and waiting.cancel()
    started = time.perf_counter()
    assert engine.query(None, "x", max_tokens=2).token_ids is not None  # the row is free again
    assert time.perf_counter() - started < 2  # 200 steps would take 4 seconds
    with pytest.raises(CancelledError):
        running.result()


def test_when_the_tick_thread_dies_all_callers_learn_why(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start()

    def fail(self: ModelRunner, slot: int, plan: Any) -> None:
        time.sleep(0.2)
        raise OSError("the bus is gone")

    monkeypatch.setattr(ModelRunner, "launch", fail)
    futures = [engine.submit(DetectTask(object="x"), picture(i)) for i in range(3)]
    for future in futures:
        with pytest.raises(EngineError, match="the bus is gone") as caught:
            future.result(5)
        assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(EngineError, match="the bus is gone"):
        engine.query(None, "x")


def test_logits_that_are_not_finite_fail_their_request(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    from photon.models.moondream.model import MoondreamModel

    engine = start()
    logits = MoondreamModel.logits
    monkeypatch.setattr(MoondreamModel, "logits", lambda self, hidden: logits(self, hidden) * float("nan"))
    with pytest.raises(NumericsError, match="not finite"):
        engine.query(None, "x")
    monkeypatch.undo()
    assert engine.query(None, "x", max_tokens=2).token_ids is not None


def test_closing_waits_for_what_was_submitted(folder: Path) -> None:
    with Engine(folder, device="cpu") as engine:
        futures = [engine.submit(*pair) for pair in mixed_tasks(12)]
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(EngineError, match="closed"):
        engine.query(None, "x")


def test_leaving_by_an_error_fails_what_is_pending(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_steps(monkeypatch, 0.05)
    futures: list[Future[Any]] = []
    with pytest.raises(KeyboardInterrupt), Engine(folder, device="cpu") as engine:
        futures += [
            engine.submit(QueryTask(question="q", max_tokens=200, sampling=Sampling(temperature=100.0)))
            for _ in range(3)
        ]
        raise KeyboardInterrupt
    for future in futures:
        assert isinstance(future.exception(1), EngineError)


def test_an_idle_engine_answers(start: Callable[..., Engine]) -> None:
    engine = start()
    time.sleep(0.5)
    assert engine.query(None, "x", max_tokens=2).token_ids is not None


def test_metrics_add_up(start: Callable[..., Engine]) -> None:
    metrics = start().detect(picture(0), "x", max_objects=2).metrics
    parts = (metrics.queue_ms, metrics.image_ms, metrics.prefill_ms, metrics.decode_ms)
    assert min(parts) >= 0 and metrics.prompt_tokens == 1 + 16 + 4 + 2 + 1
    assert metrics.time_to_first_token_ms == pytest.approx(sum(parts[:3]), abs=0.01)
    assert metrics.total_ms >= sum(parts)
