"""Models asked several things about one prepared picture at once: as asked alone (P9), the picture computed once.

Each picture goes through the vision tower once for all tests; how often it was asked to is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_model import write_tiny_model
from torch import Tensor

from photon.config import EngineConfig
from photon.device import Device
from photon.engine.loading import LoadedModel, build_scheduler, load_model
from photon.models.moondream.model import MoondreamModel
from photon.request import PreparedImage, Prompt, Request, Sampling, Token
from photon.runner.plan import Plan
from photon.runner.runner import ModelRunner
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

DATA = Path(__file__).parent / "data"
CPU = Device("cpu", torch.float32)
PICTURES = {
    "random": DATA / "moondream2_tiny" / "small.png",  # a model of random weights with a prefix of 17 positions
    "moondream2_tiny": DATA / "moondream2_tiny" / "photo.png",
    "moondream2_tiny_grounding": DATA / "moondream2_tiny_grounding" / "small.png",
    "photon-tiny": DATA / "photon_tiny_eval" / "0003.webp",
}
PAGE_SIZES = {  # prefixes of 17, 730, 730 and 257 positions: they end with a page, behind, before, anywhere
    "random": (1, 4, 8, 9, 16, 17, 18, 64),
    "moondream2_tiny": (16, 73),
    "moondream2_tiny_grounding": (1, 243),
    "photon-tiny": (1, 16),
}
TASKS: list[Task] = [
    DetectTask(object="banana", max_objects=4, sampling=Sampling(logprobs=2)),
    PointTask(object="apple", max_objects=3),
    QueryTask(question="How many?", max_tokens=6, sampling=Sampling(repetition_penalty=1.3)),
    DetectTask(object="car", max_objects=3),
    CaptionTask(length="short", max_tokens=7, sampling=Sampling(temperature=0.8, seed=3)),
]
WORD = 5  # often said by the random model
FOLDERS: dict[str, Path] = {name: DATA / name for name in PICTURES if name.startswith("moondream")}
FEATURES: dict[tuple[int, bytes], Tensor] = {}
Said = dict[int, tuple[list[Token], str | None]]


@dataclass
class Work:
    """What was computed: pictures encoded, and of each step whether it is a prefill, and its rows' lengths."""

    num_images: int = 0
    steps: list[tuple[bool, list[int]]] = field(default_factory=list)

    @property
    def prefills(self) -> list[list[int]]:
        return [lengths for is_prefill, lengths in self.steps if is_prefill]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    done = Work()
    encode, launch = MoondreamModel.encode_images, ModelRunner.launch

    def encode_once(model: MoondreamModel, images: list[PreparedImage]) -> list[Tensor]:
        done.num_images += len(images)
        for image in images:
            key = (id(model), image.crops.tobytes())
            if key not in FEATURES:
                FEATURES[key] = encode(model, [image])[0]
        return [FEATURES[id(model), image.crops.tobytes()] for image in images]

    def count_positions(runner: ModelRunner, slot: int, plan: Plan) -> None:
        done.steps.append((plan.is_prefill, [row.length for row in plan.rows]))
        launch(runner, slot, plan)

    monkeypatch.setattr(MoondreamModel, "encode_images", encode_once)
    monkeypatch.setattr(ModelRunner, "launch", count_positions)
    yield done


