"""The pool of KV pages, as plain numbers: who holds what memory, never the memory itself.

Pages are numbered from 1. Page 0 is inert: padded rows of a batch point at it, and it is never handed out.
A page is free or held by exactly one sequence. (Shared pages would turn `_is_held` into counts.)
"""

from __future__ import annotations

from collections.abc import Iterable


class PagePool:
    """`num_pages` pages of `page_size` positions each."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        assert num_pages >= 1 and page_size >= 1, (num_pages, page_size)
        self.num_pages = num_pages
        self.page_size = page_size
        self._free = list(range(num_pages, 0, -1))  # a stack: the page used last is the warmest in cache
        self._is_held = bytearray(num_pages + 1)

    @property
    def num_free(self) -> int:
        return len(self._free)

    def num_pages_for(self, num_positions: int) -> int:
        """Pages that hold positions [0, num_positions)."""
        return -(-num_positions // self.page_size)

    def take(self, num: int) -> list[int]:
        """Hand out `num` pages. There must be as many: admission has reserved them."""
        assert 0 <= num <= self.num_free, f"{num} pages asked for, {self.num_free} free"
        pages = [self._free.pop() for _ in range(num)]
        for page in pages:
            self._is_held[page] = True
        return pages

    def release(self, pages: Iterable[int]) -> None:
        """Take pages back. Their contents mean nothing from here on (P7)."""
        for page in pages:
            assert self._is_held[page], f"page {page} is released but not held"
            self._is_held[page] = False
            self._free.append(page)

    def check_integrity(self) -> None:
        """Every page is free or held, none is both or free twice, and nobody holds page 0."""
        unheld = [page for page in range(1, self.num_pages + 1) if not self._is_held[page]]
        assert sorted(self._free) == unheld, f"free: {sorted(self._free)}, not held: {unheld}"
        assert not self._is_held[0], "the inert page is held"
