"""The two ping-pong slots as a state machine: FREE -> LAUNCHED -> SAMPLED -> COLLECTED -> FREE. No buffers, no device.

Holds P1 to P4: forwards are sampled and committed in launch order, one at most is launched and not yet sampled, and a
slot is free only when its results have been read.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

NUM_SLOTS = 2


class SlotState(Enum):
    FREE = "free"
    LAUNCHED = "launched"  # its forward is queued
    SAMPLED = "sampled"  # its sampling and the copy back are queued behind the forward
    COLLECTED = "collected"  # the copy has arrived and is being read


class Slots:
    """Every move asserts where the slot comes from; an AssertionError names the invariant."""

    def __init__(self) -> None:
        self.states = [SlotState.FREE] * NUM_SLOTS
        self._in_flight: deque[int] = deque()  # launched and not collected, oldest first

    def launch(self) -> int:
        """Pick the free slot for the next forward."""
        assert SlotState.LAUNCHED not in self.states, "P4: the last forward is not sampled yet"
        assert SlotState.FREE in self.states, "P3: both slots are in flight or being read"
        slot = self.states.index(SlotState.FREE)
        self.states[slot] = SlotState.LAUNCHED
        self._in_flight.append(slot)
        return slot

    def sample(self, slot: int) -> None:
        """By P4 there is one slot to sample at most, so sampling keeps the launch order (P1)."""
        self._move(slot, SlotState.LAUNCHED, SlotState.SAMPLED)

    def collect(self, slot: int) -> None:
        """Begin to read the slot's results."""
        assert self._in_flight and self._in_flight[0] == slot, f"P2: slot {slot} is not the oldest in flight"
        self._move(slot, SlotState.SAMPLED, SlotState.COLLECTED)
        self._in_flight.popleft()

    def release(self, slot: int) -> None:
        """Reading is finished (P3)."""
        self._move(slot, SlotState.COLLECTED, SlotState.FREE)

    def _move(self, slot: int, source: SlotState, target: SlotState) -> None:
        assert self.states[slot] is source, f"slot {slot} is {self.states[slot].value}, not {source.value}"
        self.states[slot] = target
