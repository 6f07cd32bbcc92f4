"""A list of names in one call: the single calls' answers, joined; one picture; and an end that is an end for all.

`test_engine_golden` holds lists of names to the reference's answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_model import write_tiny_model

from photon import (
    AsyncEngine,
    Box,
    Detect,
    End,
    Engine,
    EngineError,
    Metrics,
    Point,
    PointAt,
    PointResult,
    RequestError,
)
from photon.errors import ConstraintError, DeadlineError
from photon.images.decode import load_image
from photon.models.moondream.model import MoondreamModel
from photon.request import Request
from photon.results import FinishReason
from photon.runner.runner import ModelRunner
from photon.scheduler.scheduler import Scheduler
from photon.tasks import DetectTask, PointTask
from photon.tasks.objects import build_objects

PICTURE = Image.fromarray(np.random.default_rng(3).integers(0, 256, (70, 90, 3), dtype=np.uint8))
MARKET = Path(__file__).parent.parent / "examples" / "images" / "market.png"
NAMES = ["one", "two", "three"]


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that always sees one object more."""
    folder = tmp_path_factory.mktemp("eager")
    file = write_tiny_model(folder) / "model.safetensors"
    weights = load_file(file)
    weights["model.text.lm_head.bias"][0] = -100.0
    save_file(weights, file)
    return folder


