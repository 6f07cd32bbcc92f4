"""The committed material of the bundled model: its nouns, its tokenizer, the sources of its pictures."""

from __future__ import annotations

import itertools
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from photon.text.tokenizer import Tokenizer

MODEL = Path(__file__).parents[1] / "models" / "photon-tiny"
TRAINING = MODEL / "training"
FREE = {"MIT", "Apache-2.0", "CC-BY-4.0", "CC-BY-2.0", "CC0-1.0 and CC-BY-3.0", "CC0-1.0 and public domain"}
COLOURS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@pytest.fixture(scope="module")
def nouns() -> list[dict]:
    return json.loads((TRAINING / "vocabulary.json").read_text())["nouns"]


@pytest.fixture(scope="module")
def sources() -> list[dict]:
    return tomllib.loads((TRAINING / "sprite_sources.toml").read_text())["source"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(MODEL / "tokenizer.json")


def test_a_word_means_one_noun(nouns: list[dict]) -> None:
    for entry in nouns:
        own = {entry["noun"], entry["plural"], *entry["aliases"]}
        others = {w for e in nouns if e is not entry for w in (e["noun"], e["plural"], *e["aliases"])}
        assert not own & others, entry["noun"]


def test_articles_follow_the_sound(nouns: list[dict]) -> None:
    said_with_y = ("unicorn", "UFO")
    silent_h = ("hourglass",)
    for entry in nouns:
        noun = entry["noun"]
        starts_with_vowel = noun.lower()[0] in "aeiou" and noun not in said_with_y or noun in silent_h
        assert entry["article"] == ("an" if starts_with_vowel else "a"), noun


def test_plurals(nouns: list[dict]) -> None:
    plural = {entry["noun"]: entry["plural"] for entry in nouns}
    expected = {
        "sheep": "sheep", "deer": "deer", "leaf": "leaves", "wolf": "wolves", "knife": "knives", "mouse": "mice",
        "fish": "fish", "bus": "buses", "fox": "foxes", "tomato": "tomatoes", "candy": "candies", "cactus": "cacti",
        "watch": "watches", "snowman": "snowmen", "key": "keys", "strawberry": "strawberries", "dice": "dice",
    }  # fmt: skip
    assert {noun: plural[noun] for noun in expected} == expected
    for noun, many in plural.items():
        if many == noun + "s":
            assert not re.search(r"(s|x|z|ch|sh|[^aeiou]y|[^f]fe|man)$", noun), noun


def test_relations_go_both_ways(nouns: list[dict]) -> None:
    related = {entry["noun"]: entry["related"] for entry in nouns}
    for noun, others in related.items():
        assert noun not in others
        for other in others:
            assert noun in related[other], (noun, other)


def test_every_noun_can_be_trained(nouns: list[dict], sources: list[dict]) -> None:
    use = {source["style"]: source["use"] for source in sources}
    for entry in nouns:
        styles = {style for emoji in entry["emoji"] for style in emoji["styles"]}
        assert styles <= use.keys(), entry["noun"]
        independent = {style.split("-")[0] if style.startswith("fluent") else style for style in styles}
        trained = {style for style in independent if use.get(style) != "hold out"}
        assert len(trained) >= 3 or len(entry["furniture"]) >= 5, entry["noun"]


def test_no_drawing_shows_two_nouns(nouns: list[dict]) -> None:
    drawings = [
        (style, name) for entry in nouns for emoji in entry["emoji"] for style, name in emoji["styles"].items()
    ] + [("sweethome3d", name) for entry in nouns for name in entry["furniture"]]
    assert len(drawings) == len(set(drawings))


def test_only_free_art_is_trained_on(sources: list[dict]) -> None:
    for source in sources:
        assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"]), source["style"]
        assert source["licence"] in FREE or source["use"] in ("hold out", "evaluate"), source["style"]
    assert [s["style"] for s in sources if s["use"] == "hold out"] == ["openmoji"]
    assert [s["style"] for s in sources if s["use"] == "evaluate"] == ["photos"]
    attribution = (MODEL / "ATTRIBUTION.md").read_text()
    for source in sources:
        assert source["package"] in attribution and source["version"] in attribution, source["style"]
        assert source["link"] in attribution, source["style"]


def test_photographs_stand_for_our_nouns(nouns: list[dict]) -> None:
    """Each for one, and those without a colour word are among them."""
    chosen = tomllib.loads((TRAINING / "photos.toml").read_text())
    stamps = [stamp for many in chosen["stamps"].values() for stamp in many]
    assert chosen["stamps"].keys() <= {entry["noun"] for entry in nouns}
    assert len(stamps) == len(set(stamps)) and set(chosen["colour_disputed"]) < set(stamps)
    assert not [stamp for stamp in stamps if "cartoon" in stamp]  # as the package names its drawings


def test_training_opens_no_photographs() -> None:
    """What trains names no pack of sprites, so that it gets the atlas alone."""
    for module in ("train", "batches", "feeder", "peers", "decoding", "losses"):
        path = TRAINING / f"{module}.py"
        assert not path.is_file() or not re.search(r"pack\s*=|photos", path.read_text()), module


def test_ids_of_the_tokenizer(tokenizer: Tokenizer) -> None:
    assert tokenizer.num_tokens == 1024
    assert tokenizer.special_ids == frozenset(range(16))
    assert sorted(tokenizer.text_bytes[16:272]) == [bytes([byte]) for byte in range(256)]
    assert len(set(tokenizer.text_bytes[16:])) == 1008


@pytest.mark.parametrize(
    "text", ["A cat.", "  two\n\nlines ", "Zürich 你好 🙂", "a\x00b", "<|end|>", "T-shirts, 1024!"]
)
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert min(ids) >= 16


def test_digits_stand_alone(tokenizer: Tokenizer) -> None:
    assert all(len(re.findall(rb"[0-9]", text)) <= 1 for text in tokenizer.text_bytes)
    assert len(tokenizer.encode("1024")) == 4


def test_pieces_join(tokenizer: Tokenizer, nouns: list[dict]) -> None:
    """Training joins texts from encoded pieces, so a border before a space or a sign must not change an id."""
    words = [word for entry in nouns for word in (entry["noun"], entry["plural"], *entry["aliases"])]
    heads = ["How many", "A picture of", "What's", "x.", "3", "it is ", *words]
    tails = [f" {w}" for w in [*words, *COLOURS, *NUMBERS, *"0123456789"]] + list(".,?!'-:;") + ["'s here", ", and"]
    encoded = {text: tokenizer.encode(text) for text in {*heads, *tails}}
    borders = [*itertools.product(heads[:40], tails), *itertools.product(heads, tails[:10] + tails[-30:])]
    for head, tail in borders:
        assert encoded[head] + encoded[tail] == tokenizer.encode(head + tail), (head, tail)


def test_most_nouns_are_short(tokenizer: Tokenizer, nouns: list[dict]) -> None:
    lengths = sorted(len(tokenizer.encode(f" {entry['noun']}")) for entry in nouns)
    assert lengths[len(lengths) * 85 // 100] <= 3
    assert lengths[-1] <= 8


def test_colour_words() -> None:
    """Flat squares of colours with agreed names (CSS), a square of two colours, and a crimson that splits opinions."""
    image = pytest.importorskip("PIL.Image")
    sys.path.insert(0, str(TRAINING))
    try:
        from drawing import colour_word, to_cell  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(TRAINING))
    named = {
        "red": "#ff0000", "orange": "#ff7f00", "yellow": "#ffff00", "green": "#008000", "blue": "#0000ff",
        "purple": "#800080", "pink": "#ffc0cb", "brown": "#8b4513", "black": "#000000", "white": "#ffffff",
        "gray": "#808080", None: "#c00a4a",
    }  # fmt: skip
    for word, css in named.items():
        cell, box = to_cell(image.new("RGBA", (50, 25), css))
        assert colour_word(cell) == word
        assert box == [2, 29, 110, 83]
    halves = image.new("RGBA", (40, 40), "red")
    halves.paste(image.new("RGBA", (20, 40), "blue"), (0, 0))
    assert colour_word(to_cell(halves)[0]) is None
