"""Executes planned steps of a model in two slots. The only caller of the model; knows no scheduler.

The last token of every row stays on the device in the row's carry: sampling writes it, the row's next forward embeds
it, and as both run on one compute stream in launch order (P1) nobody waits for the CPU. A carry by row, rather than
by slot, needs no bookkeeping of which step a row was last sampled in. What a penalised row has said is kept likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby

import torch
from torch import Tensor

from photon.device import Device
from photon.kernels.attention import PagedAttend, SlicedAttend
from photon.kernels.bitmask import allow_below, apply_bitmask, num_words
from photon.models.base import Model
from photon.request import IMAGE_ID, MAX_LOGPROBS, ImageSpan, Role, Token
from photon.runner.plan import Plan, RowMask, StepLogprobs, StepOutput
from photon.runner.sampler import continue_probability, log_probabilities, mark_said, penalise, sample_ids
from photon.runner.slot import Sizes, SlotBuffers, allocate_slot
from photon.runner.staging import attention_plan, stage_forward, stage_sampling

NUM_SLOTS = 2
_COORDINATES = {Role.X, Role.Y, Role.GROUNDED}
MAX_BASE_MASKS = 64  # different sets of banned ids in an engine's life


@dataclass
class Launched:
    """What a slot's forward left for sampling. Set by `launch`."""

    plan: Plan
    hidden_BD: Tensor
    logits_BV: Tensor


