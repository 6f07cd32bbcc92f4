"""The two slots as a state machine: the one way through it, and every step off it."""

import pytest

from photon.scheduler.slots import Slots, SlotState


def sampled(slots: Slots) -> int:
    slot = slots.launch()
    slots.sample(slot)
    return slot


def test_one_slot_goes_through_all_states() -> None:
    slots = Slots()
    slot = slots.launch()
    states = [slots.states[slot]]
    for move in (slots.sample, slots.collect, slots.release):
        move(slot)
        states.append(slots.states[slot])
    assert states == [SlotState.LAUNCHED, SlotState.SAMPLED, SlotState.COLLECTED, SlotState.FREE]


def test_two_steps_overlap_and_slots_alternate() -> None:
    slots = Slots()
    older = sampled(slots)
    for _ in range(5):
        newer = sampled(slots)
        assert newer == 1 - older
        slots.collect(older)
        slots.release(older)
        older = newer


def test_sampling_may_wait_for_the_commit_before_it() -> None:
    slots = Slots()
    older = sampled(slots)
    newer = slots.launch()
    slots.collect(older)
    slots.release(older)
    slots.sample(newer)
    slots.collect(newer)


def test_p2_the_newer_step_cannot_be_collected_first() -> None:
    slots = Slots()
    sampled(slots)
    newer = sampled(slots)
    with pytest.raises(AssertionError, match="P2"):
        slots.collect(newer)


def test_p3_a_slot_being_read_is_not_free() -> None:
    slots = Slots()
    older = sampled(slots)
    sampled(slots)
    slots.collect(older)
    with pytest.raises(AssertionError, match="P3"):
        slots.launch()
    slots.release(older)
    assert slots.launch() == older


def test_p4_one_forward_at_most_is_not_sampled() -> None:
    slots = Slots()
    slots.launch()
    with pytest.raises(AssertionError, match="P4"):
        slots.launch()


@pytest.mark.parametrize("move", ["sample", "collect", "release"])
@pytest.mark.parametrize("num_moves", range(4))
def test_no_other_move_is_possible(num_moves: int, move: str) -> None:
    slots = Slots()
    way = ["launch", "sample", "collect", "release"]
    slot = slots.launch() if num_moves else 0
    for name in way[1:num_moves]:
        getattr(slots, name)(slot)
    if num_moves and move == way[num_moves]:
        getattr(slots, move)(slot)
    else:
        with pytest.raises(AssertionError):
            getattr(slots, move)(slot)
