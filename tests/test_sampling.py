"""Sampling from end to end: settings out of range, and rows of every kind in one engine against a sequential decoder.

The decoder's penalty, temperature and cuts are those of transformers; its log-probabilities are a plain log-softmax.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from oracle import Oracle
from test_engine import picture
from tiny_model import write_tiny_model
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from photon import Engine, RequestError
from photon.models.moondream.model import MoondreamModel
from photon.request import IMAGE_ID, Prompt, Sampling, Token
from photon.runner.sampler import uniform
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

LIMIT = 24
END, ANSWER = 0, 3

SETTINGS = [
    Sampling(),
    Sampling(logprobs=0),
    Sampling(repetition_penalty=1.8),
    Sampling(temperature=0.9, top_k=3, seed=4),
    Sampling(temperature=1.5, min_p=0.2, seed=5, logprobs=20),
    Sampling(repetition_penalty=0.7, logprobs=2),
    Sampling(temperature=1.0, top_p=0.8, top_k=8, min_p=0.02, repetition_penalty=3.0, seed=6, logprobs=5),
    Sampling(temperature=2.0, top_p=0.6, seed=7),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"), seed=2)


@pytest.fixture(scope="module", params=[1, 2], ids=lambda depth: f"depth {depth}")
def engine(request: pytest.FixtureRequest, folder: Path) -> Iterator[Engine]:
    with Engine(folder, device="cpu", pipeline_depth=request.param, max_batch_size=4, page_size=4) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "limits", "bad"),
    [
        ("temperature", r"\[0, 100\]", [-0.1, 100.1, math.nan, math.inf, "1", None, True, 1j]),
        ("top_p", r"\(0, 1\]", [0, 1.01, math.nan, -math.inf, "1", None, True]),
        ("seed", r"\[0, 9223372036854775807\]", [-1, 2**63, 1.0, math.nan, "1", None, True]),
        ("top_k", r"\[0, 2147483647\]", [-1, 2**31, 1.0, math.nan, "1", None, True]),
        ("min_p", r"\[0, 1\]", [-0.1, 1.01, math.nan, math.inf, "1", None, False]),
        ("repetition_penalty", r"\[0\.01, 100\]", [0, -1, 100.5, math.nan, math.inf, "1", None, True]),
        ("logprobs", r"\[0, 20\]", [-1, 21, 1.0, math.nan, "1", True]),
    ],
)
def test_every_bad_value_is_named_with_the_range(name: str, limits: str, bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(RequestError, match=f"^{name} must be .* in {limits}, got ") as caught:
            Sampling(**{name: value})
        assert str(caught.value).endswith(repr(value))


def words_of(prompt: Prompt) -> list[int]:
    return [token.id for token in prompt.tokens if token.id not in (IMAGE_ID, END) and not token.value]


def processors(sampling: Sampling) -> LogitsProcessorList:
    """As transformers orders them."""
    made = [RepetitionPenaltyLogitsProcessor(float(sampling.repetition_penalty))]
    if sampling.temperature:
        made += [TemperatureLogitsWarper(float(sampling.temperature))]
        made += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
        made += [TopPLogitsWarper(float(sampling.top_p)), MinPLogitsWarper(float(sampling.min_p))]
    return LogitsProcessorList(made)


def choose(scores: torch.Tensor, sampling: Sampling, index: int) -> int:
    """The id over whose share of the unit interval, likeliest first, the request's random number lies."""
    if not sampling.temperature:
        return int(scores.argmax())
    masses, order = scores.double().softmax(-1).sort(descending=True, stable=True)
    reached, target = 0.0, uniform(sampling.seed, index)
    for mass, token_id in zip(masses.tolist(), order.tolist(), strict=True):
        reached += mass
        if reached > target:
            return token_id
    raise AssertionError("the probabilities do not add up")


def say(engine: Engine, task: Task, i: int) -> tuple[list[int], list[torch.Tensor]]:
    """Ids that the decoder says, and the log-probabilities of all ids before each."""
    model = engine._loaded.model
    assert isinstance(model, MoondreamModel)
    image = engine._loaded.prepare(picture(i))
    prompt = task.build(0, engine._loaded.context, image).prompt
    oracle, process = Oracle(model), processors(task.sampling)
    oracle.prefill([token for token in prompt.tokens if token.id != IMAGE_ID], image)
    said: list[int] = []
    logs: list[torch.Tensor] = []
    while len(said) < LIMIT:
        logits = oracle.logits()
        if said:
            logits[ANSWER] = -torch.inf
        logs.append(logits.log_softmax(-1))
        heard = torch.LongTensor([words_of(prompt) + said])
        said.append(choose(process(heard, torch.FloatTensor(logits[None]))[0], task.sampling, len(said)))  # type: ignore[arg-type]
        if said[-1] == END:
            return said[:-1], logs[:-1]
        oracle.feed(Token(said[-1]))
    return said, logs


def text_tasks() -> list[Task]:
    """One question under all settings, and a crowd of others."""
    alike: list[Task] = [QueryTask(question="why?", max_tokens=LIMIT, sampling=s) for s in SETTINGS]
    other: list[Task] = [CaptionTask(length="long", max_tokens=LIMIT, sampling=s) for s in reversed(SETTINGS)]
    return [task for pair in zip(alike, other, strict=True) for task in pair]


