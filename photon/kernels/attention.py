"""Attention over paged keys and values, and the one signature behind which its variants stand.

A forward's metadata is an `AttentionPlan`, an argument all the way down. A page holds `page_size` positions of one
layer's keys and values; a sequence's position p lies in its page p // page_size. T new positions, B rows, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    slots_T: Tensor
    page_table_BP: Tensor
    lengths_B: Tensor
    query_lengths: list[int]
    key_lengths: list[int]
    blocks: list[tuple[tuple[int, int], ...]]

    @property
    def is_decode(self) -> bool:
        return all(length == 1 for length in self.query_lengths)


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
    used = -(-max(plan.key_lengths) // keys.shape[1])
    table = plan.page_table_BP[:, :used]
    k, v = (pages[table].flatten(1, 2).transpose(1, 2) for pages in (keys, values))  # [B, KV heads, L, head_dim]
    seen = torch.arange(k.shape[2], device=q_BHd.device) < plan.lengths_B[:, None]
    out = F.scaled_dot_product_attention(
        q_BHd[:, :, None], k, v, attn_mask=seen[:, None, None], enable_gqa=k.shape[1] != q_BHd.shape[1]
    )
    return out[:, :, 0]


def prefill_attention(q_THd: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan) -> Tensor:
    """Ragged rows, each over its own pages: causal, but for the two-way blocks; [T, H, head_dim]."""
    outs, page_size = [], keys.shape[1]
    for row, q in enumerate(q_THd.split(plan.query_lengths)):
        length = plan.key_lengths[row]
        table = plan.page_table_BP[row, : -(-length // page_size)]
        k, v = (pages[table].flatten(0, 1)[:length].transpose(0, 1)[None] for pages in (keys, values))
        mask = visibility(len(q), length, plan.blocks[row], q.device)
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], k, v, attn_mask=mask, enable_gqa=k.shape[1] != q.shape[1]
        )
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


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
