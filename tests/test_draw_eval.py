"""The scenes of an evaluation: which sprites, turned how, and how much is asked about them, on the toy library."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import atlas
import card_tables
import draw_eval
import numpy as np
import photos
import pytest
import torch
import toy_library as toy
from library import load_library
from PIL import Image
from scenes import Layout

from photon.bench.evaluate import Figure, read_questions

NONE = {"relation": 0, "colour": 0}


def drawn(count: int, style: str, least: dict[str, int] = NONE, seed: int = 4) -> list[tuple[Image.Image, dict]]:
    return list(draw_eval.draw_set(toy.library(), toy.book(), seed=seed, count=count, style=style, least=least))


def kinds(rows: list[dict]) -> Counter[str]:
    return Counter(question.get("kind", question["task"]) for row in rows for question in row["questions"])


@pytest.mark.parametrize("style", ["trained", "shipped", *toy.STYLES])
def test_every_style_is_turned_by_what_training_leaves_out(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Layout] = []
    draw = draw_eval.draw_layout

    def watched(library: object, layout: Layout, *sides: int) -> object:
        seen.append(layout)
        return draw(library, layout, *sides)  # type: ignore[arg-type]

    monkeypatch.setattr(draw_eval, "draw_layout", watched)
    drawn(3, style)
    there = [layout.size > 0 for layout in seen]
    degrees = torch.cat([torch.rad2deg(one.angle)[t] for one, t in zip(seen, there, strict=True)])
    assert len(degrees) > 5 and degrees.abs().min() > 9.999 and degrees.abs().max() < 13.001
    sprites = torch.cat([one.sprite[t] for one, t in zip(seen, there, strict=True)])
    styles = {toy.STYLES[s % len(toy.STYLES)] for s in sprites.tolist() if s < len(toy.NOUNS) * len(toy.STYLES)}
    allowed = {"trained": {"noto", "twemoji", "emojione"}, "shipped": {"noto", "twemoji"}}
    assert styles <= allowed.get(style, {style})


def test_more_questions_leave_the_first_pictures_as_they_are() -> None:
    few, many = drawn(4, "trained"), drawn(4, "trained", {"relation": 6, "colour": 7})
    assert len(few) == 4 and len(many) > 4
    for (picture, row), (other, same) in zip(few, many, strict=False):
        assert row == same and np.array_equal(np.asarray(picture), np.asarray(other))


def test_enough_is_asked_and_no_more() -> None:
    rows = [row for _, row in drawn(4, "trained", {"relation": 6, "colour": 7})]
    first = kinds(rows[:4])
    assert first["relation"] < 6 and first["colour"] < 7  # so that there is something to do
    have = kinds(rows)
    assert have["relation"] == 6 and have["colour"] == 7
    further = [question for row in rows[4:] for question in row["questions"]]
    assert {question["kind"] for question in further} == {"relation", "colour"}
    assert all(1 <= len(row["questions"]) <= 2 for row in rows[4:])


def test_colours_asked_of_further_pictures_are_those_of_an_only_one() -> None:
    rows = [row for _, row in drawn(2, "trained", {"relation": 0, "colour": 8})][2:]
    colour_of = dict(zip(toy.NOUNS, toy.COLOURS, strict=True))
    assert len(rows) >= 4
    for row in rows:
        (question,) = row["questions"]
        nouns = Counter(thing["noun"] for thing in row["objects"] if thing["seen"] > 0.05)
        asked = max((noun for noun in toy.NOUNS if noun in question["text"]), key=len)
        assert nouns[asked] == 1 and question["answer"] == colour_of[asked]


def test_what_cannot_be_asked_is_given_up() -> None:
    """A clock alone has no colour that people would agree on."""
    library = toy.library()
    layout = draw_eval.sample_layout(library, 1, 200, 200, held_out=True, style=None)
    layout.sprite[:] = toy.sprite_of(toy.CLOCK)
    layout.size[:] = 0
    layout.size[0, -1] = 50
    assert not draw_eval.may_bear(layout, library, Counter(relation=1, colour=1))
    layout.size[0, -2], layout.sprite[0, -2] = 50, toy.sprite_of(toy.DOG)
    assert draw_eval.may_bear(layout, library, Counter(relation=1))
    assert draw_eval.may_bear(layout, library, Counter(colour=1))
    layout.sprite[0, -2] = toy.sprite_of(toy.CLOCK)
    assert not draw_eval.may_bear(layout, library, Counter(relation=1, colour=1))  # two clocks


def test_a_set_can_be_read_back(tmp_path: Path) -> None:
    rows = []
    for i, (picture, row) in enumerate(drawn(2, "openmoji", {"relation": 1, "colour": 1})):
        picture.save(tmp_path / f"{i}.webp")
        rows.append({"file": f"{i}.webp", **row})
    (tmp_path / "scenes.json").write_text(json.dumps({"pictures": rows}))
    questions = read_questions(tmp_path)
    assert len(questions) == sum(kinds(rows).values())
    for question in questions:
        assert Image.open(question.picture).size == question.size


# --- photographs


def test_photographs_are_a_pack_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from made-up cut-outs, and loaded as draw_eval.py does: nothing of the pack counts as trained."""
    stamp = Image.new("RGBA", (60, 40), (200, 20, 20, 255))
    stamp.save(tmp_path / "stamp.png")
    data = (tmp_path / "stamp.png").read_bytes()
    asked: list[set[str]] = []

    def pictures(package: Path, wanted: dict[str, str]) -> dict[str, bytes]:
        asked.append(set(wanted))
        return dict.fromkeys(wanted, data)

    monkeypatch.setattr(photos, "stamp_pictures", pictures)
    monkeypatch.setattr(photos, "fetch", lambda source: Path(source.archive))
    monkeypatch.setattr(photos, "chosen_stamps", lambda: ({"x/apple": "apple", "x/dog": "dog"}, {"x/dog"}))
    photos.build_photos(tmp_path / "build")
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["photos.bin", "photos.json"]
    assert asked == [{"x/apple", "x/dog"}]
    pixels, index = atlas.load_atlas(tmp_path / "build", pack="photos")
    assert pixels.shape == (2, 4, 112, 112) and index["held_out"] == ["photos"]
    named = [(index["nouns"][row["noun"]], row["colour"], row["style"]) for row in index["sprites"]]
    assert named == [("apple", "red", "photos"), ("dog", None, "photos")]

    atlas.write_pack(tmp_path / "build", "backgrounds", head={}, rows_name="backgrounds", entries=[_background()])
    (tmp_path / "vocabulary.json").write_text((toy.MODEL / "training" / "vocabulary.json").read_text())
    library = load_library(tmp_path, device="cpu", num_backdrops=2, pack="photos")
    apple, dog = (index["nouns"].index(noun) for noun in ("apple", "dog"))
    assert library.has_style["photos"].nonzero()[:, 0].tolist() == sorted([apple, dog])
    assert library.styles["photos"][apple].tolist() == [0] and library.styles["photos"][dog].tolist() == [1]
    assert library.trained_VM.sum() == 0


def _background() -> tuple[dict, bytes]:
    buffer = io.BytesIO()
    Image.new("RGB", (512, 512), (90, 120, 90)).save(buffer, "JPEG")
    return {"name": "plain", "author": "", "licence": ""}, buffer.getvalue()


# --- the card's tables


def test_a_table_in_markdown() -> None:
    figures = [Figure("count, exact", 0.5, 0.25, 0.75, 1 / 3, 12)]
    assert card_tables.markdown("A title", figures).splitlines() == [
        "### A title",
        "",
        "| figure | value | 95% | chance | of |",
        "|---|---|---|---|---|",
        "| count, exact | 0.500 | 0.250 to 0.750 | 0.333 | 12 |",
    ]
