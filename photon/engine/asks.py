"""What to ask of which picture, as one value: for `submit` and for `run`. The fields are the arguments of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from photon.constraint.structure import SchemaLike
from photon.engine.skills import (
    QueryOptions,
    SamplingOptions,
    caption_task,
    detect_task,
    extract_task,
    gaze_task,
    point_task,
    query_task,
)
from photon.tasks import Task
from photon.tasks.checks import SpatialRef
from photon.tasks.extract import MAX_TOKENS as EXTRACT_TOKENS
from photon.tasks.objects import MAX_OBJECTS
from photon.tasks.text import MAX_TOKENS

ImageSource = Any  # what `photon.images` reads; docs/images.md lists it


@dataclass(frozen=True)
class Caption:
    """As `Engine.caption`."""

    image: ImageSource
    length: str = "normal"
    max_tokens: int = MAX_TOKENS
    stop: str | Sequence[str] = ()
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None

    def task(self) -> Task:
        return caption_task(
            self.length,
            max_tokens=self.max_tokens,
            stop=self.stop,
            sampling=self.sampling,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class Query:
    """As `Engine.query`."""

    image: ImageSource | None
    question: str
    reasoning: bool = False
    spatial_refs: Sequence[SpatialRef] = ()
    max_tokens: int = MAX_TOKENS
    stop: str | Sequence[str] = ()
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None
    schema: SchemaLike | None = None
    regex: str | None = None
    grammar: str | None = None
    choices: Sequence[str] | None = None

    def task(self) -> Task:
        options = QueryOptions(
            schema=self.schema, regex=self.regex, grammar=self.grammar, choices=self.choices, **self.sampling
        )
        return query_task(
            self.question,
            reasoning=self.reasoning,
            spatial_refs=self.spatial_refs,
            max_tokens=self.max_tokens,
            stop=self.stop,
            options=options,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class Extract:
    """As `Engine.extract`."""

    image: ImageSource | None
    schema: SchemaLike
    instructions: str | None = None
    max_tokens: int = EXTRACT_TOKENS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None

    def task(self) -> Task:
        return extract_task(
            self.schema,
            instructions=self.instructions,
            max_tokens=self.max_tokens,
            sampling=self.sampling,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class PointAt:
    """As `Engine.point`."""

    image: ImageSource
    object: str | Sequence[str]
    spatial_refs: Sequence[SpatialRef] = ()
    max_objects: int = MAX_OBJECTS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None

    def task(self) -> Task:
        return point_task(
            self.object,
            spatial_refs=self.spatial_refs,
            max_objects=self.max_objects,
            sampling=self.sampling,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class Detect:
    """As `Engine.detect`."""

    image: ImageSource
    object: str | Sequence[str]
    max_objects: int = MAX_OBJECTS
    duplicate_iou: float | None = None
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None

    def task(self) -> Task:
        return detect_task(
            self.object,
            max_objects=self.max_objects,
            duplicate_iou=self.duplicate_iou,
            sampling=self.sampling,
            timeout=self.timeout,
        )


@dataclass(frozen=True)
class Gaze:
    """As `Engine.gaze`."""

    image: ImageSource
    eye: Sequence[float]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    timeout: float | None = None

    def task(self) -> Task:
        return gaze_task(self.eye, sampling=self.sampling, timeout=self.timeout)


Ask = Caption | Query | Extract | PointAt | Detect | Gaze
