"""`photon eval`: a folder of scenes with questions and right answers, asked through an engine, as a table of figures.

The folder holds pictures and a `scenes.json`, as models/photon-tiny/training/draw_eval.py writes it. Figures, chance
levels and intervals are those of `quality`; everything is greedy.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from photon.bench import quality
from photon.bench.asking import PictureTask
from photon.bench.quality import Box, Matches
from photon.engine import Engine
from photon.errors import RequestError
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

BATCH_SIZE = 32  # the engine's, for this work
IN_FLIGHT = 16  # pictures, with some ten questions each, in the engine: enough to fill its batches
SMALL = 0.12  # an object whose longer side is under this share of the picture's shorter side is small
KINDS = {
    "count": "count, exact",
    "is_there": "is it there",
    "colour": "colour",
    "relation": "what is beside",
    "here": "what is at a point",
}
TRUTHS = {"detect": "boxes", "point": "boxes", "query": "answer", "caption": "nouns"}  # where a row has what is right


@dataclass(frozen=True)
class Figure:
    """One line of the table. `value` and `chance` in [0, 1]; `count` questions (or objects) that it rests on; between
    `low` and `high` lies, with 95%, the value of all scenes of this kind, were no two questions alike."""

    name: str
    value: float
    low: float
    high: float
    chance: float
    count: int


@dataclass(frozen=True)
class Question:
    """One question of a set: `row` of scenes.json as a task, its picture, and the picture's (width, height)."""

    row: dict[str, Any]
    task: Task
    picture: Path
    size: tuple[int, int]


@dataclass(frozen=True)
class Asked:
    """A question's row of scenes.json, its picture's (width, height), and the engine's result."""

    row: dict[str, Any]
    size: tuple[int, int]
    result: Any


def read_questions(folder: Path, *, limit: int | None = None) -> list[Question]:
    """All questions of (the first `limit`) scenes. RequestError when the folder holds no scenes, or wrong ones."""
    path = folder / "scenes.json"
    if not path.is_file():
        raise RequestError(f"{folder} holds no scenes.json; draw_eval.py in models/photon-tiny/training makes one")
    try:
        return [
            Question(row, _task(row), folder / picture["file"], (picture["width"], picture["height"]))
            for picture in json.loads(path.read_text(encoding="utf-8"))["pictures"][:limit]
            for row in picture["questions"]
        ]
    except KeyError as error:
        raise RequestError(f"{path}: a picture or question lacks {error}") from error
    except (ValueError, TypeError) as error:
        raise RequestError(f"{path} is not as draw_eval.py writes it: {error}") from error


def evaluate(engine: Engine, questions: Sequence[Question]) -> list[Figure]:
    """Ask all questions; the figures that at least one of them bears on."""
    asked = list(_ask(engine, questions))

    def of(task: str, **wanted: Any) -> list[Asked]:
        return [a for a in asked if a.row["task"] == task and wanted.items() <= a.row.items()]

    grounded = [*of("detect"), *of("point")]
    figures = [
        *_box_figures([a for a in of("detect") if a.row["boxes"]]),
        _point_figure([a for a in of("point") if a.row["boxes"]]),
        _absent_figure(grounded),
        *(_answer_figure(title, of("query", kind=kind)) for kind, title in KINDS.items()),
        _caption_figure(of("caption")),
    ]
    return [figure for figure in figures if figure.count]


def _ask(engine: Engine, questions: Sequence[Question]) -> Iterator[Asked]:
    """In order, those of one picture together, a few pictures at a time, without what the engine's results carry of
    them."""
    waiting: deque[tuple[list[Question], Future[Any]]] = deque()

    def oldest() -> Iterator[Asked]:
        asked, future = waiting.popleft()
        for question, result in zip(asked, future.result().results, strict=True):
            yield Asked(question.row, question.size, replace(result, image=None))

    for picture, group in groupby(questions, key=lambda question: question.picture):
        if len(waiting) == IN_FLIGHT:
            yield from oldest()
        asked = list(group)
        waiting.append((asked, engine.submit(PictureTask(tuple(q.task for q in asked)), picture)))
    while waiting:
        yield from oldest()


