"""The command line and files: which pictures are meant, where drawings go, and that nothing of the user's is lost."""

import json
import os
from pathlib import Path

import pytest
from cli_fake import OPENED, PICTURE, FakeEngine, fake  # noqa: F401
from PIL import Image

from photon.cli.drawings import name_drawings
from photon.cli.main import run
from photon.cli.pictures import find_pictures, natural_key

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with `shots` in it."""
    monkeypatch.chdir(tmp_path)
    names = (
        "a10.png",
        "a2.PNG",
        "B1.jpg",
        "notes.txt",
        ".hidden.png",
        "day 1/c.webp",
        "day 1/deep/d.tiff",
        "empty/x.md",
    )
    for name in names:
        (tmp_path / "shots" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shots" / name).touch()
    (tmp_path / "shots" / "folder.png").mkdir()
    return tmp_path


# --- which pictures


def test_a_folder_gives_its_own_pictures_in_natural_order(shots: Path) -> None:
    assert find_pictures(["shots"]) == ["shots/a2.PNG", "shots/a10.png", "shots/B1.jpg"]


def test_patterns(shots: Path) -> None:
    assert find_pictures(["shots/*"]) == ["shots/a2.PNG", "shots/a10.png", "shots/B1.jpg"]
    assert find_pictures(["shots/a?.*"]) == ["shots/a2.PNG"]
    assert find_pictures(["shots/**/*"]) == [
        "shots/a2.PNG",
        "shots/a10.png",
        "shots/B1.jpg",
        "shots/day 1/c.webp",
        "shots/day 1/deep/d.tiff",
    ]


def test_a_pattern_knows_the_users_home(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shots))
    assert find_pictures(["~/shots/a*"]) == [str(shots / "shots" / "a2.PNG"), str(shots / "shots" / "a10.png")]


def test_what_is_named_stays_as_it_was_said(shots: Path) -> None:
    """Order, repetition, suffixes that are none, files that are not there, data URLs."""
    url = "data:image/png;base64,A*B?"
    named = ["shots/notes.txt", "gone.png", "shots/a2.PNG", url, "gone.png", "a  b"]
    assert find_pictures(named) == named


def test_brackets_in_a_name_that_exists_are_no_pattern(shots: Path) -> None:
    (shots / "x[12].png").touch()
    (shots / "x1.png").touch()
    assert find_pictures(["x[12].png"]) == ["x[12].png"]
    (shots / "x[12].png").unlink()
    assert find_pictures(["x[12].png"]) == ["x1.png"]


@pytest.mark.parametrize("name", ["shots/empty", "shots/*.gif", "nowhere/**/*.png", "shots/[x"])
def test_where_no_picture_is(name: str, shots: Path, capsys: Capture) -> None:
    assert run(["detect", "shots/a2.PNG", name, "banana"]) == 2
    err = capsys.readouterr().err
    assert name in err and "no picture" in err and err.count("\n") == 1
    assert FakeEngine.opened == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read(shots: Path, capsys: Capture) -> None:
    (shots / "shots").chmod(0)
    assert run(["caption", "shots"]) == 2
    assert "shots cannot be read: Permission denied" in capsys.readouterr().err
    (shots / "shots").chmod(0o700)


def test_natural_order() -> None:
    names = ["b/1", "a/10", "a/9", "a/9b", "a/B", "a", "a/09", "7", "07x"]
    assert sorted(names, key=natural_key) == ["7", "07x", "a", "a/09", "a/9", "a/9b", "a/10", "a/B", "b/1"]


def test_every_picture_is_asked_about_in_order(shots: Path, capsys: Capture) -> None:
    assert run(["caption", "--json", "shots/B1.jpg", "shots", "shots/day*/*", "shots/B1.jpg"]) == 0
    wanted = ["shots/B1.jpg", "shots/a2.PNG", "shots/a10.png", "shots/B1.jpg", "shots/day 1/c.webp", "shots/B1.jpg"]
    assert [ask.image for ask in FakeEngine.asks] == wanted
    assert [json.loads(line)["image"] for line in capsys.readouterr().out.splitlines()] == wanted


@pytest.mark.parametrize("command", ["detect", "query"])
def test_a_picture_in_the_place_of_words(command: str, shots: Path, capsys: Capture) -> None:
    """As `photon detect shots/*.png` has it, without quotes and without an object."""
    assert run([command, "shots/a2.PNG", "shots/a10.png"]) == 2
    assert "the last argument, shots/a10.png, is a picture" in capsys.readouterr().err
    (shots / "banana").touch()  # a file of that name forbids no word
    assert run([command, "shots/a2.PNG", "banana"]) == 0


# --- --out


def test_names_of_drawings(tmp_path: Path) -> None:
    images = ["x/a.png", "y/a.jpg", "y/A.webp", "a-2.gif", "no suffix", "b.tar.png", "data:image/png;base64,AA"]
    names = [path.name for path in name_drawings(tmp_path, images)]
    assert names == ["a.png", "a-2.png", "A-3.png", "a-2-2.png", "no suffix.png", "b.tar.png", "picture.png"]
    assert len({name.casefold() for name in names}) == len(names), "there are disks that know no case"


def test_out_never_takes_the_name_of_an_input(tmp_path: Path) -> None:
    images = [str(tmp_path / "a.png"), str(tmp_path / "sub" / ".." / "a-2.png")]
    (tmp_path / "sub").mkdir()
    assert [path.name for path in name_drawings(tmp_path, images)] == ["a-3.png", "a-2-2.png"]
    (tmp_path / "link").symlink_to(tmp_path)
    assert [path.name for path in name_drawings(tmp_path / "link", images)] == ["a-3.png", "a-2-2.png"]


def test_out(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "new" / "folder"
    assert run(["detect", "x/a.png", "bad.png", "y/a.jpg", "banana", "--json", "--out", str(out)]) == 1
    assert sorted(path.name for path in out.iterdir()) == ["a-2.png", "a.png", "answers.jsonl"]
    assert (out / "answers.jsonl").read_text(encoding="utf-8") == capsys.readouterr().out
    for name in ("a.png", "a-2.png"):
        drawn = Image.open(out / name)
        assert (drawn.format, drawn.size) == ("PNG", PICTURE.size)
        assert drawn.convert("RGB").getpixel((160, 400)) != (90, 90, 90)


def test_answers_are_kept_without_json_too(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "answers.jsonl").write_text("of an earlier run\n" * 9)
    assert run(["caption", "x/a.png", "bad.png", "--out", str(tmp_path)]) == 1
    first, second = map(json.loads, (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    assert first["caption"] == "Two “cats”, 猫." and second["error"]["type"] == "ImageError"


def test_out_leaves_the_inputs_as_they_are(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        PICTURE.save(tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(["detect", str(tmp_path), "banana", "--out", str(tmp_path)]) == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert (tmp_path / "a-2.png").exists() and (tmp_path / "b-2.png").exists()


def test_out_that_cannot_be_made(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    assert run(["caption", "a.png", "--out", str(tmp_path / "file")]) == 2
    err = capsys.readouterr().err
    assert "--out" in err and "cannot be made" in err and err.count("\n") == 1 and FakeEngine.opened == []


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    assert run(["caption", "a\udcff.png", "--out", str(tmp_path), "--stream"]) == 1
    (line,) = (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["image"] == "a\udcff.png"


def test_scores_are_drawn_when_asked_for(tmp_path: Path) -> None:
    for flags in ([], ["--scores"]):
        assert run(["detect", "a.png", "banana", "--out", str(tmp_path / str(len(flags))), *flags]) == 0
    plain, scored = (Image.open(tmp_path / name / "a.png").tobytes() for name in ("0", "1"))
    assert plain != scored


# --- --draw


def test_draw(tmp_path: Path) -> None:
    out = tmp_path / "boxes.jpg"
    assert run(["detect", "a.png", "banana", "--draw", str(out)]) == 0
    drawn = Image.open(out)
    assert (drawn.format, drawn.size) == ("JPEG", PICTURE.size) and drawn.getpixel((160, 400)) != (90, 90, 90)
    assert list(tmp_path.iterdir()) == [out]


def test_draw_is_for_one_picture(tmp_path: Path, capsys: Capture) -> None:
    assert run(["caption", "a.png", "b.png", "--draw", str(tmp_path / "out.png")]) == 2
    err = capsys.readouterr().err
    assert "--draw" in err and "2 pictures" in err and "--out" in err and err.count("\n") == 1
    assert FakeEngine.opened == []


@pytest.mark.parametrize(
    "out, reason",
    [
        ("x.txt", "does not end in a picture's suffix"),
        ("x", "suffix"),
        ("no/x.png", "no folder"),
        (".", "is a folder"),
        ("x" * 300 + ".png", "too long"),
        ("a.png", "is the picture itself"),
    ],
)
def test_a_place_where_nothing_can_be_drawn_is_told_before_the_work(
    out: str, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    PICTURE.save(tmp_path / "a.png")
    assert run(["detect", str(tmp_path / "a.png"), "banana", "--draw", str(tmp_path / out)]) == 2
    err = capsys.readouterr().err
    assert reason in err and "--draw" in err and err.count("\n") == 1
    assert FakeEngine.opened == []


def test_a_drawing_that_cannot_be_written(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.png").mkdir()
    (tmp_path / "a.png" / "x").touch()
    assert run(["detect", "a.png", "b.png", "banana", "--out", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[1:] == [
        f"photon: {tmp_path / 'a.png'}: cannot be written: Is a directory",
        "photon: 1 of 2 pictures failed: 1 could not be saved",
    ]
    assert out.count("0.97") == 2, "the answer itself is not lost"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "answers.jsonl", "b.png"]


def test_the_answers_file_that_cannot_be_written(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "answers.jsonl").mkdir()
    assert run(["caption", "a.png", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{OPENED}photon: {tmp_path / 'answers.jsonl'}: Is a directory\n"