def check_logprobs(result: Any, asked: int | None, logs: list[torch.Tensor]) -> None:
    if asked is None:
        assert result.logprobs is None and "logprobs" not in result.to_dict()
        return
    assert [entry.id for entry in result.logprobs] == list(result.token_ids)
    for entry, log in zip(result.logprobs, logs, strict=True):
        assert entry.logprob == pytest.approx(float(log[entry.id]), abs=1e-4)
        best = log.topk(asked).values.tolist()
        assert [candidate.logprob for candidate in entry.top] == pytest.approx(best, abs=1e-4)
        for candidate in entry.top:
            assert candidate.logprob == pytest.approx(float(log[candidate.id]), abs=1e-4)


def test_rows_of_every_setting_say_what_the_decoder_says(engine: Engine) -> None:
    tasks = text_tasks()
    futures = [engine.submit(task, picture(i % 3)) for i, task in enumerate(tasks)]
    answers = set()
    for i, (task, future) in enumerate(zip(tasks, futures, strict=True)):
        (ids, logs), result = say(engine, task, i % 3), future.result(60)
        assert list(result.token_ids) == ids, f"{task} on picture {i % 3}"
        check_logprobs(result, task.sampling.logprobs, logs)
        answers.add(result.token_ids)
    assert len(answers) > len(tasks) / 2, "the answers are too alike to tell the settings apart"


def test_a_high_penalty_ends_all_repetition(engine: Engine) -> None:
    def ask(penalty: float) -> tuple[int, ...]:
        return engine.query(picture(0), "why?", max_tokens=LIMIT, repetition_penalty=penalty).token_ids

    free, penalised = ask(1.0), ask(100.0)
    assert len(set(free)) < len(free), "nothing is repeated anyway"
    assert len(set(penalised)) == len(penalised) > 1


@pytest.mark.parametrize(("kind", "width"), [(PointTask, 2), (DetectTask, 3)])
def test_objects_report_what_could_be_said_and_no_minus_infinity(engine: Engine, kind: Any, width: int) -> None:
    coord, size, num_objects = 5, 6, 0
    for i in range(6):
        task = kind(object="thing", max_objects=4, sampling=Sampling(logprobs=20))
        result = engine.submit(task, picture(i)).result(60)
        num_objects += len(result)
        assert len(result.logprobs) == len(result.token_ids)
        for place, entry in enumerate(result.logprobs):
            said = {candidate.id: math.exp(candidate.logprob) for candidate in entry.top}
            assert set(said) == [{END, coord}, {coord}, {size}][place % width]
            assert sum(said.values()) == pytest.approx(1, abs=1e-5)
            assert list(said.values()) == sorted(said.values(), reverse=True)
            if place % width == 0:
                assert math.exp(entry.logprob) == pytest.approx(list(result)[place // width].score, abs=1e-5)
        shape = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert [entry["id"] for entry in shape["logprobs"]] == list(result.token_ids)
        assert all(entry["top"][0].keys() == {"id", "text", "logprob"} for entry in shape["logprobs"])
    assert num_objects > 6, "too few objects to tell anything"


REFS = ((0.25, 0.5), (0.1, 0.1, 0.5, 0.75))


@pytest.mark.parametrize(
    "task",
    [DetectTask(object="thing", max_objects=5), PointTask(object="thing", max_objects=5, spatial_refs=REFS)],
    ids=["detect", "point"],
)
def test_objects_are_the_same_under_a_penalty(engine: Engine, task: DetectTask | PointTask) -> None:
    """A coordinate that is said again is no repetition, be it of the prompt's or of the answer's."""
    penalised = replace(task, sampling=Sampling(repetition_penalty=50.0))
    num_objects = 0
    for i in range(6):
        result, other = engine.submit(task, picture(i)).result(60), engine.submit(penalised, picture(i)).result(60)
        assert list(result) == list(other)
        num_objects += len(result)
    assert num_objects > 6, "too few objects to tell anything"


def test_texts_of_the_tokens_are_the_answer(engine: Engine) -> None:
    result = engine.query(picture(1), "why?", max_tokens=LIMIT, logprobs=0)
    assert result.logprobs
    assert all(entry.top == () for entry in result.logprobs)
    decode = engine._loaded.context.decode
    assert [entry.text for entry in result.logprobs] == [decode([token_id]) for token_id in result.token_ids]


def test_nothing_is_computed_that_nobody_asked_for(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("not asked for")

    for name in ("log_probabilities", "penalise", "mark_said", "sample_ids"):
        monkeypatch.setattr(f"photon.runner.runner.{name}", forbidden)
    assert engine.query(picture(0), "why?", max_tokens=4).finish_reason in ("stop", "length")


def test_an_empty_answer_has_no_entries(engine: Engine) -> None:
    task = CaptionTask(sampling=Sampling(logprobs=3))
    metrics = engine.caption(picture(0), max_tokens=1).metrics
    assert task.parse(engine._loaded.context, (), "stop", metrics=metrics).to_dict()["logprobs"] == []
