"""1,000 random schedules at depth 1 and 2: every invariant at every tick, every request as in its solo run (P9)."""

from collections import Counter

import pytest
from schedules import make_schedule, run_schedule, solo_runs

from photon.cache.prefix import PrefixIndex, SharedPrefix
from photon.errors import DeadlineError
from photon.scheduler.update import Update

NUM_SCHEDULES = 1000
BATCH = 100


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("first", range(0, NUM_SCHEDULES, BATCH))
def test_requests_say_what_they_say_alone(first: int, depth: int) -> None:
    for seed in range(first, first + BATCH):
        run_schedule(seed, depth)


def is_late(update: Update) -> bool:
    return isinstance(update.error, DeadlineError)


def test_the_schedules_reach_every_way_to_end() -> None:
    ways = Counter((outcome.reason, outcome.error) for seed in range(BATCH) for outcome in solo_runs(seed))
    for way in [
        ("stop", ""),
        ("length", ""),
        ("error", "ConstraintError"),
        ("error", "NumericsError"),
        ("refused", ""),
    ]:
        assert ways[way] >= 10, ways
    runs = [run_schedule(seed, 2) for seed in range(BATCH)]
    cancelled = [i for run in runs for i, update in run.ended.items() if update.finish_reason == "cancelled"]
    zombies = sum(run.scheduler.stats().num_zombie_rows for run in runs)
    prefills = [len(plan.rows) for run in runs for plan in run.runner.plans if plan.is_prefill]
    late = Counter("in line" in str(u.error) for run in runs for u in run.ended.values() if is_late(u))
    watched = Counter(
        outcome.reason
        for seed in range(BATCH)
        for arrival, outcome in zip(make_schedule(seed).arrivals, solo_runs(seed), strict=True)
        if arrival.kind == "watched"
    )
    assert min(late[True], late[False], watched["stop"], watched["length"]) >= 10, (late, watched)
    assert len(cancelled) >= 50 and zombies >= 50 and max(prefills) >= 3


def test_the_schedules_share_prefixes_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that build on a prefix, by whether they copy a page, and whether anybody who runs has it (else its first
    member has ended before them); and prefixes that are given up."""
    ways: Counter[tuple[bool, bool] | str] = Counter()
    match, evict = PrefixIndex.match, PrefixIndex.evict

    def count_match(index: PrefixIndex, prefix: SharedPrefix) -> tuple[int, ...]:
        pages = match(index, prefix)
        ways[len(pages) < len(prefix.pages), prefix.is_idle] += 1
        return pages

    def count_evict(index: PrefixIndex, prefix: SharedPrefix) -> None:
        ways["evicted"] += 1
        evict(index, prefix)

    monkeypatch.setattr(PrefixIndex, "match", count_match)
    monkeypatch.setattr(PrefixIndex, "evict", count_evict)
    for seed in range(3 * BATCH):
        run_schedule(seed, 2)
    assert len(ways) == 5 and min(ways.values()) >= 10, ways


def test_at_depth_1_only_a_dead_end_makes_a_zombie() -> None:
    """Its forward has run when its mask turns out to allow nothing."""
    for seed in range(BATCH):
        run = run_schedule(seed, 1)
        failed = [i for i, update in run.ended.items() if update.error is not None and not is_late(update)]
        kinds = [run.schedule.arrivals[i].kind for i in failed]
        assert run.scheduler.stats().num_zombie_rows == kinds.count("dead end")
