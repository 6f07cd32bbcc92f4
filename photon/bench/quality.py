"""How right answers are, as plain functions of answers and truths: no model, no engine, no tensors.

A box is (x_min, y_min, x_max, y_max), a point (x, y), both in units of the picture's sides. Every figure has a chance
level beside it: what an answerer reaches that knows the set's statistics and never looks at a picture; and an interval,
that of a share by Wilson's formula, others by drawing the questions anew, with repetition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Box = tuple[float, float, float, float]
Point = tuple[float, float]
Interval = tuple[float, float]  # 95%


@dataclass(frozen=True)
class Matches:
    """Counts over a set of pictures: answers that match a truth, answers that match none, truths without an answer."""

    hits: int = 0
    extra: int = 0
    missed: int = 0

    def __add__(self, other: Matches) -> Matches:
        return Matches(self.hits + other.hits, self.extra + other.extra, self.missed + other.missed)

    @property
    def f1(self) -> float:
        """2 hits / (2 hits + extra + missed); 1.0 where nothing was there and nothing was said."""
        total = 2 * self.hits + self.extra + self.missed
        return 2 * self.hits / total if total else 1.0


def iou(a: Box, b: Box) -> float:
    """Area in common over area of both; 0 for empty boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    common = width * height
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def match_boxes(answers: Sequence[Box], truths: Sequence[Box], *, at_least: float = 0.5) -> Matches:
    """Pair answers and truths one to one, the largest overlaps first; a pair counts from an IoU of `at_least`."""
    pairs = sorted(((iou(a, t), i, j) for i, a in enumerate(answers) for j, t in enumerate(truths)), reverse=True)
    used_answers: set[int] = set()
    used_truths: set[int] = set()
    for overlap, i, j in pairs:
        if overlap >= at_least and i not in used_answers and j not in used_truths:
            used_answers.add(i)
            used_truths.add(j)
    hits = len(used_answers)
    return Matches(hits, len(answers) - hits, len(truths) - hits)


def match_points(answers: Sequence[Point], truths: Sequence[Box]) -> Matches:
    """A truth is hit when a point lies in its box; a point hits one truth, that whose centre is nearest."""

    def distance(p: Point, b: Box) -> float:
        return (p[0] - (b[0] + b[2]) / 2) ** 2 + (p[1] - (b[1] + b[3]) / 2) ** 2

    inside = [
        (distance(p, b), i, j)
        for i, p in enumerate(answers)
        for j, b in enumerate(truths)
        if b[0] <= p[0] <= b[2] and b[1] <= p[1] <= b[3]
    ]
    used_answers: set[int] = set()
    used_truths: set[int] = set()
    for _, i, j in sorted(inside):
        if i not in used_answers and j not in used_truths:
            used_answers.add(i)
            used_truths.add(j)
    hits = len(used_answers)
    return Matches(hits, len(answers) - hits, len(truths) - hits)


def point_hit_rate(matches: Matches) -> float:
    """The share of objects that were pointed at; 1.0 where there was none."""
    total = matches.hits + matches.missed
    return matches.hits / total if total else 1.0


def is_same_text(answer: str, truth: str) -> bool:
    """Equal but for case, outer spaces and a closing full stop."""
    return _plain(answer) == _plain(truth)


def _plain(text: str) -> str:
    return text.strip().lower().removesuffix(".").strip()


def noun_recall(caption: str, nouns: Sequence[str | tuple[str, ...]]) -> float:
    """The share of nouns that the caption names; a tuple gives the forms of one noun. 1.0 where there are none.

    Forms are whole words: "car" is not in "a carrot". The longest forms take their words first, so that a "car" is not
    found in "two racing cars".
    """
    forms = [(noun,) if isinstance(noun, str) else noun for noun in nouns]
    text, found = caption.lower(), 0
    for options in sorted(forms, key=lambda o: -max(map(len, o))):
        for form in sorted(options, key=len, reverse=True):
            pattern = rf"(?<!\w){re.escape(form.lower())}(?!\w)"
            if re.search(pattern, text):
                text = re.sub(pattern, "\0", text)
                found += 1
                break
    return found / len(forms) if forms else 1.0


def share(right: Sequence[bool]) -> float:
    """The mean of yes and no; 0.0 of an empty list."""
    return sum(right) / len(right) if right else 0.0


def chance_of_commonest(truths: Sequence[str]) -> float:
    """How often a constant answer is right at best."""
    counts = Counter(_plain(t) for t in truths)
    return max(counts.values()) / len(truths) if truths else 0.0


def chance_of_fixed_box(truths: Sequence[Sequence[Box]], *, at_least: float = 0.5) -> Matches:
    """What one box says for every picture: that around the mean of all truths' sides."""
    every = [box for boxes in truths for box in boxes]
    if not every:
        return Matches()
    mean = tuple(sum(side) / len(every) for side in zip(*every, strict=True))
    answer: list[Box] = [(mean[0], mean[1], mean[2], mean[3])]
    return sum((match_boxes(answer, boxes, at_least=at_least) for boxes in truths), Matches())


def chance_of_middle_point(truths: Sequence[Sequence[Box]]) -> float:
    """Point hit rate of the picture's middle, said for every picture."""
    return point_hit_rate(sum((match_points([(0.5, 0.5)], boxes) for boxes in truths), Matches()))


def chance_of_common_nouns(truths: Sequence[Sequence[tuple[str, ...]]], number: int = 3) -> float:
    """Mean recall of a caption that always names the `number` nouns that the set shows most often."""
    counts = Counter(noun for nouns in truths for noun in nouns)
    said = {noun for noun, _ in counts.most_common(number)}
    recalls = [len(said & set(nouns)) / len(nouns) for nouns in truths if nouns]
    return sum(recalls) / len(recalls) if recalls else 0.0


def interval_of_share(right: int, count: int) -> Interval:
    """Wilson's: of a share of independent questions. (0.0, 1.0) where none was asked."""
    if not count:
        return 0.0, 1.0
    z2 = 1.96**2
    share = right / count
    middle = share + z2 / (2 * count)
    half = (z2 * (share * (1 - share) + z2 / (4 * count)) / count) ** 0.5
    scale = 1 + z2 / count
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def interval_of_f1(each: Sequence[Matches]) -> Interval:
    """Of the F1 of questions' matches."""
    return _drawn_anew(_counts(each), lambda c: 2 * c[:, 0] / np.maximum(2 * c[:, 0] + c[:, 1] + c[:, 2], 1))


def interval_of_hits(each: Sequence[Matches]) -> Interval:
    """Of the `point_hit_rate` of questions' matches."""
    return _drawn_anew(_counts(each), lambda c: c[:, 0] / np.maximum(c[:, 0] + c[:, 2], 1))


def interval_of_mean(values: Sequence[float]) -> Interval:
    """Of a mean over questions."""
    return _drawn_anew(np.array(values, dtype=float)[:, None], lambda sums: sums[:, 0] / len(values))


def _counts(each: Sequence[Matches]) -> np.ndarray:
    return np.array([(m.hits, m.extra, m.missed) for m in each], dtype=float).reshape(-1, 3)


def _drawn_anew(rows: np.ndarray, figure: Callable[[np.ndarray], np.ndarray], times: int = 2000) -> Interval:
    """The middle 95% of a figure of sums over rows [n, c], each time of n rows drawn with repetition."""
    n = len(rows)
    if not n:
        return 0.0, 1.0
    taken = np.random.default_rng(0).multinomial(n, [1 / n] * n, size=times)
    low, high = np.quantile(figure(taken @ rows), [0.025, 0.975])
    return float(low), float(high)
