"""Answers that the models' makers have published, each read by its dialect. The texts are quoted; the numbers that
should come out are worked out by hand from the published rule of each format."""

from __future__ import annotations

import pytest

from photon.dialects.base import Kind, Thing
from photon.dialects.frame import Frame
from photon.dialects.known import DIALECTS
from photon.results import Box, Point

# Qwen2.5-VL's announcement (Qwen team, January 2025): "Detect all motorcyclists in the image and return their locations
# in the form of coordinates", with a key of its own, and key points with numbers in quotes. The size of the picture as
# the model saw it is not published: a round one stands for it.
QWEN25_BOXES = """[
	{"bbox_2d": [341, 258, 397, 360], "label": "motorcyclist", "sub_label": "not wearing helmat "},
	{"bbox_2d": [212, 332, 274, 448], "label": "motorcyclist", "sub_label": "not wearing helmat "},
	{"bbox_2d": [66, 124, 112, 198], "label": "motorcyclist", "sub_label": "not wearing helmat "},
	{"bbox_2d": [5, 235, 63, 320], "label": "motorcyclist", "sub_label": "wearing helmat "}
]"""
QWEN25_POINTS = """[
    {"point_2d": ["394", "105"], "label": "LeBron James", "label2": "head"},
    {"point_2d": ["876", "131"], "label": "Stephen Curry", "label2": "head"}
]"""
# Qwen2-VL's report (Wang et al., 2024, arXiv 2409.12191), section on referring grounding.
QWEN2_BOX = "<|object_ref_start|>the eyes on a giraffe<|object_ref_end|><|box_start|>(176,106),(232,160)<|box_end|>"
# PaliGemma: what transformers' own integration test expects of the prompt "detect shoe".
PALIGEMMA_BOX = "<loc0051><loc0309><loc0708><loc0646> shoe"
# InternVL's documentation, "Chat Data Format": an example of RefCOCO, and one of V3Det with several names.
INTERNVL_BOX = "<ref>the lady with the blue shirt</ref><box>[[243, 469, 558, 746]]</box>"
INTERNVL_BOXES = """Sure, I will detect and label all objects in the image and mark their positions.

```
<ref>Bulletproof Helmet</ref><box>[[1, 2, 269, 235]]</box>
<ref>95 Type Assault Rifle</ref><box>[[39, 229, 983, 667]]</box>
<ref>Wireless Walkie-Talkie</ref><box>[[295, 2, 370, 226], [374, 0, 447, 226]]</box>
<ref>artifact</ref><box>[[915, 0, 981, 294]]</box>
```
"""
# supervision's documentation (Roboflow) of `from_vlm` with Gemini: fenced, indented, with one key more.
GEMINI_BOXES = """```json
                [
                    {"box_2d": [543, 40, 728, 200], "label": "cat", "id": 1},
                    {"box_2d": [653, 352, 820, 522], "label": "dog", "id": 2}
                ]
            ```"""
# Molmo's way of a single point, as evaluations of pointing quote it to the model.
MOLMO_POINT = '<point x="63.5" y="44.5" alt="Mt Rainier">Mt Rainier</point>'

PUBLISHED: list[tuple[str, Kind, str, list[Thing]]] = [
    (
        "qwen2.5-vl",
        "box",
        QWEN25_BOXES,
        [
            Box(0.341, 0.516, 0.397, 0.72, label="motorcyclist"),
            Box(0.212, 0.664, 0.274, 0.896, label="motorcyclist"),
            Box(0.066, 0.248, 0.112, 0.396, label="motorcyclist"),
            Box(0.005, 0.47, 0.063, 0.64, label="motorcyclist"),
        ],
    ),
    (
        "qwen2.5-vl",
        "point",
        QWEN25_POINTS,
        [Point(0.394, 0.21, label="LeBron James"), Point(0.876, 0.262, label="Stephen Curry")],
    ),
    ("qwen2-vl", "box", QWEN2_BOX, [Box(0.176, 0.106, 0.232, 0.16, label="the eyes on a giraffe")]),
    (
        "paligemma",
        "box",
        PALIGEMMA_BOX,
        [Box(309 / 1024, 51 / 1024, 646 / 1024, 708 / 1024, label="shoe")],
    ),
    ("internvl", "box", INTERNVL_BOX, [Box(0.243, 0.469, 0.558, 0.746, label="the lady with the blue shirt")]),
    (
        "internvl",
        "box",
        INTERNVL_BOXES,
        [
            Box(0.001, 0.002, 0.269, 0.235, label="Bulletproof Helmet"),
            Box(0.039, 0.229, 0.983, 0.667, label="95 Type Assault Rifle"),
            Box(0.295, 0.002, 0.37, 0.226, label="Wireless Walkie-Talkie"),
            Box(0.374, 0.0, 0.447, 0.226, label="Wireless Walkie-Talkie"),
            Box(0.915, 0.0, 0.981, 0.294, label="artifact"),
        ],
    ),
    (
        "gemma",
        "box",
        GEMINI_BOXES,
        [Box(0.04, 0.543, 0.2, 0.728, label="cat"), Box(0.352, 0.653, 0.522, 0.82, label="dog")],
    ),
    ("molmo", "point", MOLMO_POINT, [Point(0.635, 0.445, label="Mt Rainier")]),
]


@pytest.mark.parametrize(("name", "kind", "text", "things"), PUBLISHED)
def test_published_answers_are_read(name: str, kind: Kind, text: str, things: list[Thing]) -> None:
    reading = DIALECTS[name].decode(text, kind, frame=Frame(1000, 500))
    assert not reading.is_cut
    assert list(reading.things) == things


@pytest.mark.parametrize("text", [QWEN2_BOX, PALIGEMMA_BOX, INTERNVL_BOX, MOLMO_POINT])
def test_published_answers_are_said_as_they_stand(text: str) -> None:
    name, things = next((name, things) for name, _, published, things in PUBLISHED if published == text)
    assert DIALECTS[name].encode(things) == text
