"""Logging: quiet unless asked, what each level says, and that what was asked is never said above DEBUG."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_engine import picture
from tiny_model import write_tiny_model

from photon import Detect, Engine, EngineError, ImageError, NumericsError, RequestError
from photon.errors import ConstraintError
from photon.models.source import find_model
from photon.runner.runner import ModelRunner

ROOT = Path(__file__).parent.parent
SECRET = "zebra"  # what is asked for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def test_a_plain_script_prints_nothing() -> None:
    script = (
        "import photon\n"
        "with photon.Engine('photon-tiny', device='cpu') as engine:\n"
        "    engine.point('examples/images/park.png', 'dog')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_fault_prints_nothing_either(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Python's handler of last resort would print warnings and errors."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        with Engine(folder, device="cpu") as engine, pytest.MonkeyPatch.context() as patch:
            patch.setattr(ModelRunner, "launch", lambda *_: 1 / 0)
            with pytest.raises(EngineError):
                engine.query(None, "x")
    finally:
        root.handlers = handlers
    assert capfd.readouterr() == ("", "")


def test_info_is_the_engine_s_life(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "photon")
    with Engine(folder, device="cpu") as engine:
        engine.detect(picture(0), SECRET, max_objects=1)
    engine.close()
    loaded, closed = caplog.messages
    named = re.escape(folder.name) + r" on cpu \(\d+ threads\), float32"
    assert re.fullmatch(rf"loaded {named} in \d+\.\d s", loaded) and re.fullmatch(f"closed {named}", closed)
    assert {record.name for record in caplog.records} == {"photon.engine"}


def test_debug_is_every_request(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Engine(folder, device="cpu") as engine:
        caplog.set_level(logging.DEBUG, "photon")
        result = engine.query(picture(0), SECRET, max_tokens=3)
        engine.submit(Detect(picture(0), SECRET)).cancel()
        with pytest.raises(ImageError):
            engine.detect(b"no picture", SECRET)
    begun, ended, *others = [line for line in caplog.messages if "request" in line]
    assert begun == "request 1 begins: query"
    assert re.fullmatch(
        rf"request 1 ends: query, {result.finish_reason}, {len(result.token_ids)} tokens, \d+ ms", ended
    )
    assert any(re.fullmatch(r"request 2 ends: detect, cancelled, \d+ ms", line) for line in others)
    assert any(re.fullmatch(r"request 3 failed: detect, ImageError, \d+ ms", line) for line in others)
    assert not said(caplog, logging.WARNING)


def break_numbers(patch: pytest.MonkeyPatch) -> None:
    from photon.models.moondream.model import MoondreamModel

    logits = MoondreamModel.logits
    patch.setattr(MoondreamModel, "logits", lambda self, hidden: logits(self, hidden) * float("nan"))


def break_grammar(patch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ConstraintError(f"nothing may be said of {SECRET}")

    patch.setattr("photon.constraint.compiler.ConstraintCompiler.from_template", fail)


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
@pytest.mark.parametrize(("breaks", "kind"), [(break_numbers, NumericsError), (break_grammar, ConstraintError)])
def test_a_fault_that_is_not_the_caller_s_is_a_warning(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[pytest.MonkeyPatch], None],
    kind: type[Exception],
    level: int,
) -> None:
    caplog.set_level(level, "photon")
    with Engine(folder, device="cpu") as engine:
        breaks(monkeypatch)
        with pytest.raises(kind):
            engine.detect(picture(0), SECRET)
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert re.fullmatch(rf"request 1 failed: detect, {kind.__name__}, \d+ ms", record.getMessage())
    assert (record.exc_info is not None) == (level == logging.DEBUG)
    if level > logging.DEBUG:
        assert SECRET not in caplog.text


def test_a_caller_s_fault_is_no_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "photon")
    with Engine(folder, device="cpu") as engine:
        with pytest.raises(RequestError):
            engine.query(None, SECRET * 100)
        with pytest.raises(RequestError):
            engine.detect(picture(0), SECRET, max_objects=0)
    assert not said(caplog, logging.WARNING) and SECRET not in caplog.text


def test_a_dead_tick_thread_is_an_error_said_once_with_its_cause(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "photon")
    engine, all_in = Engine(folder, device="cpu"), threading.Event()
    monkeypatch.setattr(ModelRunner, "launch", lambda *_: all_in.wait(10) and 1 / 0)
    futures = [engine.submit(Detect(picture(i), SECRET)) for i in range(3)]
    all_in.set()
    assert all(isinstance(future.exception(10), EngineError) for future in futures)
    engine.close()
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert error.getMessage() == "the tick thread has died" and error.exc_info is not None
    assert error.exc_info[0] is ZeroDivisionError and not said(caplog, logging.WARNING)
    assert SECRET not in caplog.text


def test_a_step_says_nothing(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However many tokens are said: two lines a request."""
    with Engine(folder, device="cpu") as engine:
        caplog.set_level(logging.DEBUG)
        engine.query(None, "go", temperature=100.0, seed=1, max_tokens=100)
    begun, ended, closed = [record for record in caplog.records if record.name.startswith("photon")]
    assert closed.levelno == logging.INFO and begun.levelno == ended.levelno == logging.DEBUG


def test_a_recipe_that_nobody_verified_is_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_tiny_model(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(tmp_path))
    caplog.set_level(logging.INFO, "photon")
    find_model("moondream-0.5b")
    assert said(caplog, logging.WARNING) == [
        "no source names moondream/moondream-0_5b at revision main for moondream-0.5b"
    ]
    caplog.clear()
    find_model("moondream2-2025-01")
    assert caplog.messages == ["getting vikhyatk/moondream2 at revision 2025-01-09 from Hugging Face or its cache"]
