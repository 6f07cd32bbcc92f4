"""The command line: what goes to stdout and stderr, exit codes, drawings. The engine is a fake that records calls."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from PIL import Image

import photon
from photon.cli.main import run
from photon.errors import ConfigError, ConstraintError, EngineError, ImageError, ModelError, NumericsError, RequestError
from photon.models.recipes import list_recipes, load_recipe
from photon.results import (
    Box,
    CaptionResult,
    DetectResult,
    Metrics,
    Point,
    PointResult,
    QueryResult,
    Reasoning,
)

PICTURE = Image.new("RGB", (640, 480), (90, 90, 90))
SHARED: dict[str, Any] = {
    "token_ids": (5, 6, 0),
    "finish_reason": "stop",
    "metrics": Metrics(total_ms=1.5),
    "image": PICTURE,
}
BOXES = (Box(0.25, 0.5, 0.5, 1.0, 0.97), Box(0.0, 0.0, 0.1, 0.1, 0.5))


class FakeEngine:
    """Answers at once; an image named `bad` is none."""

    calls: ClassVar[list[tuple]] = []
    raises: ClassVar[BaseException | None] = None
    boxes: ClassVar[tuple[Box, ...]] = BOXES

    def __init__(self, model: str, **options: Any) -> None:
        self.calls.append(("open", model, options))

    def __enter__(self) -> "FakeEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append(("close",))

    def _note(self, *call: Any, **options: Any) -> None:
        self.calls.append((*call, options))
        if self.raises is not None:
            raise self.raises
        if "bad" in call[1]:
            raise ImageError(f"{call[1]}: empty")

    def caption(self, image: str, length: str = "normal") -> CaptionResult:
        self._note("caption", image, length=length)
        return CaptionResult("Two “cats”, 猫.", **SHARED)

    def query(self, image: str, question: str, *, reasoning: bool = False) -> QueryResult:
        self._note("query", image, question, reasoning=reasoning)
        return QueryResult("Two.", Reasoning("One and one.") if reasoning else None, **SHARED)

    def point(self, image: str, object: str, *, max_objects: int = 50) -> PointResult:
        self._note("point", image, object, max_objects=max_objects)
        return PointResult((Point(0.5, 0.25, 0.75),), **SHARED)

    def detect(self, image: str, object: str, *, max_objects: int = 50) -> DetectResult:
        self._note("detect", image, object, max_objects=max_objects)
        return DetectResult(self.boxes, **{**SHARED, "finish_reason": "length" if max_objects == 2 else "stop"})


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    monkeypatch.setitem(photon.__dict__, "Engine", FakeEngine)  # the real one is never imported
    monkeypatch.setattr(FakeEngine, "calls", [])
    return FakeEngine


def words(line: str) -> list[str]:
    return line.split()


def test_detect_for_people(fake: type[FakeEngine], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["detect", "a [b].png", "ripe banana"]) == 0
    out, err = capsys.readouterr()
    lines = [words(line) for line in out.splitlines() if line.strip()]
    assert " ".join(lines[0]) == "ripe banana in a [b].png (640 x 480 pixels)"
    assert lines[1] == ["#", "left", "top", "right", "bottom", "score"]
    assert lines[3:] == [["1", "160", "240", "320", "480", "0.97"], ["2", "0", "0", "64", "48", "0.50"]]
    assert err == ""
    assert fake.calls == [
        ("open", "photon-tiny", {"device": "auto"}),
        ("detect", "a [b].png", "ripe banana", {"max_objects": 50}),
        ("close",),
    ]


def test_nothing_found_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(FakeEngine, "boxes", ())
    assert run(["detect", "a.png", "banana"]) == 0
    assert capsys.readouterr().out == "a.png: no banana found\n"


def test_point_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["point", "a.png", "banana", "--max-objects", "3"]) == 0
    out = capsys.readouterr().out
    assert ["#", "x", "y", "score"] in map(words, out.splitlines())
    assert ["1", "320", "120", "0.75"] in map(words, out.splitlines())
    assert FakeEngine.calls[1][-1] == {"max_objects": 3}


def test_caption_and_query_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["caption", "a.png", "--length", "short"]) == 0
    assert capsys.readouterr().out == "Two “cats”, 猫.\n"
    assert run(["query", "a.png", "How many?"]) == 0
    assert capsys.readouterr().out == "Two.\n"
    assert run(["query", "--reasoning", "a.png", "b.png", "How many?"]) == 0
    assert capsys.readouterr().out == "a.png:\n(One and one.)\nTwo.\nb.png:\n(One and one.)\nTwo.\n"
    assert [call for call in FakeEngine.calls if call[0] in ("caption", "query")] == [
        ("caption", "a.png", {"length": "short"}),
        ("query", "a.png", "How many?", {"reasoning": False}),
        ("query", "a.png", "How many?", {"reasoning": True}),
        ("query", "b.png", "How many?", {"reasoning": True}),
    ]


@pytest.mark.parametrize("command", [["caption"], ["query"], ["point"], ["detect"]])
def test_json_is_one_object_a_picture_and_nothing_else(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = [] if command == ["caption"] else ["banana"]
    assert run([*command, "--json", "a.png", "b.png", *text]) == 0
    out, err = capsys.readouterr()
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["image"] for one in said] == ["a.png", "b.png"]
    key = {"caption": "caption", "query": "answer", "point": "points", "detect": "objects"}[command[0]]
    assert all(set(one) == {"image", "width", "height", key, "finish_reason", "metrics"} for one in said)
    assert err == ""


def test_model_and_device_are_handed_on() -> None:
    assert run(["caption", "a.png", "--model", "some/folder", "--device", "cuda:1"]) == 0
    assert FakeEngine.calls[0] == ("open", "some/folder", {"device": "cuda:1"})


def test_a_limit_that_cut_the_answer_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["detect", "a.png", "banana", "--max-objects", "2"]) == 0
    assert capsys.readouterr().err == "photon: a.png: the answer was cut by a limit\n"


# --- drawings


def test_draw(tmp_path: Path) -> None:
    out = tmp_path / "boxes.png"
    assert run(["detect", "a.png", "banana", "--draw", str(out)]) == 0
    drawn = Image.open(out).convert("RGB")
    assert drawn.size == PICTURE.size and drawn.getpixel((160, 400)) != (90, 90, 90)
    assert list(tmp_path.iterdir()) == [out]


def test_draw_several_are_numbered_and_a_failed_one_keeps_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "x/a.png", "bad.png", "y/a.png", "--draw", str(tmp_path / "out.jpg")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-1.jpg", "out-3.jpg"]


@pytest.mark.parametrize(
    "out, reason",
    [
        ("x.txt", "does not end in a picture's suffix"),
        ("x", "suffix"),
        ("no/x.png", "no folder"),
        (".", "is a folder"),
        ("x" * 300 + ".png", "too long"),
    ],
)
def test_a_place_where_nothing_can_be_drawn_is_told_before_the_work(
    out: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["detect", "a.png", "banana", "--draw", str(tmp_path / out)]) == 2
    err = capsys.readouterr().err
    assert reason in err and "--draw" in err and err.count("\n") == 1
    assert FakeEngine.calls == []


def test_a_drawing_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"{'x' * 251}.png"  # as long as a name may be, before its number
    assert run(["detect", "a.png", "b.png", "banana", "--draw", str(out)]) == 1
    out_text, err = capsys.readouterr()
    assert err.count("cannot be written: File name too long") == err.count("\n") == 2
    assert out_text.count("0.97") == 2, "the answer itself is not lost"


# --- errors


def test_a_bad_picture_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["detect", "--json", "a.png", "bad.png", "c.png", "banana"]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["image"] for line in out.splitlines()] == ["a.png", "c.png"]
    assert err == "photon: bad.png: empty\n"


@pytest.mark.parametrize(
    "error, code",
    [
        (ModelError("missing tensor\nmodel.text.wte"), 1),
        (ConfigError("no CUDA here"), 2),
        (RequestError("the prompt is too long"), 1),
        (EngineError("the tick thread died"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("when", ["open", "ask"])
def test_what_concerns_every_picture_is_one_line_and_a_code(
    error: BaseException, code: int, when: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(FakeEngine, "__init__" if when == "open" else "detect", fail)
    assert run(["detect", "a.png", "b.png", "banana"]) == code
    out, err = capsys.readouterr()
    assert out == "" and err == ("" if code == 130 else f"photon: {' '.join(str(error).split())}\n")
    assert FakeEngine.calls[1:] == ([] if when == "open" else [("close",)])


@pytest.mark.parametrize("error", [ConstraintError("nothing may be said"), NumericsError("not finite")], ids=repr)
def test_an_answer_that_failed_is_named(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FakeEngine, "raises", error)
    assert run(["detect", "a.png", "b.png", "banana"]) == 1
    assert capsys.readouterr().err == f"photon: a.png: {error}\nphoton: b.png: {error}\n"


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["detect"], "Missing argument"),
        (["detect", "a.png"], "Missing argument 'IMAGE"),
        (["caption"], "Missing argument"),
        (["detect", "a.png", "banana", "--colour"], "--colour"),
        (["detect", "a.png", "banana", "--max-objects", "many"], "--max-objects"),
        (["caption", "a.png", "--length", "huge"], "huge"),
        (["segment", "a.png"], "segment"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and err.startswith("photon: ") and err.count("\n") == 1
    assert FakeEngine.calls == []


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"photon {photon.__version__}\n"
    assert run([]) == 2
    assert "detect" in capsys.readouterr().out
    assert run(["detect", "--help"]) == 0
    assert "--max-objects" in capsys.readouterr().out


def test_models_lists_every_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    out = capsys.readouterr().out
    assert "photon-tiny" in out
    for recipe in map(load_recipe, list_recipes()):
        line = next(line for line in out.splitlines() if words(line)[:1] == [recipe.name])
        assert (recipe.repository or "bundled") in line
        assert ("unverified" in line) == bool(recipe.repository and not recipe.verified)


# --- as a process

FAKE_SLOW = """
import sys, threading, time, photon
class Engine:
    def __init__(self, model, **options):
        threading.Thread(target=time.sleep, args=(60,)).start()  # a worker in the middle of something
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def caption(self, image, length):
        print("asked", file=sys.stderr, flush=True)
        time.sleep(60)
photon.Engine = Engine
from photon.cli.main import main
sys.argv = ["photon", "caption", "a.png"]
main()
"""


def test_interrupt_is_quiet() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FAKE_SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "asked\n"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")
    assert time.monotonic() - start < 10


def test_a_reader_that_leaves_is_no_traceback() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "photon", "models"]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write_end)
    assert done.returncode == 1 and done.stderr == ""
