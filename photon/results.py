"""What the engine hands back: points, boxes, and one result a skill. Frozen; coordinates are checked when made.

Coordinates are fractions of the upright picture's sides, x to the right, y downward, always within [0, 1].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from photon.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL.Image import Image

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Point:
    """A place. `score`: probability that the model gave to "another object" against "end" there; None if not asked.
    `label`: the name that was asked for; None where there was none, as in a reasoning."""

    x: float
    y: float
    score: float | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        _check_fractions(self, x=self.x, y=self.y)
        _check_score(self, self.score)

    def to_pixels(self, width: int, height: int) -> tuple[int, int]:
        """(column, row) of the pixel that holds the point, within the picture."""
        return min(int(self.x * width), width - 1), min(int(self.y * height), height - 1)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, x_min <= x_max and y_min <= y_max. `score`, at the object's start, and `label` as for a Point."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float
    score: float | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        _check_fractions(self, x_min=self.x_min, y_min=self.y_min, x_max=self.x_max, y_max=self.y_max)
        _check_score(self, self.score)
        if self.x_min > self.x_max or self.y_min > self.y_max:
            raise ValueError(f"the corners of {self} are not in order")

    @classmethod
    def from_center(
        cls, x: float, y: float, *, width: float, height: float, score: float | None = None, label: str | None = None
    ) -> Box:
        """The box around (x, y), cut at the picture's edges."""
        left, top, right, bottom = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        return cls(_clamp(left), _clamp(top), _clamp(right), _clamp(bottom), score, label)

    @property
    def area(self) -> float:
        """Share of the picture's area."""
        return (self.x_max - self.x_min) * (self.y_max - self.y_min)

    def iou(self, other: Box) -> float:
        """Intersection over union, in [0, 1]: area(self and other) / (area(self) + area(other) - area(self and other)).

        Of two boxes without area it is 1 if they have the same corners, else 0; labels and scores do not matter.
        """
        width = min(self.x_max, other.x_max) - max(self.x_min, other.x_min)
        height = min(self.y_max, other.y_max) - max(self.y_min, other.y_min)
        shared = max(0.0, width) * max(0.0, height)
        union = self.area + other.area - shared
        return min(1.0, shared / union) if union > 0 else float(self._corners == other._corners)

    @property
    def _corners(self) -> tuple[float, float, float, float]:
        return self.x_min, self.y_min, self.x_max, self.y_max

    def to_pixels(self, width: int, height: int) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) rounded to pixel edges, as Pillow's `crop` takes them."""
        return (
            round(self.x_min * width),
            round(self.y_min * height),
            round(self.x_max * width),
            round(self.y_max * height),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Where a request's time went, in milliseconds, and its tokens. Set by the engine.

    `image_ms` decoding and cropping, `queue_ms` all else before it was admitted: waiting for a worker, a grammar and a
    place in the batch. `prefill_ms` the prompt, `decode_ms` from the first token to the last, `total_ms` from the call
    to the result.
    """

    queue_ms: float = 0.0
    image_ms: float = 0.0
    prefill_ms: float = 0.0
    time_to_first_token_ms: float = 0.0
    decode_ms: float = 0.0
    total_ms: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def join(cls, parts: Sequence[Metrics]) -> Metrics:
        """Of a call that was several requests on one picture: from the call to the first admission, to the first token
        of any, to the last token of all. Tokens are added up, a picture's positions in each prompt with them."""
        queue_ms, image_ms = min(part.queue_ms for part in parts), parts[0].image_ms
        first_ms = min(part.time_to_first_token_ms for part in parts)
        return cls(
            queue_ms=queue_ms,
            image_ms=image_ms,
            prefill_ms=first_ms - queue_ms - image_ms,
            time_to_first_token_ms=first_ms,
            decode_ms=max(part.time_to_first_token_ms + part.decode_ms for part in parts) - first_ms,
            total_ms=max(part.total_ms for part in parts),
            prompt_tokens=sum(part.prompt_tokens for part in parts),
            output_tokens=sum(part.output_tokens for part in parts),
        )


@dataclass(frozen=True, slots=True)
class Grounding:
    """The points that characters [start, end) of a reasoning text speak of."""

    start: int
    end: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model wrote before its answer."""

    text: str
    grounding: tuple[Grounding, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An id that could be said. `text` is "" for a special id, and U+FFFD where the id is a part of a character.

    `logprob`: natural logarithm of its probability, finite; of which distribution, says `photon.request.Sampling`.
    """

    id: int
    text: str
    logprob: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.logprob):
            raise ValueError(f"the log-probability of id {self.id} must be finite, got {self.logprob!r}")


