"""Trains photon-tiny's tokenizer: byte-level BPE of 1,024 ids on the texts that the model reads and writes.

Ids 0-15 are special, 16-271 the bytes, the rest merges. Texts are cut before every space, digit and sign, and never
merged across such a cut: encode(a) + encode(b) == encode(a + b) when b begins with a space or a sign, so that training
can join texts from pieces encoded before. Run `python models/photon-tiny/training/tokenizer.py`.
"""

from __future__ import annotations

import json

from phrases import COLOURS, NUMBERS, corpus_lines
from sources import HERE
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

NUM_TOKENS = 1024
SPECIAL = [
    "<|end|>",
    "<|mark1|>",
    "<|mark2|>",
    "<|answer|>",
    "<|thinking|>",
    "<|coord|>",
    "<|size|>",
    "<|ground_start|>",
    "<|long|>",
    "<|ground_end|>",
    "<|caption|>",
    "<|query|>",
    "<|detect|>",
    "<|point|>",
    "<|short|>",
    "<|normal|>",
]
# A short form's ending, a word with the space before it, one digit with the space before it, one sign, one space.
PIECE = r"'(?:[sdmt]|ll|ve|re)\b| ?\p{L}+| ?\p{N}|[^\s\p{L}\p{N}]|\s"


def corpus(nouns: list[dict]) -> list[str]:
    """What the model will read and write; nouns come often enough that most become one to three ids."""
    words = [entry["noun"] for entry in nouns] + [entry["plural"] for entry in nouns]
    lines = [f" {word}" for word in words] * 20 + [f" {word}" for word in [*COLOURS, *NUMBERS]] * 50
    for seed in range(4):
        lines += corpus_lines(nouns, seed)
    return lines


def train(lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Sequence(
        [Split(Regex(PIECE), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=NUM_TOKENS,
        special_tokens=SPECIAL,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    assert tokenizer.get_vocab_size() == NUM_TOKENS, tokenizer.get_vocab_size()
    return tokenizer


if __name__ == "__main__":
    nouns = json.loads((HERE / "vocabulary.json").read_text())["nouns"]
    train(corpus(nouns)).save(str(HERE.parent / "tokenizer.json"))
