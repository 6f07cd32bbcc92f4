"""From the arguments of a call to its task, for both engines; and the sampling keywords that every call takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

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


def caption_task(length: str, *, max_tokens: int, sampling: SamplingOptions) -> CaptionTask:
    return CaptionTask(length=length, max_tokens=max_tokens, sampling=Sampling(**sampling))


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
        sampling=Sampling(**sampling),
    )


def point_task(
    object: str, *, spatial_refs: Sequence[SpatialRef], max_objects: int, sampling: SamplingOptions
) -> PointTask:
    return PointTask(object=object, spatial_refs=spatial_refs, max_objects=max_objects, sampling=Sampling(**sampling))


def detect_task(object: str, *, max_objects: int, sampling: SamplingOptions) -> DetectTask:
    return DetectTask(object=object, max_objects=max_objects, sampling=Sampling(**sampling))
