"""Text to token ids and back, over the `tokenizers` library; and the bytes of every id, for grammars and streaming.

Special ids are never made from text: a special token's name in a prompt is encoded like any other characters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from photon.errors import ModelError


class Tokenizer:
    """A model's tokenizer. Threads may share it: nothing in it changes after it is made."""

    def __init__(self, backend: Backend) -> None:
        backend.encode_special_tokens = True  # "encode" their text as text
        backend.no_padding()
        backend.no_truncation()
        self._backend = backend
        self._added: dict[int, AddedToken] = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(i for i, token in self._added.items() if token.special)
        self.num_tokens = 1 + max(backend.get_vocab(with_added_tokens=True).values())

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """From a `tokenizer.json`. ModelError when there is none or it is no such file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            is_tokenizer = "model" in json.loads(text)
        except FileNotFoundError:
            raise ModelError(f"{path}: no such tokenizer file") from None
        except (OSError, ValueError, TypeError) as error:
            raise ModelError(f"{path}: not a tokenizer.json: {error}") from error
        if not is_tokenizer:
            raise ModelError(f"{path}: not a tokenizer.json: it has no 'model'")
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """From the text of a `tokenizer.json`."""
        return cls(Backend.from_str(text))

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of `text` alone: nothing is added before or after it."""
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`; special ids say nothing, and bytes that are no UTF-8 become U+FFFD."""
        return self._backend.decode(list(ids), skip_special_tokens=True)

    @cached_property
    def text_bytes(self) -> tuple[bytes, ...]:
        """What each id adds to a decoded text, as bytes; b"" for special and unused ids."""
        steps = _decoder_steps(self._backend)
        if "ByteLevel" in steps[:1]:
            bytes_of = _piece_bytes
        elif "ByteFallback" in steps or "Metaspace" in steps:
            bytes_of = _sentence_piece_bytes
        else:
            raise ModelError(
                "the tokenizer.json is neither byte-level nor of SentencePiece's kind, which alone tell tokens' bytes"
            )
        pieces = (self._backend.id_to_token(i) for i in range(self.num_tokens))
        return tuple(
            b"" if piece is None or i in self.special_ids else bytes_of(piece) for i, piece in enumerate(pieces)
        )


def _decoder_steps(backend: Backend) -> list[str]:
    """The types of its decoder, or of those that this one is a sequence of."""
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    return [step["type"] for step in decoder.get("decoders", [decoder] if decoder else [])]


def _sentence_piece_bytes(piece: str) -> bytes:
    """U+2581 is a space; a byte that no piece holds is spelt <0xNN>. (The space that some decoders take off the very
    beginning of a text is part of the first token's bytes here.)"""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.replace("\u2581", " ").encode()


def _piece_bytes(piece: str) -> bytes:
    """A byte-level piece spells each byte with one character; an added token may be plain text instead."""
    if all(char in _BYTE_OF for char in piece):
        return bytes(_BYTE_OF[char] for char in piece)
    return piece.encode()


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's spelling: a byte that is visible in Latin-1 is itself, the others follow in order from U+0100."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()
