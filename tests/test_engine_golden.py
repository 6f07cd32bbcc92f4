"""The engine against the reference's answers: every picture, task and object, alone and in one batch, depth 1 and 2.

Pictures are cut once and encoded once a configuration (`test_images` and `test_moondream_golden` pin crops and vision
tower to the reference): otherwise nearly all of the time would go into the same three pictures over and over.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import Tensor

from photon import Engine
from photon.images.crops import prepare_image
from photon.models.moondream.model import MoondreamModel
from photon.request import PreparedImage
from photon.runner.plan import Plan
from photon.runner.runner import ModelRunner
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

DATA = Path(__file__).parent / "data"
SETS = ["moondream2_tiny", "moondream2_tiny_grounding"]
PICTURES = ["small", "wide", "photo"]
REFS = ((0.25, 0.5), (0.1, 0.2, 0.6, 0.9))

GoldenCase = tuple[Task, str | None, Any, str]  # task, picture or None, what the reference said, kind


@pytest.fixture(scope="module", autouse=True)
def each_picture_once() -> Iterator[None]:
    encode = MoondreamModel.encode_images
    cut: dict[bytes, PreparedImage] = {}
    encoded: dict[tuple[float, int], Tensor] = {}

    def cut_once(image: Image.Image, **sizes: int) -> PreparedImage:
        pixels = image.tobytes()
        if pixels not in cut:
            cut[pixels] = prepare_image(image, **sizes)
        return cut[pixels]

    def encode_once(model: MoondreamModel, images: list[PreparedImage]) -> list[Tensor]:
        keys = [(float(model.weights.text.wte.sum()), id(image)) for image in images]
        for key, image in zip(keys, images, strict=True):
            if key not in encoded:
                encoded[key] = encode(model, [image])[0]
        return [encoded[key] for key in keys]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("photon.engine.loading.prepare_image", cut_once)
        patch.setattr(MoondreamModel, "encode_images", encode_once)
        yield


def golden_cases(name: str) -> list[GoldenCase]:
    stored = json.loads((DATA / name / "expected.json").read_text())
    cases: list[GoldenCase] = []
    for picture in PICTURES:
        said = stored[picture]
        cases.append((QueryTask(question="How many circles?", max_tokens=24), picture, said["query"], "ids"))
        refs = QueryTask(question="What is here?", spatial_refs=REFS, max_tokens=12)
        cases.append((refs, picture, said["query_refs"], "ids"))
        cases.append((QueryTask(question="Hello", max_tokens=12), None, said["query_text_only"], "ids"))
        for length in ("short", "normal", "long"):
            task = CaptionTask(length=length, max_tokens=16)
            cases.append((task, picture, said[f"caption_{length}"], "ids"))
        think = QueryTask(question="Why?", reasoning=True, max_tokens=16, max_reasoning_tokens=16)
        cases.append((think, picture, said["reasoning"], "reasoning"))
        for name_of, places in said["detect"].items():
            cases.append((DetectTask(object=name_of, max_objects=6), picture, places, "boxes"))
        for name_of, places in said["point"].items():
            cases.append((PointTask(object=name_of, max_objects=8), picture, places, "points"))
    return cases


def check(result: Any, expected: Any, kind: str) -> None:
    if kind == "ids":
        assert list(result.token_ids) == [int(i) for i in expected]
    elif kind == "reasoning":
        mark = result.token_ids.index(3)
        assert list(result.token_ids[mark + 1 :]) == [int(i) for i in expected["answer"]]
        points = [[(p.x, p.y) for p in g.points] for g in result.reasoning.grounding]
        assert points == [[tuple(p) for p in g["points"]] for g in expected["grounding"]]
        spoken = [i for i in result.token_ids[:mark] if i not in (5, 7, 9)]
        assert spoken == [int(i) for i in expected["text"].split() if int(i) not in (5, 7, 9)]
    elif kind == "points":
        assert [(p.x, p.y) for p in result.points] == [(p["x"], p["y"]) for p in expected]
    else:
        corners = ("x_min", "y_min", "x_max", "y_max")
        said = [[getattr(box, c) for c in corners] for box in result.boxes]
        clamped = [[min(max(box[c], 0.0), 1.0) for c in corners] for box in expected]
        assert len(said) == len(clamped)
        for mine, reference in zip(said, clamped, strict=True):
            assert mine == pytest.approx(reference, rel=1e-4, abs=1e-6)


@pytest.fixture(scope="module", params=[(name, depth) for name in SETS for depth in (1, 2)], ids=str)
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, str]]:
    name, depth = request.param
    with Engine(DATA / name, device="cpu", pipeline_depth=depth, max_batch_size=8) as made:
        yield made, name


def start(engine: Engine, name: str, case: GoldenCase) -> Future[Any]:
    picture = case[1]
    return engine.submit(case[0], None if picture is None else DATA / name / f"{picture}.png")


def test_alone(engine: tuple[Engine, str]) -> None:
    made, name = engine
    for case in golden_cases(name):
        check(start(made, name, case).result(60), case[2], case[3])


def test_in_one_batch(engine: tuple[Engine, str], monkeypatch: pytest.MonkeyPatch) -> None:
    made, name = engine
    cases, num_rows = golden_cases(name), []
    launch = ModelRunner.launch

    def count_rows(self: ModelRunner, slot: int, plan: Plan) -> None:
        while not num_rows and made._ticker._inbox.qsize() < 8:  # until the workers have filled a batch
            time.sleep(0.01)
        num_rows.append(len(plan.rows))
        launch(self, slot, plan)

    monkeypatch.setattr(ModelRunner, "launch", count_rows)
    futures = [start(made, name, case) for case in cases]
    for case, future in zip(cases, futures, strict=True):
        check(future.result(300), case[2], case[3])
    assert max(num_rows) == 8, f"steps of at most {max(num_rows)} rows are not one batch"


def test_all_names_of_a_picture_in_one_call(engine: tuple[Engine, str]) -> None:
    made, name = engine
    for picture in PICTURES:
        said = json.loads((DATA / name / "expected.json").read_text())[picture]
        for task, places, kind in (
            (DetectTask(object=tuple(said["detect"]), max_objects=6), said["detect"], "boxes"),
            (PointTask(object=tuple(said["point"]), max_objects=8), said["point"], "points"),
        ):
            result = made.submit(task, DATA / name / f"{picture}.png").result(60)
            check(result, [place for of_name in places.values() for place in of_name], kind)
            assert [found.label for found in result] == [label for label in places for _ in places[label]]
