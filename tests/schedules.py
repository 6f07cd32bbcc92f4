"""Random schedules: who asks what and when, who is cancelled or late, how small everything is. And what must hold.

`run_schedule` drives a scheduler through one on the fake runner, checks the invariants from outside at every tick, and
compares what each request said with its solo run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import numpy as np
from fake_runner import FakeRunner, PoisoningPool
from sequential_oracle import Outcome, may_ever_run, run_alone
from toy_model import COORD, END, FRAGILE, NUM_IDS, Chain, Cycle, Pairs

from photon.errors import DeadlineError, RequestError
from photon.request import (
    IMAGE_ID,
    Constraint,
    Deadline,
    ImageSpan,
    PreparedImage,
    Prompt,
    Request,
    Role,
    Sampling,
    Token,
)
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.update import Update

KINDS = ("text", "text", "banned", "watched", "marked", "point", "detect", "chain", "dead end", "refusal", "fragile")


@dataclass(frozen=True)
class Arrival:
    tick: int
    kind: str
    request_seed: int
    cancelled_at: int | None
    late_at: int | None  # the tick from which on its deadline has passed
    beginning: Prompt | None  # a picture and what is before it, the same object for all requests that begin so


@dataclass(frozen=True)
class Schedule:
    seed: int
    page_size: int
    num_pages: int
    max_rows: int
    max_context: int
    max_prefill_tokens: int
    arrivals: tuple[Arrival, ...]  # request i is arrivals[i]

    def request(self, i: int) -> Request:
        """A new request each time: constraints are state."""
        arrival = self.arrivals[i]
        request = make_request(i, arrival.kind, Random(arrival.request_seed), arrival.beginning)
        deadline = None if arrival.late_at is None else Deadline(arrival.late_at, arrival.late_at - arrival.tick)
        return replace(request, deadline=deadline)

    def may_ever_run(self, request: Request) -> bool:
        return may_ever_run(request, max_context=self.max_context, room=self.num_pages * self.page_size)


@cache
def make_schedule(seed: int) -> Schedule:
    rng = Random(seed)
    arrivals = []
    beginnings = _make_beginnings(rng)
    for _ in range(rng.randint(1, 12)):
        tick = rng.choice([0, 0, rng.randint(0, 25)])
        cancelled_at = tick + rng.randint(0, 12) if rng.random() < 0.25 else None
        late_at = tick + rng.randint(0, 15) if rng.random() < 0.2 else None
        beginning = rng.choice(beginnings)
        arrivals.append(Arrival(tick, rng.choice(KINDS), rng.getrandbits(40), cancelled_at, late_at, beginning))
    page_size = rng.randint(1, 5)
    return Schedule(
        seed=seed,
        page_size=page_size,
        num_pages=rng.randint(*rng.choice([(20, 60), (20, 60), (10, 25)])) // page_size,
        max_rows=rng.randint(1, 5),
        max_context=rng.randint(15, 40),
        max_prefill_tokens=rng.randint(4, 40),
        arrivals=tuple(arrivals),
    )


@cache
def solo_runs(seed: int) -> list[Outcome]:
    schedule = make_schedule(seed)
    requests = [schedule.request(i) for i in range(len(schedule.arrivals))]
    return [
        run_alone(request, max_context=schedule.max_context)
        if schedule.may_ever_run(request)
        else Outcome((), "refused")
        for request in requests
    ]


def _make_beginnings(rng: Random) -> list[Prompt | None]:
    """None, and in most schedules some that are shared, or nearly: one picture behind other tokens, two pictures
    in one place."""
    pictures = [_make_picture(rng) for _ in range(2)]
    beginnings: list[Prompt | None] = [None]
    length = rng.randint(1, 9)
    for _ in range(rng.choice([0, 1, 2, 2, 3])):
        before = rng.choice([[], [Token(1)], [Token(1)], [Token(2)]])
        span = ImageSpan(rng.choice(pictures), len(before), length, block_start=0)
        beginnings.append(Prompt((*before, *[Token(IMAGE_ID)] * span.length), (span,)))
    return beginnings


def _make_picture(rng: Random) -> PreparedImage:
    return PreparedImage(np.full((1, 2, 2, 3), rng.randrange(256), np.uint8), (1, 1), (2, 2))


def make_request(request_id: int, kind: str, rng: Random, beginning: Prompt | None = None) -> Request:
    few = rng.sample(range(1, NUM_IDS), 8)
    return Request(
        id=request_id,
        prompt=_make_prompt(rng, beginning, fragile=kind == "fragile"),
        max_tokens=rng.randint(1, 12),
        limit_tokens=rng.randint(1, 16),
        stop_ids=frozenset([END, *few[: rng.randint(0, 2)]]) if kind not in ("point", "detect") else frozenset([END]),
        sampling=_make_sampling(rng),
        banned_ids=tuple(i for i in range(NUM_IDS) if i not in few) if kind in ("banned", "marked") else (),
        constraint=_make_constraint(kind, rng),
        answer_mark=few[-1] if kind == "marked" else None,
        stop_watch=Pairs() if kind == "watched" else None,
    )


def _make_sampling(rng: Random) -> Sampling:
    temperature, seed = rng.choice([0, 0.7]), rng.randint(0, 99)
    return Sampling(temperature=temperature, seed=seed, logprobs=(None, None, None, 0, 3, 20)[seed % 6])


def _make_prompt(rng: Random, beginning: Prompt | None, *, fragile: bool) -> Prompt:
    tokens = [Token(rng.randrange(1, NUM_IDS)) for _ in range(rng.choice([1, 2, 3, 4, 5, 8, rng.randint(1, 20)]))]
    if rng.random() < 0.3:
        tokens.insert(0, Token(COORD, (rng.randrange(1024) / 1024,)))  # a spatial reference
    last = Token(FRAGILE if fragile else 1)
    if beginning is not None:
        return Prompt((*beginning.tokens, *tokens[:6], last), beginning.images)
    images = ()
    if rng.random() < 0.4:
        start, length = rng.randint(0, len(tokens)), rng.randint(1, 4)
        tokens[start:start] = [Token(IMAGE_ID)] * length
        images = (ImageSpan(_make_picture(rng), start, length, block_start=0),)
    return Prompt((*tokens, last), images)


def _make_constraint(kind: str, rng: Random) -> Constraint | None:
    match kind:
        case "point":
            return Cycle((Role.X, Role.Y), rng.randint(0, 6))
        case "detect":
            return Cycle((Role.X, Role.Y, Role.SIZE), rng.randint(0, 5))
        case "chain":
            return Chain()
        case "dead end":
            return Chain(dead_at=rng.randint(0, 6))
        case "refusal":
            return Chain(refuses_at=rng.randint(0, 6))
    return None


@dataclass
class Run:
    """One schedule on one scheduler. Without `is_strict` only the requests' outputs are looked at, in the end."""

    schedule: Schedule
    depth: int
    scheduler_class: type[Scheduler] = Scheduler
    is_strict: bool = True
    tokens: dict[int, list[Token]] = field(default_factory=dict)
    ended: dict[int, Update] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)
    now: int = 0  # the tick, which is the scheduler's clock

    def __post_init__(self) -> None:
        s = self.schedule
        rng = Random(s.seed)
        self.runner = FakeRunner(num_pages=s.num_pages, page_size=s.page_size, max_rows=s.max_rows, rng=rng)
        self.pool = PoisoningPool(s.num_pages, s.page_size, self.runner, is_strict=self.is_strict)
        self.scheduler = self.scheduler_class(
            self.runner,
            self.pool,
            max_rows=s.max_rows,
            max_context=s.max_context,
            depth=self.depth,
            max_prefill_tokens=s.max_prefill_tokens,
            clock=lambda: self.now,
        )

    def go(self) -> None:
        last_event = max(max(a.tick, a.cancelled_at or 0) for a in self.schedule.arrivals)
        while self.now <= last_event or self.scheduler.has_work:
            assert self.now < last_event + 20 * len(self.schedule.arrivals) + 20, "the scheduler never comes to an end"
            self._arrive_and_cancel(self.now)
            self._tick()
            self.now += 1
        self._check_end()

    def _arrive_and_cancel(self, tick: int) -> None:
        for i, arrival in enumerate(self.schedule.arrivals):
            if arrival.tick == tick:
                request = self.schedule.request(i)
                self.tokens[i] = []
                try:
                    self.scheduler.add(request)
                except RequestError:
                    self.refused.add(i)
            if arrival.cancelled_at == tick:
                self._cancel(i)

    def _cancel(self, i: int) -> None:
        update = self.scheduler.cancel(i)
        is_over = i in self.ended or i in self.refused
        assert (update is None) == is_over, "a live request is cancelled at once, another never"
        if update is not None:
            assert update.finish_reason == "cancelled" and update.tokens == ()
            self.ended[i] = update

    def _tick(self) -> None:
        ended_before, num_plans, num_committed = set(self.ended), len(self.runner.plans), self.runner.num_committed
        late = self._late()
        had_work = self.scheduler.has_work
        for update in self.scheduler.tick():
            self._hear(update)
        if not self.is_strict:
            return
        told = {i for i, update in self.ended.items() if isinstance(update.error, DeadlineError)}
        assert late <= told, "who is late hears it at once"
        new_plans = self.runner.plans[num_plans:]
        did_work = bool(new_plans or self.runner.num_committed > num_committed or late)
        assert did_work == had_work, "every tick makes progress"
        assert len(new_plans) <= 1 and len(self.runner.plans_in_flight) < self.depth
        for plan in new_plans:
            over = ended_before | late
            assert over.isdisjoint(row.seq_id for row in plan.rows), "P6: a finalized sequence was planned"
            self._check_plan_size(len(plan.rows), [row.length for row in plan.rows])
        self.scheduler.check_integrity()

    def _late(self) -> set[int]:
        """Those at work or in line whose deadline passes with this tick."""
        alive = self.tokens.keys() - self.ended.keys() - self.refused
        times = {i: self.schedule.arrivals[i].late_at for i in alive}
        return {i for i, time in times.items() if time is not None and time <= self.now}

    def _check_plan_size(self, num_rows: int, lengths: list[int]) -> None:
        assert 1 <= num_rows <= self.schedule.max_rows
        assert num_rows == 1 or sum(lengths) <= max(self.schedule.max_prefill_tokens, num_rows)

    def _hear(self, update: Update) -> None:
        i = update.request_id
        assert i not in self.ended, "P6: news of a request that has ended"
        assert update.tokens or update.finish_reason, "an update says something"
        self.tokens[i] += update.tokens
        if update.finish_reason is not None:
            self.ended[i] = update

    def _check_end(self) -> None:
        for i, expected in enumerate(solo_runs(self.schedule.seed)):
            assert self._is_as_expected(i, expected), (
                f"request {i} differs from its solo run: {self.tokens[i]}, {self.ended.get(i)} instead of {expected}"
            )
        if self.is_strict:
            self.scheduler.check_integrity()
            assert self.pool.num_free == self.schedule.num_pages
            assert self.scheduler.stats().num_free_rows == self.schedule.max_rows

    def _is_as_expected(self, i: int, expected: Outcome) -> bool:
        if expected.reason == "refused":
            return i in self.refused
        update, tokens = self.ended.get(i), tuple(self.tokens[i])
        if update is None:
            return False
        if update.finish_reason == "cancelled" or isinstance(update.error, DeadlineError):
            return tokens == expected.tokens[: len(tokens)]
        error = type(update.error).__name__ if update.error else ""
        return Outcome(tokens, update.finish_reason or "", error) == expected


def run_schedule(seed: int, depth: int, scheduler_class: type[Scheduler] = Scheduler, *, is_strict: bool = True) -> Run:
    run = Run(make_schedule(seed), depth, scheduler_class, is_strict)
    run.go()
    return run
