"""The pool of KV pages, as plain numbers: who holds what memory, never the memory itself.

Pages are numbered from 1. Page 0 is inert: padded rows of a batch point at it, and it is never handed out.
A page is free or has holders: the one that took it, and those with whom it was shared since. Pages are reserved before
they are taken, so that taking never fails: `num_reserved` of the free ones are promised to somebody.
"""

from __future__ import annotations

from collections.abc import Iterable


class PagePool:
    """`num_pages` pages of `page_size` positions each."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        assert num_pages >= 1 and page_size >= 1, (num_pages, page_size)
        self.num_pages = num_pages
        self.page_size = page_size
        self.num_reserved = 0
        self._free = list(range(num_pages, 0, -1))  # a stack: the page used last is the warmest in cache
        self._num_holders = [0] * (num_pages + 1)

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_available(self) -> int:
        """Free pages that are promised to nobody."""
        return self.num_free - self.num_reserved

    def num_pages_for(self, num_positions: int) -> int:
        """Pages that hold positions [0, num_positions)."""
        return -(-num_positions // self.page_size)

    def num_holders(self, page: int) -> int:
        return self._num_holders[page]

    def reserve(self, num: int) -> None:
        """Promise `num` of the available pages to the caller."""
        assert 0 <= num <= self.num_available, f"{num} pages asked for, {self.num_available} available"
        self.num_reserved += num

    def unreserve(self, num: int) -> None:
        """Give up a promise of `num` pages that were not taken."""
        assert 0 <= num <= self.num_reserved, f"{num} pages given up, {self.num_reserved} reserved"
        self.num_reserved -= num

    def take(self, num: int) -> list[int]:
        """Hand out `num` reserved pages, each to its first holder."""
        assert 0 <= num <= self.num_reserved, f"{num} pages taken, {self.num_reserved} reserved"
        self.num_reserved -= num
        pages = [self._free.pop() for _ in range(num)]
        for page in pages:
            self._num_holders[page] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One holder more for each of these pages, which somebody holds."""
        for page in pages:
            assert self._num_holders[page], f"page {page} is shared but not held"
            self._num_holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One holder less. The contents of a page without any mean nothing from here on (P7).

        Pages are handed out again in the order that they have here: a run stays one, and is read without copying.
        """
        for page in reversed(list(pages)):
            assert self._num_holders[page], f"page {page} is released but not held"
            self._num_holders[page] -= 1
            if not self._num_holders[page]:
                self._free.append(page)

    def check_integrity(self) -> None:
        """Every page is free or held, none is both or free twice, nobody holds page 0, and promises can be kept."""
        unheld = [page for page in range(1, self.num_pages + 1) if not self._num_holders[page]]
        assert sorted(self._free) == unheld, f"free: {sorted(self._free)}, not held: {unheld}"
        assert not self._num_holders[0], "the inert page is held"
        assert 0 <= self.num_reserved <= self.num_free, f"{self.num_reserved} pages reserved, {self.num_free} free"
