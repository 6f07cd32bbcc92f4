"""Random traffic on photon-tiny itself: every task, streams, stop strings, seeds, cancels and deadlines of zero, all at
once in little memory; each answer is what the sequential decoder says alone (P9)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from time import sleep
from typing import Any, ClassVar

import pytest
import torch
from oracle import Oracle
from PIL import Image
from test_oracle import expected_objects, objects_of

from photon import Box, DeadlineError, Engine, Point, TextDelta
from photon.models.moondream.model import MoondreamModel
from photon.request import IMAGE_ID, Sampling, Token
from photon.runner.sampler import uniform
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

SCENES = Path(__file__).parent / "data" / "photon_tiny_eval"
NUM_REQUESTS = 20
OBJECTS = 4


@dataclass(frozen=True)
class Planned:
    """One request: asked after `pause` seconds; cancelled `cancelled_after` seconds later, if at all."""

    task: Task
    scene: int
    pause: float
    is_streamed: bool
    cancelled_after: float | None


@cache
def scenes() -> list[dict[str, Any]]:
    """The small pictures of the set: the decoder is slow."""
    pictures = json.loads((SCENES / "scenes.json").read_text())["pictures"]
    return sorted(pictures, key=lambda picture: picture["width"] * picture["height"])[:4]


@cache
def picture(scene: int) -> Image.Image:
    return Image.open(SCENES / scenes()[scene]["file"]).convert("RGB")


@pytest.fixture(scope="module", params=[1, 2], ids=lambda depth: f"depth {depth}")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    options = {"device": "cpu", "dtype": "float32", "max_batch_size": 4, "num_pages": 70}
    with Engine(**options, pipeline_depth=request.param) as made:
        yield made


def plan(rng: Random) -> list[Planned]:
    def one() -> Planned:
        scene = rng.randrange(len(scenes()))
        timeout = 0.0 if rng.random() < 0.1 else None
        return Planned(
            task=replace(_task(rng, scenes()[scene]), timeout=timeout),
            scene=scene,
            pause=rng.choice([0, 0, 0, 0.01, 0.05]),
            is_streamed=rng.random() < 0.5,
            cancelled_after=rng.choice([0, 0.02, 0.1]) if rng.random() < 0.15 else None,
        )

    return [one() for _ in range(NUM_REQUESTS)]


def _task(rng: Random, scene: dict[str, Any]) -> Any:
    nouns = sorted({thing["noun"] for thing in scene["objects"]} | {"banana", "drum"})
    sampling = Sampling(temperature=rng.choice([0, 0.8]), seed=rng.randrange(100))
    stop = rng.choice([(), (" and",), ("e", " two"), ("zebra crossing",), (" ",)])
    kind = rng.choice(["detect", "detect", "point", "several", "query", "caption", "caption"])
    match kind:
        case "detect":
            return DetectTask(object=rng.choice(nouns), max_objects=OBJECTS)
        case "point":
            return PointTask(object=rng.choice(nouns), max_objects=OBJECTS)
        case "several":
            return DetectTask(object=rng.sample(nouns, 2), max_objects=OBJECTS)
        case "query":
            question = f"What is {rng.choice(['left', 'right'])} of the {rng.choice(nouns)}?"
            return QueryTask(question=question, max_tokens=10, stop=stop, sampling=sampling)
    return CaptionTask(length=rng.choice(["short", "normal", "long"]), max_tokens=20, stop=stop, sampling=sampling)


class Alone:
    """What the sequential decoder says to tasks, one part at a time. It is slow, so that all engines share it."""

    said: ClassVar[dict[tuple[str, int], Any]] = {}

    def __init__(self, engine: Engine) -> None:
        assert isinstance(engine._loaded.model, MoondreamModel)
        self.engine, self.oracle = engine, Oracle(engine._loaded.model)
        self.images = [engine._loaded.prepare(picture(i)) for i in range(len(scenes()))]

    def __call__(self, task: Task, scene: int) -> Any:
        key = repr(task), scene
        if key not in self.said:
            of_objects = isinstance(task, DetectTask | PointTask)
            self.said[key] = self._objects(task, scene) if of_objects else self._text(task, scene)
        return self.said[key]

    def _objects(self, task: DetectTask | PointTask, scene: int) -> list[list[Token]]:
        return [
            self._prefilled(part.task, scene).locate(OBJECTS, sizes=isinstance(task, DetectTask))
            for part in task.parts()
        ]

    def _text(self, task: Any, scene: int) -> tuple[str, list[int]]:
        """The text up to the first stop string, and the ids until it is complete: one more is decoded at a time."""
        oracle, ids = self._prefilled(task, scene), []
        while len(ids) < task.max_tokens:
            logits = oracle.logits()
            if ids:
                logits[oracle.answer] = -torch.inf
            best = _draw(logits, task.sampling, len(ids))
            if best == oracle.end:
                break
            ids.append(best)
            text = self.engine._loaded.context.decode(ids)
            places = [text.find(stop) for stop in task.stop if stop in text]
            if places:
                return text[: min(places)].strip(), ids
            oracle.feed(Token(best))
        return self.engine._loaded.context.decode(ids).strip(), ids

    def _prefilled(self, task: Task, scene: int) -> Oracle:
        prompt = task.build(0, self.engine._loaded.context, self.images[scene]).prompt.tokens
        self.oracle.prefill([token for token in prompt if token.id != IMAGE_ID], self.images[scene])
        return self.oracle


def _draw(logits: torch.Tensor, sampling: Sampling, index: int) -> int:
    """The id at which the mass of the likelier ones passes the request's random number."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    likely = sorted(enumerate((logits.double() / sampling.temperature).softmax(-1).tolist()), key=lambda p: -p[1])
    left = uniform(sampling.seed, index)
    for best, probability in likely:
        left -= probability
        if left < 0:
            return best
    raise AssertionError("probabilities sum to 1")


