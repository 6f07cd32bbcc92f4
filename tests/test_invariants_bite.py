"""Each invariant, broken on purpose: the schedules must notice. What corrupts answers shows without asserts too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fake_runner import FakeRunner
from schedules import run_schedule

import photon.cache.prefix as prefix_module
from photon.cache.prefix import PrefixIndex, PrefixKey, SharedPrefix
from photon.request import PreparedImage, Prompt, Token
from photon.runner.plan import RowMask
from photon.scheduler.admission import Admission
from photon.scheduler.scheduler import Scheduler
from photon.scheduler.sequence import Sequence
from photon.scheduler.step import Step
from photon.scheduler.update import Update

NUM_SEEDS = 40
SHARING_SEEDS = 300  # most are never reached
WRONG_TOKEN = "differs from its solo run"
ANY_PICTURE = PreparedImage(np.zeros((1, 2, 2, 3), np.uint8), (1, 1), (2, 2))


def run_seeds(
    scheduler_class: type[Scheduler] = Scheduler, *, is_strict: bool = True, num_seeds: int = NUM_SEEDS
) -> None:
    for seed in range(num_seeds):
        run_schedule(seed, 2, scheduler_class, is_strict=is_strict)


class CommitsNewestFirst(Scheduler):
    """Breaks P2."""

    def _commit_down_to(self, num_in_flight: int) -> list[Update]:
        self._in_flight.reverse()
        updates = super()._commit_down_to(num_in_flight)
        self._in_flight.reverse()
        return updates


class FreesSlotBeforeReading(Scheduler):
    """Breaks P3."""

    def _read(self, step: Step) -> list[Token | None]:
        self._slots.collect(step.slot)
        output = self._runner.collect(step.slot)
        self._runner.release(step.slot)
        self._slots.release(step.slot)
        return step.read_tokens(output)


class SamplesOneTickLate(Scheduler):
    """Breaks P4."""

    _late: Step | None = None

    def _mask_and_sample(self, step: Step) -> list[Update]:
        late, self._late = self._late, step
        return super()._mask_and_sample(late) if late else []


class ForgetsToLowerReferences(Scheduler):
    """Breaks P5."""

    def _commit(self, step: Step) -> list[Update]:
        for sequence in step.sequences:
            sequence.inflight_refs += 1
        return super()._commit(step)


class LaunchesTheLate(Scheduler):
    """Breaks P6: who is out of time is in one more step."""

    _ended: tuple[Update, ...] = ()

    def _end_late(self) -> list[Update]:
        return []

    def _launch_next(self) -> Step | None:
        step = super()._launch_next()
        self._ended = tuple(super()._end_late())
        return step

    def _commit_down_to(self, num_in_flight: int) -> list[Update]:
        ended, self._ended = self._ended, ()
        return [*ended, *super()._commit_down_to(num_in_flight)]


def commit_zombies_too(self: Scheduler, step: Step) -> list[Update]:
    """Breaks P6: what a finalized sequence says is handed out."""
    updates = []
    for sequence, token in zip(step.sequences, self._read(step), strict=True):
        sequence.inflight_refs -= 1
        updates.append(sequence.say(token or Token(0)))
        self._release_if_done(sequence)
    return updates


class ReleasesZombies(Scheduler):
    """Breaks P7: pages, row and reservation go back when a sequence is finalized, whatever is in flight."""

    def _release_if_done(self, sequence: Sequence) -> None:
        if sequence.is_finalized and sequence.request.id in self._admitted:
            num_refs, sequence.inflight_refs = sequence.inflight_refs, 0
            super()._release_if_done(sequence)
            sequence.inflight_refs = num_refs


class MasksBeforeCommit(Scheduler):
    """Breaks P8: masks are filled before the constraints have heard the last token."""

    def _launch_next(self) -> Step | None:
        step = super()._launch_next()
        self._stale = step.build_masks(self._runner.mask_words) if step else ([], [])
        return step

    def _mask_and_sample(self, step: Step) -> list[Update]:
        masks, updates = self._stale
        self._slots.sample(step.slot)
        self._runner.sample(step.slot, masks)
        return updates


build_masks = Step.build_masks


def masks_by_position(step: Step, mask_words: int) -> tuple[list[RowMask], list[Update]]:
    """Breaks P8: each row gets its neighbour's mask."""
    masks, updates = build_masks(step, mask_words)
    ids = [mask.seq_id for mask in masks]
    return [replace(mask, seq_id=i) for mask, i in zip(masks, ids[1:] + ids[:1], strict=True)], updates


def masks_left_out(step: Step, mask_words: int) -> tuple[list[RowMask], list[Update]]:
    """Breaks P8: one constrained row goes without a mask."""
    masks, updates = build_masks(step, mask_words)
    return masks[1:], updates


