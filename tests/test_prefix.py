"""Requests about one picture by hand-made cases: who computes the picture, who waits, who holds which pages how long.

Pages of 4 positions. A prompt is one token, a picture of 5 or 7 positions, and some text: prefixes of 6 (in the middle
of page 2) or 8 (at its end).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from photon.cache.pages import PagePool
from photon.cache.prefix import PrefixIndex
from photon.request import IMAGE_ID, ImageSpan, PreparedImage, Prompt, Request, Token
from photon.runner.plan import PlannedRow
from photon.scheduler.admission import Admission
from photon.scheduler.sequence import Sequence

MAX_ROWS = 6


def picture() -> PreparedImage:
    return PreparedImage(np.zeros((1, 2, 2, 3), np.uint8), (1, 1), (2, 2))


def prompt(image: PreparedImage, *, length: int = 5, num_words: int = 3, bos: int = 1) -> Prompt:
    words = [Token(9)] * num_words
    return Prompt((Token(bos), *[Token(IMAGE_ID)] * length, *words), (ImageSpan(image, 1, length, block_start=0),))


def request(i: int, asked: Prompt, max_tokens: int = 4) -> Request:
    return Request(i, asked, max_tokens=max_tokens, limit_tokens=max_tokens, stop_ids=frozenset([0]))


class Line:
    """An admission with what the scheduler does around it: launches, commits and releases, one step at a time."""

    def __init__(self, num_pages: int = 40, *, max_rows: int = MAX_ROWS, max_prefill_tokens: int = 100) -> None:
        self.pool = PagePool(num_pages, 4)
        self.max_rows = max_rows
        self.admission = Admission(self.pool, max_rows=max_rows, max_context=40, max_prefill_tokens=max_prefill_tokens)
        self.running: dict[int, Sequence] = {}

    def add(self, *requests: Request) -> None:
        for one in requests:
            self.admission.add(one)

    def prefill(self) -> list[PlannedRow]:
        """The rows of the next prefill; committed at once."""
        admitted = self.admission.admit()
        self.running |= {sequence.request.id: sequence for sequence in admitted}
        rows = [sequence.launch(self.pool) for sequence in admitted]
        for sequence in admitted:
            sequence.inflight_refs = 0
        self.check()
        return rows

    def end(self, i: int) -> None:
        sequence = self.running.pop(i)
        sequence.finalize("stop")
        self.admission.release(sequence)
        self.check()

    def check(self) -> None:
        self.admission.check_integrity(list(self.running.values()), self.max_rows)
        self.pool.check_integrity()


def starts(rows: list[PlannedRow]) -> list[tuple[int, int, int]]:
    return [(row.seq_id, row.start, row.length) for row in rows]


@pytest.mark.parametrize("length", [5, 7])
def test_the_first_computes_all_and_the_others_what_is_behind_the_picture(length: int) -> None:
    line, image = Line(), picture()
    line.add(*[request(i, prompt(image, length=length, num_words=2 + i)) for i in range(3)])
    assert starts(line.prefill()) == [(0, 0, 1 + length + 2)]
    assert starts(line.prefill()) == [(1, 1 + length, 3), (2, 1 + length, 4)]
    assert line.prefill() == []


def test_full_pages_are_shared_and_the_last_one_is_copied() -> None:
    line, image = Line(), picture()
    line.add(*[request(i, prompt(image)) for i in range(3)])
    (first,) = line.prefill()
    second, third = line.prefill()
    assert first.copied_page is None and len(first.pages) == 3
    assert [row.pages[0] for row in (second, third)] == [first.pages[0]] * 2
    assert [row.copied_page for row in (second, third)] == [(first.pages[1], row.pages[1]) for row in (second, third)]
    assert len({*first.pages, *second.pages, *third.pages}) == 3 + 2 + 2
    later = line.running[1].launch(line.pool)
    assert later.copied_page is None and (later.start, later.length) == (9, 1)
    line.running[1].inflight_refs = 0


def test_a_prefix_that_ends_with_its_page_needs_no_copy() -> None:
    line, image = Line(), picture()
    line.add(*[request(i, prompt(image, length=7)) for i in range(2)])
    (first,), (second,) = line.prefill(), line.prefill()
    assert second.copied_page is None and second.pages[:2] == first.pages[:2]
    assert set(second.pages[2:]).isdisjoint(first.pages)


@pytest.mark.parametrize(
    "what", ["picture", "token before", "length", "place", "block", "nothing behind", "no picture"]
)
def test_what_differs_is_not_shared(what: str) -> None:
    image = picture()
    asked = prompt(image)
    other = {
        "picture": prompt(picture()),  # equal, and another object
        "token before": prompt(image, bos=2),
        "length": prompt(image, length=6),
        "place": Prompt((*asked.tokens[:1], *asked.tokens), (replace(asked.images[0], start=2),)),
        "block": replace(asked, images=(replace(asked.images[0], block_start=1),)),
        "nothing behind": replace(asked, tokens=asked.tokens[:6]),
        "no picture": replace(asked, images=()),
    }[what]
    line = Line()
    line.add(request(0, asked), request(1, other), request(2, other))
    assert [row[:2] for row in starts(line.prefill())[:2]] == [(0, 0), (1, 0)]


def test_a_later_picture_that_the_first_one_sees_forbids_sharing() -> None:
    index, first = PrefixIndex(PagePool(9, 4)), ImageSpan(picture(), 1, 2, block_start=0)
    tokens = tuple(Token(i) for i in (1, IMAGE_ID, IMAGE_ID, 5, IMAGE_ID, 5))
    behind, over = (Prompt(tokens, (first, ImageSpan(picture(), 4, 1, block_start=start))) for start in (4, 0))
    shared = index.join(behind)
    assert shared is not None and shared.length == 3
    assert index.join(over) is None


def test_nobody_overtakes_a_member_that_waits_for_the_next_step() -> None:
    line, image = Line(), picture()
    line.add(request(0, prompt(image)), request(1, prompt(image)), request(2, prompt(picture())))
    assert [row.seq_id for row in line.prefill()] == [0]
    assert [row.seq_id for row in line.prefill()] == [1, 2]


def test_a_prefill_counts_only_what_it_computes() -> None:
    line, image = Line(max_prefill_tokens=9), picture()
    line.add(*[request(i, prompt(image)) for i in range(5)])
    assert [len(line.prefill()) for _ in range(3)] == [1, 3, 1]


def test_who_comes_while_a_member_runs_shares_too_and_afterwards_not() -> None:
    line, image = Line(), picture()
    line.add(request(0, prompt(image)))
    line.prefill()
    line.add(request(1, prompt(image)))
    assert starts(line.prefill()) == [(1, 6, 3)]
    line.end(0)
    line.add(request(2, prompt(image)))
    assert starts(line.prefill()) == [(2, 6, 3)]
    line.end(1)
    line.end(2)
    assert line.pool.num_free == 40
    line.add(request(3, prompt(image)))
    assert starts(line.prefill()) == [(3, 0, 9)]


def test_pages_outlast_the_first_member_while_others_wait() -> None:
    line, image = Line(max_rows=1), picture()
    line.add(*[request(i, prompt(image)) for i in range(3)])
    (first,) = line.prefill()
    line.end(0)
    assert 40 - line.pool.num_free == 2  # the prefix
    assert line.admission.withdraw(1) is not None
    line.check()
    (third,) = line.prefill()
    assert third.pages[0] == first.pages[0] and third.copied_page == (first.pages[1], third.pages[1])
    line.end(2)
    assert line.pool.num_free == 40


def test_pages_go_back_when_all_who_waited_are_withdrawn() -> None:
    line, image = Line(max_rows=1), picture()
    line.add(*[request(i, prompt(image)) for i in range(3)])
    line.prefill()
    line.end(0)
    line.admission.withdraw(1)
    assert line.pool.num_free == 38
    line.admission.withdraw(2)
    line.check()
    assert line.pool.num_free == 40


def test_a_first_member_cancelled_in_line_leaves_the_work_to_the_next() -> None:
    line, image = Line(), picture()
    line.add(*[request(i, prompt(image)) for i in range(3)])
    line.admission.withdraw(0)
    assert starts(line.prefill()) == [(1, 0, 9)]
    assert starts(line.prefill()) == [(2, 6, 3)]


def test_shared_pages_are_reserved_once() -> None:
    """Prefix of 8, 12 positions at most: 3 pages alone, and 1 more for each member."""
    line, image = Line(num_pages=5), picture()
    line.add(*[request(i, prompt(image, length=7, num_words=1)) for i in range(4)])
    assert [len(line.prefill()) for _ in range(2)] == [1, 2]
    assert line.pool.num_available == 0 and line.prefill() == []
    line.end(0)
    assert starts(line.prefill()) == [(3, 8, 1)]


def test_as_much_as_there_is_still_fits_when_one_runs_at_a_time() -> None:
    """3 pages each of 3: a page that is kept to be copied is one too many, so the prefix is given up each time."""
    line, image = Line(num_pages=3), picture()
    line.add(*[request(i, prompt(image)) for i in range(3)])
    for i in range(3):
        assert starts(line.prefill()) == [(i, 0, 9)]
        assert line.prefill() == []
        line.end(i)
    assert line.pool.num_free == 3


def test_a_prefix_kept_for_the_line_is_given_up_for_the_first_in_it() -> None:
    line, image = Line(num_pages=4, max_rows=2), picture()
    line.add(request(0, prompt(image)), request(1, prompt(picture())), request(2, prompt(image)))
    line.add(request(3, prompt(picture(), length=9, num_words=3)))
    assert starts(line.prefill()) == [(0, 0, 9)]
    line.end(0)  # 2 pages are kept for request 2; request 1 needs 3 of 4
    assert starts(line.prefill()) == [(1, 0, 9)]
    line.end(1)
    assert starts(line.prefill()) == [(2, 0, 9)]


def test_a_prefix_is_not_given_up_in_vain() -> None:
    """8 pages: 2 are kept for request 2, 9 may take 4, and request 1 needs 5."""
    line, image = Line(num_pages=8), picture()
    line.add(request(0, prompt(image)), request(9, prompt(picture(), length=9)))
    line.add(request(1, prompt(picture(), length=9), max_tokens=8), request(2, prompt(image)))
    assert len(line.prefill()) == 2
    line.end(0)
    assert line.prefill() == [] and line.pool.num_available == 2
    line.end(9)
    assert starts(line.prefill())[0] == (1, 0, 13)


def test_others_prefixes_are_given_up_before_ones_own() -> None:
    """5 pages: 2 are kept for request 2, 2 for request 3. Request 2 needs 2 more, and would fit in place of its own."""
    line, one, two = Line(num_pages=5, max_rows=1), picture(), picture()
    line.add(request(0, prompt(one)), request(1, prompt(two)), request(2, prompt(one)), request(3, prompt(two)))
    for i in range(2):
        assert starts(line.prefill()) == [(i, 0, 9)]
        line.end(i)
    assert line.pool.num_available == 1
    assert starts(line.prefill()) == [(2, 6, 3)]
    line.end(2)
    assert starts(line.prefill()) == [(3, 0, 9)]


def test_p7_what_a_member_in_flight_may_copy_is_not_given_up() -> None:
    pool = PagePool(9, 4)
    index = PrefixIndex(pool)
    prefix = index.join(prompt(picture()))
    assert prefix is not None
    index.admit(prefix)
    pool.reserve(3)
    index.insert(prefix, pool.take(3))
    assert index.idle() == []
    with pytest.raises(AssertionError, match="may still copy"):
        index.evict(prefix)
