"""The command line while it works: `--stream`, order and progress, interrupts, readers that leave, terminals."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_fake import OPENED, FakeEngine, fake  # noqa: F401
from PIL import Image

from photon.cli.main import run
from photon.errors import DeadlineError

TESTS = Path(__file__).parent
IMAGES = TESTS.parent / "examples" / "images"
TINY = TESTS.parent / "models" / "photon-tiny"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """With `--stream` the command line reads the picture itself, so it has to be there."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (640, 480)).save(name)
    return ["a.png", "b.png"]


# --- --stream


def test_text_as_it_comes(pictures: list[str], capsys: Capture) -> None:
    assert run(["query", "a.png", "How many?", "--stream"]) == 0
    assert capsys.readouterr() == ("Two.\n", OPENED)
    assert run(["query", "a.png", "gone.png", "b.png", "How many?", "--stream", "--reasoning"]) == 1
    out, err = capsys.readouterr()
    assert out == "a.png:\n(One and one.)\nTwo.\nb.png:\n(One and one.)\nTwo.\n"
    assert err.splitlines()[1:] == [
        "photon: gone.png: no such file",
        "photon: 1 of 3 pictures failed: 1 cannot be read",
    ]


def test_reasoning_is_dim_on_a_terminal_alone(
    pictures: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert run(["query", "a.png", "How many?", "--stream", "--reasoning"]) == 0
    assert capsys.readouterr().out == "\x1b[2m(One and \x1b[22m\x1b[2mone.\x1b[22m\x1b[2m)\x1b[22m\nTwo.\n"


@pytest.mark.parametrize("command", ["detect", "point"])
def test_places_as_they_come_are_those_of_the_whole_answer(command: str, pictures: list[str], capsys: Capture) -> None:
    for also in ([], ["--also", "plate"]):
        assert run([command, *pictures, "banana", *also]) == 0
        whole = capsys.readouterr().out
        assert run([command, *pictures, "banana", *also, "--stream"]) == 0
        assert capsys.readouterr().out == whole


def test_nothing_found_and_gaze(pictures: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(FakeEngine, "boxes", ())
    assert run(["detect", "a.png", "banana", "--stream"]) == 0
    assert capsys.readouterr().out == "a.png: no banana found\n"
    assert run(["gaze", "a.png", "0.25", "0.5", "--stream"]) == 0
    assert capsys.readouterr().out == "a.png (640 x 480 pixels): the eye at 160 240 looks at 320 120\n"


def test_chunks_as_json(pictures: list[str], capsys: Capture) -> None:
    assert run(["detect", "a.png", "gone.png", "banana", "--stream", "--json"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    box = {"x_min": 0.25, "y_min": 0.5, "x_max": 0.5, "y_max": 1.0, "score": 0.97, "label": "banana"}
    assert said[0] == {"image": "a.png", "type": "box", **box}
    assert [(one["image"], one["type"]) for one in said] == [
        ("a.png", "box"),
        ("a.png", "box"),
        ("a.png", "end"),
        ("gone.png", "error"),
    ]
    assert said[2]["width"] == 640 and len(said[2]["objects"]) == 2 and said[2]["finish_reason"] == "stop"
    assert said[3]["error"] == {"type": "ImageError", "message": "gone.png: no such file"}
    assert run(["query", "a.png", "How many?", "--stream", "--json", "--reasoning"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["type"] for one in said] == ["reasoning", "point", "reasoning", "text", "text", "end"]
    assert "".join(one["text"] for one in said if one["type"] == "text") == said[-1]["answer"] == "Two."


def test_an_answer_that_breaks_off_ends_its_line(
    pictures: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    submit = FakeEngine.submit

    def fail_late(self: FakeEngine, ask: Any, image: None = None, emit: Any = None) -> Any:
        future = submit(self, ask, emit=emit)
        failed = type(future)()
        failed.set_exception(DeadlineError("too late"))
        return failed

    monkeypatch.setattr(FakeEngine, "submit", fail_late)
    assert run(["query", "a.png", "How many?", "--stream"]) == 1
    assert capsys.readouterr() == ("Two.\n", f"{OPENED}photon: a.png: too late\n")


def test_stream_is_kept_and_drawn_like_the_rest(pictures: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert run(["detect", "a.png", "gone.png", "banana", "--stream", "--out", "out"]) == 1
    lines = (tmp_path / "out" / "answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["image"] for line in lines] == ["a.png", "gone.png"]
    assert (tmp_path / "out" / "a.png").exists() and not (tmp_path / "out" / "gone.png").exists()


# --- as a process


def script(body: str, *arguments: str) -> list[str]:
    """A command that runs the command line with the fake engine, changed by `body`."""
    code = f"""
import sys, threading, time
sys.path.insert(0, {str(TESTS)!r})
import photon
from cli_fake import FakeEngine
photon.Engine = FakeEngine
submit = FakeEngine.submit
{body}
from photon.cli.main import main
sys.argv = ["photon", *{arguments!r}]
main()
"""
    return [sys.executable, "-c", code]


HANGS = """
from concurrent.futures import Future
def hang(self, ask, image=None, emit=None):
    if ask.image != "c.png":
        return submit(self, ask)
    threading.Thread(target=time.sleep, args=(60,)).start()  # a worker in the middle of something
    return Future()
FakeEngine.submit = hang
"""


def test_what_is_answered_is_out_before_the_rest_and_an_interrupt_is_quiet(tmp_path: Path) -> None:
    command = script(HANGS, "caption", "a.png", "bad.png", "c.png", "d.png", "--json", "--quiet", "--out", "out")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert [json.loads(line)["image"] for line in lines] == ["a.png", "bad.png"]
    answers = tmp_path / "out" / "answers.jsonl"
    while answers.read_text().count("\n") < 2:
        time.sleep(0.01)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")
    assert time.monotonic() - start < 2
    assert answers.read_text().splitlines(keepends=True) == lines
    assert sorted(path.name for path in answers.parent.iterdir()) == ["a.png", "answers.jsonl"]


@pytest.mark.parametrize("arguments", [["models"], ["caption", "a.png"], ["detect", "--help"]])
def test_a_reader_that_leaves_is_no_traceback(arguments: Sequence[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(script("", *arguments), stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write_end)
    assert done.returncode == 1 and done.stderr == (OPENED if arguments[0] == "caption" else "")


@pytest.mark.parametrize("encoding, flags", [("utf-8", ["--stream"]), ("ascii", ["--json"])])
def test_names_and_words_that_stdout_cannot_say(encoding: str, flags: list[str], tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff.png")
    Image.new("RGB", (640, 480)).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / name)
    command = script("", "caption", name, name, "--quiet", *flags)
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, cwd=tmp_path, timeout=60)
    lines = done.stdout.decode(encoding).splitlines()
    assert done.returncode == 0
    if flags == ["--json"]:
        assert [(json.loads(line)["image"], json.loads(line)["caption"]) for line in lines] == [
            (name, "Two “cats”, 猫.")
        ] * 2
    else:
        assert lines == ["a\\udcff.png:", "Two “cats”, 猫."] * 2


def on_a_terminal(command: list[str], *, stdout_too: bool) -> tuple[str, str]:
    """(what a terminal as stderr shows, what came out of stdout, which is the terminal too or a pipe)."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    stdout = follower if stdout_too else subprocess.PIPE
    process = subprocess.Popen(command, stdout=stdout, stderr=follower, stdin=follower, env=environment)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 65536)
        except OSError:  # nobody holds the terminal any more
            break
    out = process.communicate(timeout=60)[0] or b""
    os.close(leader)
    assert process.returncode == 0
    return shown.decode(), out.decode()


def test_progress_is_for_several_pictures_on_a_terminal_and_leaves_stdout_alone() -> None:
    shown, out = on_a_terminal(script("", "query", "a.png", "b.png", "How?"), stdout_too=False)
    assert "2/2" in shown and out == "a.png:\nTwo.\nb.png:\nTwo.\n" and "Two" not in shown
    shown, _ = on_a_terminal(script("", "query", "a.png", "b.png", "How?"), stdout_too=True)
    assert "2/2" in shown and shown.count("Two.") == 2
    one = 'from photon.cli.main import run; run(["query", "a.png", "How?"])'
    shown, out = on_a_terminal(script(one, "query", "a.png", "b.png", "How?", "--quiet"), stdout_too=False)
    assert shown.split() == OPENED.split() and out.count("Two.") == 3


# --- with a model


@pytest.mark.skipif(not list(TINY.glob("model*.safetensors")), reason="the bundled weights are not in this checkout")
def test_with_the_bundled_model(
    fake: type[FakeEngine],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    from photon.engine.engine import Engine

    monkeypatch.setitem(sys.modules["photon"].__dict__, "Engine", Engine)
    names = ("street.png", "market.png", "park.png")
    copies = [str(tmp_path / name) for name in names]
    for name, copy in zip(names, copies, strict=True):
        Image.open(IMAGES / name).save(copy)
    (tmp_path / "none.png").write_bytes(b"no picture")
    shared = ["--device", "cpu", "--quiet"]
    out_folder = tmp_path / "out"
    asked = ["detect", *copies, str(tmp_path / "none.png"), "banana", "--also", "tree"]
    assert run([*asked, "--json", "--out", str(out_folder), *shared]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with Engine("photon-tiny", device="cpu") as engine:
        for name, one in zip(names, said, strict=False):
            alone = engine.detect(IMAGES / name, ["banana", "tree"]).to_dict()
            assert (one["width"], one["height"]) == (640, 480) and one["objects"] == alone["objects"]
    assert {found["label"] for found in said[1]["objects"]} >= {"banana"}
    assert said[3]["error"]["type"] == "ImageError"
    assert len(list(out_folder.glob("*.png"))) == 3

    assert run(["query", copies[1], "How many bananas are there?", "--stream", *shared]) == 0
    streamed = capsys.readouterr().out
    assert run(["query", copies[1], "How many bananas are there?", *shared]) == 0
    assert capsys.readouterr().out == streamed and streamed.strip()
    assert run(["query", copies[1], "Why?", "--reasoning", *shared]) == 2
    assert "cannot reason" in capsys.readouterr().err
    assert run(["gaze", copies[1], "0.5", "0.5", *shared]) == 2
    assert "photon-tiny has no gaze" in capsys.readouterr().err