prefix_key, insert, leave, place = prefix_module._shareable, PrefixIndex.insert, PrefixIndex.leave, Admission._place


def key_without_picture(prompt: Prompt) -> PrefixKey | None:
    """Breaks P9: any picture in its place will do."""
    key = prefix_key(prompt)
    return key and replace(key, image=replace(key.image, image=ANY_PICTURE))


def insert_without_holding(index: PrefixIndex, prefix: SharedPrefix, pages: Iterable[int]) -> None:
    """Breaks P7: nobody holds the pages for the members in line."""
    insert(index, prefix, pages)
    index._pool.release(prefix.pages)


def leave_and_let_go(index: PrefixIndex, prefix: SharedPrefix, *, was_admitted: bool) -> None:
    """Breaks P7: the pages go with the first member that ends, though others may be copying from them."""
    if prefix.pages:
        index._release_pages(prefix)
    leave(index, prefix, was_admitted=was_admitted)


def place_and_build_at_once(admission: Admission, sequence: Sequence) -> None:
    """Breaks P1: a member copies in the step that computes the prefix, before it is computed."""
    place(admission, sequence)
    if sequence.prefix is not None and sequence.prefix.is_pending:
        admission._prefixes.insert(sequence.prefix, sequence.pages)


def copy_nothing(runner: FakeRunner, pages: tuple[int, int], num_cells: int) -> list[tuple[int, int, int]]:
    """A runner that leaves the copy out."""
    return []


def copy_late(runner: FakeRunner, pages: tuple[int, int], num_cells: int) -> list[tuple[int, int, int]]:
    """A runner that queues the copy behind the forward: what the row wrote itself is lost."""
    source, destination = pages
    runner._queue.appendleft(partial(runner._pages.__setitem__, destination, runner._pages[source].copy()))
    return []


def test_the_unbroken_scheduler_passes() -> None:
    run_seeds()
    run_seeds(is_strict=False)


@pytest.mark.parametrize(
    ("scheduler_class", "message"),
    [
        (CommitsNewestFirst, "P2: slot . is not the oldest"),
        (SamplesOneTickLate, "P4: the last forward is not sampled"),
        (ForgetsToLowerReferences, "P5: . refs, in . steps"),
        (LaunchesTheLate, "P6: a finalized sequence was planned"),
        (ReleasesZombies, "P7: a step in flight may still write"),
    ],
)
def test_a_breach_is_caught_by_an_assertion(scheduler_class: type[Scheduler], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        run_seeds(scheduler_class)


def test_planning_a_finalized_sequence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sequence, "can_run", property(lambda sequence: sequence.num_launched < sequence.limit))
    with pytest.raises(AssertionError, match="P6: a finalized sequence was planned"):
        run_seeds()


def test_hearing_a_zombie_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "_commit", commit_zombies_too)
    with pytest.raises(AssertionError, match="P6: (news of a request that has ended|request . is finalized twice)"):
        run_seeds(is_strict=False)


def test_a_missing_mask_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "build_masks", masks_left_out)
    with pytest.raises(AssertionError, match="P8: one mask a constrained row"):
        run_seeds(is_strict=False)


@pytest.mark.parametrize("scheduler_class", [FreesSlotBeforeReading, ReleasesZombies, MasksBeforeCommit])
def test_a_breach_comes_out_as_a_wrong_token(scheduler_class: type[Scheduler]) -> None:
    with pytest.raises(AssertionError, match=WRONG_TOKEN):
        run_seeds(scheduler_class, is_strict=False)


def test_a_neighbours_mask_comes_out_as_a_wrong_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Step, "build_masks", masks_by_position)
    with pytest.raises(AssertionError, match=WRONG_TOKEN):
        run_seeds(is_strict=False)


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (prefix_module, "_shareable", key_without_picture),
        (Admission, "_place", place_and_build_at_once),
        (FakeRunner, "_copy", copy_nothing),
        (FakeRunner, "_copy", copy_late),
    ],
)
def test_sharing_wrongly_comes_out_as_a_wrong_token(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, broken: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError, match=WRONG_TOKEN):
        run_seeds(is_strict=False, num_seeds=SHARING_SEEDS)


@pytest.mark.parametrize(
    ("name", "broken", "message"),
    [
        ("insert", insert_without_holding, "held . times, not ."),
        ("leave", leave_and_let_go, "P7: a step in flight|a step was launched, its prefix is not there"),
        ("idle", lambda index: [], "every tick makes progress"),
    ],
)
def test_holding_prefixes_wrongly_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., object], message: str
) -> None:
    monkeypatch.setattr(PrefixIndex, name, broken)
    with pytest.raises(AssertionError, match=message):
        run_seeds(num_seeds=SHARING_SEEDS)
