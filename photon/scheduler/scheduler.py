"""The tick: which rows run, when a step is sampled, what its tokens mean for their requests, when memory is free.

Knows no model and no device: it tells a `Runner` what to do and calls nobody upward; what it has to say it returns.
All calls come from one thread. Invariants P1 to P8 are listed in docs/pipeline.md and asserted where they could break.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from photon.cache.pages import PagePool
from photon.errors import NumericsError
from photon.request import Request, Token
from photon.runner.plan import Plan, Runner
from photon.scheduler.admission import Admission
from photon.scheduler.deadlines import Deadlines
from photon.scheduler.sequence import Sequence
from photon.scheduler.slots import Slots
from photon.scheduler.step import Step
from photon.scheduler.update import Update


@dataclass(frozen=True, slots=True)
class Stats:
    """A moment's state and running totals. `num_zombie_rows` of `num_rows` committed rows came to nothing."""

    num_waiting: int
    num_running: int
    num_free_rows: int
    num_free_pages: int
    num_steps: int
    num_rows: int
    num_zombie_rows: int


class Scheduler:
    """`depth` 1 commits each step before the next is launched, 2 while the next one's forward runs. Same outputs.

    `max_rows` sequences run at once, in contexts of up to `max_context` positions; a prefill takes at most
    `max_prefill_tokens` positions of prompts, or one longer prompt. `clock` is what deadlines are times of.
    """

    def __init__(
        self,
        runner: Runner,
        pool: PagePool,
        *,
        max_rows: int,
        max_context: int,
        depth: int,
        max_prefill_tokens: int,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        assert depth in (1, 2) and max_rows >= 1, (depth, max_rows)
        self._runner = runner
        self._pool = pool
        self._max_rows = max_rows
        self._depth = depth
        self._admission = Admission(
            pool, max_rows=max_rows, max_context=max_context, max_prefill_tokens=max_prefill_tokens
        )
        self._clock = clock
        self._deadlines = Deadlines()
        self._slots = Slots()
        self._in_flight: deque[Step] = deque()  # launched and not committed, oldest first
        self._admitted: dict[int, Sequence] = {}  # by request id, from admission to release, zombies included
        self._num_steps = self._num_rows = self._num_zombie_rows = 0

    @property
    def has_work(self) -> bool:
        """Whether a tick would do anything."""
        return bool(self._admitted or self._admission.num_waiting)

    def add(self, request: Request) -> None:
        """Take a request in. RequestError when it could never run: no other request notices."""
        assert request.id not in self._admitted, f"request id {request.id} is in use"
        self._admission.add(request)
        self._deadlines.add(request.id, request.deadline)

    def cancel(self, request_id: int) -> Update | None:
        """End a request in whatever phase it is; None when it has ended already. It is in no step from here on."""
        return self._end(request_id, Sequence.cancel)

    def tick(self) -> list[Update]:
        """Launch the next forward, commit the step before it, then mask and sample the new one.

        At most `depth - 1` steps are left in flight, so at depth 1 the new step is committed too. Who is out of time
        is in no new step.
        """
        updates = self._end_late()
        step = self._launch_next()
        updates += self._commit_down_to(1 if step else 0)
        if step and step.plan.is_constrained:
            updates += self._mask_and_sample(step)
        return updates + self._commit_down_to(self._depth - 1)

    def stats(self) -> Stats:
        return Stats(
            num_waiting=self._admission.num_waiting,
            num_running=sum(not sequence.is_finalized for sequence in self._admitted.values()),
            num_free_rows=self._admission.num_free_rows,
            num_free_pages=self._pool.num_free,
            num_steps=self._num_steps,
            num_rows=self._num_rows,
            num_zombie_rows=self._num_zombie_rows,
        )

    def check_integrity(self) -> None:
        """Assert, between ticks, that counts agree with what is in flight and that all memory is accounted for."""
        admitted = list(self._admitted.values())
        for sequence in admitted:
            num_refs = sum(sequence in step.sequences for step in self._in_flight)
            assert sequence.inflight_refs == num_refs, f"P5: {sequence.inflight_refs} refs, in {num_refs} steps"
            assert num_refs or not sequence.is_finalized, f"P7: request {sequence.request.id} was not released"
        assert len(self._deadlines) <= len(admitted) + self._admission.num_waiting, "a deadline outlives its request"
        self._admission.check_integrity(admitted, self._max_rows)
        self._pool.check_integrity()

    def _end_late(self) -> list[Update]:
        ended = [self._end(request_id, Sequence.expire) for request_id in self._deadlines.take_passed(self._clock())]
        return [update for update in ended if update is not None]

    def _end(self, request_id: int, end: Callable[[Sequence], Update]) -> Update | None:
        """In line or admitted, from outside of any step; None when it has ended already."""
        self._deadlines.discard(request_id)
        waiting = self._admission.withdraw(request_id)
        if waiting is not None:
            return end(waiting)
        sequence = self._admitted.get(request_id)
        if sequence is None or sequence.is_finalized:
            return None
        update = end(sequence)
        self._release_if_done(sequence)
        return update

    def _launch_next(self) -> Step | None:
        """Prefill whoever can be admitted, else decode every row that may say more.

        A row is planned though its last token is not known here yet: the token waits on the device.
        """
        prompts = self._admission.admit()
        self._admitted |= {sequence.request.id: sequence for sequence in prompts}
        sequences = prompts or [sequence for sequence in self._admitted.values() if sequence.can_run]
        if not sequences:
            return None
        plan = Plan(bool(prompts), tuple(sequence.launch(self._pool) for sequence in sequences))
        step = Step(self._slots.launch(), plan, sequences)
        self._in_flight.append(step)
        self._runner.launch(step.slot, plan)
        if not plan.is_constrained:  # nothing to wait for
            self._slots.sample(step.slot)
            self._runner.sample(step.slot, [])
        return step

    def _mask_and_sample(self, step: Step) -> list[Update]:
        """Runs when all earlier steps are committed: the constraints are up to date."""
        masks, updates = step.build_masks(self._runner.mask_words)
        self._slots.sample(step.slot)
        self._runner.sample(step.slot, masks)
        return updates

    def _commit_down_to(self, num_in_flight: int) -> list[Update]:
        updates: list[Update] = []
        while len(self._in_flight) > num_in_flight:
            updates += self._commit(self._in_flight.popleft())
        return updates

    def _commit(self, step: Step) -> list[Update]:
        """Take in the step's tokens. A zombie's row counts for nothing but its reference."""
        updates: list[Update] = []
        for sequence, token in zip(step.sequences, self._read(step), strict=True):
            sequence.inflight_refs -= 1
            if sequence.is_finalized:
                self._num_zombie_rows += 1
            elif token is None:
                error = NumericsError(f"token {len(sequence.tokens)} could not be sampled: its logits are not finite")
                updates.append(sequence.finalize("error", error=error))
            else:
                updates.append(sequence.say(token))
            self._release_if_done(sequence)
        self._num_steps += 1
        self._num_rows += len(step.sequences)
        return updates

    def _read(self, step: Step) -> list[Token | None]:
        """Wait for the step's results and copy them out before its slot is free (P3)."""
        self._slots.collect(step.slot)
        tokens = step.read_tokens(self._runner.collect(step.slot))
        self._runner.release(step.slot)
        self._slots.release(step.slot)
        return tokens

    def _release_if_done(self, sequence: Sequence) -> None:
        """P7: a zombie still writes into its pages, so they stay its own until its last step is committed."""
        if sequence.is_finalized and sequence.inflight_refs == 0:
            self._admission.release(sequence)
            self._deadlines.discard(sequence.request.id)
            del self._admitted[sequence.request.id]
