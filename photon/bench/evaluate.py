"""`photon eval`: a folder of scenes with questions and right answers, asked through an engine, as a table of figures.

The folder holds pictures and a `scenes.json`, as models/photon-tiny/training/draw_eval.py writes it. Figures and chance
levels are those of `quality`; everything is greedy.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from photon.bench import quality
from photon.bench.quality import Box, Matches
from photon.engine import Engine
from photon.errors import RequestError
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

IN_FLIGHT = 64  # questions waiting in the engine: more would only keep their pictures in memory
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
    """One line of the table. `value` and `chance` in [0, 1]; `count` questions (or objects) that it rests on."""

    name: str
    value: float
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
    """In order, a few at a time, without the pictures that the engine's results carry."""
    waiting: deque[tuple[Question, Future[Any]]] = deque()

    def oldest() -> Asked:
        question, future = waiting.popleft()
        return Asked(question.row, question.size, replace(future.result(), image=None))

    for question in questions:
        if len(waiting) == IN_FLIGHT:
            yield oldest()
        waiting.append((question, engine.submit(question.task, question.picture)))
    while waiting:
        yield oldest()


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


def _box_figures(asked: Sequence[Asked]) -> list[Figure]:
    answers = [[(b.x_min, b.y_min, b.x_max, b.y_max) for b in a.result.boxes] for a in asked]
    truths = [_boxes(a) for a in asked]
    pairs = list(zip(answers, truths, strict=True))
    chance = quality.chance_of_fixed_box(truths).f1
    at_50, at_75 = (sum((quality.match_boxes(*p, at_least=level) for p in pairs), Matches()) for level in (0.5, 0.75))
    number = sum(map(len, truths))
    small = [(a, t) for a, t, one in zip(answers, truths, asked, strict=True) if _are_small(t, one.size)]
    of_small = sum((quality.match_boxes(*pair) for pair in small), Matches())
    small_truths = [t for _, t in small]
    exact = [len(a) == len(t) for a, t in pairs]
    return [
        Figure("detect, F1 at IoU 0.5", at_50.f1, chance, number),
        Figure("detect, F1 at IoU 0.75", at_75.f1, quality.chance_of_fixed_box(truths, at_least=0.75).f1, number),
        Figure(
            f"detect, F1 of objects under {SMALL:.0%}",
            of_small.f1,
            quality.chance_of_fixed_box(small_truths).f1,
            sum(map(len, small_truths)),
        ),
        Figure(
            "detect, number of boxes exact",
            quality.share(exact),
            quality.chance_of_commonest([str(len(t)) for t in truths]),
            len(exact),
        ),
    ]


def _boxes(asked: Asked) -> list[Box]:
    return [(b[0], b[1], b[2], b[3]) for b in asked.row["boxes"]]


def _are_small(truths: Sequence[Box], size: tuple[int, int]) -> bool:
    """Whether all of a question's objects are small: what is said cannot be told apart by size."""
    width, height = size
    return all(max((b[2] - b[0]) * width, (b[3] - b[1]) * height) < SMALL * min(size) for b in truths)


def _point_figure(asked: Sequence[Asked]) -> Figure:
    truths = [_boxes(a) for a in asked]
    answers = [[(p.x, p.y) for p in a.result.points] for a in asked]
    matches = sum((quality.match_points(*pair) for pair in zip(answers, truths, strict=True)), Matches())
    value, chance = quality.point_hit_rate(matches), quality.chance_of_middle_point(truths)
    return Figure("point, objects hit", value, chance, sum(map(len, truths)))


def _absent_figure(grounded: Sequence[Asked]) -> Figure:
    """Chance: saying "nothing" as often as nothing is there."""
    absent = [a for a in grounded if not a.row["boxes"]]
    chance = len(absent) / len(grounded) if grounded else 0.0
    return Figure(
        "absent, answered with nothing", quality.share([not len(a.result) for a in absent]), chance, len(absent)
    )


def _answer_figure(title: str, asked: Sequence[Asked]) -> Figure:
    truths = [a.row["answer"] for a in asked]
    right = [quality.is_same_text(a.result.answer, truth) for a, truth in zip(asked, truths, strict=True)]
    return Figure(title, quality.share(right), quality.chance_of_commonest(truths), len(asked))


def _caption_figure(asked: Sequence[Asked]) -> Figure:
    nouns = [[tuple(forms) for forms in a.row["nouns"]] for a in asked]
    recall = [quality.noun_recall(a.result.caption, n) for a, n in zip(asked, nouns, strict=True)]
    mean = sum(recall) / len(recall) if recall else 0.0
    return Figure("caption, nouns named", mean, quality.chance_of_common_nouns(nouns), len(asked))
