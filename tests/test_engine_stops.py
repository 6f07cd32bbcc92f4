"""Stop strings through whole engines: threads and asyncio, streamed and not, at both depths; fewer steps, same text."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from test_streaming import slow_steps
from tiny_model import write_tiny_model

from photon import AsyncEngine, Caption, End, Engine, Query, ReasoningDelta, TextDelta
from photon.request import Sampling
from photon.tasks import QueryTask

MARKET = Path(__file__).parents[1] / "examples" / "images" / "market.png"
PICTURE = Image.fromarray(np.random.default_rng(3).integers(0, 256, (70, 90, 3), dtype=np.uint8))
DEPTHS = (1, 2)
ANSWER = 3  # the id that ends the thoughts


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    """Random weights that say random bytes and whole words ("[300]") by turns, at depth 1 and 2."""
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"))
    engines = [Engine(folder, device="cpu", pipeline_depth=depth) for depth in DEPTHS]
    yield engines
    for engine in engines:
        engine.close(drain=False)


@pytest.fixture(scope="module")
def photon_tiny() -> Iterator[list[Engine]]:
    engines = [Engine("photon-tiny", device="cpu", pipeline_depth=depth) for depth in DEPTHS]
    yield engines
    for engine in engines:
        engine.close(drain=False)


def decode(engine: Engine, ids: tuple[int, ...]) -> str:
    return engine._loaded.context.decode(ids)


def joined(chunks: list[Any], kind: type[Any] = TextDelta) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


def pick_stops(text: str, rng: np.random.Generator) -> list[str]:
    """One or two pieces of the text, and one that is not in it."""
    starts = rng.integers(0, len(text), rng.integers(1, 3))
    return [text[at : at + int(rng.integers(1, 9))] for at in starts] + ["nowhere to be found"]


def heard(engine: Engine, ids: tuple[int, ...], stops: list[str]) -> tuple[int, str]:
    """How many tokens are said until a stop string is in their text, and that text; no character in it is open."""
    pieces = [engine._loaded.context.detokenizer()._bytes_of[i] for i in ids]
    for n in range(1, len(ids) + 1):
        text = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(b"".join(pieces[:n]))
        if any(stop in text for stop in stops):
            return n, text
    return len(ids), decode(engine, ids)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("reasoning", [False, True])
def test_any_answer_is_cut_where_a_plain_search_cuts_it(tiny: list[Engine], seed: int, reasoning: bool) -> None:
    sampling = Sampling(temperature=3.0, seed=seed)
    task = QueryTask(question="why?", reasoning=reasoning, max_reasoning_tokens=12, max_tokens=40, sampling=sampling)
    whole = tiny[0].submit(task, PICTURE).result(30)
    mark = whole.token_ids.index(ANSWER) + 1 if reasoning else 0
    stops = pick_stops(decode(tiny[0], whole.token_ids[mark:]), np.random.default_rng(seed))
    n, said = heard(tiny[0], whole.token_ids[mark:], stops)
    expected = said[: min(said.find(stop) for stop in stops if stop in said)]
    task = replace(task, stop=stops)
    for engine in tiny:
        result = engine.submit(task, PICTURE).result(30)
        assert (result.answer, result.finish_reason) == (expected.strip(), "stop")
        assert result.token_ids == whole.token_ids[: mark + n] and result.metrics.output_tokens == mark + n
        chunks: list[Any] = []
        assert engine.submit(task, PICTURE, chunks.append).result(30) == result
        assert joined(chunks) == result.answer
        assert result.reasoning == whole.reasoning
        if whole.reasoning is not None:
            assert joined(chunks, ReasoningDelta) == whole.reasoning.text


CALLS: list[Callable[[Any, dict[str, Any]], Any]] = [
    lambda engine, options: engine.caption(MARKET, "long", **options),
    lambda engine, options: engine.query(MARKET, "What is in the picture?", **options),
]


@pytest.mark.parametrize("call", CALLS, ids=["caption", "query"])
def test_a_model_that_means_something(
    photon_tiny: list[Engine], monkeypatch: pytest.MonkeyPatch, call: Callable[[Any, dict[str, Any]], Any]
) -> None:
    """A stop string across a token border."""
    whole = call(photon_tiny[0], {})
    text = decode(photon_tiny[0], whole.token_ids)
    pieces = [decode(photon_tiny[0], (i,)) for i in whole.token_ids]
    border = next(n for n in range(1, len(pieces)) if len(pieces[n - 1]) > 1)
    at = len("".join(pieces[:border]))
    stop = text[at - 2 : at + 2]
    expected = text[: text.find(stop)].strip()
    launched = slow_steps(monkeypatch, 0.0)
    for depth, engine in zip(DEPTHS, photon_tiny, strict=True):
        launched.clear()
        result = call(engine, {"stop": stop, "logprobs": 1})
        assert (str(result.to_dict().get("caption", result.to_dict().get("answer"))), result.finish_reason) == (
            expected,
            "stop",
        )
        assert result.token_ids == whole.token_ids[: len(result.token_ids)]
        assert result.logprobs is not None and len(result.logprobs) == len(result.token_ids)
        assert len(launched) <= len(result.token_ids) + depth - 1, "work ends with the token that completes it"
        chunks = list(call(engine, {"stop": [stop, "never"], "stream": True}))
        assert joined(chunks) == expected
        assert call(engine, {"stop": "never said"}).token_ids == whole.token_ids


def test_asyncio(photon_tiny: list[Engine]) -> None:
    whole = photon_tiny[0].caption(MARKET)
    stop = whole.caption[9:14]
    expected = whole.caption[: whole.caption.find(stop)].strip()

    async def work(depth: int) -> None:
        async with AsyncEngine("photon-tiny", device="cpu", pipeline_depth=depth) as engine:
            assert (await engine.caption(MARKET, stop=stop)).caption == expected
            chunks = [chunk async for chunk in engine.caption(MARKET, stop=[stop], stream=True)]
            assert joined(chunks) == expected and isinstance(chunks[-1], End)
            (answer,) = await engine.run([Caption(MARKET, stop=(stop,))])
            assert answer.caption == expected

    for depth in DEPTHS:
        asyncio.run(work(depth))


def test_asks_pass_them_on(tiny: list[Engine]) -> None:
    options: dict[str, Any] = {"temperature": 3.0, "seed": 5}
    whole = tiny[1].query(None, "why?", max_tokens=30, **options)
    stop = decode(tiny[1], whole.token_ids[:6])[-1]
    answers = tiny[1].run([Query(None, "why?", max_tokens=30, stop=stop, sampling=options)])  # type: ignore[arg-type]
    assert answers[0] == tiny[1].query(None, "why?", max_tokens=30, stop=stop, **options)
    assert len(answers[0].token_ids) < len(whole.token_ids)
