"""The tick, call by call, against a runner that says what it is told and writes down what it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from fake_runner import FakeRunner
from toy_model import COORD, END, SIZE, Chain, Cycle

from photon.cache.pages import PagePool
from photon.errors import ConstraintError, NumericsError, RequestError
from photon.request import Constraint, Prompt, Request, Role, Token
from photon.runner.plan import Plan, RowMask, StepOutput
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.update import Update

SCRIPT = {0: [11, 12, 13, 14, END], 1: [21, 22, END], 2: [31, END]}  # what each request says
Said = tuple[int, tuple[int, ...], str | None]


class ScriptedRunner:
    """Row by row from a script: an id, or None where logits are not finite. `calls` is the log."""

    mask_words = 2

    def __init__(self, script: Mapping[int, Sequence[int | None]]) -> None:
        self._script = script
        self._plans: dict[int, Plan] = {}
        self.masks: list[RowMask] = []
        self.calls: list[str] = []

    def launch(self, slot: int, plan: Plan) -> None:
        self._plans[slot] = plan
        rows = " ".join(f"{row.seq_id}.{row.token_index}" for row in plan.rows)
        self.calls.append(f"launch {slot}: {'prefill' if plan.is_prefill else 'decode'} {rows}")

    def sample(self, slot: int, masks: list[RowMask]) -> None:
        self.masks = masks
        self.calls.append(f"sample {slot}")

    def collect(self, slot: int) -> StepOutput:
        self.calls.append(f"collect {slot}")
        ids = [self._script[row.seq_id][row.token_index : row.token_index + 1] for row in self._plans[slot].rows]
        said = [i[0] if i else 99 for i in ids]
        return StepOutput(
            ids=np.array([i or 0 for i in said], np.int32),
            values=np.array([[0.25, 0.5]] * len(said), np.float32),
            value_sizes=np.array([{COORD: 1, SIZE: 2}.get(i or 0, 0) for i in said], np.int8),
            scores=np.full(len(said), 0.75, np.float32),
            is_finite=np.array([i is not None for i in said]),
        )

    def release(self, slot: int) -> None:
        self.calls.append(f"release {slot}")


def request(i: int, *, constraint: Constraint | None = None, max_tokens: int = 10) -> Request:
    prompt = Prompt((Token(1), Token(2), Token(3)))
    return Request(i, prompt, max_tokens, limit_tokens=20, stop_ids=frozenset([END]), constraint=constraint)


def scheduler(
    runner: ScriptedRunner | FakeRunner, *, depth: int = 2, num_pages: int = 40, max_rows: int = 4
) -> Scheduler:
    pool = PagePool(num_pages, 4)
    return Scheduler(runner, pool, max_rows=max_rows, max_context=64, depth=depth, max_prefill_tokens=64)


def drain(s: Scheduler) -> list[Update]:
    updates: list[Update] = []
    while s.has_work:
        updates += s.tick()
        s.check_integrity()
    return updates


def said(updates: list[Update], i: int) -> list[int]:
    return [token.id for update in updates if update.request_id == i for token in update.tokens]


def news(updates: list[Update]) -> list[Said]:
    return [(u.request_id, tuple(token.id for token in u.tokens), u.finish_reason) for u in updates]


def test_plain_rows_are_sampled_behind_their_forward_and_committed_one_tick_later() -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner)
    s.add(request(1))
    assert s.tick() == []
    assert runner.calls == ["launch 0: prefill 1.0", "sample 0"]
    runner.calls.clear()
    assert news(s.tick()) == [(1, (21,), None)]
    assert runner.calls == ["launch 1: decode 1.1", "sample 1", "collect 0", "release 0"]


def test_constrained_rows_are_sampled_after_the_commit_before_them() -> None:
    runner = ScriptedRunner({0: [COORD, COORD, END]})
    s = scheduler(runner)
    s.add(request(0, constraint=Cycle((Role.X, Role.Y), 4)))
    s.tick()
    runner.calls.clear()
    s.tick()
    assert runner.calls == ["launch 1: decode 0.1", "collect 0", "release 0", "sample 1"]


def test_one_constrained_row_makes_all_wait_and_only_it_gets_a_mask() -> None:
    runner = ScriptedRunner({0: [COORD, COORD, END], 1: SCRIPT[1]})
    s = scheduler(runner)
    s.add(request(0, constraint=Cycle((Role.X, Role.Y), 4)))
    s.add(request(1))
    s.tick()
    assert [(mask.seq_id, mask.role) for mask in runner.masks] == [(0, Role.X)]
    runner.calls.clear()
    s.tick()
    assert runner.calls == ["launch 1: decode 0.1 1.1", "collect 0", "release 0", "sample 1"]


def test_depth_1_commits_before_the_next_launch() -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner, depth=1)
    s.add(request(1))
    assert news(s.tick()) == [(1, (21,), None)]
    assert news(s.tick()) == [(1, (22,), None)]
    assert news(s.tick()) == [(1, (), "stop")]
    assert [call.split()[0] for call in runner.calls] == ["launch", "sample", "collect", "release"] * 3


def test_a_new_prompt_is_prefilled_before_others_go_on_and_joins_the_next_decode() -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner)
    s.add(request(0))
    s.tick()
    s.add(request(1))
    s.tick()
    s.tick()
    launches = [call for call in runner.calls if call.startswith("launch")]
    assert launches == ["launch 0: prefill 0.0", "launch 1: prefill 1.0", "launch 0: decode 0.1 1.1"]


def test_the_end_is_told_at_once_and_the_zombie_is_nothing_but_a_reference() -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner)
    s.add(request(2))
    s.tick()
    s.tick()
    assert news(s.tick()) == [(2, (), "stop")]  # 2.2 is in flight
    assert s.has_work and s.stats().num_running == 0 and s.stats().num_free_pages < 40
    assert s.tick() == []
    assert not s.has_work and s.stats().num_free_pages == 40
    assert s.stats().num_zombie_rows == 1 and s.stats().num_rows == 3


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("max_tokens", "num_launches"), [(1, 1), (2, 2), (4, 4)])
def test_no_step_is_launched_beyond_the_limit(max_tokens: int, num_launches: int, depth: int) -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner, depth=depth)
    s.add(request(0, max_tokens=max_tokens))
    updates = drain(s)
    assert said(updates, 0) == SCRIPT[0][:max_tokens] and updates[-1].finish_reason == "length"
    assert sum(call.startswith("launch") for call in runner.calls) == num_launches


def test_a_stop_token_within_the_limit_is_a_stop() -> None:
    s = scheduler(ScriptedRunner(SCRIPT))
    s.add(replace(request(1), limit_tokens=3, max_tokens=3))
    updates = drain(s)
    assert said(updates, 1) == [21, 22] and updates[-1].finish_reason == "stop"


@pytest.mark.parametrize("depth", [1, 2])
def test_max_tokens_counts_from_the_first_answer_mark(depth: int) -> None:
    runner = ScriptedRunner({0: [50, 51, 7, 60, 7, 61, 62, 63]})
    s = scheduler(runner, depth=depth)
    s.add(replace(request(0, max_tokens=3), answer_mark=7))
    updates = drain(s)
    assert said(updates, 0) == [50, 51, 7, 60, 7, 61] and updates[-1].finish_reason == "length"
    assert sum(call.startswith("launch") for call in runner.calls) == 6


def test_the_contexts_end_is_a_length() -> None:
    s = Scheduler(ScriptedRunner(SCRIPT), PagePool(9, 4), max_rows=1, max_context=5, depth=2, max_prefill_tokens=9)
    s.add(request(0))
    updates = drain(s)
    assert said(updates, 0) == [11, 12] and updates[-1].finish_reason == "length"


def test_values_and_scores_come_with_their_tokens() -> None:
    s = scheduler(ScriptedRunner({0: [COORD, COORD, SIZE, END]}))
    s.add(request(0, constraint=Cycle((Role.X, Role.Y, Role.SIZE), 4)))
    tokens = [token for update in drain(s) for token in update.tokens]
    assert tokens == [Token(COORD, (0.25,), 0.75), Token(COORD, (0.25,)), Token(SIZE, (0.25, 0.5))]


def test_logits_that_are_not_finite_end_one_request() -> None:
    s = scheduler(ScriptedRunner({0: [11, None], 1: SCRIPT[1]}))
    s.add(request(0))
    s.add(request(1))
    updates = drain(s)
    (failed,) = [update for update in updates if update.error is not None]
    assert failed.request_id == 0 and failed.finish_reason == "error" and isinstance(failed.error, NumericsError)
    assert said(updates, 0) == [11] and said(updates, 1) == [21, 22]


@pytest.mark.parametrize("constraint", [Chain(dead_at=1), Chain(refuses_at=1)], ids=["dead end", "refusal"])
def test_a_failing_constraint_ends_one_request(constraint: Constraint) -> None:
    s = scheduler(ScriptedRunner({0: [2, 3, 2, 2], 1: SCRIPT[1]}))
    s.add(request(0, constraint=constraint))
    s.add(request(1))
    updates = drain(s)
    (failed,) = [update for update in updates if update.error is not None]
    assert failed.request_id == 0 and isinstance(failed.error, ConstraintError)
    assert said(updates, 0) == [2] and said(updates, 1) == [21, 22]


def test_a_dead_ends_row_becomes_a_zombie_without_a_mask() -> None:
    runner = ScriptedRunner({0: [2, 3]})
    s = scheduler(runner)
    s.add(request(0, constraint=Chain(dead_at=1)))
    s.tick()
    assert news(s.tick()) == [(0, (2,), None), (0, (), "error")]
    assert runner.masks == [RowMask(0, None, Role.TEXT)]


def test_a_refused_request_leaves_no_trace() -> None:
    s = scheduler(ScriptedRunner(SCRIPT), num_pages=1)
    with pytest.raises(RequestError, match="12 positions, KV memory has room for 4"):
        s.add(request(0))
    assert not s.has_work and s.tick() == []
    s.add(request(0, max_tokens=2))
    assert said(drain(s), 0) == [11, 12]


def test_an_idle_tick_does_nothing() -> None:
    runner = ScriptedRunner(SCRIPT)
    assert scheduler(runner).tick() == [] and runner.calls == []


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("num_ticks", [0, 1, 2, 3])
def test_cancel_in_every_phase_stops_the_work(num_ticks: int, depth: int) -> None:
    runner = ScriptedRunner(SCRIPT)
    s = scheduler(runner, depth=depth)
    s.add(request(0))
    for _ in range(num_ticks):
        s.tick()
    update = s.cancel(0)
    assert update is not None and update.finish_reason == "cancelled" and s.cancel(0) is None
    num_launches = len([call for call in runner.calls if call.startswith("launch")])
    assert s.tick() == [] and not s.has_work
    assert len([call for call in runner.calls if call.startswith("launch")]) == num_launches
    assert s.stats().num_free_pages == 40 and s.stats().num_free_rows == 4
    s.check_integrity()


def test_a_cancelled_request_in_line_lets_the_next_one_in() -> None:
    s = scheduler(ScriptedRunner(SCRIPT), max_rows=1)
    for i in range(3):
        s.add(request(i))
    s.tick()
    s.cancel(1)
    updates = drain(s)
    assert said(updates, 1) == [] and said(updates, 2) == [31]


def test_cancelling_what_is_unknown_or_over_is_nothing() -> None:
    s = scheduler(ScriptedRunner(SCRIPT))
    assert s.cancel(5) is None
    s.add(request(2))
    drain(s)
    assert s.cancel(2) is None


def test_nothing_leaks_over_1000_cancels() -> None:
    rng = Random(0)
    runner = FakeRunner(num_pages=12, page_size=4, max_rows=3, rng=rng)
    s = scheduler(runner, num_pages=12, max_rows=3)
    for i in range(1000):
        s.add(replace(request(i), stop_ids=frozenset([END]), constraint=rng.choice([None, Chain()])))
        for _ in range(rng.randint(0, 2)):
            s.tick()
        s.cancel(rng.randint(max(0, i - 4), i))
        s.check_integrity()
    drain(s)
    assert (s.stats().num_free_pages, s.stats().num_free_rows, s.stats().num_waiting) == (12, 3, 0)


def test_timing_is_in_order() -> None:
    s = scheduler(ScriptedRunner(SCRIPT))
    s.add(request(0))
    timing = drain(s)[-1].timing
    assert timing is not None and timing.admitted is not None and timing.first_token is not None
    assert timing.arrived <= timing.admitted <= timing.first_token <= timing.finished


def test_timing_of_a_request_cancelled_in_line_says_how_far_it_came() -> None:
    s = scheduler(ScriptedRunner(SCRIPT))
    s.add(request(0))
    update = s.cancel(0)
    assert update is not None and update.timing is not None
    assert update.timing.admitted is None and update.timing.first_token is None


def test_an_id_in_use_is_an_error_of_the_caller() -> None:
    s = scheduler(ScriptedRunner(SCRIPT))
    s.add(request(0))
    with pytest.raises(AssertionError, match="in use"):
        s.add(request(0))
    s.tick()
    with pytest.raises(AssertionError, match="in use"):
        s.add(request(0))
