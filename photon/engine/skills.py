"""From the arguments of a call to its task, for both engines; and the sampling keywords that every call takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypedDict

from photon.errors import RequestError
from photon.request import Sampling
from photon.tasks import CaptionTask, DetectTask, GazeTask, PointTask, QueryTask
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


def caption_task(
    length: str, *, max_tokens: int, stop: str | Sequence[str], sampling: SamplingOptions, timeout: float | None
) -> CaptionTask:
    return CaptionTask(
        length=length, max_tokens=max_tokens, stop=stop, sampling=make_sampling(sampling), timeout=timeout
    )


def query_task(
    question: str,
    *,
    reasoning: bool,
    spatial_refs: Sequence[SpatialRef],
    max_tokens: int,
    stop: str | Sequence[str],
    sampling: SamplingOptions,
    timeout: float | None,
) -> QueryTask:
    return QueryTask(
        question=question,
        reasoning=reasoning,
        spatial_refs=spatial_refs,
        max_tokens=max_tokens,
        stop=stop,
        sampling=make_sampling(sampling),
        timeout=timeout,
    )


def point_task(
    object: str | Sequence[str],
    *,
    spatial_refs: Sequence[SpatialRef],
    max_objects: int,
    sampling: SamplingOptions,
    timeout: float | None,
) -> PointTask:
    return PointTask(
        object=object,
        spatial_refs=spatial_refs,
        max_objects=max_objects,
        sampling=make_sampling(sampling),
        timeout=timeout,
    )


def detect_task(
    object: str | Sequence[str],
    *,
    max_objects: int,
    duplicate_iou: float | None,
    sampling: SamplingOptions,
    timeout: float | None,
) -> DetectTask:
    return DetectTask(
        object=object,
        max_objects=max_objects,
        duplicate_iou=duplicate_iou,
        sampling=make_sampling(sampling),
        timeout=timeout,
    )


def gaze_task(eye: Sequence[float], *, sampling: SamplingOptions, timeout: float | None) -> GazeTask:
    return GazeTask(eye=eye, sampling=make_sampling(sampling), timeout=timeout)
