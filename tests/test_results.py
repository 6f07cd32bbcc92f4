"""Results: what coordinates are accepted, how they become pixels and JSON, and that drawings show them."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from PIL import Image

from photon.draw import COLORS, draw_boxes, draw_points, draw_text
from photon.results import (
    Box,
    CaptionResult,
    DetectResult,
    Grounding,
    Metrics,
    Point,
    PointResult,
    QueryResult,
    Reasoning,
)

SHARED = {"token_ids": (5, 6, 0), "finish_reason": "stop", "metrics": Metrics(total_ms=12.34567)}
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -0.001, 1.001])
def test_coordinates_outside_the_picture_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="y of a Point"):
        Point(0.5, bad)
    with pytest.raises(ValueError, match="score of a Point"):
        Point(0.5, 0.5, bad)
    with pytest.raises(ValueError, match="x_max of a Box"):
        Box(0, 0, bad, 1)


def test_corners_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="not in order"):
        Box(0.6, 0.1, 0.5, 0.2)
    with pytest.raises(ValueError, match="not in order"):
        Box(0.1, 0.3, 0.5, 0.2)
    assert Box(0.5, 0.5, 0.5, 0.5)  # no area, but a place


def test_from_center_is_cut_at_the_edges() -> None:
    assert Box.from_center(0.5, 0.25, width=0.5, height=0.25, score=0.75) == Box(0.25, 0.125, 0.75, 0.375, 0.75)
    assert Box.from_center(0.0, 1.0, width=0.5, height=0.5) == Box(0.0, 0.75, 0.25, 1.0)
    with pytest.raises(ValueError, match="got nan"):
        Box.from_center(0.5, 0.5, width=NAN, height=0.5)


def test_iou_by_hand() -> None:
    box = Box(0.0, 0.0, 0.5, 0.5, 0.9, "mug")
    assert box.iou(Box(0.25, 0.0, 0.75, 0.5)) == 0.125 / 0.375
    assert box.iou(Box(0.0, 0.0, 1.0, 1.0)) == Box(0.0, 0.0, 1.0, 1.0).iou(box) == 0.25
    assert box.iou(Box(0.0, 0.0, 0.5, 0.5)) == 1.0
    assert box.iou(Box(0.5, 0.0, 1.0, 0.5)) == box.iou(Box(0.75, 0.75, 1.0, 1.0)) == 0.0, "an edge has no area"
    line, place = Box(0.0, 0.25, 0.5, 0.25), Box(0.25, 0.25, 0.25, 0.25)
    assert box.iou(line) == line.iou(box) == line.iou(place) == line.iou(Box(0.0, 0.25, 0.25, 0.25)) == 0.0
    assert line.iou(line) == place.iou(place) == 1.0


def test_iou_of_ten_thousand_pairs_by_counting_cells() -> None:
    """Corners on a grid of 16 by 16: areas are numbers of cells."""
    rng = np.random.default_rng(0)
    xs, ys = np.sort(rng.integers(0, 17, (2, 10_000, 2, 2)))
    columns, rows = ((low[..., :1] <= np.arange(16)) & (np.arange(16) < low[..., 1:]) for low in (xs, ys))
    cells = rows[..., :, None] & columns[..., None, :]
    both, either = cells.all(axis=1).sum(axis=(1, 2)), cells.any(axis=1).sum(axis=(1, 2))
    assert 1000 < (both > 0).sum() < 9000 and (either == 0).any()
    for i in range(10_000):
        a, b = (Box(xs[i, k, 0] / 16, ys[i, k, 0] / 16, xs[i, k, 1] / 16, ys[i, k, 1] / 16) for k in (0, 1))
        expected = both[i] / either[i] if either[i] else float(a == b)
        assert a.iou(b) == b.iou(a) == pytest.approx(expected, abs=1e-12)
        assert a.iou(a) == 1.0


def test_labels_are_compared_printed_and_drawn() -> None:
    box = Box(0, 0, 1, 1, 0.5, "mug")
    assert box != replace(box, label="plate") and box == replace(box, label="mug")
    assert "label='mug'" in repr(box) and "label='mug'" in repr(Point(0, 0, label="mug"))
    assert Box.from_center(0.5, 0.5, width=1, height=1, score=0.5, label="mug") == box


def test_metrics_of_a_call_of_several_requests() -> None:
    """One was admitted after 5 + 2 ms and spoke from 10 to 37; the other after 6 + 2 and from 9 to 34."""
    early = Metrics(
        queue_ms=5,
        image_ms=2,
        prefill_ms=3,
        time_to_first_token_ms=10,
        decode_ms=27,
        total_ms=38,
        prompt_tokens=100,
        output_tokens=7,
    )
    late = Metrics(
        queue_ms=6,
        image_ms=2,
        prefill_ms=1,
        time_to_first_token_ms=9,
        decode_ms=25,
        total_ms=36,
        prompt_tokens=101,
        output_tokens=4,
    )
    joined = Metrics(
        queue_ms=5,
        image_ms=2,
        prefill_ms=2,
        time_to_first_token_ms=9,
        decode_ms=28,
        total_ms=38,
        prompt_tokens=201,
        output_tokens=11,
    )
    assert Metrics.join([early, late]) == Metrics.join([late, early]) == joined


def test_pixels() -> None:
    assert Point(0.0, 0.0).to_pixels(640, 480) == (0, 0)
    assert Point(0.5, 0.25).to_pixels(640, 480) == (320, 120)
    assert Point(1.0, 1.0).to_pixels(640, 480) == (639, 479)
    assert Box(0.0, 0.5, 0.25, 1.0).to_pixels(640, 480) == (0, 240, 160, 480)
    assert Box(0.1, 0.1, 0.26, 0.26).to_pixels(10, 10) == (1, 1, 3, 3)


def test_frozen_and_compared_by_what_they_say() -> None:
    result = DetectResult((Box(0, 0, 1, 1),), image=Image.new("RGB", (4, 4)), **SHARED)
    with pytest.raises(FrozenInstanceError):
        result.truncated = True  # type: ignore[misc]
    assert result == replace(result, image=None, metrics=Metrics())
    assert result != replace(result, boxes=())
    assert "image=" not in repr(result)
    assert len(result) == 1 and list(result) == [Box(0, 0, 1, 1)]


@pytest.mark.parametrize(
    "result, expected",
    [
        (CaptionResult("A cat.", **SHARED), {"caption": "A cat."}),
        (QueryResult("Two.", **SHARED), {"answer": "Two."}),
        (PointResult((Point(0.5, 0.25, 0.9),), **SHARED), {"points": [{"x": 0.5, "y": 0.25, "score": 0.9}]}),
        (
            DetectResult((Box(0.1, 0.2, 0.3, 0.4, 0.9),), **SHARED),
            {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.3, "y_max": 0.4, "score": 0.9}]},
        ),
        (
            PointResult((Point(0.5, 0.25, 0.9, "mug"), Point(0, 1)), **SHARED),
            {"points": [{"x": 0.5, "y": 0.25, "score": 0.9, "label": "mug"}, {"x": 0, "y": 1}]},
        ),
        (
            DetectResult((Box(0.1, 0.2, 0.3, 0.4, 0.9, "mug"),), **SHARED),
            {"objects": [{"x_min": 0.1, "y_min": 0.2, "x_max": 0.3, "y_max": 0.4, "score": 0.9, "label": "mug"}]},
        ),
        (
            QueryResult("Two.", Reasoning("One, two.", (Grounding(0, 3, (Point(0.5, 0.25),)),)), **SHARED),
            {
                "answer": "Two.",
                "reasoning": {
                    "text": "One, two.",
                    "grounding": [{"start_idx": 0, "end_idx": 3, "points": [[0.5, 0.25]]}],
                },
            },
        ),
    ],
    ids=["caption", "query", "point", "detect", "labelled points", "labelled boxes", "reasoning"],
)
def test_json_shape(result, expected) -> None:
    said = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    metrics = said.pop("metrics")
    assert said == {**expected, "finish_reason": "stop"}
    assert metrics["total_ms"] == 12.346 and set(metrics) == {
        "queue_ms",
        "image_ms",
        "prefill_ms",
        "time_to_first_token_ms",
        "decode_ms",
        "total_ms",
        "prompt_tokens",
        "output_tokens",
    }


def rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def test_a_box_is_drawn_on_its_edge_and_leaves_the_inside() -> None:
    gray = Image.new("RGB", (800, 600), (90, 90, 90))
    drawn = draw_boxes(gray, [Box(0.25, 0.25, 0.75, 0.75)])
    assert drawn.size == gray.size and gray.getcolors() == [(800 * 600, (90, 90, 90))]
    for edge in ((200, 300), (600, 300), (400, 150), (400, 450)):
        assert drawn.getpixel(edge) == rgb(COLORS[0])
    assert drawn.getpixel((400, 300)) == drawn.getpixel((20, 20)) == (90, 90, 90)


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (200, 150), (4000, 3000)])
def test_a_box_at_the_very_edge_still_shows(size: tuple[int, int]) -> None:
    drawn = draw_boxes(Image.new("L", size), [Box(0, 0, 1, 1, 0.5), Box(1, 1, 1, 1)], "thing")
    colors = {color for _, color in drawn.getcolors(1 << 24)}  # type: ignore[union-attr]
    assert rgb(COLORS[0]) in colors or 5000 in size  # no room for a line on a strip one pixel wide, but no failure
    assert drawn.width * size[1] == drawn.height * size[0]


def test_points_are_ringed_dots() -> None:
    drawn = draw_points(Image.new("RGB", (800, 600), (90, 90, 90)), [Point(0.5, 0.5), Point(0.0, 0.0)])
    assert drawn.getpixel((400, 300)) == rgb(COLORS[0])
    row = np.asarray(drawn)[300, 400:440]
    assert (row == 255).all(axis=1).any(), "no white ring"
    assert tuple(row[-1]) == (90, 90, 90)
    corner = np.asarray(drawn)[:20, :20].reshape(-1, 3)
    assert (corner == rgb(COLORS[1])).all(axis=1).sum() > 50, "the dot at the corner is cut off"


def test_a_label_makes_a_plate() -> None:
    gray = Image.new("RGB", (800, 600))
    plain = np.asarray(draw_boxes(gray, [Box(0.25, 0.25, 0.75, 0.75)]))
    named = np.asarray(draw_boxes(gray, [Box(0.25, 0.25, 0.75, 0.75)], "banana"))
    changed = np.argwhere((plain != named).any(axis=2))
    assert changed.size and changed[:, 0].max() < 160, "the plate lies above the box"


def test_text_goes_under_the_picture() -> None:
    picture = Image.effect_noise((500, 300), 60).convert("RGB")
    drawn = draw_text(picture, "word " * 100)
    assert drawn.width == 500 and drawn.height > 300
    assert drawn.crop((0, 0, 500, 300)).tobytes() == picture.tobytes()
    strip = np.asarray(drawn)[300:].min(axis=2)
    assert (strip < 100).any() and (strip[:, :5] == 255).all() and (strip[:, -5:] == 255).all()
    assert draw_text(picture, "").height > 300
    assert draw_text(Image.new("RGB", (1, 1)), "x" * 300).width >= 400


def test_every_result_draws_itself() -> None:
    picture = Image.new("RGB", (800, 600), (90, 90, 90))
    reasoning = Reasoning("there", (Grounding(0, 5, (Point(0.5, 0.5),)),))
    assert QueryResult("yes", reasoning, image=picture, **SHARED).draw().getpixel((400, 300)) == rgb(COLORS[0])
    assert PointResult((Point(0.5, 0.5),), image=picture, **SHARED).draw("x").getpixel((400, 300)) == rgb(COLORS[0])
    assert DetectResult((Box(0.5, 0, 1, 1),), image=picture, **SHARED).draw("x").getpixel((400, 300)) == rgb(COLORS[0])
    assert CaptionResult("long", image=picture, **SHARED).draw().height > 600
    with pytest.raises(ValueError, match="no picture"):
        CaptionResult("long", **SHARED).draw()
