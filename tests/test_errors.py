"""Errors: one base class for all that a call can raise, and messages that name the value that was wrong."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_engine import picture
from tiny_model import write_tiny_model

import photon.errors
from photon import Caption, ConfigError, Detect, Engine, EngineConfig, EngineError, PhotonError, PointAt, Query
from photon.engine.asks import Ask
from photon.request import Sampling
from photon.results import DetectResult, Metrics, Result

PACKAGE = Path(photon.errors.__file__).parent
NUMBERS = [5, -1, 0, 1.5, float("nan"), float("inf"), 10**30, True, np.float32(0.5), np.int64(2)]
TEXTS: list[Any] = ["x", "", "\ud800", "cat\0", b"", b"x"]
GROUPS: list[Any] = [[], [None], [[]], (0.5,), (0.5, 0.5), ("a", "a"), {}, {"a": 1}, set()]
ODD: list[Any] = [None, *NUMBERS, *TEXTS, *GROUPS, object(), print, np.array([1, 2]), np.array(5), torch.zeros(2)]

# What is raised and is no error of ours, by file: caught on its way, or Python's own protocols.
OTHERS = {
    "__init__.py": {"AttributeError"},
    "results.py": {"ValueError"},  # of results that are made by hand
    "images/levels.py": {"ValueError"},
    "engine/stream.py": {"StopIteration"},
    "engine/async_stream.py": {"StopAsyncIteration"},
    "dialects/frame.py": {"ValueError"},  # no user makes a frame
    "models/hf/model.py": {"AssertionError"},  # our own invariant
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(write_tiny_model(tmp_path_factory.mktemp("tiny")), device="cpu") as made:
        yield made


def raised_in(path: Path) -> set[str]:
    """Names of the built-in exceptions that a file raises."""
    nodes = (n.exc for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise))
    called = (n.func if isinstance(n, ast.Call) else n for n in nodes)
    return {n.id for n in called if isinstance(n, ast.Name) and hasattr(builtins, n.id)}


def test_all_errors_have_one_base() -> None:
    classes = [c for _, c in inspect.getmembers(photon.errors, inspect.isclass)]
    assert len(classes) > 7 and all(issubclass(c, PhotonError) for c in classes)
    assert all(hasattr(photon, c.__name__) for c in classes), "each can be caught by its name in photon"


def test_nothing_else_is_raised() -> None:
    files = [p for p in PACKAGE.rglob("*.py") if p.parent.name not in ("cli", "bench")]
    raised = {str(p.relative_to(PACKAGE)): raised_in(p) for p in files}
    assert {name: names for name, names in raised.items() if names - OTHERS.get(name, set())} == {}


def odd_asks() -> Iterator[tuple[str, Any, Ask]]:
    """Every argument of every call with every odd value: its name, the value, and the question."""
    image = picture(0)
    plain: list[tuple[type[Any], dict[str, Any]]] = [
        (Caption, {"max_tokens": 1}),
        (Query, {"question": "x", "max_tokens": 1}),
        (PointAt, {"object": "x", "max_objects": 1}),
        (Detect, {"object": "x", "max_objects": 1}),
    ]
    for kind, arguments in plain:
        for name in (f.name for f in fields(kind) if f.name not in ("image", "sampling")):
            for value in ODD:
                yield name, value, kind(image, **arguments | {name: value})
    for name in (f.name for f in fields(Sampling)):
        for value in ODD:
            yield name, value, Caption(image, max_tokens=1, sampling={name: value})  # type: ignore[typeddict-item]
    for value in ODD:
        if value is not None:
            yield "an image", value, Caption(value, max_tokens=1)


def is_named(value: Any, message: str) -> bool:
    """A group may be named by what is wrong in it, a picture by its kind."""
    if isinstance(value, list | tuple | dict | set | np.ndarray | torch.Tensor | bytes):
        return any(one in message for one in ("got ", "empty", "not an image", "of shape"))
    if isinstance(value, str) and not value.isprintable():
        return repr(value) in message or "not valid Unicode" in message or "cannot be opened" in message
    if value == "" and "empty" in message:
        return True
    return any(one in message for one in (repr(value), str(value) or repr(value), type(value).__name__))


def test_odd_values_are_refused_by_name_or_answered(engine: Engine) -> None:
    asked = list(odd_asks())
    answers = engine.run([ask for _, _, ask in asked], on_error="return")
    num_refused = 0
    for (name, value, ask), answer in zip(asked, answers, strict=True):
        what = f"{type(ask).__name__} with {name}={value!r}: {answer}"
        if isinstance(answer, Result):
            continue
        num_refused += 1
        assert isinstance(answer, PhotonError) and not isinstance(answer, EngineError), what
        assert name == "timeout" or is_named(value, str(answer)), what
    assert num_refused > len(asked) / 2 and engine.state == "running"


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
def test_odd_ways_of_asking_are_refused(engine: Engine, value: Any) -> None:
    calls = [
        lambda: engine.submit(value),
        lambda: engine.run([value]),
        lambda: engine.run(value) and None,
        lambda: engine.run([], progress=value),
        lambda: engine.run([], on_error=value),
        lambda: engine.caption(picture(0), stream=value, max_tokens=1),
        lambda: engine.caption(picture(0), colour=value),  # type: ignore[call-overload]
        lambda: EngineConfig.from_options(colour=value),
    ]
    for call in calls:
        try:
            call()
        except PhotonError as error:
            assert len(str(error)) > 20


@pytest.mark.parametrize("name", [f.name for f in fields(EngineConfig) if f.name != "model"])
def test_odd_options_are_refused_by_name_or_taken(name: str) -> None:
    for value in ODD:
        try:
            EngineConfig.from_options(**{name: value})
        except ConfigError as error:
            assert name in str(error) and is_named(value, str(error)), f"{name}={value!r}: {error}"


def test_an_unknown_keyword_lists_the_known_ones(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="unknown option 'colour'; known options: model, revision, device, dtype, "):
        Engine(colour=1)
    with pytest.raises(PhotonError, match="unknown keyword 'colour'; known sampling keywords: temperature, top_p, "):
        engine.caption(picture(0), colour=1)  # type: ignore[call-overload]


def test_drawing_raises_ours() -> None:
    result = DetectResult((), token_ids=(), finish_reason="stop", metrics=Metrics())
    with pytest.raises(PhotonError, match="no picture"):
        result.draw()


def test_a_question_without_a_picture_needs_a_model_that_takes_one() -> None:
    with Engine("photon-tiny", device="cpu") as tiny:
        for ask in (lambda: tiny.query(None, "why?"), lambda: tiny.query(None, "why?", stream=True)):
            with pytest.raises(PhotonError, match="photon-tiny answers only questions about an image, got None"):
                ask()
        with pytest.raises(PhotonError, match="photon-tiny cannot reason: ask with reasoning=False"):
            tiny.query("absent.png", "why?", reasoning=True)
