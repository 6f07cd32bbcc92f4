"""A whole engine of random weights against the sequential decoder: same ids, same values, same scores, in a crowd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from oracle import Oracle
from test_engine import picture
from tiny_model import write_tiny_model

from photon import Engine
from photon.models.moondream.model import MoondreamModel
from photon.request import IMAGE_ID, Token
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

NUM_PICTURES = 6
OBJECTS = 5
LIMIT = 12


@pytest.fixture(scope="module", params=[(0, 1), (0, 2), (2, 2)], ids=lambda p: f"seed {p[0]}, depth {p[1]}")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    seed, depth = request.param
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), seed=seed)
    with Engine(folder, device="cpu", pipeline_depth=depth, max_batch_size=4, page_size=4) as made:
        yield made


def tasks_of(i: int) -> list[Task]:
    ref = (0.1 * i, 0.5)
    return [
        DetectTask(object=f"thing {i}", max_objects=OBJECTS),
        PointTask(object=f"thing {i}", spatial_refs=(ref, (0.0, 0.25, 0.5, 1.0)), max_objects=OBJECTS),
        QueryTask(question=f"why {i}?", max_tokens=LIMIT),
        CaptionTask(length="long", max_tokens=LIMIT),
    ]


def ask(engine: Engine, task: Task, i: int) -> list[Token]:
    """What the oracle says to the prompt of the task."""
    model = engine._loaded.model
    assert isinstance(model, MoondreamModel)
    image = engine._loaded.prepare(picture(i))
    prompt = task.build(0, engine._loaded.context, image).prompt.tokens
    oracle = Oracle(model)
    oracle.prefill([token for token in prompt if token.id != IMAGE_ID], image)
    if isinstance(task, DetectTask | PointTask):
        return oracle.locate(OBJECTS, sizes=isinstance(task, DetectTask))
    return oracle.answer_text(LIMIT)


def objects_of(result: Any) -> list[tuple[float, ...]]:
    return [(o.x, o.y, o.score) if hasattr(o, "x") else (o.x_min, o.y_min, o.x_max, o.y_max, o.score) for o in result]


def expected_objects(said: list[Token]) -> list[tuple[float, ...]]:
    if not said or len(said) < 3 or not any(len(token.value) == 2 for token in said):
        pairs = zip(said[::2], said[1::2], strict=True)
        return [(x.value[0], y.value[0], x.score or 0.0) for x, y in pairs]
    boxes = []
    for x, y, size in zip(said[::3], said[1::3], said[2::3], strict=True):
        (cx,), (cy,), (width, height) = x.value, y.value, size.value
        corners = (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2)
        boxes.append((*(min(max(c, 0.0), 1.0) for c in corners), x.score or 0.0))
    return boxes


def test_the_engine_says_what_the_oracle_says(engine: Engine) -> None:
    pairs = [(task, i) for i in range(NUM_PICTURES) for task in tasks_of(i)]
    futures = [engine.submit(task, picture(i)) for task, i in pairs]
    num_objects = 0
    for (task, i), future in zip(pairs, futures, strict=True):
        result, said = future.result(60), ask(engine, task, i)
        assert result.token_ids == tuple(token.id for token in said), f"{task} on picture {i}"
        if isinstance(task, DetectTask | PointTask):
            num_objects += len(result)
            for mine, wanted in zip(objects_of(result), expected_objects(said), strict=True):
                assert mine == pytest.approx(wanted, abs=1e-5)
    assert num_objects > NUM_PICTURES, "too few objects to tell anything"
