"""What crosses between scheduler and runner, and the runner's interface. Imports no torch.

A step is one forward over some rows, then one sampled token for each. The scheduler plans steps and names the slot;
the runner owns everything that a step reads or writes on the device. Nothing else in the system knows whether a step
is a prefill or a decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from photon.request import Request, Role


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One sequence in a step. The step computes positions [start, start + length) and samples token `token_index`.

    A first step (token_index 0) reads the prompt from the request, from `start` on: what is before it lies in pages
    that earlier steps have written, and no image is split by it. A later step has length 1 and takes its input from the
    row's carry, where sampling left the row's last token on the device.
    `copied_page` (source, destination): before the step the one page is copied into the other, which is the row's own.
    The source belongs to a prefix that ends inside it: only positions before `start` mean anything to this row.
    `row` is the sequence's place in the batch from admission to release. `pages` are all its pages so far, in order.
    `constrained`: the row's mask and role come with `sample`; otherwise it is text.
    """

    seq_id: int
    row: int
    start: int
    length: int
    token_index: int
    pages: tuple[int, ...]
    request: Request
    constrained: bool
    copied_page: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One step. `is_prefill`: rows compute their prompts, or what is left of them; otherwise one position each."""

    is_prefill: bool
    rows: tuple[PlannedRow, ...]

    @property
    def is_constrained(self) -> bool:
        return any(row.constrained for row in self.rows)

    @property
    def is_greedy(self) -> bool:
        return all(row.request.sampling.temperature == 0 for row in self.rows)

    @property
    def is_penalised(self) -> bool:
        return any(row.request.sampling.is_penalised for row in self.rows)

    @property
    def has_logprobs(self) -> bool:
        return any(row.request.sampling.logprobs is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class RowMask:
    """What a constrained row may say (P8: found by `seq_id`, never by position) and the role of the token.

    `mask` int32 [ceil(vocabulary / 32)], or None for a zombie row, whose token nobody reads.
    """

    seq_id: int
    mask: np.ndarray | None
    role: Role


@dataclass(frozen=True, slots=True)
class StepLogprobs:
    """Log-probabilities of a step in which a row asks for them, of all its rows; N is the most that a row may ask for.

    chosen float32 [B]; top_ids int32 [B, N] and top float32 [B, N], best first, minus infinity where a row may say
    fewer ids.
    """

    chosen: np.ndarray
    top_ids: np.ndarray
    top: np.ndarray


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a step sampled: views of the slot's pinned memory, valid until the slot is released (P3).

    ids int32 [B]; values float32 [B, 2]; value_sizes int8 [B] (how many of the two are the token's value: 0, 1 or 2);
    scores float32 [B]; is_finite bool [B]: False when a row's logits were not finite, and its token means nothing.
    `logprobs`: None where no row asks.
    """

    ids: np.ndarray
    values: np.ndarray
    value_sizes: np.ndarray
    scores: np.ndarray
    is_finite: np.ndarray
    logprobs: StepLogprobs | None = None


class Runner(Protocol):
    """Executes planned steps in one of two slots. All calls come from the tick thread."""

    @property
    def mask_words(self) -> int:
        """int32 words in a mask row."""
        ...

    def launch(self, slot: int, plan: Plan) -> None:
        """Queue the step's forward behind all earlier ones (P1). The slot must be free."""
        ...

    def sample(self, slot: int, masks: list[RowMask]) -> None:
        """Queue masking, sampling and the copy back. AssertionError when a constrained row has no mask (P8)."""
        ...

    def collect(self, slot: int) -> StepOutput:
        """Wait for the slot's copy and return views of its pinned buffers."""
        ...

    def release(self, slot: int) -> None:
        """The caller has finished reading what `collect` returned; the slot's buffers may be overwritten (P3)."""
        ...
