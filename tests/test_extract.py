"""Extract, and a query's value, from both engines: instances of a model, streams, `run`, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
from PIL import Image
from tiny_model import write_tiny_model

from photon import AsyncEngine, ConstraintError, End, Engine, Extract, Query, RequestError

PICTURE = Image.new("RGB", (60, 40), (200, 30, 30))


class Mug(pydantic.BaseModel):
    kind: str = pydantic.Field(max_length=4)
    full: bool


class Never(pydantic.BaseModel):
    full: bool

    @pydantic.field_validator("full")
    @classmethod
    def refuse(cls, full: bool) -> bool:
        raise ValueError("never right")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(folder, device="cpu") as engine:
        yield engine


def test_extract_gives_an_instance_and_its_text(engine: Engine) -> None:
    result = engine.extract(PICTURE, Mug, instructions="Look.", temperature=1.0, seed=2)
    assert isinstance(result.value, Mug) and result.value == Mug(**json.loads(result.text))
    said = json.loads(json.dumps(result.to_dict()))
    assert (said["value"], said["answer"]) == (result.value.model_dump(), result.text)
    assert result.image is not None and result.draw().size


def test_the_same_of_a_dict_and_of_json(engine: Engine) -> None:
    schema = Mug.model_json_schema()
    values = [engine.extract(PICTURE, asked).value for asked in (schema, json.dumps(schema))]
    assert values[0] == values[1] == engine.extract(PICTURE, Mug).value.model_dump()


def test_both_engines_run_and_streams_say_the_same(engine: Engine, folder: Path) -> None:
    alone = engine.extract(PICTURE, Mug)
    assert engine.run([Extract(PICTURE, Mug), Query(PICTURE, "x", choices=["a"])])[0] == alone

    async def ask() -> tuple[Any, list[Any]]:
        async with AsyncEngine(folder, device="cpu") as other:
            whole = await other.extract(PICTURE, Mug)
            return whole, [chunk async for chunk in other.extract(PICTURE, Mug, stream=True)]

    whole, chunks = asyncio.run(ask())
    assert whole == alone and isinstance(chunks[-1], End) and chunks[-1].result == alone
    assert "".join(chunk.text for chunk in chunks[:-1]) == alone.text


def test_a_value_that_the_model_refuses_is_an_error_with_its_text(engine: Engine) -> None:
    with pytest.raises(ConstraintError, match="never right") as caught:
        engine.extract(PICTURE, Never)
    assert isinstance(json.loads(caught.value.text or "")["full"], bool)


def test_what_is_refused_before_any_work(engine: Engine) -> None:
    for call, said in [
        (lambda: engine.extract(PICTURE, None), "extract needs a schema"),  # type: ignore[arg-type]
        (lambda: engine.extract(PICTURE, Mug, instructions=" "), "instructions"),
        (lambda: engine.extract(PICTURE, Mug, max_tokens=0), "max_tokens"),
        (lambda: engine.extract(PICTURE, Mug, choices=["a"]), "unknown keyword 'choices'"),  # type: ignore[call-arg]
        (lambda: engine.query(PICTURE, "x", regex="a", stop="a"), "stop cannot be with regex"),
        (lambda: engine.query(PICTURE, "x", regex="a", reasoning=True), "reasoning cannot be with regex"),
        (lambda: engine.query(PICTURE, "x", regex="a", schema=Mug), "schema and regex"),
        (lambda: engine.caption(PICTURE, regex="a"), "only query takes"),  # type: ignore[call-overload]
    ]:
        with pytest.raises(RequestError, match=said):
            call()
