"""From a plan to a slot's pinned input buffers: plain numpy, no device work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from photon.kernels.attention import AttentionPlan
from photon.kernels.bitmask import BITS, allow_only
from photon.request import IMAGE_ID, Role, Token
from photon.runner.plan import Plan, PlannedRow
from photon.runner.sampler import uniform
from photon.runner.slot import SlotBuffers

KEEP_ALL = 2**31 - 1  # a top_k beyond every vocabulary


def stage_forward(buffers: SlotBuffers, plan: Plan, page_size: int) -> int:
    """Fill the inputs of the step's forward; the number of new positions."""
    filled = 0
    for i, row in enumerate(plan.rows):
        here = slice(filled, filled + row.length)
        positions = np.arange(row.start, row.start + row.length)
        pages = np.asarray(row.pages)
        buffers.positions.array[here] = _rotary(row, positions, buffers.positions.array.shape[1:])
        buffers.kv_slots.array[here] = pages[positions // page_size] * page_size + positions % page_size
        buffers.page_table.array[i, : len(pages)] = pages
        buffers.page_table.array[i, len(pages) :] = 0
        buffers.lengths.array[i] = row.start + row.length
        buffers.last.array[i] = here.stop - 1
        buffers.carry.array[i] = row.row
        if plan.is_prefill:
            _stage_prompt(buffers, here, row.request.prompt.tokens[row.start :])
        filled = here.stop
    return filled


def _rotary(row: PlannedRow, positions: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Where the model is to believe that `positions` of the row stand: [T], or [T, A] of several axes."""
    prompt = row.request.prompt
    if prompt.rotary is None:
        return positions if not axes else positions[:, None]
    if row.token_index == 0:
        return prompt.rotary[row.start :].reshape(len(positions), *axes)
    answer = prompt.rotary.max() + 1 + positions - len(prompt)
    return answer if not axes else answer[:, None]


def _stage_prompt(buffers: SlotBuffers, here: slice, tokens: tuple[Token, ...]) -> None:
    buffers.ids.array[here] = [max(token.id, 0) for token in tokens]  # an image's positions are filled later
    buffers.value_sizes.array[here] = [len(token.value) for token in tokens]
    for index, token in enumerate(tokens):
        if token.value:
            buffers.values.array[here.start + index, : len(token.value)] = token.value


def stage_sampling(buffers: SlotBuffers, plan: Plan, base_mask: Callable[[tuple[int, ...]], int]) -> None:
    """Fill what sampling needs and is known before the masks. `base_mask` gives the index of a ban's constant mask."""
    for i, row in enumerate(plan.rows):
        request = row.request
        buffers.base_mask.array[i] = base_mask(request.banned_ids if row.token_index > 0 else ())
        buffers.end_id.array[i] = min(request.stop_ids, default=0)
        buffers.is_masked.array[i] = False
        buffers.role.array[i] = Role.TEXT
        _stage_settings(buffers, i, row)
    if plan.is_prefill and plan.is_penalised:
        _stage_said(buffers, plan)


def _stage_settings(buffers: SlotBuffers, i: int, row: PlannedRow) -> None:
    sampling = row.request.sampling
    buffers.temperature.array[i] = sampling.temperature
    buffers.top_p.array[i] = sampling.top_p
    buffers.top_k.array[i] = sampling.top_k or KEEP_ALL
    buffers.min_p.array[i] = sampling.min_p
    buffers.uniform.array[i] = uniform(sampling.seed, row.token_index)
    buffers.penalty.array[i] = sampling.repetition_penalty


def _stage_said(buffers: SlotBuffers, plan: Plan) -> None:
    """The words of each prompt: no picture, no coordinate, and no id that ends an answer (some models also begin with
    it, and would then hardly end)."""
    num_ids = BITS * buffers.prompt_said.array.shape[1]
    for i, row in enumerate(plan.rows):
        tokens = row.request.prompt.tokens if row.request.sampling.is_penalised else ()
        words = {token.id for token in tokens if token.id != IMAGE_ID and not token.value} - row.request.stop_ids
        buffers.prompt_said.array[i] = allow_only(num_ids, words)


def attention_plan(
    buffers: SlotBuffers, rows: tuple[PlannedRow, ...], num_positions: int, page_size: int
) -> AttentionPlan:
    """The attention metadata of the step, over the slot's device buffers."""
    count = len(rows)
    return AttentionPlan(
        page_size=page_size,
        slots_T=buffers.kv_slots.device[:num_positions],
        page_table_BP=buffers.page_table.device[:count],
        lengths_B=buffers.lengths.device[:count],
        query_lengths=[row.length for row in rows],
        key_lengths=[row.start + row.length for row in rows],
        blocks=[tuple(span.block for span in row.request.prompt.images if span.block[1] > row.start) for row in rows],
    )
