"""Attention over pages against a loop over positions in float64. What a page held before is not even a number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from photon.kernels.attention import PLAIN, AttentionPlan, AttentionRule, PagedAttend, SlicedAttend

Kind = type[PagedAttend] | type[SlicedAttend]
KINDS = [PagedAttend, SlicedAttend]
PAGE, HEADS, KV_HEADS, DIM = 4, 4, 2, 8
BLOCK = (0, 5)


def attend_by_hand(q_Hd: Tensor, keys: Tensor, values: Tensor, seen: list[int], rule: AttentionRule = PLAIN) -> Tensor:
    """One position over the positions `seen`; keys and values [L, KV heads, head_dim]."""
    scale = rule.scale or 1 / math.sqrt(DIM)
    outs = []
    for head in range(HEADS):
        kv_head = head * KV_HEADS // HEADS
        scores = [float(q_Hd[head].double() @ keys[i, kv_head].double()) * scale for i in seen]
        if rule.softcap is not None:
            scores = [rule.softcap * math.tanh(score / rule.softcap) for score in scores]
        weights = torch.tensor([math.exp(score) for score in scores], dtype=torch.float64)
        rows = torch.stack([values[i, kv_head].double() for i in seen])
        outs.append((weights[:, None] * rows).sum(0) / weights.sum())
    return torch.stack(outs)


class Rows:
    """Sequences of `lengths` random positions on scattered pages; all other memory but the inert page is NaN."""

    def __init__(self, lengths: list[int], attend: Kind) -> None:
        self.kind = attend
        generator = torch.Generator().manual_seed(sum(lengths))
        self.lengths = lengths
        self.keys, self.values = ([torch.randn(n, KV_HEADS, DIM, generator=generator) for n in lengths] for _ in "kv")
        counts = [-(-n // PAGE) for n in lengths]
        pages = (torch.randperm(sum(counts), generator=generator) + 1).split(counts)
        self.table = torch.zeros(len(lengths), max(counts), dtype=torch.long)
        for row, own in zip(self.table, pages, strict=True):
            row[: len(own)] = own
        self.kv = torch.full((1, 2, sum(counts) + 1, PAGE, KV_HEADS, DIM), torch.nan)
        self.kv[:, :, 0] = 0
        for row, length in enumerate(lengths):
            slots = self.slots(row, range(length))
            self.kv[0, 0].flatten(0, 1)[slots] = self.keys[row]
            self.kv[0, 1].flatten(0, 1)[slots] = self.values[row]

    def slots(self, row: int, positions: range) -> list[int]:
        return [int(self.table[row, p // PAGE]) * PAGE + p % PAGE for p in positions]

    def attend(
        self,
        q: Tensor,
        query_lengths: list[int],
        blocks: list[tuple[tuple[int, int], ...]],
        rule: AttentionRule = PLAIN,
    ) -> Tensor:
        """The last `query_lengths` positions of each row are new."""
        new = [range(n - count, n) for n, count in zip(self.lengths, query_lengths, strict=True)]
        slots = torch.tensor([slot for row, positions in enumerate(new) for slot in self.slots(row, positions)])
        k, v = (
            torch.cat([x[row][list(positions)] for row, positions in enumerate(new)]) for x in (self.keys, self.values)
        )
        self.kv[0, :].flatten(1, 2)[:, slots] = torch.nan  # it is for the step to write them
        plan = AttentionPlan(PAGE, slots, self.table, torch.tensor(self.lengths), query_lengths, self.lengths, blocks)
        return self.kind(self.kv, plan)(0, q, k, v, rule)


@pytest.mark.parametrize("attend", KINDS)
def test_decode_sees_the_row_and_nothing_else(attend: Kind) -> None:
    rows = Rows([9, 1, 4, 5], attend)
    q = torch.randn(4, HEADS, DIM, generator=torch.Generator().manual_seed(1))
    out = rows.attend(q, [1, 1, 1, 1], [()] * 4)
    for row, length in enumerate(rows.lengths):
        expected = attend_by_hand(q[row], rows.keys[row], rows.values[row], list(range(length)))
        torch.testing.assert_close(out[row].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attend", KINDS)
def test_prefill_is_causal_but_for_its_blocks(attend: Kind) -> None:
    rows = Rows([7, 3, 8], attend)
    q = torch.randn(18, HEADS, DIM, generator=torch.Generator().manual_seed(2))
    out = rows.attend(q, [7, 3, 8], [(BLOCK,), (), ()])
    start = 0
    for row, length in enumerate(rows.lengths):
        for position in range(length):
            last = BLOCK[1] if row == 0 and position < BLOCK[1] else position + 1
            expected = attend_by_hand(q[start + position], rows.keys[row], rows.values[row], list(range(last)))
            torch.testing.assert_close(out[start + position].double(), expected, rtol=1e-5, atol=1e-6)
        start += length


RULES = [AttentionRule(0.7, window=3), AttentionRule(softcap=0.8), AttentionRule(window=1), AttentionRule(0.2, 6, 0.5)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attend", KINDS)
def test_a_layer_may_have_a_scale_a_window_and_a_soft_cap(attend: Kind, rule: AttentionRule) -> None:
    """A prefill with a two-way block, which no window cuts; then one more position a row."""
    rows = Rows([7, 3, 8], attend)
    q = torch.randn(18, HEADS, DIM, generator=torch.Generator().manual_seed(2))
    for query_lengths in ([7, 3, 8], [1, 1, 1]):
        out = rows.attend(q[: sum(query_lengths)], query_lengths, [(BLOCK,), (), ()], rule)
        start = 0
        for row, (length, count) in enumerate(zip(rows.lengths, query_lengths, strict=True)):
            for i, position in enumerate(range(length - count, length)):
                seen = set(range(max(0, position + 1 - (rule.window or length)), position + 1))
                if row == 0 and position < BLOCK[1]:
                    seen |= set(range(*BLOCK))
                expected = attend_by_hand(q[start + i], rows.keys[row], rows.values[row], sorted(seen), rule)
                torch.testing.assert_close(out[start + i].double(), expected, rtol=1e-5, atol=1e-6)
            start += count


def test_pages_that_follow_each_other_are_one_span() -> None:
    """Pages of 4: positions 0-11 lie in slots 8-19, position 12 in slot 28; the second row's 2 in slots 24 and 25."""
    table = torch.tensor([[2, 3, 4, 7], [6, 0, 0, 0]])
    plan = AttentionPlan(PAGE, torch.tensor([28, 25]), table, torch.tensor([13, 2]), [1, 1], [13, 2], [(), ()])
    assert plan.spans == [[(8, 20), (28, 29)], [(24, 26)]]
