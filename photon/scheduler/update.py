"""What the scheduler hands up: what one commit added to one request, and how the request ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from photon.errors import PhotonError
from photon.request import Token

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Moments of one request, seconds of `time.perf_counter`; None where it ended before it came so far."""

    arrived: float
    admitted: float | None
    first_token: float | None
    finished: float


@dataclass(frozen=True, slots=True)
class Update:
    """News of one request. `tokens` are new since its last update; the stop token is never among them.

    `finish_reason` is set in a request's last update and in no other, with `timing`, and with `error` where the
    reason is "error".
    """

    request_id: int
    tokens: tuple[Token, ...] = ()
    finish_reason: FinishReason | None = None
    error: PhotonError | None = None
    timing: Timing | None = None
