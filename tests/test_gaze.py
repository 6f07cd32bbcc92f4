"""Gaze: the prompt counted out by hand, one point or none as an independent decoder says, in every way of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import Oracle
from PIL import Image
from safetensors.torch import load_file, save_file
from test_engine import picture, same
from tiny_model import OLDER, write_tiny_model

from photon import AsyncEngine, End, Engine, Gaze, GazeResult, Point, RequestError
from photon.draw import COLORS
from photon.models.moondream import region
from photon.models.moondream.model import MoondreamModel
from photon.models.recipes import list_recipes, load_recipe, recipes_with_gaze
from photon.request import IMAGE_ID, Role, Token
from photon.results import Metrics
from photon.tasks import GazeTask

EYES = [(0.25, 0.75), (0.0, 1.0), (0.5, 0.125), (0.9, 0.4)]
PLACES = 16  # positions that the tiny model's picture takes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("older"), tokenizer=OLDER)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(folder, device="cpu", max_batch_size=4, page_size=4) as made:
        yield made


def with_bias(folder: Path, into: Path, name: str, values: dict[int, float]) -> Path:
    """The model with other biases in a tensor `name` of the region heads or of the text head."""
    write_tiny_model(into, tokenizer=OLDER)
    weights = load_file(into / "model.safetensors")
    for index, value in values.items():
        weights[f"model.{name}"][index] = value
    save_file(weights, into / "model.safetensors")
    return into


def expected(engine: Engine, image: Image.Image, eye: Sequence[float]) -> tuple[float, float, float] | None:
    """What the sequential decoder says to a prompt written out here: x, y and the score, or None at the end."""
    model = engine._loaded.model
    assert isinstance(model, MoondreamModel)
    oracle = Oracle(model)
    x, y = eye
    prompt = [Token(0), Token(26), Token(26), Token(96), Token(7, (x,)), Token(7, (y,)), Token(119), Token(26)]
    oracle.prefill(prompt, engine._loaded.prepare(image))
    logits = oracle.logits()
    if int(logits.argmax()) == 0:
        return None
    score = 1 - float(torch.softmax(logits, 0)[0])
    values = []
    for _ in range(2):
        bins = region.coordinate_logits(model.weights.region, oracle.hidden)
        values.append(float(bins.argmax()) / len(bins))
        oracle.feed(Token(7, (values[-1],)))
    return values[0], values[1], score


def test_the_prompt_is_the_eye_between_the_words(engine: Engine) -> None:
    image = engine._loaded.prepare(picture(0))
    request = GazeTask(eye=(0.25, 0.75)).build(3, engine._loaded.context, image)
    said = [(token.id, token.value) for token in request.prompt.tokens]
    assert said[: 1 + PLACES] == [(0, ())] + [(IMAGE_ID, ())] * PLACES
    words, eye, end = said[17:20], said[20:22], said[22:]
    assert words == [(26, ()), (26, ()), (96, ())] and end == [(119, ()), (26, ())]
    assert [value for _, value in eye] == [(0.25,), (0.75,)]
    assert (request.max_tokens, request.limit_tokens, request.stop_ids) == (3, 3, {0})


def test_the_end_may_come_first_and_one_point_is_all(engine: Engine) -> None:
    request = GazeTask(eye=(0, 0)).build(3, engine._loaded.context, engine._loaded.prepare(picture(0)))
    assert request.constraint is not None
    allowed = []
    for _ in range(3):
        mask = np.zeros(16, np.int32)
        role = request.constraint.role
        request.constraint.fill_mask(mask)
        allowed.append((set(np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist()), role))
        if len(allowed) < 3:
            request.constraint.advance(40)
    (first, x), (then, y), (last, _) = allowed
    assert (x, y) == (Role.X, Role.Y)
    assert first == then | {0} and 0 not in then and len(then) == 511 and last == {0}


def test_it_says_what_the_sequential_decoder_says(engine: Engine) -> None:
    asked = [(picture(i, (60 + 11 * i, 58 + 7 * i)), EYES[i % len(EYES)]) for i in range(12)]
    answers = engine.run([Gaze(image, eye) for image, eye in asked])
    nobody = 0
    for (image, eye), answer in zip(asked, answers, strict=True):
        wanted = expected(engine, image, eye)
        assert isinstance(answer, GazeResult) and answer.eye == Point(*eye)
        assert (answer.finish_reason, answer.truncated) == ("stop", False)
        if wanted is None:
            nobody += 1
            assert answer.point is None and answer.token_ids == () and answer.to_dict()["gaze"] is None
            continue
        assert answer.point is not None and len(answer.token_ids) == 2
        assert (answer.point.x, answer.point.y) == wanted[:2]
        assert answer.point.score == pytest.approx(wanted[2], abs=1e-5)
        assert answer.to_dict()["gaze"] == {"x": wanted[0], "y": wanted[1]}
    assert nobody < len(asked), "nobody looked anywhere"


def test_values_by_hand(folder: Path, tmp_path: Path) -> None:
    """A coordinate head that always says bin 24 of 64, whatever it sees; and a model that always ends."""
    with Engine(with_bias(folder, tmp_path / "a", "region.coord_decoder.fc2.bias", {24: 1e4}), device="cpu") as engine:
        point = engine.gaze(picture(1), eye=(0.5, 0.5)).point
        assert point is not None and (point.x, point.y) == (0.375, 0.375)
    with Engine(with_bias(folder, tmp_path / "b", "text.lm_head.bias", {0: 1e4}), device="cpu") as engine:
        result = engine.gaze(picture(1), eye=(0.5, 0.5))
        assert result.point is None and result.token_ids == () and result.finish_reason == "stop"
        assert result.draw().size == (450, 350), "the picture of 90 x 70, drawn at five times its size"


def test_where_the_eye_is_matters(engine: Engine) -> None:
    image = picture(2)
    scores = {expected(engine, image, eye) for eye in EYES}
    assert len(scores) == len(EYES)


def test_a_stream_gives_the_point_and_the_end(engine: Engine) -> None:
    for i in range(4):
        whole = engine.gaze(picture(i), EYES[i])
        chunks = list(engine.gaze(picture(i), EYES[i], stream=True))
        assert chunks == [*([] if whole.point is None else [whole.point]), End(whole)]


def test_asyncio_gives_the_same(folder: Path, engine: Engine) -> None:
    async def work() -> Any:
        async with AsyncEngine(folder, device="cpu") as asynchronous:
            streamed = [chunk async for chunk in asynchronous.gaze(picture(1), EYES[1], stream=True)]
            return await asynchronous.gaze(picture(1), EYES[1]), streamed

    plain = engine.gaze(picture(1), EYES[1])
    answer, streamed = asyncio.run(work())
    assert same(answer, plain) and same(streamed[-1].result, plain)


@pytest.mark.parametrize("eye", [(0.5,), (0.1, 0.2, 0.3), (0.5, 1.01), (-0.1, 0.5), (float("nan"), 0.5), "ab", 7, None])
def test_a_wrong_eye_is_refused_with_its_value(eye: Any) -> None:
    with pytest.raises(RequestError, match=r"eye must be a point \(x, y\), both in \[0, 1\], got "):
        GazeTask(eye=eye)


def test_models_without_gaze_say_who_has_it_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.engine.core.load_image", lambda *_, **__: pytest.fail("the picture was read"))
    message = "photon-tiny has no gaze; these models have it: moondream2-2025-01$"
    with Engine("photon-tiny", device="cpu") as tiny:
        with pytest.raises(RequestError, match=message):
            tiny.gaze("absent.png", eye=(0.5, 0.5))
        with pytest.raises(RequestError, match=message):
            tiny.gaze("absent.png", eye=(0.5, 0.5), stream=True)
        (failed,) = tiny.run([Gaze("absent.png", (0.5, 0.5))], on_error="return")
        assert isinstance(failed, RequestError)


def test_the_recipes_that_have_it() -> None:
    assert recipes_with_gaze() == ["moondream2-2025-01"] and "moondream2" in list_recipes()
    gaze = load_recipe("moondream2-2025-01").templates.gaze
    assert gaze is not None
    assert (gaze.prefix, gaze.suffix) == ((198, 198, 12727, 25), (17841, 628))


def test_gaze_needs_a_picture(engine: Engine) -> None:
    with pytest.raises(RequestError, match="gaze needs an image"):
        engine.gaze(None, (0.5, 0.5))


def drawn(width: int, point: Point | None, label: str | None = None) -> np.ndarray:
    gray = Image.new("RGB", (width, width * 3 // 4), (90, 90, 90))
    result = GazeResult(
        eye=Point(0.25, 0.5), point=point, token_ids=(), finish_reason="stop", metrics=Metrics(), image=gray
    )
    return np.asarray(result.draw(label))


@pytest.mark.parametrize("width", [400, 640, 4000])
def test_the_drawing_is_an_arrow_from_the_eye_to_the_point(width: int) -> None:
    red = tuple(bytes.fromhex(COLORS[0][1:]))
    picture = drawn(width, Point(0.75, 0.5))
    is_red = (picture == red).all(axis=2)
    row, columns = picture.shape[0] // 2, np.flatnonzero(is_red.any(axis=0))
    assert is_red[row, width // 4] and is_red[row, width // 2], "the eye, and the shaft half way"
    assert abs(columns[-1] - 0.75 * width) < width / 100, "the tip is at the point"
    heights = is_red.sum(axis=0)
    shaft, head = heights[width // 2], heights[int(0.73 * width) : int(0.75 * width)].max()
    assert 2 <= shaft < head / 2 and head < width / 25
    assert (picture[row // 2] == 90).all(), "the rest of the picture is as it was"


def test_a_plate_hides_neither_eye_nor_tip() -> None:
    for point in (Point(0.75, 0.5), Point(0.05, 0.4), Point(0.3, 0.95), Point(0.25, 0.02)):
        plain, named = drawn(640, point), drawn(640, point, "the ball")
        changed = (plain != named).any(axis=2)
        assert changed.sum() > 500, "a plate is there"
        for x, y in (Point(0.25, 0.5).to_pixels(640, 480), point.to_pixels(640, 480)):
            assert not changed[max(0, y - 4) : y + 5, max(0, x - 4) : x + 5].any()


def test_without_a_point_or_a_way_to_it_only_the_eye_is_drawn() -> None:
    nobody, itself = drawn(640, None), drawn(640, Point(0.25, 0.5))
    assert (nobody == itself).all()
    ys, xs = np.nonzero((nobody != 90).any(axis=2))
    assert xs.max() - xs.min() < 30 and ys.max() - ys.min() < 30
