"""From the arguments of a call to its task, for both engines; and the sampling keywords that every call takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypedDict

from photon.errors import RequestError
from photon.request import Sampling
from photon.tasks import CaptionTask, DetectTask, PointTask, QueryTask
from photon.tasks.checks import SpatialRef


class SamplingOptions(TypedDict, total=False):
    """Keywords of `Sampling`."""

    temperature: float
    top_p: float
    seed: int
    top_k: int
    min_p: float
    repetition_penalty: float
    logprobs: int | None


def make_sampling(options: SamplingOptions) -> Sampling:
    """RequestError for a keyword that does not exist: it lists the known ones."""
    known = [f.name for f in fields(Sampling)]
    for name in options:
        if name not in known:
            raise RequestError(f"unknown keyword {name!r}; known sampling keywords: {', '.join(known)}")
    return Sampling(**options)


def caption_task(length: str, *, max_tokens: int, sampling: SamplingOptions) -> CaptionTask:
    return CaptionTask(length=length, max_tokens=max_tokens, sampling=make_sampling(sampling))


def query_task(
    question: str,
    *,
    reasoning: bool,
    spatial_refs: Sequence[SpatialRef],
    max_tokens: int,
    sampling: SamplingOptions,
) -> QueryTask:
    return QueryTask(
        question=question,
        reasoning=reasoning,
        spatial_refs=spatial_refs,
        max_tokens=max_tokens,
        sampling=make_sampling(sampling),
    )


def point_task(
    object: str, *, spatial_refs: Sequence[SpatialRef], max_objects: int, sampling: SamplingOptions
) -> PointTask:
    return PointTask(
        object=object, spatial_refs=spatial_refs, max_objects=max_objects, sampling=make_sampling(sampling)
    )


def detect_task(object: str, *, max_objects: int, sampling: SamplingOptions) -> DetectTask:
    return DetectTask(object=object, max_objects=max_objects, sampling=make_sampling(sampling))