@pytest.fixture
def start(eager: Path) -> Iterator[Callable[..., Engine]]:
    """Starts engines and closes them at the end."""
    engines: list[Engine] = []

    def make(model: Path | str = eager, **options: Any) -> Engine:
        engines.append(Engine(model, device="cpu", **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close(drain=False)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every launch takes 10 ms; the rows of each launch."""
    launch, rows = ModelRunner.launch, []

    def slow(self: ModelRunner, slot: int, plan: Any) -> None:
        time.sleep(0.01)
        rows.append(len(plan.rows))
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", slow)
    return rows


def is_idle(engine: Engine) -> bool:
    """Whether nothing is left of any call, within a second."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        if not (engine._ticker._scheduler.has_work or engine._pending or engine._ticker._branches):
            return True
        time.sleep(0.01)
    return False


# The answer


def test_a_list_is_the_single_calls_label_by_label(start: Callable[..., Engine]) -> None:
    """At both depths. Three apples, three bananas and no unicorn, as the picture shows."""
    engines, names = [start("photon-tiny", pipeline_depth=depth) for depth in (1, 2)], ["apple", "unicorn", "banana"]
    boxes = [engines[0].detect(MARKET, name, max_objects=6) for name in names]
    points = [engines[0].point(MARKET, name, max_objects=3) for name in names]
    assert [len(result) for result in boxes + points] == [3, 0, 3] * 2
    for single, joined in [
        *((boxes, engine.detect(MARKET, names, max_objects=6)) for engine in engines),
        *((points, engine.point(MARKET, names, max_objects=3)) for engine in engines),
    ]:
        answers = [answer for result in single for answer in result]
        assert [replace(answer, score=None) for answer in joined] == [replace(a, score=None) for a in answers]
        assert [a.score for a in joined] == pytest.approx([a.score for a in answers], abs=1e-4)
        assert joined.token_ids == sum((result.token_ids for result in single), ())
        assert joined.truncated == any(result.truncated for result in single)
        assert [a.label for a in joined] == ["apple"] * 3 + ["banana"] * 3


def test_every_way_to_ask_gives_the_same(start: Callable[..., Engine], eager: Path) -> None:
    engine = start()
    boxes = engine.detect(PICTURE, NAMES, max_objects=2)
    points = engine.point(PICTURE, tuple(NAMES), max_objects=3, spatial_refs=[(0.5, 0.5)])
    assert [len(boxes), len(points)] == [6, 9] and boxes.truncated and points.truncated
    asks = [
        Detect(PICTURE, NAMES, max_objects=2),
        PointAt(PICTURE, NAMES, max_objects=3, spatial_refs=[(0.5, 0.5)]),
    ]
    assert [list(a) for a in engine.run(asks)] == [list(boxes), list(points)]
    assert engine.submit(DetectTask(object=NAMES, max_objects=2), PICTURE).result(30) == boxes

    async def work() -> Any:
        async with AsyncEngine(eager, device="cpu") as asynchronous:
            stream = asynchronous.point(PICTURE, NAMES, max_objects=3, spatial_refs=[(0.5, 0.5)], stream=True)
            return await asynchronous.detect(PICTURE, NAMES, max_objects=2), [chunk async for chunk in stream][-1]

    assert asyncio.run(work()) == (boxes, End(points))


def test_a_list_of_one_name_is_that_name(start: Callable[..., Engine]) -> None:
    engine = start()
    assert engine.detect(PICTURE, ["one"], max_objects=2) == engine.detect(PICTURE, "one", max_objects=2)


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [(("stop", "stop"), "stop"), (("stop", "length"), "length"), (("length", "stop"), "length")],
)
def test_one_part_that_is_cut_cuts_the_answer(
    reasons: tuple[FinishReason, FinishReason], expected: FinishReason
) -> None:
    points = Point(0, 0, label="one"), Point(1, 1, label="two")
    parts = [
        PointResult((point,), token_ids=(i,), finish_reason=reason, metrics=Metrics())
        for i, (point, reason) in enumerate(zip(points, reasons, strict=True))
    ]
    joined = PointTask(object=["one", "two"]).join(parts)
    assert (joined.finish_reason, joined.truncated) == (expected, expected == "length")
    assert joined.points == points and joined.token_ids == (0, 1)


def test_logprobs_stand_behind_one_another(start: Callable[..., Engine]) -> None:
    found = start().point(PICTURE, NAMES, max_objects=2, logprobs=1)
    assert found.logprobs is not None
    assert tuple(token.id for token in found.logprobs) == found.token_ids and len(found.token_ids) == 12


def test_tokens_are_counted_and_times_run_from_the_call_to_the_last(start: Callable[..., Engine]) -> None:
    engine = start()
    single = [engine.detect(PICTURE, name, max_objects=2).metrics for name in NAMES]
    metrics = engine.detect(PICTURE, NAMES, max_objects=2).metrics
    assert metrics.prompt_tokens == sum(m.prompt_tokens for m in single)
    assert metrics.output_tokens == sum(m.output_tokens for m in single) == 18
    parts = (metrics.queue_ms, metrics.image_ms, metrics.prefill_ms, metrics.decode_ms)
    assert min(parts) >= 0 and sum(parts) <= metrics.total_ms
    assert metrics.time_to_first_token_ms == pytest.approx(sum(parts[:3]), abs=0.01)


# The way


def test_one_picture_and_one_place_in_line(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls at once, over and over: no request of one comes between those of the other."""
    added: list[Request] = []
    loaded: list[Any] = []
    add = Scheduler.add

    def load_slowly(source: Any, *, max_pixels: int) -> Image.Image:
        loaded.append(source)
        return load_image(source, max_pixels=max_pixels)

    def spy(self: Scheduler, request: Request) -> None:
        added.append(request)
        add(self, request)

    monkeypatch.setattr(Scheduler, "add", spy)
    monkeypatch.setattr("photon.engine.core.load_image", load_slowly)
    engine = start(image_workers=4)
    engine.run([Detect(PICTURE, NAMES, max_objects=1) for _ in range(20)])
    assert len(loaded) == 20 and len(added) == 60
    calls = [added[i : i + 3] for i in range(0, 60, 3)]
    images = [{id(request.prompt.images[0].image) for request in call} for call in calls]
    assert all(len(of_call) == 1 for of_call in images) and len(set.union(*images)) == 20


def test_the_picture_is_encoded_once(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    encode, encoded = MoondreamModel.encode_images, []

    def spy(self: MoondreamModel, images: list[Any]) -> Any:
        encoded.extend(images)
        return encode(self, images)

    monkeypatch.setattr(MoondreamModel, "encode_images", spy)
    for names in (NAMES, [f"name {i}" for i in range(20)]):  # more than there are rows
        start().detect(PICTURE, names, max_objects=5)
        assert len(encoded) == 1
        encoded.clear()


def test_objects_leave_as_they_are_found(start: Callable[..., Engine]) -> None:
    engine = start()
    *chunks, end = engine.detect(PICTURE, NAMES, max_objects=4, stream=True)
    boxes = [chunk for chunk in chunks if isinstance(chunk, Box)]
    assert [box.label for box in boxes] == NAMES * 4, "three rows of one batch, object by object"
    in_order = tuple(box for name in NAMES for box in boxes if box.label == name)
    whole = engine.detect(PICTURE, NAMES, max_objects=4)
    assert in_order == whole.boxes and end == End(whole)


# The end


@pytest.mark.parametrize("how", ["cancel", "close the stream", "drop the stream"])
def test_all_parts_end_within_two_steps(start: Callable[..., Engine], launched: list[int], how: str) -> None:
    """Five names on three rows: two of them are still waiting."""
    engine = start(max_batch_size=3)
    names = [*NAMES, "four", "five"]
    if how == "cancel":
        future = engine.submit(Detect(PICTURE, names, max_objects=40))
        while len(launched) < 10:
            time.sleep(0.005)
        future.cancel()
        assert not wait([future], timeout=5).not_done
    else:
        stream = engine.detect(PICTURE, names, max_objects=40, stream=True)
        next(stream)
        if how == "close the stream":
            stream.close()
        del stream
    at_end = len(launched)
    assert is_idle(engine) and len(launched) <= at_end + 2
    assert 3 in launched
    engine._ticker._scheduler.check_integrity()


def test_cancelling_a_task_of_asyncio_ends_all_parts(eager: Path, launched: list[int]) -> None:
    async def work() -> bool:
        async with AsyncEngine(eager, device="cpu") as engine:
            asking = asyncio.create_task(engine.point(PICTURE, NAMES, max_objects=60))
            while len(launched) < 10:
                await asyncio.sleep(0.005)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return await asyncio.to_thread(is_idle, engine.core)  # type: ignore[arg-type]

    assert asyncio.run(work()) and len(launched) < 100


def test_a_part_that_fails_is_named_and_ends_the_others(
    start: Callable[..., Engine], launched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three is refused at its seventh token."""
    made: list[Request] = []

    def build(*inputs: Any, **options: Any) -> Request:
        request = build_objects(*inputs, **options)
        made.append(request)
        if len(made) == 2:
            advance, heard = request.constraint.advance, []  # type: ignore[union-attr]

            def refuse(token_id: int) -> None:
                heard.append(token_id)
                if len(heard) == 7:
                    raise ConstraintError("nothing may be said")
                advance(token_id)

            monkeypatch.setattr(request.constraint, "advance", refuse)
        return request

    monkeypatch.setattr("photon.tasks.detect.build_objects", build)
    engine = start()
    boxes = []
    with pytest.raises(ConstraintError, match="^object 'two': nothing may be said$") as caught:
        for box in engine.detect(PICTURE, NAMES, max_objects=40, stream=True):
            boxes.append(box)
    assert isinstance(caught.value.__cause__, ConstraintError)
    assert [box.label for box in boxes][:6] == NAMES * 2, "what was found before has left"
    assert is_idle(engine) and len(launched) < 40
    assert len(engine.detect(PICTURE, NAMES, max_objects=2)) == 6


def test_a_part_that_is_too_long_is_named(start: Callable[..., Engine], launched: list[int]) -> None:
    engine = start()
    with pytest.raises(RequestError, match=r"^object 'y{300}': the prompt takes \d+ positions"):
        engine.point(PICTURE, ["x", "y" * 300])
    small = start(num_pages=8, page_size=4, pipeline_depth=1)  # room for the short name, and not for the long one
    assert not launched
    with pytest.raises(RequestError, match=r"^object 'y{20}': .* KV memory has room for 32"):
        small.detect(PICTURE, ["x", "y" * 20, "z"], max_objects=1)
    assert is_idle(small) and len(small.detect(PICTURE, "x", max_objects=1)) == 1


def test_the_time_of_a_call_is_that_of_all_its_parts(start: Callable[..., Engine], launched: list[int]) -> None:
    """Two names on the only row: the second is still waiting."""
    engine = start(max_batch_size=1)
    with pytest.raises(DeadlineError, match="^object '(one|two)': .*0.3 s"):
        engine.detect(PICTURE, NAMES[:2], max_objects=40, timeout=0.3)
    assert is_idle(engine) and 1 < len(launched) < 40


def test_closing_the_engine_ends_all_parts_or_waits_for_them(start: Callable[..., Engine], launched: list[int]) -> None:
    engine = start()
    future = engine.submit(Detect(PICTURE, NAMES, max_objects=40))
    stream = engine.point(PICTURE, NAMES, max_objects=40, stream=True)
    next(stream)
    engine.close(drain=False)
    assert isinstance(future.exception(1), EngineError)
    with pytest.raises(EngineError, match="closed"):
        list(stream)
    patient = start()
    future = patient.submit(Detect(PICTURE, NAMES, max_objects=3))
    patient.close()
    assert len(future.result(0)) == 9


# What is refused


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], r"1 to 64 names, got \[\]"),
        (["mug", "plate", " mug"], "different, got ' mug' twice"),
        (["mug", ""], "must be a text that is not empty, got ''"),
        (["mug", None], "got None"),
        (["mug", 7], "got 7"),
        (["mug", "\ud800"], "not valid Unicode"),
        (["mug", ["plate"]], r"got \['plate'\]"),
        ({"mug"}, r"list of names, got \{'mug'\}"),
        (7, "got 7"),
        (b"mug", "got b'mug'"),
        (None, "got None"),
        ([str(i) for i in range(65)], "1 to 64 names, got 65 names"),
    ],
)
def test_wrong_names_are_named(start: Callable[..., Engine], names: Any, said: str) -> None:
    engine = start()
    for call in (engine.detect, engine.point):
        with pytest.raises(RequestError, match=said):
            call(PICTURE, names)
        with pytest.raises(RequestError, match=said):
            call(PICTURE, names, stream=True)
    with pytest.raises(RequestError, match=said):
        engine.run([Detect(PICTURE, names)])


def test_sixty_four_names(start: Callable[..., Engine]) -> None:
    names = [f"name {i}" for i in range(64)]
    found = start().detect(PICTURE, names, max_objects=1)
    assert [box.label for box in found] == names


def test_a_task_is_what_was_asked() -> None:
    names = ["mug", "plate"]
    task = DetectTask(object=names)
    names.append("spoon")
    assert task.object == ("mug", "plate") and task == DetectTask(object=("mug", "plate"))
    assert [(part.task, part.name) for part in task.parts()] == [
        (DetectTask(object="mug"), "object 'mug'"),
        (DetectTask(object="plate"), "object 'plate'"),
    ]
