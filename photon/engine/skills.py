"""From the arguments of a call to its task, for both engines; and the sampling keywords that every call takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict, cast

from photon.constraint.structure import SchemaLike, make_structure
from photon.errors import RequestError
from photon.request import Sampling
from photon.tasks import CaptionTask, DetectTask, GazeTask, PointTask, QueryTask
from photon.tasks.checks import SpatialRef
from photon.tasks.extract import ExtractTask
from photon.tasks.extract import extract_task as make_extract_task


class SamplingOptions(TypedDict, total=False):
    """Keywords of `Sampling`."""

    temperature: float
    top_p: float
    seed: int
    top_k: int
    min_p: float
    repetition_penalty: float
    logprobs: int | None


class QueryOptions(SamplingOptions, total=False):
    """Those, and what the answer must be: one of four."""

    schema: SchemaLike | None
    regex: str | None
    grammar: str | None
    choices: Sequence[str] | None


STRUCTURES = ("schema", "regex", "grammar", "choices")


def make_sampling(options: SamplingOptions) -> Sampling:
    """RequestError for a keyword that does not exist: it lists the known ones."""
    known = [f.name for f in fields(Sampling)]
    for name in options:
        if name not in known:
            more = f"; only query takes {', '.join(STRUCTURES)}" if name in STRUCTURES else ""
            raise RequestError(f"unknown keyword {name!r}; known sampling keywords: {', '.join(known)}{more}")
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
    options: QueryOptions,
    timeout: float | None,
) -> QueryTask:
    structure, sampling = _split(options)
    return QueryTask(
        question=question,
        reasoning=reasoning,
        spatial_refs=spatial_refs,
        max_tokens=max_tokens,
        stop=stop,
        structure=make_structure(**structure),
        sampling=make_sampling(sampling),
        timeout=timeout,
    )


def extract_task(
    schema: SchemaLike,
    *,
    instructions: str | None,
    max_tokens: int,
    sampling: SamplingOptions,
    timeout: float | None,
) -> ExtractTask:
    return make_extract_task(
        schema,
        instructions=instructions,
        max_tokens=max_tokens,
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


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], SamplingOptions]:
    """(what the answer must be, how ids are chosen)."""
    structure = {name: value for name, value in options.items() if name in STRUCTURES}
    return structure, cast(SamplingOptions, {name: options[name] for name in options if name not in STRUCTURES})
