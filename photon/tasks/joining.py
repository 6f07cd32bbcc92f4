"""One result of several, for a call of several requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from photon.results import Metrics, Result

R = TypeVar("R", bound=Result)


def join_results(results: Sequence[R], **answer: Any) -> R:
    """`answer` holds the fields that are this kind of result's own; what all kinds have is joined here.

    Tokens and their log-probabilities stand one result behind the other; it is of finish_reason "length" if any is.
    """
    first = results[0]
    if len(results) == 1:
        return first
    asked = [result.logprobs for result in results if result.logprobs is not None]
    return replace(
        first,
        **answer,
        token_ids=tuple(chain.from_iterable(result.token_ids for result in results)),
        finish_reason="length" if any(result.truncated for result in results) else first.finish_reason,
        metrics=Metrics.join([result.metrics for result in results]),
        logprobs=tuple(chain.from_iterable(asked)) if asked else None,
    )
