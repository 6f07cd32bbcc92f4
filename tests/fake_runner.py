"""A runner without a device, as hostile as a device may be.

Queued work runs at some random time between its call and `collect`. A step's KV writes may land late, so they are made
once by the forward and once more at `collect`. Released slots and released pages are overwritten with poison at once,
and a row's carry belongs to one sequence only. A copied page is read when the forward runs, and not before. So a
breach of P3, P7 or P8 comes out as a wrong token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random

import numpy as np
from toy_model import MASK_WORDS, allowed_ids, embed, embed_prompt, next_token

from photon.cache.pages import PagePool
from photon.request import MAX_LOGPROBS, Logprobs, Role, Token
from photon.runner.plan import Plan, PlannedRow, RowMask, StepLogprobs, StepOutput

POISON = 33


@dataclass
class FakeSlot:
    output: StepOutput  # the pinned buffers, max_rows long
    logprobs: StepLogprobs  # likewise
    state: str = "free"
    plan: Plan | None = None
    contexts: list[tuple[int, ...]] = field(default_factory=list)  # what each row's attention saw
    writes: list[tuple[int, int, int]] = field(default_factory=list)  # (page, offset, cell)


class FakeRunner:
    mask_words = MASK_WORDS

    def __init__(self, *, num_pages: int, page_size: int, max_rows: int, rng: Random) -> None:
        self._rng = rng
        self._page_size = page_size
        self._pages = [[POISON] * page_size for _ in range(num_pages + 1)]
        self._carry: list[tuple[int, Token]] = [(-1, Token(POISON))] * max_rows  # (sequence, its last token)
        self._slots = [FakeSlot(_buffers(max_rows), _logprob_buffers(max_rows)) for _ in range(2)]
        self._queue: deque[Callable[[], None]] = deque()
        self.plans: list[Plan] = []  # all launched, in order
        self.num_committed = 0

    @property
    def plans_in_flight(self) -> list[Plan]:
        return [slot.plan for slot in self._slots if slot.plan is not None]

    def launch(self, slot: int, plan: Plan) -> None:
        self._move(slot, "free", "launched")
        for row in plan.rows:
            self._check(row, plan)
        self._slots[slot].plan = plan
        self.plans.append(plan)
        self._enqueue(partial(self._forward, self._slots[slot], plan))

    def sample(self, slot: int, masks: list[RowMask]) -> None:
        self._move(slot, "launched", "sampled")
        plan = self._slots[slot].plan
        assert plan is not None
        by_id = {mask.seq_id: (mask.role, None if mask.mask is None else mask.mask.copy()) for mask in masks}
        assert by_id.keys() == {row.seq_id for row in plan.rows if row.constrained}, "P8: one mask a constrained row"
        self._enqueue(partial(self._sample, self._slots[slot], plan, by_id))

    def collect(self, slot: int) -> StepOutput:
        self._move(slot, "sampled", "collected")
        self._run(len(self._queue))
        fake = self._slots[slot]
        assert fake.plan is not None
        self._write(fake)
        num_rows, out = len(fake.plan.rows), fake.output
        views = (out.ids, out.values, out.value_sizes, out.scores, out.is_finite)
        logprobs = (fake.logprobs.chosen, fake.logprobs.top_ids, fake.logprobs.top)
        asked = StepLogprobs(*(view[:num_rows] for view in logprobs)) if fake.plan.has_logprobs else None
        return StepOutput(*(view[:num_rows] for view in views), logprobs=asked)

    def release(self, slot: int) -> None:
        self._move(slot, "collected", "free")
        self._slots[slot].plan = None
        out, logprobs = self._slots[slot].output, self._slots[slot].logprobs
        for buffer in (
            out.ids,
            out.values,
            out.value_sizes,
            out.scores,
            logprobs.chosen,
            logprobs.top_ids,
            logprobs.top,
        ):
            buffer.fill(POISON if buffer is not out.value_sizes else 2)
        out.is_finite.fill(True)
        self.num_committed += 1

    def poison_pages(self, pages: Iterable[int]) -> None:
        for page in pages:
            self._pages[page] = [POISON] * self._page_size

    def _move(self, slot: int, source: str, target: str) -> None:
        fake = self._slots[slot]
        assert fake.state == source, f"{target} comes after {source}, the slot is {fake.state}"
        fake.state = target

    def _check(self, row: PlannedRow, plan: Plan) -> None:
        assert 0 not in row.pages and 0 <= row.row < len(self._carry)
        assert len(row.pages) == -(-(row.start + row.length) // self._page_size), "pages cover what is computed"
        length = len(row.request.prompt)
        assert row.start + row.length == length + row.token_index
        if plan.is_prefill:
            assert row.token_index == 0 and row.start in (0, *(span.end for span in row.request.prompt.images[:1]))
        else:
            assert row.token_index > 0 and row.length == 1
        assert (row.copied_page is not None) == (plan.is_prefill and row.start % self._page_size > 0)
        if row.copied_page is not None:
            source, destination = row.copied_page
            assert source not in row.pages and destination == row.pages[row.start // self._page_size]

    def _enqueue(self, work: Callable[[], None]) -> None:
        self._queue.append(work)
        self._run(self._rng.randint(0, len(self._queue)))

    def _run(self, num: int) -> None:
        for _ in range(num):
            self._queue.popleft()()

    def _forward(self, fake: FakeSlot, plan: Plan) -> None:
        fake.writes = []
        for row in plan.rows:
            if row.copied_page is not None:
                fake.writes += self._copy(row.copied_page, row.start % self._page_size)
        for row in plan.rows:
            for position, cell in enumerate(self._inputs(row, plan), row.start):
                fake.writes.append((row.pages[position // self._page_size], position % self._page_size, cell))
        self._write(fake)
        fake.contexts = [self._read(row) for row in plan.rows]

    def _inputs(self, row: PlannedRow, plan: Plan) -> list[int]:
        if plan.is_prefill:
            return embed_prompt(row.request.prompt)[row.start :]
        owner, token = self._carry[row.row]
        return [embed(token) if owner == row.seq_id else POISON]

    def _copy(self, pages: tuple[int, int], num_cells: int) -> list[tuple[int, int, int]]:
        """Copy a whole page; the writes of as many of its cells as mean something."""
        source, destination = pages
        self._pages[destination] = self._pages[source].copy()
        return [(destination, offset, cell) for offset, cell in enumerate(self._pages[source][:num_cells])]

    def _write(self, fake: FakeSlot) -> None:
        for page, offset, cell in fake.writes:
            self._pages[page][offset] = cell

    def _read(self, row: PlannedRow) -> tuple[int, ...]:
        cells = [cell for page in row.pages for cell in self._pages[page]]
        return tuple(cells[: row.start + row.length])

    def _sample(self, fake: FakeSlot, plan: Plan, masks: dict[int, tuple[Role, np.ndarray | None]]) -> None:
        out = fake.output
        for i, (row, cells) in enumerate(zip(plan.rows, fake.contexts, strict=True)):
            role, mask = masks.get(row.seq_id, (Role.TEXT, None))
            allowed = allowed_ids(row.request, row.token_index, mask)
            sampled = next_token(cells, row.request, row.token_index, allowed=allowed, role=role)
            value = sampled.token.value
            out.ids[i] = sampled.token.id
            out.values[i, : len(value)] = value
            out.value_sizes[i] = len(value)
            out.scores[i] = sampled.score
            out.is_finite[i] = sampled.is_finite
            if plan.has_logprobs:
                _write_logprobs(fake.logprobs, i, sampled.logprobs)
            self._carry[row.row] = (row.seq_id, sampled.token)


class PoisoningPool(PagePool):
    """Overwrites pages as they become free, and asserts (when `is_strict`) that no step in flight knows them (P7)."""

    def __init__(self, num_pages: int, page_size: int, runner: FakeRunner, *, is_strict: bool) -> None:
        super().__init__(num_pages, page_size)
        self._runner = runner
        self._is_strict = is_strict

    def release(self, pages: Iterable[int]) -> None:
        pages = tuple(pages)
        super().release(pages)
        freed = [page for page in pages if self.num_holders(page) == 0]
        self._runner.poison_pages(freed)
        if self._is_strict:
            rows = [row for plan in self._runner.plans_in_flight for row in plan.rows]
            in_flight = {page for row in rows for page in (*row.pages, *(row.copied_page or ()))}
            assert in_flight.isdisjoint(freed), "P7: a step in flight may still write into a released page"


def _buffers(num_rows: int) -> StepOutput:
    return StepOutput(
        ids=np.full(num_rows, POISON, np.int32),
        values=np.full((num_rows, 2), POISON, np.float32),
        value_sizes=np.full(num_rows, 2, np.int8),
        scores=np.full(num_rows, POISON, np.float32),
        is_finite=np.ones(num_rows, bool),
    )


def _logprob_buffers(num_rows: int) -> StepLogprobs:
    return StepLogprobs(
        chosen=np.full(num_rows, POISON, np.float32),
        top_ids=np.full((num_rows, MAX_LOGPROBS), POISON, np.int32),
        top=np.full((num_rows, MAX_LOGPROBS), POISON, np.float32),
    )


def _write_logprobs(out: StepLogprobs, i: int, logprobs: Logprobs) -> None:
    out.chosen[i] = logprobs.chosen
    out.top[i] = -np.inf  # what may not be said
    for place, (token_id, logprob) in enumerate(logprobs.top):
        out.top_ids[i, place] = token_id
        out.top[i, place] = logprob
