"""One step in flight, as the scheduler remembers it from launch to commit: who is in it, and in which role.

Holds P8 on the scheduler's side: masks and roles are keyed by sequence, never by position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from photon.errors import ConstraintError
from photon.request import Constraint, Logprobs, Role, Token
from photon.runner.plan import Plan, RowMask, StepOutput
from photon.scheduler.sequence import Sequence
from photon.scheduler.update import Update


@dataclass(slots=True, eq=False)
class Step:
    slot: int  # set at launch, as are plan and sequences
    plan: Plan
    sequences: list[Sequence]  # in the order of the plan's rows
    roles: dict[int, Role] = field(default_factory=dict)  # of the constrained rows by request id; set by `build_masks`

    def build_masks(self, mask_words: int) -> tuple[list[RowMask], list[Update]]:
        """A mask for every constrained row, from constraints that have heard all tokens before it.

        A constraint that allows nothing ends its request, and no other: the updates say so. Its row is a zombie then.
        """
        masks: list[RowMask] = []
        updates: list[Update] = []
        for sequence in self.sequences:
            request = sequence.request
            if request.constraint is None:
                continue
            mask = RowMask(request.id, None, Role.TEXT)  # a zombie's
            if not sequence.is_finalized:
                try:
                    mask = _fill_mask(request.id, request.constraint, mask_words)
                except ConstraintError as error:
                    updates.append(sequence.finalize("error", error=error))
            self.roles[mask.seq_id] = mask.role
            masks.append(mask)
        return masks, updates

    def read_tokens(self, output: StepOutput) -> list[Token | None]:
        """The sampled tokens as plain values, none of them a view of `output`; None where logits were not finite."""
        columns = (output.ids, output.values, output.value_sizes, output.scores, output.is_finite)
        tokens: list[Token | None] = []
        for i, (sequence, token_id, values, size, score, is_finite) in enumerate(
            zip(self.sequences, *(column.tolist() for column in columns), strict=True)
        ):
            is_start = self.roles.get(sequence.request.id) is Role.X
            logprobs = _read_logprobs(output, i, sequence.request.sampling.logprobs)
            token = Token(token_id, tuple(values[:size]), score if is_start else None, logprobs)
            tokens.append(token if is_finite else None)
        return tokens


def _read_logprobs(output: StepOutput, i: int, num_top: int | None) -> Logprobs | None:
    """What row `i` asked for, None being nothing. An id that may not be said is not listed."""
    if num_top is None:
        return None
    assert output.logprobs is not None, "a row asked for log-probabilities, its step has none"
    ids, top = output.logprobs.top_ids[i, :num_top].tolist(), output.logprobs.top[i, :num_top].tolist()
    listed = tuple((token_id, value) for token_id, value in zip(ids, top, strict=True) if value > -math.inf)
    return Logprobs(float(output.logprobs.chosen[i]), listed)


def _fill_mask(seq_id: int, constraint: Constraint, mask_words: int) -> RowMask:
    mask = np.zeros(mask_words, np.int32)  # nothing is allowed that the constraint does not allow
    constraint.fill_mask(mask)
    return RowMask(seq_id, mask, constraint.role)
