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


class Attend(Protocol):
    """Attention of one layer's new positions; writes their keys and values where it keeps them, if it does."""

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


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

    @cached_property
    def masks(self) -> list[Tensor]:
        """Of each row, bool [new positions, positions]: what sees what."""
        device = self.lengths_B.device
        sizes = zip(self.query_lengths, self.key_lengths, self.blocks, strict=True)
        return [visibility(queries, keys, blocks, device) for queries, keys, blocks in sizes]


@dataclass(frozen=True)
class PagedAttend:
    """`Attend` over a KV cache [layers, 2, pages, page_size, KV heads, head_dim], with plain PyTorch."""

    kv: Tensor
    plan: AttentionPlan

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.kv[layer]
        write_kv(keys, k, self.plan.slots_T)
        write_kv(values, v, self.plan.slots_T)
        attend = decode_attention if self.plan.is_decode else prefill_attention
        return attend(q, keys, values, self.plan)


def write_kv(pages: Tensor, new_THd: Tensor, slots_T: Tensor) -> None:
    """Store new keys or values [T, KV heads, head_dim] into pages [pages, page_size, KV heads, head_dim]."""
    pages.flatten(0, 1).index_copy_(0, slots_T, new_THd.to(pages.dtype))


def decode_attention(q_BHd: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan) -> Tensor:
    """One new position a row over all of the row's pages; [B, H, head_dim]."""
    k, v = (_gather(pages, plan.key_slots_BL).transpose(1, 2) for pages in (keys, values))  # [B, KV heads, L, head_dim]
    out = F.scaled_dot_product_attention(
        q_BHd[:, :, None], k, v, attn_mask=plan.seen_BL[:, None, None], enable_gqa=k.shape[1] != q_BHd.shape[1]
    )
    return out[:, :, 0]


def prefill_attention(q_THd: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan) -> Tensor:
    """Ragged rows, each over its own pages: causal, but for the two-way blocks; [T, H, head_dim]."""
    outs = []
    for q, slots_L, length, mask in zip(
        q_THd.split(plan.query_lengths), plan.key_slots_BL, plan.key_lengths, plan.masks, strict=True
    ):
        k, v = (_gather(pages, slots_L[:length]).transpose(0, 1)[None] for pages in (keys, values))
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], k, v, attn_mask=mask, enable_gqa=k.shape[1] != q.shape[1]
        )
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


@dataclass(frozen=True)
class SlicedAttend:
    """As `PagedAttend`, for a CPU: row by row, keys and values read where they lie if the row's pages are one run.

    So a step of few rows copies no cache, and what attention gives a row is the same bits whoever its neighbours are.
    """

    kv: Tensor
    plan: AttentionPlan

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.kv[layer].flatten(1, 2)  # [slots, KV heads, head_dim]
        keys.index_copy_(0, self.plan.slots_T, k.to(keys.dtype))
        values.index_copy_(0, self.plan.slots_T, v.to(values.dtype))
        rows = zip(q.split(self.plan.query_lengths), self.plan.spans, self._masks, strict=True)
        outs = [_attend_row(new, _join(keys, spans), _join(values, spans), mask) for new, spans, mask in rows]
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    @cached_property
    def _masks(self) -> list[Tensor] | list[None]:
        """What is added to the scores. A single new position sees all that is before it."""
        if self.plan.is_decode:
            return [None] * len(self.plan.query_lengths)
        return [
            torch.zeros(seen.shape, dtype=self.kv.dtype).masked_fill_(~seen, -torch.inf) for seen in self.plan.masks
        ]


def _attend_row(q_THd: Tensor, k_LHd: Tensor, v_LHd: Tensor, mask_TL: Tensor | None) -> Tensor:
    q, k, v = (x.transpose(0, 1)[None] for x in (q_THd, k_LHd, v_LHd))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_TL, enable_gqa=k.shape[1] != q.shape[1])
    return out[0].transpose(0, 1)


def _join(slots: Tensor, spans: list[tuple[int, int]]) -> Tensor:
    """Slots [start, end) of each span, one after the other: a view where there is one span."""
    parts = [slots[start:end] for start, end in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


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
    num_queries: int, num_keys: int, blocks: tuple[tuple[int, int], ...], device: torch.device | str
) -> Tensor:
    """bool [queries, keys]: what each of the last `num_queries` of `num_keys` positions sees."""
    key = torch.arange(num_keys, device=device)
    query = key[num_keys - num_queries :, None]
    seen = key <= query
    for start, end in blocks:
        seen |= (query >= start) & (query < end) & (key >= start) & (key < end)
    return seen


@dataclass(frozen=True)
class DenseAttend:
    """`Attend` without a cache, for training: q, k, v [N, T, H, head_dim], `mask` bool, broadcast to [N, H, T, T]."""

    mask: Tensor

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, enable_gqa=k.shape[1] != q.shape[1])
        return out.transpose(-2, -3)
