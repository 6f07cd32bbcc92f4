"""Which deadlines have passed. Asking costs nothing before the first of them, so it may be asked at every tick.

No threads and no clock: whoever asks says what time it is.
"""

from __future__ import annotations

import math

from photon.request import Deadline


class Deadlines:
    """Those of requests that have not ended, by id."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._earliest = math.inf  # none is earlier; its request may have ended

    def __len__(self) -> int:
        return len(self._times)

    def add(self, request_id: int, deadline: Deadline | None) -> None:
        if deadline is not None:
            self._times[request_id] = deadline.time
            self._earliest = min(self._earliest, deadline.time)

    def discard(self, request_id: int) -> None:
        """It has ended; one without a deadline is passed over."""
        self._times.pop(request_id, None)

    def seconds_left(self, now: float) -> float:
        """How long nothing can pass; infinite when there are none."""
        return max(0.0, self._earliest - now) if self._times else math.inf

    def take_passed(self, now: float) -> list[int]:
        """The requests whose deadlines have passed, the earliest first. They are forgotten."""
        if now < self._earliest:
            return []
        passed = sorted((i for i, time in self._times.items() if time <= now), key=self._times.__getitem__)
        for request_id in passed:
            del self._times[request_id]
        self._earliest = min(self._times.values(), default=math.inf)
        return passed