def _task(row: dict[str, Any]) -> Task:
    """KeyError and ValueError tell what is wrong with a row."""
    task = row["task"]
    if task not in TRUTHS:
        raise ValueError(f"unknown task {task!r}; known: {', '.join(TRUTHS)}")
    if task == "query" and row["kind"] not in KINDS:
        raise ValueError(f"unknown kind of question {row['kind']!r}; known: {', '.join(KINDS)}")
    if TRUTHS[task] not in row:
        raise KeyError(TRUTHS[task])
    if task == "detect":
        return DetectTask(object=row["text"])
    if task == "point":
        return PointTask(object=row["text"])
    if task == "caption":
        return CaptionTask(length=row["length"], max_tokens=100)
    refs = [row["point"]] if "point" in row else []
    return QueryTask(question=row["text"], spatial_refs=refs, max_tokens=30)


def _share_figure(name: str, right: Sequence[bool], chance: float) -> Figure:
    return Figure(name, quality.share(right), *quality.interval_of_share(sum(right), len(right)), chance, len(right))


def _box_figures(asked: Sequence[Asked]) -> list[Figure]:
    truths = [_boxes(a) for a in asked]
    answers = [[(b.x_min, b.y_min, b.x_max, b.y_max) for b in a.result.boxes] for a in asked]
    pairs = list(zip(answers, truths, strict=True))
    small = [pair for pair, one in zip(pairs, asked, strict=True) if _are_small(pair[1], one.size)]
    return [
        _f1_figure("detect, F1 at IoU 0.5", pairs, at_least=0.5),
        _f1_figure("detect, F1 at IoU 0.75", pairs, at_least=0.75),
        _f1_figure(f"detect, F1 of objects under {SMALL:.0%}", small, at_least=0.5),
        _share_figure(
            "detect, number of boxes exact",
            [len(a) == len(t) for a, t in pairs],
            quality.chance_of_commonest([str(len(t)) for t in truths]),
        ),
    ]


def _f1_figure(name: str, pairs: Sequence[tuple[list[Box], list[Box]]], *, at_least: float) -> Figure:
    """`pairs`: the answers and the truths of each question."""
    truths = [t for _, t in pairs]
    each = [quality.match_boxes(*pair, at_least=at_least) for pair in pairs]
    chance = quality.chance_of_fixed_box(truths, at_least=at_least).f1
    value = sum(each, Matches())
    return Figure(name, value.f1, *quality.interval_of_f1(each), chance, sum(map(len, truths)))


def _boxes(asked: Asked) -> list[Box]:
    return [(b[0], b[1], b[2], b[3]) for b in asked.row["boxes"]]


def _are_small(truths: Sequence[Box], size: tuple[int, int]) -> bool:
    """Whether all of a question's objects are small: what is said cannot be told apart by size."""
    width, height = size
    return all(max((b[2] - b[0]) * width, (b[3] - b[1]) * height) < SMALL * min(size) for b in truths)


def _point_figure(asked: Sequence[Asked]) -> Figure:
    truths = [_boxes(a) for a in asked]
    each = [quality.match_points([(p.x, p.y) for p in a.result.points], t) for a, t in zip(asked, truths, strict=True)]
    value, chance = quality.point_hit_rate(sum(each, Matches())), quality.chance_of_middle_point(truths)
    return Figure("point, objects hit", value, *quality.interval_of_hits(each), chance, sum(map(len, truths)))


def _absent_figure(grounded: Sequence[Asked]) -> Figure:
    """Chance: saying "nothing" as often as nothing is there."""
    absent = [a for a in grounded if not a.row["boxes"]]
    chance = len(absent) / len(grounded) if grounded else 0.0
    return _share_figure("absent, answered with nothing", [not len(a.result) for a in absent], chance)


def _answer_figure(title: str, asked: Sequence[Asked]) -> Figure:
    truths = [a.row["answer"] for a in asked]
    right = [quality.is_same_text(a.result.answer, truth) for a, truth in zip(asked, truths, strict=True)]
    return _share_figure(title, right, quality.chance_of_commonest(truths))


def _caption_figure(asked: Sequence[Asked]) -> Figure:
    nouns = [[tuple(forms) for forms in a.row["nouns"]] for a in asked]
    recall = [quality.noun_recall(a.result.caption, n) for a, n in zip(asked, nouns, strict=True)]
    mean = sum(recall) / len(recall) if recall else 0.0
    chance = quality.chance_of_common_nouns(nouns)
    return Figure("caption, nouns named", mean, *quality.interval_of_mean(recall), chance, len(asked))