@dataclass(frozen=True, slots=True)
class TokenLogprobs(Candidate):
    """The id that was said, and the likeliest ones that could be said in its place, best first."""

    top: tuple[Candidate, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """What every skill's result has. Set by the task; two results are equal when they say the same.

    `token_ids`: all that was said, thoughts and answer mark included, the end token not. With a stop string, up to and
    including the token that completes it: there they say more than the text, which ends where the stop string begins.
    `image`: the upright picture that was asked about, for `draw`. `logprobs`: one entry a token, if asked for.
    """

    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    metrics: Metrics = field(compare=False)
    image: Image | None = field(default=None, compare=False, repr=False)
    logprobs: tuple[TokenLogprobs, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the answer (tokens, objects or the context), so that more might have come."""
        return self.finish_reason == "length"

    def to_dict(self) -> dict[str, Any]:
        """Moondream's JSON shape, with `finish_reason`, `metrics` and, if asked for, `logprobs`; all is JSON."""
        metrics = {name: round(value, 3) for name, value in asdict(self.metrics).items()}
        shape = {**self._answer(), "finish_reason": self.finish_reason, "metrics": metrics}
        return shape if self.logprobs is None else {**shape, "logprobs": [asdict(token) for token in self.logprobs]}

    def draw(self, label: str | Sequence[str] | None = None, *, scores: bool = False) -> Image:
        """A copy of the picture with the answer on it. RequestError without a picture.

        Objects are named by their own labels, or by `label`: one name for all, a list with one for each, or "" for
        none. Those of one name have one colour. `scores` adds what the model gave each, where it was asked for. The
        copy of a picture under 400 pixels is larger than the picture, so that names have room.
        """
        if self.image is None:
            raise RequestError("this answer has no picture to draw on: it was asked without one")
        return self._draw_on(self.image, label, scores)

    @abstractmethod
    def _answer(self) -> dict[str, Any]: ...

    @abstractmethod
    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image: ...


@dataclass(frozen=True)
class CaptionResult(Result):
    caption: str

    def _answer(self) -> dict[str, Any]:
        return {"caption": self.caption}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image:
        from photon.draw import draw_text

        return draw_text(image, self.caption)


@dataclass(frozen=True)
class QueryResult(Result):
    """`constrained_by`: "schema", "regex", "grammar" or "choices" where the answer had to be such; then `answer` is the
    text just as it was said, and `value` what it says: of a schema plain JSON values or an instance of the pydantic
    model, else the text. `value` is None where the answer was cut (`truncated`)."""

    answer: str
    reasoning: Reasoning | None = None
    value: Any = None
    constrained_by: str | None = None

    @property
    def text(self) -> str:
        """The answer as text, for whoever reads `value` beside it."""
        return self.answer

    def _answer(self) -> dict[str, Any]:
        if self.constrained_by is not None:
            value = self.value
            is_model = hasattr(value, "model_dump")
            return {"answer": self.answer, "value": value.model_dump(mode="json", by_alias=True) if is_model else value}
        if self.reasoning is None:
            return {"answer": self.answer}
        grounding = [
            {"start_idx": g.start, "end_idx": g.end, "points": [[p.x, p.y] for p in g.points]}
            for g in self.reasoning.grounding
        ]
        return {"answer": self.answer, "reasoning": {"text": self.reasoning.text, "grounding": grounding}}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image:
        from photon.draw import draw_points, draw_text

        groundings = self.reasoning.grounding if self.reasoning else ()
        pointed = draw_points(image, [point for g in groundings for point in g.points], label, scores=scores)
        return draw_text(pointed, self.answer)


@dataclass(frozen=True)
class PointResult(Result):
    """Iterates over its points."""

    points: tuple[Point, ...]

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def _answer(self) -> dict[str, Any]:
        return {"points": [_object(p, "x", "y") for p in self.points]}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image:
        from photon.draw import draw_points

        return draw_points(image, self.points, label, scores=scores)


@dataclass(frozen=True)
class DetectResult(Result):
    """Iterates over its boxes."""

    boxes: tuple[Box, ...]

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)

    def __len__(self) -> int:
        return len(self.boxes)

    def _answer(self) -> dict[str, Any]:
        return {"objects": [_object(box, "x_min", "y_min", "x_max", "y_max") for box in self.boxes]}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image:
        from photon.draw import draw_boxes

        return draw_boxes(image, self.boxes, label, scores=scores)


@dataclass(frozen=True)
class GazeResult(Result):
    """Where the person whose eye is at `eye` looks; `point` is None where that is not inside the picture."""

    eye: Point
    point: Point | None

    def _answer(self) -> dict[str, Any]:
        return {"gaze": None if self.point is None else {"x": self.point.x, "y": self.point.y}}

    def _draw_on(self, image: Image, label: str | Sequence[str] | None, scores: bool) -> Image:
        from photon.draw import draw_gaze

        return draw_gaze(image, self.eye, self.point, label, scores=scores)


def _object(place: Point | Box, *coordinates: str) -> dict[str, Any]:
    """The JSON shape of a point or a box; a score to four places."""
    shape: dict[str, Any] = {name: getattr(place, name) for name in coordinates}
    if place.score is not None:
        shape["score"] = round(place.score, 4)
    return shape if place.label is None else {**shape, "label": place.label}


def _check_fractions(owner: object, **values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:  # NaN fails every comparison
            raise ValueError(f"{name} of a {type(owner).__name__} must be in [0, 1], got {value!r}")


def _check_score(owner: object, score: float | None) -> None:
    if score is not None:
        _check_fractions(owner, score=score)


def _clamp(value: float) -> float:
    """Within [0, 1]; NaN stays, for the check to find."""
    return 0.0 if value < 0 else 1.0 if value > 1 else value
