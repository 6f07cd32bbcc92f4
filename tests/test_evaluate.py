"""`photon eval`: figures worked out by hand from a fake engine's answers, and the bundled model on a few scenes."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import photon
from photon.bench import evaluate as module
from photon.bench.asking import PictureTask
from photon.bench.evaluate import Figure, Question, evaluate, read_questions
from photon.cli.main import run
from photon.errors import ImageError, RequestError
from photon.results import Box, CaptionResult, DetectResult, Metrics, Point, PointResult, QueryResult
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask, Task

ROOT = Path(__file__).parents[1]
SLICE = Path(__file__).parent / "data" / "photon_tiny_eval"
HAS_WEIGHTS = any((ROOT / "models" / "photon-tiny").glob("model*.safetensors"))
SHARED: dict[str, Any] = {
    "token_ids": (),
    "finish_reason": "stop",
    "metrics": Metrics(),
    "image": Image.new("RGB", (8, 8)),
}

# Two pictures. Boxes are halves and quarters, so that overlaps can be worked out in the head.
LEFT, RIGHT = [0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]
TINY = [0.5, 0.5, 0.55, 0.6]  # 10 x 10 of 200 x 100 pixels
SCENES: dict[str, Any] = {
    "pictures": [
        {
            "file": "a.png",
            "width": 200,
            "height": 100,
            "questions": [
                {"task": "detect", "text": "cat", "boxes": [LEFT, RIGHT]},
                {"task": "detect", "text": "ant", "boxes": [TINY]},
                {"task": "detect", "text": "yak", "boxes": []},
                {"task": "point", "text": "cat", "boxes": [LEFT, RIGHT]},
                {"task": "point", "text": "yak", "boxes": []},
                {"task": "query", "kind": "count", "text": "How many cats?", "answer": "2"},
                {"task": "query", "kind": "here", "text": "What is here?", "point": [0.25, 0.5], "answer": "cat"},
                {"task": "caption", "length": "short", "nouns": [["cat", "cats"], ["ant", "ants"]]},
            ],
        },
        {
            "file": "b.png",
            "width": 100,
            "height": 100,
            "questions": [
                {"task": "detect", "text": "dog", "boxes": [LEFT]},
                {"task": "point", "text": "dog", "boxes": [LEFT]},
                {"task": "query", "kind": "count", "text": "How many dogs?", "answer": "1"},
                {"task": "query", "kind": "count", "text": "How many cats?", "answer": "1"},
                {"task": "caption", "length": "long", "nouns": [["dog", "dogs"]]},
            ],
        },
    ]
}
BOXES = {
    # The left one overlaps 0.4 / 0.5 = 0.8, the right one 0.3 / 0.5 = 0.6, one is nowhere.
    ("a.png", "cat"): [(0.0, 0.0, 0.4, 1.0), (0.5, 0.0, 0.8, 1.0), (0.0, 0.0, 0.1, 0.1)],
    ("a.png", "ant"): [],
    ("a.png", "yak"): [(0.0, 0.0, 0.1, 0.1)],
    ("b.png", "dog"): [(0.0, 0.0, 0.5, 1.0)],
}
POINTS = {("a.png", "cat"): [(0.25, 0.5)], ("a.png", "yak"): [], ("b.png", "dog"): [(0.25, 0.25), (0.9, 0.9)]}
ANSWERS = {("a.png", "How many cats?"): " 2.", ("b.png", "How many dogs?"): "3", ("b.png", "How many cats?"): "1"}


class FakeEngine:
    """Answers the questions about a picture when their result is asked for; remembers how many pictures waited at
    once."""

    description = "a fake"

    def __init__(self, model: str = "", **options: Any) -> None:
        self.tasks: list[tuple[str, Task]] = []
        self.waiting = self.most_waiting = 0

    def __enter__(self) -> FakeEngine:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, task: Task, image: Path) -> Future[Any]:
        assert isinstance(task, PictureTask)
        self.tasks += [(image.name, one) for one in task.tasks]
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        engine = self

        class Answer(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                engine.waiting -= 1
                return task.join([_answer(image, one) for one in task.tasks])

        return Answer()


def _answer(image: Path, task: Task) -> Any:
    if isinstance(task, DetectTask):
        return DetectResult(boxes=tuple(Box(*box) for box in BOXES[image.name, str(task.object)]), **SHARED)
    if isinstance(task, PointTask):
        return PointResult(points=tuple(Point(*point) for point in POINTS[image.name, str(task.object)]), **SHARED)
    if isinstance(task, CaptionTask):
        return CaptionResult(caption="Two cats." if task.length == "short" else "A dogma.", **SHARED)
    assert isinstance(task, QueryTask)
    if task.spatial_refs:
        assert task.spatial_refs == ((0.25, 0.5),)
        return QueryResult(answer="Cat", **SHARED)
    return QueryResult(answer=ANSWERS[image.name, task.question], **SHARED)


def write(folder: Path, scenes: Any) -> Path:
    (folder / "scenes.json").write_text(scenes if isinstance(scenes, str) else json.dumps(scenes))
    return folder


def figures(folder: Path, engine: FakeEngine | None = None, **options: Any) -> dict[str, Figure]:
    made = evaluate(engine or FakeEngine(), read_questions(write(folder, SCENES), **options))  # type: ignore[arg-type]
    return {figure.name: figure for figure in made}


def test_figures_by_hand(tmp_path: Path) -> None:
    made = figures(tmp_path)

    def check(name: str, value: float, chance: float, count: int) -> None:
        figure = made.pop(name)
        assert (figure.value, figure.chance, figure.count) == (pytest.approx(value), pytest.approx(chance), count), name

    # At 0.5: three hits, the extra cat, the missed ant. At 0.75 the right cat is one more extra and one more missed.
    # Chance: the mean of the four sides is (0.25, 0.125, 0.6375, 0.9), 0.3003 large: it overlaps LEFT in 0.19375, 0.32
    # of both, and nothing more, so that nothing is hit.
    check("detect, F1 at IoU 0.5", 6 / 8, 0, 4)
    check("detect, F1 at IoU 0.75", 4 / 8, 0, 4)
    # The ant alone is small: missed. One box that is the mean of all small ones is the ant's own.
    check("detect, F1 of objects under 12%", 0, 1, 1)
    # Three for two cats, none for one ant, one for one dog; "1" is right twice of three.
    check("detect, number of boxes exact", 1 / 3, 2 / 3, 3)
    # One of two cats, the dog. The middle lies on the border of both cats and of the dog, and hits one a question.
    check("point, objects hit", 2 / 3, 2 / 3, 3)
    # Two of seven grounding questions have nothing to find: one answered so.
    check("absent, answered with nothing", 1 / 2, 2 / 7, 2)
    # 2 is right, 3 is wrong, 1 is right; "1" is right for two of three.
    check("count, exact", 2 / 3, 2 / 3, 3)
    check("what is at a point", 1, 1, 1)
    # Cats of cats and ants; a dogma is no dog. All three nouns are always among the three commonest.
    check("caption, nouns named", 1 / 4, 1, 2)
    assert not made  # what was not asked is not in the table


def test_tasks_are_asked_as_they_are_written(tmp_path: Path) -> None:
    engine = FakeEngine()
    figures(tmp_path, engine)
    kinds = [(name, type(task)) for name, task in engine.tasks]
    assert kinds == [
        *[("a.png", kind) for kind in (DetectTask, DetectTask, DetectTask, PointTask, PointTask)],
        *[("a.png", kind) for kind in (QueryTask, QueryTask, CaptionTask)],
        *[("b.png", kind) for kind in (DetectTask, PointTask, QueryTask, QueryTask, CaptionTask)],
    ]
    assert all(task.sampling.temperature == 0 for _, task in engine.tasks)


def test_only_the_first_scenes(tmp_path: Path) -> None:
    made = figures(tmp_path, limit=1)
    assert made["detect, F1 at IoU 0.5"].count == 3 and made["count, exact"].count == 1


def test_few_pictures_wait_at_once_and_none_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT", 2)
    engine = FakeEngine()
    questions: list[Question] = read_questions(write(tmp_path, {"pictures": SCENES["pictures"] * 3}))
    asked = list(module._ask(engine, questions))  # type: ignore[arg-type]
    assert engine.most_waiting == 2 and engine.waiting == 0
    assert [a.row for a in asked] == [q.row for q in questions]
    assert all(a.result.image is None for a in asked)


@pytest.mark.parametrize(
    ("scenes", "said"),
    [
        ("{", "not as draw_eval.py writes it"),
        ([], "not as draw_eval.py writes it"),
        ({}, "lacks 'pictures'"),
        ({"pictures": [{"file": "a.png", "width": 1, "height": 1}]}, "lacks 'questions'"),
        ({"task": "detect", "text": "cat"}, "lacks 'boxes'"),
        ({"task": "detect", "boxes": []}, "lacks 'text'"),
        ({"task": "caption", "length": "endless", "nouns": []}, "endless"),
        ({"task": "segment", "text": "cat"}, "unknown task 'segment'"),
        ({"task": "query", "kind": "riddle", "text": "?", "answer": ""}, "unknown kind of question 'riddle'"),
        ({"task": "query", "kind": "here", "text": "?", "answer": "", "point": [2, 0]}, "in [0, 1]"),
    ],
)
def test_wrong_scenes_are_told(tmp_path: Path, scenes: Any, said: str) -> None:
    if isinstance(scenes, dict) and "task" in scenes:
        scenes = {"pictures": [{"file": "a.png", "width": 1, "height": 1, "questions": [scenes]}]}
    with pytest.raises(RequestError) as error:
        read_questions(write(tmp_path, scenes))
    assert said in str(error.value) and "scenes.json" in str(error.value)


# --- the command


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    monkeypatch.setitem(photon.__dict__, "Engine", FakeEngine)
    return FakeEngine


def test_table(fake: type[FakeEngine], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(write(tmp_path, SCENES))]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["figure", "value", "95%", "chance", "of"] in lines
    # Wilson's interval of one right answer in one, or of one in two.
    assert ["what", "is", "at", "a", "point", "1.000", "0.207", "to", "1.000", "1.000", "1"] in lines
    assert ["absent,", "answered", "with", "nothing", "0.500", "0.095", "to", "0.905", "0.286", "2"] in lines


def test_json(fake: type[FakeEngine], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(write(tmp_path, SCENES)), "--json", "--model", "some/model", "--limit", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["model"] == "some/model"
    by_name = {figure["name"]: figure for figure in document["figures"]}
    # Of the first picture alone: two hits, the extra cat, the missed ant.
    name = "detect, F1 at IoU 0.5"
    value = {"name": name, "value": pytest.approx(4 / 6), "low": 0.0, "high": pytest.approx(4 / 5)}
    assert by_name[name] == {**value, "chance": 0.0, "count": 3}  # two questions: the ant alone, or the cats alone


def test_mistakes_are_one_line(
    fake: type[FakeEngine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "holds no scenes.json" in err

    def submit(self: FakeEngine, task: Task, image: Path) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(ImageError(f"{image}: no such file"))
        return future

    monkeypatch.setattr(FakeEngine, "submit", submit)
    assert run(["eval", str(write(tmp_path, SCENES))]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 2 and "a.png: no such file" in err  # after who answers


# --- all questions of a picture in one call


def test_a_question_that_fails_is_named() -> None:
    tasks = (CaptionTask(length="short"), DetectTask(object="cat"))
    assert [part.name for part in PictureTask(tasks).parts()] == ["question 1 (caption)", "question 2 (detect)"]


def test_a_cut_answer_marks_the_call() -> None:
    parts = [QueryResult(answer=text, **{**SHARED, "token_ids": ids}) for text, ids in (("one", (5, 6)), ("two", (7,)))]
    joined = PictureTask((QueryTask(question="?"),) * 2).join(parts)
    assert joined.results == tuple(parts) and joined.token_ids == (5, 6, 7) and joined.finish_reason == "stop"
    cut = PictureTask((QueryTask(question="?"),) * 2).join([parts[0], replace(parts[1], finish_reason="length")])
    assert cut.truncated


@pytest.mark.skipif(not HAS_WEIGHTS, reason="models/photon-tiny has no weights yet")
def test_asked_together_is_answered_as_alone() -> None:
    questions = read_questions(SLICE, limit=1)
    with photon.Engine("photon-tiny", device="cpu", dtype="float32") as engine:
        together = list(module._ask(engine, questions))
        alone = [engine.submit(q.task, q.picture).result() for q in questions]
    assert len(alone) > 5
    for one, other in zip(together, alone, strict=True):
        assert type(one.result) is type(other) and one.result.token_ids == other.token_ids


# --- the bundled model


@pytest.mark.skipif(not HAS_WEIGHTS, reason="models/photon-tiny has no weights yet")
def test_the_bundled_model_on_a_few_scenes() -> None:
    """Boxes, points and absent objects on 32 scenes that training never saw; `photon eval` asks the rest, in minutes.

    `-s` shows the table.
    """
    read = read_questions(SLICE)
    questions = [q for q in read if q.row["task"] == "detect" or (q.row["task"] == "point" and q.row["boxes"])]
    with photon.Engine("photon-tiny", device="cpu", dtype="float32", max_batch_size=16) as engine:
        made = {figure.name: figure for figure in evaluate(engine, questions)}
    for name, figure in made.items():
        print(f"{name:32} {figure.value:.3f} (chance {figure.chance:.3f}, of {figure.count})")
    assert made["point, objects hit"].value >= 0.90
    assert made["detect, F1 at IoU 0.5"].value >= 0.88
    assert made["absent, answered with nothing"].value >= 0.85
    assert [made[n].count for n in ("point, objects hit", "absent, answered with nothing")] == [102, 31]
