"""A request on its way through the scheduler: what it holds, how far it is launched, what it has said, how it ended.

State of the tick thread. Launching runs ahead of saying: `num_launched - len(tokens)` steps are in flight while the
sequence is not finalized. Nothing is freed here; `scheduler` decides when (P7).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from photon.cache.pages import PagePool
from photon.cache.prefix import SharedPrefix
from photon.errors import ConstraintError, PhotonError
from photon.request import Request, Token
from photon.runner.plan import PlannedRow
from photon.scheduler.update import FinishReason, Timing, Update


@dataclass(slots=True, eq=False)
class Sequence:
    request: Request
    limit: int  # tokens it may say in all; set when added, lowered by `say` at the answer mark
    max_pages: int  # pages it may have in all; set when added; but for those shared, reserved by admission
    prefix: SharedPrefix | None = None  # what it shares with others; set when added
    num_cached: int = 0  # positions of its prompt that an earlier step has computed; set by admission
    row: int = -1  # place in the batch; set by admission
    pages: tuple[int, ...] = ()  # its prefix's, set by admission; grown by `launch`, emptied by admission at release
    num_launched: int = 0  # steps launched that contain it; set by `launch`
    inflight_refs: int = 0  # of these, not committed yet (P5); raised by `launch`, lowered by the scheduler's commit
    tokens: list[Token] = field(default_factory=list)  # said so far; grown by `say`
    finish_reason: FinishReason | None = None  # set by `finalize`, once (P6)
    arrived: float = field(default_factory=perf_counter)
    admitted: float | None = None  # set by admission
    first_token: float | None = None  # set by `say`

    @property
    def is_finalized(self) -> bool:
        return self.finish_reason is not None

    @property
    def can_run(self) -> bool:
        """Whether one more step may be planned, from what is committed and what is already launched."""
        return not self.is_finalized and self.num_launched < self.limit

    def launch(self, pool: PagePool) -> PlannedRow:
        """The sequence's row in its next step, with the pages that the step writes."""
        assert self.can_run, f"P6: request {self.request.id} is finalized or may say no more"
        prompt_length, token_index = len(self.request.prompt), self.num_launched
        start = prompt_length + token_index - 1 if token_index else self.num_cached
        end = prompt_length + token_index
        self.pages += tuple(pool.take(pool.num_pages_for(end) - len(self.pages)))
        self.num_launched += 1
        self.inflight_refs += 1
        return PlannedRow(
            seq_id=self.request.id,
            row=self.row,
            start=start,
            length=end - start,
            token_index=token_index,
            pages=self.pages,
            request=self.request,
            constrained=self.request.constraint is not None,
            copied_page=None if token_index else self._copied_page(pool.page_size),
        )

    def _copied_page(self, page_size: int) -> tuple[int, int] | None:
        """Where the cached positions end inside a page: that page and this sequence's own in its place."""
        index, num_positions = divmod(self.num_cached, page_size)
        if self.prefix is None or num_positions == 0:
            return None
        return self.prefix.pages[index], self.pages[index]

    def say(self, token: Token) -> Update:
        """Take in the next token; it may end the sequence. A stop token is not kept; one that completes a stop string
        is."""
        request = self.request
        if self.first_token is None:
            self.first_token = perf_counter()
        if token.id in request.stop_ids:
            return self.finalize("stop")
        if request.constraint is not None:
            try:
                request.constraint.advance(token.id)
            except ConstraintError as error:
                return self.finalize("error", error=error)
        self.tokens.append(token)
        if request.stop_watch is not None and request.stop_watch.heard(token.id):
            return self.finalize("stop", tokens=(token,))
        if token.id == request.answer_mark:  # a later mark asks for a higher limit, so that the first one counts
            self.limit = min(self.limit, len(self.tokens) + request.max_tokens)
        if len(self.tokens) == self.limit:
            return self.finalize("length", tokens=(token,))
        return Update(request.id, (token,))

    def cancel(self) -> Update:
        return self.finalize("cancelled")

    def expire(self) -> Update:
        """End it because its deadline has passed."""
        deadline = self.request.deadline
        assert deadline is not None
        said = f"was running and had said {len(self.tokens)} of at most {self.limit} tokens"
        progress = "was in line for a place in the batch" if self.admitted is None else said
        return self.finalize("error", error=deadline.error(progress))

    def finalize(
        self, reason: FinishReason, *, tokens: tuple[Token, ...] = (), error: PhotonError | None = None
    ) -> Update:
        """End the sequence; the reason goes out with the update returned (P6)."""
        assert not self.is_finalized, f"P6: request {self.request.id} is finalized twice"
        self.finish_reason = reason
        timing = Timing(self.arrived, self.admitted, self.first_token, perf_counter())
        return Update(self.request.id, tokens, reason, error, timing)
