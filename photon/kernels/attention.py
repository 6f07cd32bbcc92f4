"""Attention over paged keys and values, and the one signature behind which its variants stand.

A forward's metadata is an `AttentionPlan`, an argument all the way down. A page holds `page_size` positions of one
layer's keys and values; a sequence's position p lies in its page p // page_size. T new positions, B rows, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionRule:
    """How a layer's attention departs from the plain one.

    scale    factor of the scores; None is 1 / sqrt(head_dim)
    window   a position sees itself and the `window - 1` before it, and all of its two-way block; None is all
    softcap  c: a scaled score s becomes c * tanh(s / c); None leaves it
    """

    scale: float | None = None
    window: int | None = None
    softcap: float | None = None


PLAIN = AttentionRule()


class Attend(Protocol):
    """Attention of one layer's new positions; writes their keys and values where it keeps them, if it does."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor: ...


@dataclass(frozen=True)
class AttentionPlan:
    """What attention must know of a step. Tensors on the device; lists on the host, for shapes.

    slots_T        where position t's key and value go: page * page_size + offset
    page_table_BP  pages of each row, in order, padded with page 0
    lengths_B      positions of each row after this step
    query_lengths  new positions of each row (all 1 in a decode step); they are its last ones
    key_lengths    `lengths_B` on the host
    blocks         per row, the [start, end) spans whose positions see each other both ways

    The properties are made when a layer first asks, and serve all layers of the step.
    """

    page_size: int
    slots_T: Tensor
    page_table_BP: Tensor
    lengths_B: Tensor
    query_lengths: list[int]
    key_lengths: list[int]
    blocks: list[tuple[tuple[int, int], ...]]

    @cached_property
    def is_decode(self) -> bool:
        return all(length == 1 for length in self.query_lengths)

    @cached_property
    def seen_BL(self) -> Tensor:
        """bool [B, L]: whether position l, of as many as the longest row has, is one of the row's."""
        return torch.arange(max(self.key_lengths), device=self.lengths_B.device) < self.lengths_B[:, None]

    @cached_property
    def key_slots_BL(self) -> Tensor:
        """Where each position's key and value lie. Past a row's end it is the inert page's zeros: what a page holds of
        an earlier sequence may be no finite number, and a weight of zero would not make it harmless."""
        position = torch.arange(self.seen_BL.shape[1], device=self.lengths_B.device)
        pages_BL = self.page_table_BP[:, position // self.page_size]
        return torch.where(self.seen_BL, pages_BL * self.page_size + position % self.page_size, 0)

    @cached_property
    def spans(self) -> list[list[tuple[int, int]]]:
        """Of each row, its positions as [start, end) of slots, in order: as many as its pages make runs. Reads the
        page table on the host, so for a CPU only."""
        tables = zip(self.page_table_BP.tolist(), self.key_lengths, strict=True)
        return [_spans(pages, length, self.page_size) for pages, length in tables]

    def masks(self, window: int | None = None) -> list[Tensor]:
        """Of each row, bool [new positions, positions]: what sees what."""
        if window not in self._masks:
            device = self.lengths_B.device
            sizes = zip(self.query_lengths, self.key_lengths, self.blocks, strict=True)
            self._masks[window] = [
                visibility(queries, keys, blocks, device, window=window) for queries, keys, blocks in sizes
            ]
        return self._masks[window]

    @cached_property
    def _masks(self) -> dict[int | None, list[Tensor]]:
        """`masks` by window: a model has one or two."""
        return {}


@dataclass(frozen=True)
class PagedAttend:
    """`Attend` over a KV cache [layers, 2, pages, page_size, KV heads, head_dim], with plain PyTorch."""

    kv: Tensor
    plan: AttentionPlan

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        keys, values = self.kv[layer]
        write_kv(keys, k, self.plan.slots_T)
        write_kv(values, v, self.plan.slots_T)
        attend = decode_attention if self.plan.is_decode else prefill_attention
        return attend(q, keys, values, self.plan, rule)


def write_kv(pages: Tensor, new_THd: Tensor, slots_T: Tensor) -> None:
    """Store new keys or values [T, KV heads, head_dim] into pages [pages, page_size, KV heads, head_dim]."""
    pages.flatten(0, 1).index_copy_(0, slots_T, new_THd.to(pages.dtype))


def decode_attention(
    q_BHd: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan, rule: AttentionRule = PLAIN
) -> Tensor:
    """One new position a row over all of the row's pages; [B, H, head_dim]."""
    k, v = (_gather(pages, plan.key_slots_BL).transpose(1, 2) for pages in (keys, values))  # [B, KV heads, L, head_dim]
    seen_BL = plan.seen_BL
    if rule.window is not None:
        seen_BL = seen_BL & (
            torch.arange(seen_BL.shape[1], device=seen_BL.device) >= plan.lengths_B[:, None] - rule.window
        )
    return _attention(q_BHd[:, :, None], k, v, seen_BL[:, None, None], rule)[:, :, 0]


def prefill_attention(
    q_THd: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan, rule: AttentionRule = PLAIN
) -> Tensor:
    """Ragged rows, each over its own pages: causal, but for the two-way blocks; [T, H, head_dim]."""
    outs = []
    for q, slots_L, length, mask in zip(
        q_THd.split(plan.query_lengths), plan.key_slots_BL, plan.key_lengths, plan.masks(rule.window), strict=True
    ):
        outs.append(attend_row(q, _gather(keys, slots_L[:length]), _gather(values, slots_L[:length]), mask, rule))
    return torch.cat(outs)


@dataclass(frozen=True)
class SlicedAttend:
    """As `PagedAttend`, for a CPU: row by row, keys and values read where they lie if the row's pages are one run.

    So a step of few rows copies no cache, and what attention gives a row is the same bits whoever its neighbours are.
    """

    kv: Tensor
    plan: AttentionPlan

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        keys, values = self.kv[layer].flatten(1, 2)  # [slots, KV heads, head_dim]
        keys.index_copy_(0, self.plan.slots_T, k.to(keys.dtype))
        values.index_copy_(0, self.plan.slots_T, v.to(values.dtype))
        rows = zip(q.split(self.plan.query_lengths), self._seen_spans(rule), self._added(rule.window), strict=True)
        outs = [attend_row(new, _join(keys, spans), _join(values, spans), mask, rule) for new, spans, mask in rows]
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def _seen_spans(self, rule: AttentionRule) -> list[list[tuple[int, int]]]:
        """Of each row, the slots to read: of a single new position with a window, the last ones."""
        if rule.window is None or not self.plan.is_decode:
            return self.plan.spans
        return [_last(spans, rule.window) for spans in self.plan.spans]

    def _added(self, window: int | None) -> list[Tensor] | list[None]:
        """What is added to the scores. A single new position sees all that it reads."""
        if self.plan.is_decode:
            return [None] * len(self.plan.query_lengths)
        if window not in self._masks:
            self._masks[window] = [
                torch.zeros(seen.shape, dtype=self.kv.dtype).masked_fill_(~seen, -torch.inf)
                for seen in self.plan.masks(window)
            ]
        return self._masks[window]

    @cached_property
    def _masks(self) -> dict[int | None, list[Tensor]]:
        return {}


def attend_row(
    q_THd: Tensor, k_LHd: Tensor, v_LHd: Tensor, mask_TL: Tensor | None, rule: AttentionRule = PLAIN
) -> Tensor:
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THd, k_LHd, v_LHd))
    return _attention(q, k, v, mask_TL, rule)[0].transpose(0, 1)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, rule: AttentionRule) -> Tensor:
    """q [N, H, T, head_dim], k and v [N, KV heads, L, head_dim]; `mask` bool, or added to the scores."""
    if rule.softcap is None:
        is_grouped = k.shape[1] != q.shape[1]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=rule.scale, enable_gqa=is_grouped)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (rule.scale or q.shape[-1] ** -0.5)
    scores = rule.softcap * torch.tanh(scores / rule.softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v


def _join(slots: Tensor, spans: list[tuple[int, int]]) -> Tensor:
    """Slots [start, end) of each span, one after the other: a view where there is one span."""
    parts = [slots[start:end] for start, end in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _last(spans: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The last `count` slots of the spans, or all."""
    kept: list[tuple[int, int]] = []
    for start, end in reversed(spans):
        if count > 0:
            kept.insert(0, (max(start, end - count), end))
            count -= end - start
    return kept


def _spans(pages: list[int], length: int, page_size: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for index in range(-(-length // page_size)):
        start = pages[index] * page_size
        end = start + min(page_size, length - index * page_size)
        if spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans


def _gather(pages: Tensor, slots: Tensor) -> Tensor:
    """[..., KV heads, head_dim] at `slots` of pages [pages, page_size, KV heads, head_dim]."""
    return pages.flatten(0, 1).index_select(0, slots.flatten()).unflatten(0, slots.shape)


def visibility(
    num_queries: int,
    num_keys: int,
    blocks: tuple[tuple[int, int], ...],
    device: torch.device | str,
    *,
    window: int | None = None,
) -> Tensor:
    """bool [queries, keys]: what each of the last `num_queries` of `num_keys` positions sees."""
    key = torch.arange(num_keys, device=device)
    query = key[num_keys - num_queries :, None]
    seen = key <= query
    if window is not None:
        seen &= key > query - window
    for start, end in blocks:
        seen |= (query >= start) & (query < end) & (key >= start) & (key < end)
    return seen


@dataclass(frozen=True)
class DenseAttend:
    """`Attend` without a cache, for training: q, k, v [N, T, H, head_dim], `mask` bool, broadcast to [N, H, T, T]."""

    mask: Tensor

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        assert rule == PLAIN, rule
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
        return _attention(q, k, v, self.mask, rule).transpose(-2, -3)