def ask(engine: Engine, planned: list[Planned]) -> list[tuple[Future[Any], list[Any]]]:
    asked = []
    for one in planned:
        sleep(one.pause)
        chunks: list[Any] = []
        emit = chunks.append if one.is_streamed else None
        asked.append((engine.submit(one.task, picture(one.scene), emit), chunks))
        if one.cancelled_after is not None:
            sleep(one.cancelled_after)
            asked[-1][0].cancel()
    return asked


@pytest.mark.parametrize("seed", range(2))
def test_everyone_hears_what_they_would_hear_alone(engine: Engine, seed: int) -> None:
    planned, alone = plan(Random(seed)), Alone(engine)
    for one, (future, chunks) in zip(planned, ask(engine, planned), strict=True):
        if one.task.timeout == 0:
            with pytest.raises((DeadlineError, CancelledError)):
                future.result(60)
            assert not chunks
        elif not future.cancelled():
            _check(alone, one, future.result(60), chunks)
    stats = engine._ticker._scheduler.stats()
    assert (stats.num_waiting, stats.num_running, stats.num_free_pages) == (0, 0, 70)


def _check(alone: Alone, one: Planned, result: Any, chunks: list[Any]) -> None:
    if isinstance(one.task, DetectTask | PointTask):
        said = alone(one.task, one.scene)
        assert result.token_ids == tuple(token.id for part in said for token in part), one
        wanted = [thing for part in said for thing in expected_objects(part)]
        assert len(wanted) == len(result)
        for mine, right in zip(objects_of(result), wanted, strict=True):
            assert mine == pytest.approx(right, abs=1e-4)
        if one.is_streamed:
            assert sorted(chunks, key=_place) == sorted(result, key=_place)
        return
    text, ids = alone(one.task, one.scene)
    said = result.caption if isinstance(one.task, CaptionTask) else result.answer
    assert (said, list(result.token_ids)) == (text, ids), one
    if one.is_streamed:
        assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text


def _place(thing: Box | Point) -> str:
    return repr(thing)
