"""What to ask of which picture, as one value: for `submit` and for `run`. The fields are the arguments of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from photon.engine.skills import SamplingOptions, caption_task, detect_task, point_task, query_task
from photon.tasks import Task
from photon.tasks.checks import SpatialRef
from photon.tasks.objects import MAX_OBJECTS
from photon.tasks.text import MAX_TOKENS

ImageSource = Any  # what `photon.images` reads; docs/images.md lists it


@dataclass(frozen=True)
class Caption:
    """As `Engine.caption`."""

    image: ImageSource
    length: str = "normal"
    max_tokens: int = MAX_TOKENS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def task(self) -> Task:
        return caption_task(self.length, max_tokens=self.max_tokens, sampling=self.sampling)


@dataclass(frozen=True)
class Query:
    """As `Engine.query`."""

    image: ImageSource | None
    question: str
    reasoning: bool = False
    spatial_refs: Sequence[SpatialRef] = ()
    max_tokens: int = MAX_TOKENS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def task(self) -> Task:
        return query_task(
            self.question,
            reasoning=self.reasoning,
            spatial_refs=self.spatial_refs,
            max_tokens=self.max_tokens,
            sampling=self.sampling,
        )


@dataclass(frozen=True)
class PointAt:
    """As `Engine.point`."""

    image: ImageSource
    object: str
    spatial_refs: Sequence[SpatialRef] = ()
    max_objects: int = MAX_OBJECTS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def task(self) -> Task:
        return point_task(
            self.object, spatial_refs=self.spatial_refs, max_objects=self.max_objects, sampling=self.sampling
        )


@dataclass(frozen=True)
class Detect:
    """As `Engine.detect`."""

    image: ImageSource
    object: str
    max_objects: int = MAX_OBJECTS
    sampling: SamplingOptions = field(default_factory=SamplingOptions)

    def task(self) -> Task:
        return detect_task(self.object, max_objects=self.max_objects, sampling=self.sampling)


Ask = Caption | Query | PointAt | Detect
