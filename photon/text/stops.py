"""Where an answer ends because of what it says: at the first stop string in its text.

The text is searched as it is said: raw, with the blanks around it, and across token borders. What a token costs is
bounded by the stop strings, whatever the length of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from photon.text.detokenizer import Detokenizer


def find_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where in `text` the first stop string begins; None where there is none."""
    return min((start for stop in stops if (start := text.find(stop)) >= 0), default=None)


class StopFilter:
    """Passes a text on in pieces, up to the first place where a stop string begins. State of one answer.

    A tail that could begin a stop string is held back until it cannot. When a piece completes stop strings, the text
    ends before the one that begins first; what follows is dropped. With no stop strings everything passes.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._first_chars = frozenset(stop[0] for stop in self._stops)
        self._held = ""  # the longest end of the text so far that begins a stop string and is none
        self.is_stopped = False

    def push(self, text: str) -> str:
        """What `text` shows to be no part of a stop string."""
        if self.is_stopped:
            return ""
        text = self._held + text
        end = find_stop(text, self._stops)
        self.is_stopped = end is not None
        if end is None:
            end = self._end_of_certain(text)
            self._held = text[end:]
        return text[:end]

    def flush(self) -> str:
        """What was held back, when no text follows."""
        return "" if self.is_stopped else self._held

    def _end_of_certain(self, text: str) -> int:
        """Where what is held begins. It only moves on, so that an answer's places are tried once each."""
        for start in range(max(0, len(text) - self._longest), len(text)):
            tail = text[start:]
            if text[start] in self._first_chars and any(stop.startswith(tail) for stop in self._stops):
                return start
        return len(text)


class StopStrings:
    """Implements `StopWatch`: the answer ends with the token that completes a stop string.

    The answer begins behind the first `answer_mark`, where there is one.
    """

    def __init__(self, stops: Sequence[str], detokenizer: Detokenizer, answer_mark: int | None = None) -> None:
        self._filter = StopFilter(stops)
        self._detokenizer = detokenizer
        self._mark = answer_mark  # None once it is said

    def heard(self, token_id: int) -> bool:
        if self._mark is None:
            self._filter.push(self._detokenizer.push([token_id]))
        elif token_id == self._mark:
            self._mark = None
        return self._filter.is_stopped
