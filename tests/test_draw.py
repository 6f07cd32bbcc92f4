"""Drawings of several objects: colours by name, plates that can all be read, scores when asked for, at every size."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from photon.draw import COLORS, draw_boxes, draw_points
from photon.draw.plates import Tag, paint_plates
from photon.results import Box, DetectResult, Metrics, Point, PointResult

SHARED = {"token_ids": (), "finish_reason": "stop", "metrics": Metrics()}
GRAY = Image.new("RGB", (640, 480), (90, 90, 90))
NEIGHBOURS = [(44, 340, 149, 452), (153, 333, 266, 446), (282, 345, 375, 458)]
PAIR = [Box(0.1, 0.2, 0.3, 0.5, 0.9), Box(0.6, 0.2, 0.8, 0.5, 0.4)]


def num_pixels(image: Image.Image, color: str) -> int:
    return int((np.asarray(image) == tuple(bytes.fromhex(color[1:]))).all(axis=2).sum())


def changed(a: Image.Image, b: Image.Image) -> np.ndarray:
    return (np.asarray(a) != np.asarray(b)).any(axis=2)


def painted(tags: Sequence[Tag], size: tuple[int, int] = (640, 480), font_size: int = 15) -> Image.Image:
    canvas = Image.new("RGB", size)
    paint_plates(canvas, tags, line=2, font_size=font_size)
    return canvas


def tags_at(corners: Sequence[tuple[int, int, int, int]], text: str, *, is_dot: bool = False) -> list[Tag]:
    return [Tag(text, place, f"#{i + 1:02x}7733", is_dot) for i, place in enumerate(corners)]


def test_objects_of_one_name_have_one_colour() -> None:
    boxes = [Box(0.1, 0.2, 0.2, 0.4), Box(0.4, 0.2, 0.5, 0.4), Box(0.7, 0.2, 0.8, 0.4)]
    drawn = draw_boxes(GRAY, boxes, ["mug", "plate", "mug"])
    lines = [drawn.getpixel((x, 144)) for x in (64, 256, 448)]  # on the left edges, below the plates
    mug, plate = (tuple(bytes.fromhex(color[1:])) for color in COLORS[:2])
    assert lines == [mug, plate, mug]
    unnamed = draw_boxes(GRAY, boxes)
    assert all(num_pixels(unnamed, color) > 100 for color in COLORS[:3])
    named = draw_points(GRAY, [Point(0.2, 0.2), Point(0.8, 0.8)], "mug")
    assert num_pixels(named, COLORS[0]) > 100 and num_pixels(named, COLORS[1]) == 0


def test_objects_are_named_by_their_own_labels() -> None:
    labels = ["mug", "plate", "mug"]
    places = [(0.1, 0.2), (0.4, 0.2), (0.7, 0.2)]
    points, boxes = [Point(x, y) for x, y in places], [Box(x, y, x + 0.1, y + 0.2) for x, y in places]
    named_points = [replace(point, label=name) for point, name in zip(points, labels, strict=True)]
    named_boxes = [replace(box, label=name) for box, name in zip(boxes, labels, strict=True)]
    for bare, named in (
        (PointResult(tuple(points), image=GRAY, **SHARED), PointResult(tuple(named_points), image=GRAY, **SHARED)),
        (DetectResult(tuple(boxes), image=GRAY, **SHARED), DetectResult(tuple(named_boxes), image=GRAY, **SHARED)),
    ):
        assert not changed(named.draw(), bare.draw(labels)).any() and changed(named.draw(), bare.draw()).any()
        for label in ("cup", ["a", "b", "c"]):
            assert not changed(named.draw(label), bare.draw(label)).any(), "a label that is given goes first"
        assert not changed(named.draw(""), bare.draw()).any(), "an empty one names nothing"


def test_as_many_labels_as_objects() -> None:
    for draw in (
        DetectResult(tuple(PAIR), image=GRAY, **SHARED),
        PointResult((Point(0, 0),) * 2, image=GRAY, **SHARED),
    ):
        assert draw.draw(["mug", "plate"]).size == GRAY.size
        with pytest.raises(ValueError, match="2 objects, got 3 labels"):
            draw.draw(["mug", "plate", "spoon"])


def test_scores_only_when_asked_for() -> None:
    result = DetectResult(tuple(PAIR), image=GRAY, **SHARED)
    without = DetectResult(tuple(Box(b.x_min, b.y_min, b.x_max, b.y_max) for b in PAIR), image=GRAY, **SHARED)
    assert not changed(result.draw("mug"), without.draw("mug")).any()
    assert not changed(result.draw(), without.draw(scores=True)).any()
    assert changed(result.draw("mug"), result.draw("mug", scores=True)).any()
    assert changed(result.draw(), result.draw(scores=True)).any(), "a score makes a plate without a label too"


@pytest.mark.parametrize("is_dot", [False, True])
def test_plates_of_neighbours_are_all_whole(is_dot: bool) -> None:
    """Each plate shows as many of its pixels as when it is painted alone."""
    dots = [(100, 100, 120, 120), (112, 108, 132, 128), (610, 90, 630, 110), (630, 470, 640, 480), (0, 0, 10, 10)]
    tags = tags_at(dots if is_dot else NEIGHBOURS, "banana 100%", is_dot=is_dot)
    together = painted(tags)
    for tag in tags:
        assert num_pixels(together, tag.color) == num_pixels(painted([tag]), tag.color)
        left, top, right, bottom = tag.corners
        assert not is_dot or not np.asarray(together)[top:bottom, left:right].any(), "a dot would cover the plate"


def test_plates_of_a_crowd_shrink_rather_than_hide() -> None:
    tags = tags_at([(40 + 52 * i, 200, 88 + 52 * i, 250) for i in range(11)], "watermelon")
    together = painted(tags)
    whole = {num_pixels(painted([tags[0]], font_size=size), tags[0].color) for size in (15, 12, 11)}
    shown = [num_pixels(together, tag.color) for tag in tags]
    assert all(count in whole for count in shown), (shown, whole)


def test_a_plate_stays_in_the_picture_however_long_its_name() -> None:
    for corners in (NEIGHBOURS[0], (0, 0, 640, 480), (600, 0, 640, 20), (0, 470, 9, 480)):
        drawn = painted([Tag("a very long name " * 20, corners, COLORS[0])])
        columns = np.flatnonzero(np.asarray(drawn).any(axis=(0, 2)))
        assert columns[-1] - columns[0] > 560 and num_pixels(drawn, "#ffffff") > 500
        edges = np.asarray(drawn)[:, [columns[0], columns[-1]]]
        assert (edges.max(axis=(0, 2)) == 255).all(), "the plate's white outline shows at both of its ends"


@pytest.mark.parametrize("width", [640, 2000, 8000])
def test_lines_and_plates_grow_with_the_picture(width: int) -> None:
    picture = Image.new("RGB", (width, width * 3 // 4))
    drawn = draw_boxes(picture, PAIR[:1], "mug")
    row = np.asarray(drawn)[round(0.35 * picture.height)]
    line = (row[: width // 5] == tuple(bytes.fromhex(COLORS[0][1:]))).all(axis=1).sum()
    assert 0.003 < line / width < 0.0055
    plate = np.flatnonzero(changed(draw_boxes(picture, PAIR[:1]), drawn).any(axis=1))
    assert 0.03 < (plate[-1] - plate[0]) / picture.height < 0.07
    if width == 8000:
        small = np.asarray(draw_boxes(Image.new("RGB", (200, 150)), PAIR, "mug"))
        assert small.shape == (300, 400, 3), "drawn at twice its size, for there to be room"


def test_white_can_be_read_on_every_colour() -> None:
    """The contrast of WCAG 2: (1 + 0.05) / (luminance + 0.05), at least 4.5."""
    for color in COLORS:
        parts = np.frombuffer(bytes.fromhex(color[1:]), np.uint8) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        assert 1.05 / (float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05) >= 4.5, color
