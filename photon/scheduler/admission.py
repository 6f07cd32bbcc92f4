"""Who may run: a row and, in the worst case, enough pages. First come, first served; nobody overtakes the first.

A request reserves the pages it may ever take, and takes them only as it grows: growth never fails. Reserved pages of
a sequence that ends early come back with its release. What lies in shared pages already (`cache/prefix.py`) is neither
reserved nor computed again.
"""

from __future__ import annotations

from collections import Counter
from time import perf_counter

from photon.cache.pages import PagePool
from photon.cache.prefix import PrefixIndex
from photon.errors import RequestError
from photon.request import Request
from photon.scheduler.sequence import Sequence


class Admission:
    """Owns the waiting line, the rows, the reservations and the shared prefixes; none of them is touched elsewhere."""

    def __init__(self, pool: PagePool, *, max_rows: int, max_context: int, max_prefill_tokens: int) -> None:
        self._pool = pool
        self._max_context = max_context
        self._max_prefill_tokens = max_prefill_tokens
        self._free_rows = list(range(max_rows - 1, -1, -1))
        self._prefixes = PrefixIndex(pool)
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
            raise RequestError(
                f"the request may take {num_positions} positions, KV memory has room for {room}: "
                "lower its limit of tokens or objects, or raise the engine's num_pages or kv_bytes"
            )
        self._waiting[request.id] = Sequence(request, limit, max_pages, self._prefixes.join(request.prompt))

    def withdraw(self, request_id: int) -> Sequence | None:
        """Take a request out of the line; None when it is not in it."""
        sequence = self._waiting.pop(request_id, None)
        if sequence is not None and sequence.prefix is not None:
            self._prefixes.leave(sequence.prefix, was_admitted=False)
        return sequence

    def admit(self) -> list[Sequence]:
        """The requests whose prompts make up the next prefill: the longest run from the head of the line that fits.

        A prefix that this prefill computes can be built on from the next one on, so the run ends at a second member.
        """
        admitted: list[Sequence] = []
        num_tokens = 0
        for sequence in self._waiting.values():
            is_pending = sequence.prefix is not None and sequence.prefix.is_pending
            if not self._free_rows or is_pending or not self._make_room(sequence):
                break
            num_tokens += len(sequence.request.prompt) - self._num_cached(sequence)
            if admitted and num_tokens > self._max_prefill_tokens:
                break
            self._place(sequence)
            admitted.append(sequence)
        for sequence in admitted:
            del self._waiting[sequence.request.id]
            if sequence.prefix is not None and sequence.prefix.is_pending:
                self._prefixes.insert(sequence.prefix, sequence.pages)
        return admitted

    def release(self, sequence: Sequence) -> None:
        """Take back all that an admitted sequence holds. No step in flight may contain it (P7)."""
        assert sequence.is_finalized and sequence.inflight_refs == 0, f"P7: request {sequence.request.id} is in flight"
        self._pool.release(sequence.pages)
        self._pool.unreserve(sequence.max_pages - len(sequence.pages))
        if sequence.prefix is not None:
            self._prefixes.leave(sequence.prefix, was_admitted=True)
        self._free_rows.append(sequence.row)
        sequence.pages, sequence.row = (), -1

    def check_integrity(self, admitted: list[Sequence], max_rows: int) -> None:
        """Rows, pages and reservations are held by the admitted and the prefixes, as often as by right, and by nobody
        else; no sequence can write into a page that another one reads."""
        rows = sorted(self._free_rows + [s.row for s in admitted])
        assert rows == list(range(max_rows)), f"rows free and held: {rows}"
        assert all(len(s.pages) <= s.max_pages for s in admitted), "a sequence has more pages than it reserved"
        num_reserved = sum(s.max_pages - len(s.pages) for s in admitted)
        assert self._pool.num_reserved == num_reserved, f"{self._pool.num_reserved} reserved, {num_reserved} to come"
        self._prefixes.check_integrity([s.prefix for s in self._waiting.values()], [s.prefix for s in admitted])
        held = Counter(page for s in admitted for page in s.pages) + Counter(self._prefixes.held_pages())
        num_held = sum(self._pool.num_holders(page) for page in range(1, self._pool.num_pages + 1))
        wrong = {page: num for page, num in held.items() if self._pool.num_holders(page) != num}
        assert not wrong and held.total() == num_held, f"held {held.total()} times, not {num_held}, or: {wrong}"
        written = [page for s in admitted for page in s.pages[self._num_full_pages(s) :]]
        read = {page for s in admitted for page in s.pages[: self._num_full_pages(s)]}
        assert len(written) == len(set(written) - read), f"written: {written}, read by several: {read}"

    def _num_cached(self, sequence: Sequence) -> int:
        """Positions of the prompt of a sequence in line that need not be computed, as things are now."""
        return sequence.prefix.length if sequence.prefix is not None and sequence.prefix.pages else 0

    def _num_new_pages(self, sequence: Sequence) -> int:
        """Pages that a sequence in line would have to reserve now."""
        return sequence.max_pages - self._num_cached(sequence) // self._pool.page_size

    def _make_room(self, sequence: Sequence) -> bool:
        """Whether the pages that a sequence may take are there; those of idle prefixes are given up where it takes that
        to admit it, and where it is enough: others' first.

        So what is kept for members in line holds up nobody for good: when nobody is admitted, all prefixes are idle and
        nothing is reserved, so whoever is first can have every page, and `add` saw that this is enough.
        """
        if self._num_new_pages(sequence) <= self._pool.num_available:
            return True
        idle = sorted(self._prefixes.idle(), key=lambda prefix: prefix is sequence.prefix)
        room = self._pool.num_available + sum(len(prefix.pages) for prefix in idle)
        if room < (sequence.max_pages if sequence.prefix in idle else self._num_new_pages(sequence)):
            return False
        for prefix in idle:
            self._prefixes.evict(prefix)
            if self._num_new_pages(sequence) <= self._pool.num_available:
                break
        return True

    def _place(self, sequence: Sequence) -> None:
        """Give a sequence for which there is room its row, its reservation, and the pages of its prefix."""
        self._pool.reserve(self._num_new_pages(sequence))
        prefix = sequence.prefix
        if prefix is not None:
            sequence.num_cached = self._num_cached(sequence)
            if prefix.pages:
                sequence.pages = self._prefixes.match(prefix)
            else:
                sequence.pages = tuple(self._pool.take(self._pool.num_pages_for(prefix.length)))
            self._prefixes.admit(prefix)
        sequence.row = self._free_rows.pop()
        sequence.admitted = perf_counter()

    def _num_full_pages(self, sequence: Sequence) -> int:
        """Pages that hold nothing but a prefix, and so may be shared."""
        return 0 if sequence.prefix is None else sequence.prefix.length // self._pool.page_size

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
