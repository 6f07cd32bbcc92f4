"""What a result tells of its tokens' log-probabilities, for who asked."""

from __future__ import annotations

from collections.abc import Iterable

from photon.request import Sampling, Token
from photon.results import Candidate, TokenLogprobs
from photon.tasks.context import TaskContext


def report_logprobs(
    context: TaskContext, sampling: Sampling, tokens: Iterable[Token]
) -> tuple[TokenLogprobs, ...] | None:
    """One entry a token, or None where `sampling` does not ask."""
    if sampling.logprobs is None:
        return None
    return tuple(_report(context, token) for token in tokens)


def _report(context: TaskContext, token: Token) -> TokenLogprobs:
    assert token.logprobs is not None, "a token without the log-probabilities that were asked for"
    top = tuple(Candidate(id, context.decode([id]), logprob) for id, logprob in token.logprobs.top)
    return TokenLogprobs(token.id, context.decode([token.id]), token.logprobs.chosen, top)
