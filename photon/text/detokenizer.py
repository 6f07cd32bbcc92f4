"""Text from tokens as they come. The chunks, joined, are the decode of all the tokens at once.

Bytes of a character that is not yet whole are held back, so a chunk never ends in half a character. Each token's bytes
are looked at once.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from photon.text.tokenizer import Tokenizer


class Detokenizer:
    """State of one answer. Call `flush` once, when the last token has been pushed."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bytes_of = tokenizer.text_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """The text that `ids` complete; "" while a character is open."""
        return self._decoder.decode(b"".join(self._bytes_of[i] for i in ids))

    def flush(self) -> str:
        """What was held back: U+FFFD for a character that never became whole, otherwise ""."""
        return self._decoder.decode(b"", final=True)