class ModelRunner:
    """Implements `plan.Runner`. `kv` [layers, 2, pages, page_size, KV heads, head_dim]."""

    def __init__(self, model: Model, kv: Tensor, device: Device, *, max_rows: int, max_positions: int) -> None:
        spec = model.spec
        self._model, self._kv, self._spec = model, kv, spec
        self._attend = PagedAttend if device.is_cuda else SlicedAttend
        self._page_size = kv.shape[3]
        pages = -(-spec.max_context // self._page_size)
        candidates = min(MAX_LOGPROBS, spec.vocab_size)
        sizes = Sizes(max_rows, max_positions, pages, num_words(spec.vocab_size), candidates, spec.rotary_axes)
        self._slots = [allocate_slot(sizes, device) for _ in range(NUM_SLOTS)]
        self._launched: list[Launched | None] = [None] * NUM_SLOTS
        self._copy_in, self._compute, self._copy_out = (device.new_stream() for _ in range(3))
        self._carry_ids = device.empty((max_rows,), torch.int64)
        self._carry_values = device.empty((max_rows, 2), torch.float32)
        self._carry_value_sizes = device.empty((max_rows,), torch.int8)
        self._said_RW = device.empty((max_rows, sizes.mask_words), torch.int32)  # words of penalised rows, as a mask
        self._base_masks = device.empty((MAX_BASE_MASKS, sizes.mask_words), torch.int32)
        self._base_mask_index: dict[tuple[int, ...], int] = {}
        device.synchronize()  # weights and zeros came by the default stream, for which no other stream waits

    @property
    def mask_words(self) -> int:
        return num_words(self._spec.vocab_size)

    @torch.inference_mode()
    def launch(self, slot: int, plan: Plan) -> None:
        """Stage, upload and queue the forward of a step; its hidden states and logits stay on the device."""
        buffers, count = self._slots[slot], len(plan.rows)
        num_positions = stage_forward(buffers, plan, self._page_size)
        with self._compute.use():
            stage_sampling(buffers, plan, self._base_mask)
        with self._copy_in.use():
            _upload_inputs(buffers, plan, num_positions)
            self._copy_in.record(buffers.uploaded)
        with self._compute.use():
            self._compute.wait(buffers.uploaded)
            if plan.is_prefill and plan.is_penalised:
                self._said_RW[buffers.carry.device[:count]] = buffers.prompt_said.device[:count]
            self._copy_pages(plan)
            embeds_TD = (
                self._embed_prompts(buffers, plan, num_positions)
                if plan.is_prefill
                else self._embed_carry(buffers, plan)
            )
            attend = self._attend(self._kv, attention_plan(buffers, plan.rows, num_positions, self._page_size))
            hidden_TD = self._model.forward(embeds_TD, buffers.positions.device[:num_positions], attend)
            hidden_BD = hidden_TD[buffers.last.device[:count]]
            self._launched[slot] = Launched(plan, hidden_BD, self._model.logits(hidden_BD))

    @torch.inference_mode()
    def sample(self, slot: int, masks: list[RowMask]) -> None:
        """Queue mask, sampling, values, carry and the copy back."""
        buffers, launched = self._slots[slot], self._launched[slot]
        assert launched is not None, f"slot {slot} has no forward to sample from"
        count = len(launched.plan.rows)
        if launched.plan.is_constrained:
            _stage_masks(buffers, launched.plan, masks)
            with self._copy_in.use():
                for pair in (buffers.mask, buffers.is_masked, buffers.role):
                    pair.upload(count)
                self._copy_in.record(buffers.masked)
            self._compute.wait(buffers.masked)
        with self._compute.use():
            self._sample(buffers, launched, {mask.role for mask in masks})
            self._compute.record(buffers.sampled)
        self._copy_out.wait(buffers.sampled)
        with self._copy_out.use():
            for pair in buffers.outputs(with_logprobs=launched.plan.has_logprobs):
                pair.download(count)
            self._copy_out.record(buffers.collected)

    def collect(self, slot: int) -> StepOutput:
        buffers, launched = self._slots[slot], self._launched[slot]
        assert launched is not None, f"slot {slot} holds no step"
        buffers.collected.synchronize()
        count = len(launched.plan.rows)
        return StepOutput(
            ids=buffers.out_ids.array[:count],
            values=buffers.out_values.array[:count],
            value_sizes=buffers.out_value_sizes.array[:count],
            scores=buffers.out_scores.array[:count],
            is_finite=buffers.out_is_finite.array[:count],
            logprobs=_logprobs(buffers, count) if launched.plan.has_logprobs else None,
        )

    def release(self, slot: int) -> None:
        self._launched[slot] = None

    def _copy_pages(self, plan: Plan) -> None:
        """On the compute stream: behind the forward that wrote the source, however little of it is committed (P1)."""
        for row in plan.rows:
            if row.copied_page is not None:
                source, destination = row.copied_page
                self._kv[:, :, destination].copy_(self._kv[:, :, source])

    def _embed_prompts(self, buffers: SlotBuffers, plan: Plan, num_positions: int) -> Tensor:
        """Embeddings of the prompts' positions from each row's start on, one row after the other, with the features of
        the images that are among them in place."""
        here = slice(num_positions)
        values = (buffers.values.device[here], buffers.value_sizes.device[here])
        has_values = buffers.value_sizes.array[here].any()
        embeds_TD = self._model.embed(buffers.ids.device[here], *(values if has_values else ()))
        ends = accumulate(row.length for row in plan.rows)
        spans = [
            (end - row.start - row.length, span, row.request.prompt.tokens)  # position p is embeds_TD[this + p]
            for end, row in zip(ends, plan.rows, strict=True)
            for span in row.request.prompt.images
            if span.end > row.start
        ]
        if spans:
            features = self._model.encode_images([span.image for _, span, _ in spans])
            for (origin, span, tokens), features_PD in zip(spans, features, strict=True):
                if len(features_PD) == span.length:
                    embeds_TD[origin + span.start : origin + span.end] = features_PD
                    continue
                filled = 0
                for start, end in _image_runs(span, tokens):
                    embeds_TD[origin + start : origin + end] = features_PD[filled : filled + end - start]
                    filled += end - start
                assert filled == len(features_PD), f"{len(features_PD)} features of an image for {filled} positions"
        return embeds_TD

    def _embed_carry(self, buffers: SlotBuffers, plan: Plan) -> Tensor:
        rows = buffers.carry.device[: len(plan.rows)]
        if not plan.is_constrained:  # text alone
            return self._model.embed(self._carry_ids[rows])
        return self._model.embed(self._carry_ids[rows], self._carry_values[rows], self._carry_value_sizes[rows])

    def _sample(self, buffers: SlotBuffers, launched: Launched, roles: set[Role]) -> None:
        """`roles`: those that some row has, beside text."""
        count = len(launched.plan.rows)
        here = slice(count)
        mask_BW = self._base_masks[buffers.base_mask.device[here]]
        if launched.plan.is_constrained:
            narrowed = torch.where(buffers.is_masked.device[here, None], buffers.mask.device[here], -1)
            mask_BW = mask_BW & narrowed
        logits_BV = apply_bitmask(launched.logits_BV, mask_BW)
        ids_B = self._choose(buffers, launched.plan, logits_BV)
        buffers.out_is_finite.device[here] = launched.logits_BV.isfinite().all(-1)
        buffers.out_ids.device[here] = ids_B.to(torch.int32)
        buffers.out_value_sizes.device[here] = 0
        if roles & _COORDINATES:
            self._read_coordinates(buffers, launched.hidden_BD, ids_B)
        if Role.SIZE in roles:
            self._read_sizes(buffers, launched.hidden_BD)
        if Role.X in roles:
            buffers.out_scores.device[here] = continue_probability(logits_BV, buffers.end_id.device[here])
        rows = buffers.carry.device[here]
        self._carry_ids[rows] = ids_B
        self._carry_values[rows] = buffers.out_values.device[here]
        self._carry_value_sizes[rows] = buffers.out_value_sizes.device[here]
        if launched.plan.is_penalised:
            mark_said(self._said_RW, rows, ids_B, buffers.out_value_sizes.device[here] == 0)
        if launched.plan.has_logprobs:
            chosen_B, top_ids_BN, top_BN = log_probabilities(logits_BV, ids_B)
            buffers.logprob_chosen.device[here] = chosen_B
            buffers.logprob_top_ids.device[here] = top_ids_BN.to(torch.int32)
            buffers.logprob_top.device[here] = top_BN

    def _choose(self, buffers: SlotBuffers, plan: Plan, logits_BV: Tensor) -> Tensor:
        here = slice(len(logits_BV))
        if plan.is_penalised:
            said_BW = self._said_RW[buffers.carry.device[here]]
            logits_BV = penalise(logits_BV, said_BW, buffers.penalty.device[here])
        if plan.is_greedy:
            return logits_BV.argmax(-1)
        return sample_ids(
            logits_BV,
            temperature_B=buffers.temperature.device[here],
            top_k_B=buffers.top_k.device[here],
            top_p_B=buffers.top_p.device[here],
            min_p_B=buffers.min_p.device[here],
            uniform_B=buffers.uniform.device[here],
        )

    def _read_coordinates(self, buffers: SlotBuffers, hidden_BD: Tensor, ids_B: Tensor) -> None:
        """The number of each token that is a coordinate by the role that the row's constraint gave it."""
        here = slice(len(ids_B))
        role, end = buffers.role.device[here], buffers.end_id.device[here]
        coord_id = -1 if self._spec.coord_id is None else self._spec.coord_id
        is_coordinate = (
            ((role == Role.X) & (ids_B != end)) | (role == Role.Y) | ((role == Role.GROUNDED) & (ids_B == coord_id))
        )
        buffers.out_value_sizes.device[here] = is_coordinate.to(torch.int8)
        buffers.out_values.device[here] = self._model.read_coordinates(hidden_BD)[:, None]

    def _read_sizes(self, buffers: SlotBuffers, hidden_BD: Tensor) -> None:
        here = slice(len(hidden_BD))
        is_size = buffers.role.device[here] == Role.SIZE
        buffers.out_value_sizes.device[here].masked_fill_(is_size, 2)
        values_B2 = buffers.out_values.device[here]
        values_B2.copy_(torch.where(is_size[:, None], self._model.read_sizes(hidden_BD), values_B2))

    def _base_mask(self, banned: tuple[int, ...]) -> int:
        """Index of the constant mask that allows the tokenizer's ids but for the banned; made when first asked for."""
        if banned not in self._base_mask_index:
            index = len(self._base_mask_index)
            assert index < MAX_BASE_MASKS, f"more than {MAX_BASE_MASKS} different sets of banned ids"
            row = allow_below(self._spec.vocab_size, self._spec.num_tokens, banned)
            self._base_masks[index] = torch.from_numpy(row).to(self._base_masks.device)
            self._base_mask_index[banned] = index
        return self._base_mask_index[banned]


def _image_runs(span: ImageSpan, tokens: tuple[Token, ...]) -> list[tuple[int, int]]:
    """The [start, end) that an image's features fill, where words of the prompt stand between them."""
    runs = groupby(range(span.start, span.end), key=lambda position: tokens[position].id == IMAGE_ID)
    return [(run[0], run[-1] + 1) for is_image, positions in runs if is_image and (run := list(positions))]


def _upload_inputs(buffers: SlotBuffers, plan: Plan, num_positions: int) -> None:
    by_position = [buffers.positions, buffers.kv_slots]
    if plan.is_prefill:
        by_position += [buffers.ids, buffers.values, buffers.value_sizes]
    by_row = [buffers.page_table, buffers.lengths, buffers.last, buffers.carry]
    by_row += [buffers.base_mask, buffers.end_id]
    if not plan.is_greedy:
        by_row += [buffers.temperature, buffers.top_p, buffers.top_k, buffers.min_p, buffers.uniform]
    if plan.is_penalised:
        by_row += [buffers.penalty, buffers.prompt_said] if plan.is_prefill else [buffers.penalty]
    for pair in by_position:
        pair.upload(num_positions)
    for pair in by_row:
        pair.upload(len(plan.rows))


def _logprobs(buffers: SlotBuffers, count: int) -> StepLogprobs:
    return StepLogprobs(
        chosen=buffers.logprob_chosen.array[:count],
        top_ids=buffers.logprob_top_ids.array[:count],
        top=buffers.logprob_top.array[:count],
    )


def _stage_masks(buffers: SlotBuffers, plan: Plan, masks: list[RowMask]) -> None:
    """Each constrained row's own mask and role (P8); a zombie's row stays all-allowed."""
    by_sequence = {mask.seq_id: mask for mask in masks}
    for i, row in enumerate(plan.rows):
        if not row.constrained:
            continue
        assert row.seq_id in by_sequence, f"P8: constrained sequence {row.seq_id} has no mask"
        mask = by_sequence[row.seq_id]
        buffers.is_masked.array[i] = mask.mask is not None
        buffers.role.array[i] = mask.role
        if mask.mask is not None:
            buffers.mask.array[i] = mask.mask