@pytest.fixture(scope="module", autouse=True)
def random_model(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDERS["random"] = write_tiny_model(tmp_path_factory.mktemp("tiny"))


def config(name: str, **options: Any) -> EngineConfig:
    return EngineConfig.from_options(str(FOLDERS.get(name, name)), **options)


@cache
def loaded(name: str) -> LoadedModel:
    return load_model(config(name), CPU)


@cache
def prepared(name: str) -> PreparedImage:
    return loaded(name).prepare(Image.open(PICTURES[name]).convert("RGB"))


def build(name: str, image: PreparedImage) -> list[Request]:
    return [task.build(i, loaded(name).context, image) for i, task in enumerate(TASKS)]


def run(name: str, requests: list[Request], *, every: int = 0, **options: Any) -> Said:
    """What each says; with `every`, they arrive so many ticks apart."""
    scheduler = build_scheduler(config(name, **options), loaded(name).model, CPU)
    num_pages, tick = scheduler.stats().num_free_pages, 0
    said: Said = {request.id: ([], None) for request in requests}
    arrivals = deque(enumerate(requests))
    while arrivals or scheduler.has_work:
        while arrivals and tick >= arrivals[0][0] * every:
            scheduler.add(arrivals.popleft()[1])
        for update in scheduler.tick():
            assert update.error is None
            said[update.request_id] = (said[update.request_id][0] + list(update.tokens), update.finish_reason)
        scheduler.check_integrity()
        tick += 1
    assert scheduler.stats().num_free_pages == num_pages
    return said


@cache
def alone(name: str) -> Said:
    """Each request by itself, with a picture object of its own, in pages of 16 and without a pipeline."""
    said: Said = {}
    for i in range(len(TASKS)):
        request = build(name, replace(prepared(name)))[i]
        said |= run(name, [request], pipeline_depth=1)
    return said


def prefix_length(name: str) -> int:
    return 1 + loaded(name).context.image_length


def assert_equal(said: Said, expected: Said) -> None:
    assert said.keys() == expected.keys()
    for i in expected:
        tokens, others = said[i][0], expected[i][0]
        assert said[i][1] == expected[i][1]
        assert [token.id for token in tokens] == [token.id for token in others]
        assert numbers(tokens) == pytest.approx(numbers(others), abs=1e-4)


def numbers(tokens: list[Token]) -> list[float]:
    """Values, scores and log-probabilities."""
    out: list[float] = []
    for token in tokens:
        out += token.value
        out += [] if token.score is None else [token.score]
        out += [] if token.logprobs is None else [token.logprobs.chosen, *(p for _, p in token.logprobs.top)]
    return out


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("name", "page_size"), [(name, size) for name in PICTURES for size in PAGE_SIZES[name]])
def test_together_as_alone_and_the_picture_once(name: str, page_size: int, depth: int, work: Work) -> None:
    expected = alone(name)
    work.num_images, work.steps = 0, []
    requests = build(name, prepared(name))
    assert_equal(run(name, requests, pipeline_depth=depth, page_size=page_size), expected)
    assert work.num_images == 1
    first, *others = [len(request.prompt) for request in requests]
    assert work.prefills == [[first], [length - prefix_length(name) for length in others]]


def test_alone_each_computes_the_picture(work: Work) -> None:
    said = alone.__wrapped__("random")
    assert work.num_images == len(TASKS) and sum(len(tokens) for tokens, _ in said.values()) > 10


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", ["random", "photon-tiny"])
def test_one_row_at_a_time_shares_with_those_that_have_ended(name: str, depth: int, work: Work) -> None:
    expected = alone(name)
    work.num_images = 0
    assert_equal(run(name, build(name, prepared(name)), pipeline_depth=depth, max_batch_size=1), expected)
    assert work.num_images == 1


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("page_size", PAGE_SIZES["random"])
def test_memory_for_one_at_a_time(page_size: int, depth: int, work: Work) -> None:
    expected = alone("random")
    requests = build("random", prepared("random"))
    most = max(len(request.prompt) + min(request.limit_tokens, request.max_tokens) - 1 for request in requests)
    said = run("random", requests, pipeline_depth=depth, page_size=page_size, num_pages=-(-most // page_size))
    assert_equal(said, expected)


@pytest.mark.parametrize("depth", [1, 2])
def test_words_before_the_picture_count_for_the_penalty(depth: int, work: Work) -> None:
    texts = [request for request in build("random", prepared("random")) if request.constraint is None]
    plain, penalised = ([with_word(request, penalty=penalty) for request in texts] for penalty in (1.0, 50.0))
    freely = run("random", plain, pipeline_depth=depth)
    expected: Said = {}
    for request in penalised:
        expected |= run("random", [request])
    for i in expected:
        assert WORD in [token.id for token in freely[i][0]]
        assert WORD not in [token.id for token in expected[i][0]]
    work.num_images = 0
    assert_equal(run("random", penalised, pipeline_depth=depth), expected)
    assert work.num_images == 1


def with_word(request: Request, *, penalty: float) -> Request:
    """WORD stands between the first token and the picture."""
    bos, *others = request.prompt.tokens
    (span,) = request.prompt.images
    prompt = Prompt((bos, Token(WORD), *others), (replace(span, start=span.start + 1),))
    return replace(request, prompt=prompt, sampling=replace(request.sampling, repetition_penalty=penalty))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("page_size", [16, 64])
def test_who_comes_later_shares_while_another_speaks(page_size: int, depth: int, work: Work) -> None:
    """The later one's copy holds what the first has said since in the same page, and reads none of it."""
    expected = alone("random")
    work.num_images = 0
    long = QueryTask(question="?", max_tokens=40).build(99, loaded("random").context, prepared("random"))
    requests = [replace(long, stop_ids=frozenset()), *build("random", prepared("random"))]
    said = run("random", requests, every=4, pipeline_depth=depth, page_size=page_size)
    assert len(said.pop(99)[0]) == 40
    assert_equal(said, expected)
    assert work.num_images == 1 and len(work.prefills) == len(requests)
