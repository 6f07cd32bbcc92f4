"""Tokenizer and detokenizer, against the `tokenizers` library's own whole decode and against UTF-8."""

import random
import time
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from photon.errors import ModelError
from photon.text.detokenizer import Detokenizer
from photon.text.tokenizer import Tokenizer

GOLDEN = Path(__file__).parent / "data" / "moondream2_tiny" / "tokenizer.json"
TEXTS = [
    "How many circles?",
    "naïve café – “quoted”",
    "猫が二匹います。椅子の上に一匹。",
    "👩‍👩‍👧‍👦 and 🇯🇵 and 🏳️‍🌈!",
    "tabs\tand\nnew lines  two spaces",
    "<|0|><|endoftext|> is text",
    "",
]


def trained() -> Backend:
    """A small byte-level BPE: merges across characters, a special token, and two plain added ones."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS * 3, trainer)
    backend.add_tokens([AddedToken("    ", normalized=False), AddedToken("<plain>", normalized=False)])
    return backend


@pytest.fixture(scope="module", params=["golden", "trained"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.from_file(GOLDEN) if request.param == "golden" else Tokenizer(trained())


def test_golden_ids_are_bytes_plus_16() -> None:
    tokenizer = Tokenizer.from_file(GOLDEN)
    assert tokenizer.num_tokens == 512 and tokenizer.special_ids == frozenset(range(16))
    for text in TEXTS:
        assert tokenizer.encode(text) == tuple(byte + 16 for byte in text.encode())
    text_bytes = tokenizer.text_bytes
    assert text_bytes[16:272] == tuple(bytes([byte]) for byte in range(256))
    assert text_bytes[300] == b"[300]"
    assert text_bytes[:16] == (b"",) * 16


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not tokenizer.special_ids.intersection(ids), "text never makes a special id"
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.text_bytes[i] for i in ids) == text.encode()


def test_special_ids_say_nothing(tokenizer: Tokenizer) -> None:
    special = min(tokenizer.special_ids)
    ids = tokenizer.encode("ab")
    assert tokenizer.decode([special, *ids, special]) == "ab"
    assert {i for i, said in enumerate(tokenizer.text_bytes) if not said} == tokenizer.special_ids
    assert len(tokenizer.text_bytes) == tokenizer.num_tokens


def test_added_tokens_that_are_plain_text() -> None:
    tokenizer = Tokenizer(trained())
    spaces, plain = tokenizer.num_tokens - 2, tokenizer.num_tokens - 1
    assert tokenizer.encode("x    <plain>")[1:] == (spaces, plain)
    assert tokenizer.text_bytes[-2:] == (b"    ", b"<plain>")


def test_unused_ids_say_nothing() -> None:
    vocabulary = {char: i for i, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))} | {"ab": 300}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[]))
    backend.decoder = decoders.Sequence([decoders.ByteLevel()])
    tokenizer = Tokenizer(backend)
    assert tokenizer.num_tokens == 301
    assert tokenizer.text_bytes[299:] == (b"", b"ab")


@pytest.mark.parametrize("text", TEXTS)
def test_chunks_join_to_the_text_and_never_break_a_character(tokenizer: Tokenizer, text: str) -> None:
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode(text)
    chunks = [detokenizer.push([i]) for i in ids] + [detokenizer.flush()]
    assert "".join(chunks) == text and chunks[-1] == ""
    assert not any("\ufffd" in chunk for chunk in chunks)
    for n in range(len(ids)):
        assert text.startswith("".join(chunks[: n + 1]))


def test_an_emoji_waits_for_its_last_byte() -> None:
    tokenizer = Tokenizer.from_file(GOLDEN)
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push([i]) for i in tokenizer.encode("a👍é")] == ["a", "", "", "", "👍", "", "é"]


@pytest.mark.parametrize("seed", range(40))
def test_any_ids_equal_the_whole_decode(tokenizer: Tokenizer, seed: int) -> None:
    """Random ids: broken UTF-8, special ids in the middle, an open character at the end."""
    rng = random.Random(seed)
    ids = [rng.randrange(tokenizer.num_tokens) for _ in range(rng.randrange(60))]
    detokenizer, said = Detokenizer(tokenizer), ""
    start = 0
    while start < len(ids):
        step = rng.randrange(1, 4)
        said += detokenizer.push(ids[start : start + step])
        start += step
    assert said + detokenizer.flush() == tokenizer.decode(ids)


def test_a_cut_character_is_told_at_the_end() -> None:
    tokenizer = Tokenizer.from_file(GOLDEN)
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(tokenizer.encode("ok 猫")[:-1]) == "ok "
    assert detokenizer.flush() == "\ufffd"


def test_time_grows_with_length_alone() -> None:
    tokenizer = Tokenizer.from_file(GOLDEN)

    def seconds(count: int) -> float:
        detokenizer, start = Detokenizer(tokenizer), time.perf_counter()
        for _ in range(count):
            detokenizer.push((0xF0 + 16,))  # never a whole character
        return time.perf_counter() - start

    seconds(1_000)
    assert seconds(80_000) < 60 * max(seconds(4_000), 1e-3)  # 20 times the tokens; a quadratic one takes 400 times


def test_sentence_piece_s_kind_says_the_bytes_of_its_tokens() -> None:
    """Spaces are U+2581 and what no piece holds is spelt in bytes. The library's decoder drops one space in front."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"\u2581abé", "\u2581a"]
    backend = Backend(
        models.BPE(
            {piece: i for i, piece in enumerate(pieces)}, [("\u2581", "a")], unk_token="<unk>", byte_fallback=True
        )
    )
    backend.normalizer = normalizers.Replace(" ", "\u2581")
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    backend.add_special_tokens(["</s>"])
    tokenizer = Tokenizer(backend)
    for text in (" ab a", "\N{GRINNING FACE} é a\n", "b  a b"):
        ids = tokenizer.encode(text)
        said = b"".join(tokenizer.text_bytes[i] for i in ids).decode()
        assert said == text and said.removeprefix(" ") == tokenizer.decode(ids)
        detokenizer = Detokenizer(tokenizer)
        assert "".join(detokenizer.push([i]) for i in ids) + detokenizer.flush() == text
    assert tokenizer.text_bytes[1] == b""


def test_other_kinds_of_tokenizer_are_told_apart() -> None:
    backend = Backend(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(" "), "removed")
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("b a") == (1, 0)
    with pytest.raises(ModelError, match="byte-level"):
        _ = tokenizer.text_bytes


@pytest.mark.parametrize("content", ["", "no json", "[]", "3", "{}", "\x00"])
def test_a_file_that_is_no_tokenizer(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match="tokenizer.json: not a tokenizer.json"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="no such tokenizer file"):
        Tokenizer.from_file(tmp_path / "none.json")
