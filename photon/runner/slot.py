"""The buffers of one ping-pong slot: all that a step reads and writes, allocated once.

Each input and output exists twice, pinned on the host and on the device; a CPU is both, and has it once. The
scheduler's slot state machine says when a slot is free (P3); nothing here checks it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from photon.device import Device, Event


@dataclass(frozen=True)
class Pair:
    """A buffer on both sides. `array` is a numpy view of the pinned host memory."""

    host: Tensor
    device: Tensor

    @property
    def array(self) -> np.ndarray:
        return self.host.numpy()

    def upload(self, count: int) -> None:
        """Queue the copy of the first `count` rows to the device."""
        if self.host is not self.device:
            self.device[:count].copy_(self.host[:count], non_blocking=True)

    def download(self, count: int) -> None:
        if self.host is not self.device:
            self.host[:count].copy_(self.device[:count], non_blocking=True)


@dataclass(frozen=True)
class Sizes:
    """Most rows, new positions and pages a row that a step can have; words of a mask; most candidates of a token;
    rotary axes."""

    rows: int
    positions: int
    pages: int
    mask_words: int
    candidates: int
    axes: int = 1


@dataclass(frozen=True)
class SlotBuffers:
    """T new positions, B rows.

    Inputs of the forward: ids, values, value_sizes (prompts only), positions ([T, A] if the model has A rotary axes,
    not one), kv_slots [T]; page_table [B, P];
    lengths (positions after the step), last (index into T of the row's last position), carry (the row's place in the
    carry) [B].
    Inputs of sampling: mask [B, W], is_masked, base_mask (which constant mask), role, end_id [B]; temperature, top_p,
    top_k, min_p, uniform [B] (uploaded where a row is not greedy); penalty [B] and, of prompts, prompt_said [B, W], the
    words that they hold, as a mask (uploaded where a row is penalised).
    Outputs: out_* [B], as `plan.StepOutput`; logprob_* as `plan.StepLogprobs` (where a row asks).
    """

    ids: Pair
    values: Pair
    value_sizes: Pair
    positions: Pair
    kv_slots: Pair
    page_table: Pair
    lengths: Pair
    last: Pair
    carry: Pair
    mask: Pair
    is_masked: Pair
    base_mask: Pair
    role: Pair
    end_id: Pair
    temperature: Pair
    top_p: Pair
    top_k: Pair
    min_p: Pair
    uniform: Pair
    prompt_said: Pair
    penalty: Pair
    out_ids: Pair
    out_values: Pair
    out_value_sizes: Pair
    out_scores: Pair
    out_is_finite: Pair
    logprob_chosen: Pair
    logprob_top_ids: Pair
    logprob_top: Pair
    uploaded: Event  # the forward's inputs are on the device
    masked: Event  # the masks and roles are
    sampled: Event  # the outputs are ready on the device
    collected: Event  # the outputs are in pinned memory

    def outputs(self, *, with_logprobs: bool) -> list[Pair]:
        prefixes = ("out_", "logprob_") if with_logprobs else ("out_",)
        return [getattr(self, f.name) for f in fields(self) if f.name.startswith(prefixes)]


def allocate_slot(sizes: Sizes, device: Device) -> SlotBuffers:
    def pair(dtype: torch.dtype, *shape: int) -> Pair:
        host = device.pinned(shape, dtype)
        return Pair(host, device.empty(shape, dtype) if device.is_cuda else host)

    rows, positions = sizes.rows, sizes.positions
    return SlotBuffers(
        ids=pair(torch.int64, positions),
        values=pair(torch.float32, positions, 2),
        value_sizes=pair(torch.int8, positions),
        positions=pair(torch.int64, positions, *([sizes.axes] if sizes.axes > 1 else [])),
        kv_slots=pair(torch.int64, positions),
        page_table=pair(torch.int64, rows, sizes.pages),
        lengths=pair(torch.int64, rows),
        last=pair(torch.int64, rows),
        carry=pair(torch.int64, rows),
        mask=pair(torch.int32, rows, sizes.mask_words),
        is_masked=pair(torch.bool, rows),
        base_mask=pair(torch.int64, rows),
        role=pair(torch.int8, rows),
        end_id=pair(torch.int64, rows),
        temperature=pair(torch.float32, rows),
        top_p=pair(torch.float32, rows),
        top_k=pair(torch.int64, rows),
        min_p=pair(torch.float32, rows),
        uniform=pair(torch.float64, rows),
        prompt_said=pair(torch.int32, rows, sizes.mask_words),
        penalty=pair(torch.float32, rows),
        out_ids=pair(torch.int32, rows),
        out_values=pair(torch.float32, rows, 2),
        out_value_sizes=pair(torch.int8, rows),
        out_scores=pair(torch.float32, rows),
        out_is_finite=pair(torch.bool, rows),
        logprob_chosen=pair(torch.float32, rows),
        logprob_top_ids=pair(torch.int32, rows, sizes.candidates),
        logprob_top=pair(torch.float32, rows, sizes.candidates),
        uploaded=device.new_event(),
        masked=device.new_event(),
        sampled=device.new_event(),
        collected=device.new_event(),
    )
