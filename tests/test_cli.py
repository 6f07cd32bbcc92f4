"""The command line: what goes to stdout and stderr, exit codes, flags. The engine is a fake that records asks."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_fake import OPENED, FakeEngine, fake  # noqa: F401

import photon
from photon import Caption, Detect, Gaze, PointAt, Query
from photon.cli.main import run
from photon.errors import (
    ConfigError,
    ConstraintError,
    DeadlineError,
    EngineError,
    ModelError,
    NumericsError,
    RequestError,
)
from photon.models.recipes import list_recipes, load_recipe
from photon.request import Sampling
from photon.results import Box

Capture = pytest.CaptureFixture[str]


def words(line: str) -> list[str]:
    return line.split()


# --- for people


def test_detect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a [b].png").touch()
    assert run(["detect", "a [b].png", "ripe banana"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "ripe banana in a [b].png (640 x 480 pixels)"
    assert [words(line) for line in lines[1:]] == [
        ["#", "left", "top", "right", "bottom", "score"],
        ["1", "160", "240", "320", "480", "0.97"],
        ["2", "0", "0", "64", "48", "0.50"],
    ]
    assert len({len(line) for line in lines[1:]}) == 1, "columns are aligned"
    assert err == OPENED
    assert FakeEngine.opened == [("photon-tiny", {"device": "auto"})] and FakeEngine.num_closed == 1


def test_several_objects_are_named(capsys: Capture) -> None:
    assert run(["detect", "a.png", "banana", "--also", "plate", "--also", "cup"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("banana, plate, cup in a.png (")
    assert [words(line)[-1] for line in lines[1:]] == ["object", "banana", "plate"]
    assert FakeEngine.asks[0].object == ["banana", "plate", "cup"]


def test_nothing_found_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(FakeEngine, "boxes", ())
    assert run(["detect", "a.png", "banana", "--also", "plate"]) == 0
    assert capsys.readouterr().out == "a.png: no banana and no plate found\n"


def test_a_place_without_a_score(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(FakeEngine, "boxes", (Box(0, 0, 1, 1),))
    assert run(["detect", "a.png", "banana"]) == 0
    assert words(capsys.readouterr().out.splitlines()[2]) == ["1", "0", "0", "640", "480"]


def test_point(capsys: Capture) -> None:
    assert run(["point", "a.png", "banana", "--max-objects", "3"]) == 0
    rows = [words(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["#", "x", "y", "score"], ["1", "320", "120", "0.75"]]
    assert FakeEngine.asks[0].max_objects == 3


def test_gaze(capsys: Capture) -> None:
    assert run(["gaze", "a.png", "0.25", "0.5"]) == 0
    assert capsys.readouterr().out == "a.png (640 x 480 pixels): the eye at 160 240 looks at 320 120\n"
    assert isinstance(FakeEngine.asks[0], Gaze) and tuple(FakeEngine.asks[0].eye) == (0.25, 0.5)


def test_caption_and_query(capsys: Capture) -> None:
    assert run(["caption", "a.png", "--length", "short"]) == 0
    assert capsys.readouterr().out == "Two “cats”, 猫.\n"
    assert run(["query", "a.png", "How many?"]) == 0
    assert capsys.readouterr().out == "Two.\n"
    assert run(["query", "--reasoning", "a.png", "b.png", "How many?"]) == 0
    assert capsys.readouterr().out == "a.png:\n(One and one.)\nTwo.\nb.png:\n(One and one.)\nTwo.\n"
    assert [(type(ask), ask.image) for ask in FakeEngine.asks] == [
        (Caption, "a.png"),
        (Query, "a.png"),
        (Query, "a.png"),
        (Query, "b.png"),
    ]
    assert FakeEngine.asks[0].length == "short"
    assert [ask.reasoning for ask in FakeEngine.asks[1:]] == [False, True, True]


def test_a_limit_that_cut_the_answer_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(FakeEngine, "finish_reason", "length")
    assert run(["detect", "a.png", "banana"]) == 0
    assert capsys.readouterr().err == f"{OPENED}photon: a.png: the answer was cut by a limit\n"


# --- for programs


@pytest.mark.parametrize("command", ["caption", "query", "point", "detect", "gaze"])
def test_json_is_one_object_a_picture_and_nothing_else(command: str, capsys: Capture) -> None:
    rest = {"caption": [], "gaze": ["0.5", "0.5"]}.get(command, ["banana"])
    assert run([command, "--json", "a.png", "b.png", *rest]) == 0
    out, err = capsys.readouterr()
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["image"] for one in said] == ["a.png", "b.png"]
    key = {"query": "answer", "point": "points", "detect": "objects"}.get(command, command)
    assert all(set(one) == {"image", "width", "height", key, "finish_reason", "metrics"} for one in said)
    assert err == OPENED


def test_a_picture_that_failed_is_a_line_in_its_place(capsys: Capture) -> None:
    assert run(["detect", "--json", "a.png", "bad.png", "c.png", "banana"]) == 1
    out, err = capsys.readouterr()
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["image"] for one in said] == ["a.png", "bad.png", "c.png"]
    assert said[1] == {"image": "bad.png", "error": {"type": "ImageError", "message": "bad.png: empty"}}
    assert err == f"{OPENED}photon: 1 of 3 pictures failed: 1 cannot be read\n"


# --- flags


def test_every_flag_is_a_field_of_the_ask() -> None:
    sampling = "--temperature 0.5 --top-p 0.9 --top-k 7 --min-p 0.1 --repetition-penalty 1.5 --seed 11".split()
    chosen = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "repetition_penalty": 1.5,
        "seed": 11,
    }
    both = [*sampling, "--timeout", "2.5"]
    assert run(["caption", "a", *both, "--max-tokens", "9", "--stop", "x", "--stop", "y"]) == 0
    assert run(["query", "a", "why?", *both, "--max-tokens", "9", "--stop", "x"]) == 0
    assert run(["point", "a", "mug", "--also", "cup", *both, "--max-objects", "9"]) == 0
    assert run(["detect", "a", "mug", *both, "--max-objects", "9", "--duplicate-iou", "0.5"]) == 0
    assert run(["gaze", "a", "0", "1", *both]) == 0
    assert run(["query", "a", "why?", *both, "--choice", "x", "--choice", "y"]) == 0
    assert run(["query", "a", "why?", *both, "--regex", "x+"]) == 0
    shared: dict[str, Any] = {"sampling": chosen, "timeout": 2.5}
    assert FakeEngine.asks == [
        Caption("a", "normal", max_tokens=9, stop=["x", "y"], **shared),
        Query("a", "why?", max_tokens=9, stop=["x"], **shared),
        PointAt("a", ["mug", "cup"], max_objects=9, **shared),
        Detect("a", ["mug"], max_objects=9, duplicate_iou=0.5, **shared),
        Gaze("a", eye=(0.0, 1.0), **shared),
        Query("a", "why?", choices=["x", "y"], **shared),
        Query("a", "why?", regex="x+", **shared),
    ]


def test_without_flags_the_asks_have_their_own_defaults() -> None:
    assert [run(["caption", "a"]), run(["point", "a", "mug"]), run(["detect", "a", "mug"])] == [0, 0, 0]
    for ask, plain in zip(FakeEngine.asks, (Caption("a"), PointAt("a", ["mug"]), Detect("a", ["mug"])), strict=True):
        assert ask.task() == plain.task()
    assert FakeEngine.asks[0].task().sampling == Sampling()


def test_model_and_device_are_handed_on(capsys: Capture) -> None:
    assert run(["caption", "a.png", "--model", "some/folder", "--device", "cuda:1", "--quiet"]) == 0
    assert FakeEngine.opened == [("some/folder", {"device": "cuda:1"})]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--top-p", "1.5"], "top_p must be a number in (0, 1], got 1.5"),
        (["--temperature", "-1"], "temperature must be a number in [0, 100], got -1.0"),
        (["--max-objects", "0"], "max_objects must be a whole number in [1, 1000], got 0"),
        (["--seed", "-3"], "seed must be a whole number in"),
        (["--timeout", "-1"], "timeout must be"),
        (["--duplicate-iou", "2"], "duplicate_iou must be"),
        (["--also", " "], "' '"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_out_of_range_is_told_before_a_model_is_loaded(flags: list[str], named: str, capsys: Capture) -> None:
    assert run(["detect", "a.png", "banana", *flags]) == 2
    out, err = capsys.readouterr()
    assert out == "" and named in err and err.startswith("photon: ") and err.count("\n") == 1
    assert FakeEngine.opened == []


# --- errors


def test_a_bad_picture_does_not_stop_the_others(capsys: Capture) -> None:
    assert run(["detect", "a.png", "bad.png", "c.png", "bad2.png", "banana"]) == 1
    out, err = capsys.readouterr()
    assert [word for line in out.splitlines() for word in words(line) if ".png" in word] == ["a.png", "c.png"]
    assert err.splitlines() == [
        OPENED.strip(),
        "photon: bad.png: empty",
        "photon: bad2.png: empty",
        "photon: 2 of 4 pictures failed: 2 cannot be read",
    ]


def test_one_picture_that_fails_is_one_line(capsys: Capture) -> None:
    for flags in ([], ["--json"]):
        assert run(["detect", "bad.png", "banana", *flags]) == 1
        assert capsys.readouterr().err == f"{OPENED}photon: bad.png: empty\n"


@pytest.mark.parametrize(
    "error, code",
    [
        (ModelError("missing tensor\nmodel.text.wte"), 2),
        (ConfigError("no CUDA here"), 2),
        (RequestError("the prompt is too long"), 2),
        (EngineError("the tick thread died"), 1),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("when", ["open", "ask"])
def test_what_concerns_every_picture_is_one_line_and_a_code(
    error: BaseException, code: int, when: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    if when == "open":
        monkeypatch.setattr(FakeEngine, "__init__", fail)
    else:
        monkeypatch.setattr(FakeEngine, "raises", error)
    assert run(["detect", "a.png", "b.png", "banana"]) == code
    out, err = capsys.readouterr()
    said = "" if code == 130 else f"photon: {' '.join(str(error).split())}\n"
    assert out == "" and err == (said if when == "open" else OPENED + said)
    assert FakeEngine.num_closed == (when == "ask" and code != 130), "the process ends at once when interrupted"


@pytest.mark.parametrize(
    "error, counted",
    [
        (ConstraintError("nothing may be said"), "came to no valid answer"),
        (NumericsError("not finite"), "came to no finite numbers"),
        (DeadlineError("no answer within the timeout of 2 s"), "took too long"),
    ],
    ids=repr,
)
def test_an_answer_that_failed_is_named(
    error: Exception, counted: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(FakeEngine, "raises", error)
    assert run(["detect", "a.png", "b.png", "banana"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        OPENED.strip(),
        f"photon: a.png: {error}",
        f"photon: b.png: {error}",
        f"photon: 2 of 2 pictures failed: 2 {counted}",
    ]


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["detect"], "Missing arguments 'IMAGE', 'OBJECT': photon detect IMAGE... OBJECT (see photon detect --help)"),
        (["detect", "a.png"], "Missing argument 'OBJECT': photon detect IMAGE... OBJECT (see"),
        (["query", "a.png", "--reasoning"], "Missing argument 'QUESTION': photon query IMAGE... QUESTION (see"),
        (["caption"], "Missing argument 'IMAGE': photon caption IMAGE... (see"),
        (["gaze", "a.png"], "'X', 'Y': photon gaze IMAGE... X Y (see"),
        (["gaze", "a.png", "0.5"], "'X'"),
        (["detect", "a.png", "banana", "--colour"], "--colour"),
        (["detect", "a.png", "banana", "--max-objects", "many"], "--max-objects"),
        (["caption", "a.png", "--length", "huge"], "huge"),
        (["caption", "a.png", "--max-objects", "2"], "--max-objects"),
        (["segment", "a.png"], "segment"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], reason: str, capsys: Capture) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and reason in err and err.startswith("photon: ") and err.count("\n") == 1
    assert FakeEngine.opened == []


# --- help, version, models


def test_help_and_version(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"photon {photon.__version__}\n"
    assert run([]) == 2
    assert "detect" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["caption", "query", "extract", "point", "detect", "gaze"])
def test_every_flag_has_a_help_text(command: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # so that every flag is on a line of its own
    assert run([command, "--help"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "--" in line]
    flags = {words(line)[1] for line in lines if words(line)[1].startswith("--")}
    assert {"--json", "--stream", "--out", "--draw", "--scores", "--temperature", "--timeout", "--seed"} <= flags
    assert ("--stop" in flags) == (command in ("caption", "query"))
    assert ("--max-tokens" in flags) == (command in ("caption", "query", "extract"))
    assert ("--also" in flags) == ("--max-objects" in flags) == (command in ("point", "detect"))
    assert all(len(line.strip(" │").split("  ")[-1]) > 10 for line in lines)


def test_models_lists_every_recipe(capsys: Capture) -> None:
    assert run(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for recipe in map(load_recipe, list_recipes()):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{recipe.name}: "))
        assert (recipe.repository or "bundled") in lines[at] and recipe.description in lines[at + 1]
        assert ("unverified" in lines[at]) == bool(recipe.repository and not recipe.verified)
