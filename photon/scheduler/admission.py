"""Who may run: a row and, in the worst case, enough pages. First come, first served; nobody overtakes the first.

A request reserves the pages it may ever take, and takes them only as it grows: growth never fails. Reserved pages of
a sequence that ends early come back with its release.
"""

from __future__ import annotations

from time import perf_counter

from photon.cache.pages import PagePool
from photon.errors import RequestError
from photon.request import Request
from photon.scheduler.sequence import Sequence


class Admission:
    """Owns the waiting line, the rows and the reservations; none of them is touched elsewhere."""

    def __init__(self, pool: PagePool, *, max_rows: int, max_context: int, max_prefill_tokens: int) -> None:
        self._pool = pool
        self._max_context = max_context
        self._max_prefill_tokens = max_prefill_tokens
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._num_reserved = 0  # pages
        self._waiting: dict[int, Sequence] = {}  # by request id, in order of arrival

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_free_rows(self) -> int:
        return len(self._free_rows)

    def add(self, request: Request) -> None:
        """Put a request in line. RequestError when it could never run, however long it waited."""
        assert request.id not in self._waiting, f"request id {request.id} is in use"
        limit = self._limit(request)
        # The last token is said but never computed on, so it needs no position.
        num_positions = len(request.prompt) + limit - 1
        max_pages = self._pool.num_pages_for(num_positions)
        if max_pages > self._pool.num_pages:
            room = self._pool.num_pages * self._pool.page_size
            raise RequestError(f"the request may take {num_positions} positions, KV memory has room for {room}")
        self._waiting[request.id] = Sequence(request, limit, max_pages)

    def withdraw(self, request_id: int) -> Sequence | None:
        """Take a request out of the line; None when it is not in it."""
        return self._waiting.pop(request_id, None)

    def admit(self) -> list[Sequence]:
        """The requests whose prompts make up the next prefill: the longest run from the head of the line that fits."""
        admitted: list[Sequence] = []
        num_tokens = 0
        for sequence in self._waiting.values():
            num_tokens += len(sequence.request.prompt)
            if not self._fits(sequence) or (admitted and num_tokens > self._max_prefill_tokens):
                break
            self._num_reserved += sequence.max_pages
            sequence.row = self._free_rows.pop()
            sequence.admitted = perf_counter()
            admitted.append(sequence)
        for sequence in admitted:
            del self._waiting[sequence.request.id]
        return admitted

    def release(self, sequence: Sequence) -> None:
        """Take back all that an admitted sequence holds. No step in flight may contain it (P7)."""
        assert sequence.is_finalized and sequence.inflight_refs == 0, f"P7: request {sequence.request.id} is in flight"
        self._pool.release(sequence.pages)
        self._num_reserved -= sequence.max_pages
        self._free_rows.append(sequence.row)
        sequence.pages, sequence.row = (), -1

    def check_integrity(self, admitted: list[Sequence], max_rows: int) -> None:
        """Rows, pages and reservations are held by the admitted, once each, and by nobody else."""
        rows = sorted(self._free_rows + [s.row for s in admitted])
        assert rows == list(range(max_rows)), f"rows free and held: {rows}"
        num_reserved = sum(s.max_pages for s in admitted)
        assert self._num_reserved == num_reserved <= self._pool.num_pages, f"reserved: {self._num_reserved} pages"
        assert all(len(s.pages) <= s.max_pages for s in admitted), "a sequence has more pages than it reserved"
        held = [page for s in admitted for page in s.pages]
        num_held = self._pool.num_pages - self._pool.num_free
        assert len(held) == len(set(held)) == num_held, f"{held} are held, {num_held} pages are not free"

    def _fits(self, sequence: Sequence) -> bool:
        return bool(self._free_rows) and self._num_reserved + sequence.max_pages <= self._pool.num_pages

    def _limit(self, request: Request) -> int:
        """How many tokens the request may say in all, as far as is known before it has said any."""
        length = len(request.prompt)
        if length == 0:
            raise RequestError("the prompt is empty")
        if length >= self._max_context:
            raise RequestError(
                f"the prompt takes {length} positions, the context has {self._max_context} with the answer"
            )
        if request.max_tokens < 1 or request.limit_tokens < 1:
            raise RequestError(f"max_tokens must be at least 1, got {min(request.max_tokens, request.limit_tokens)}")
        limit = min(request.limit_tokens, self._max_context - length)
        return limit if request.answer_mark is not None else min(limit, request.max_tokens)
