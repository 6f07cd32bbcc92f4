"""What people ask and what the model answers, as templates: pure text, no tensors and no scenes.

A template is a text with {names}; each name stands for one piece of text from a table (a noun's form, a number, a
colour, a side). Every piece begins with a space or punctuation, or opens the text, so that the ids of a whole are the
ids of its pieces joined: the tokenizer never merges across such a border.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = ["red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
MAX_COUNT = 16
SIDES = [[" to the left of", " left of"], [" to the right of", " right of"], [" above", " over"], [" below", " under"]]
# Rows from the top, columns from the left.
PLACES = [
    [" at the top left", " at the top", " at the top right"],
    [" on the left", " in the middle", " on the right"],
    [" at the bottom left", " at the bottom", " at the bottom right"],
]

DETECT = ["{one}", "{many}", "{a}", "{the}"]
DETECT_COLOURED = ["{colour}{one}", "{colour}{many}"]
COUNT = [
    "How many{many} are there?",
    "How many{many} do you see?",
    "How many{many} are in the picture?",
    "How many{many} can you see?",
    "How many{many} are there in the image?",
    "Count the{many}.",
]
IS_THERE = [
    "Is there{a}?",
    "Is there{a} in the picture?",
    "Is there{a} in the image?",
    "Do you see{a}?",
    "Do you see{a} in the picture?",
    "Can you see{a}?",
    "Are there any{many}?",
    "Are there any{many} in the picture?",
]
COLOUR = [
    "What colour is{the}?",
    "What color is{the}?",
    "What is the colour of{the}?",
    "What is the color of{the}?",
    "Which colour is{the}?",
    "Which color is{the}?",
]
WHAT_IS_BESIDE = ["What is{side}{the}?", "What's{side}{the}?", "Which object is{side}{the}?"]
IS_BESIDE = ["Is{the}{side}{other}?", "Is{the}{side}{other} in the picture?"]
HERE = ["What is here?", "What is this?", "What is at this point?", "What's here?", "What is that?"]

CAPTION_OPENERS = {
    "short": [""],
    "normal": ["An illustration of", "The picture shows", "There is"],
    "long": ["The picture shows", "This illustration shows"],
}
PLURAL_OPENERS = {"There is": "There are"}  # where the first that follows is several
LARGEST = " The largest is{the}."


def forms(entry: Mapping[str, Any]) -> dict[str, str]:
    """The pieces that a noun can be: each begins with a space but for the two that open an answer."""
    noun, plural, phrase = entry["noun"], entry["plural"], f"{entry['article']} {entry['noun']}"
    return {
        "one": f" {noun}",
        "many": f" {plural}",
        "a": f" {phrase}",
        "the": f" the {noun}",
        "bare": noun,
        "Opening": phrase[0].upper() + phrase[1:],
    }


FORMS = ["one", "many", "a", "the", "bare", "Opening"]


def number_word(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def parts(template: str) -> list[str]:
    """A template cut at its names: literals and "{name}" in order, no empty ones."""
    return [part for part in re.split(r"(\{\w+\})", template) if part]


def all_questions() -> list[str]:
    return [*COUNT, *IS_THERE, *COLOUR, *WHAT_IS_BESIDE, *IS_BESIDE, *HERE]


def literals() -> list[str]:
    """Every fixed piece that training joins, noun forms and what is built from numbers excepted."""
    fixed = [p for t in [*all_questions(), LARGEST] for p in parts(t) if not p.startswith("{")]
    openers = [text for group in CAPTION_OPENERS.values() for text in group if text]
    sides = [text for side in SIDES for text in side]
    places = [text for row in PLACES for text in row]
    glue = [",", " and", ".", "Yes", "No", "nothing", "Nothing", "An empty picture."]
    return sorted({*fixed, *openers, *PLURAL_OPENERS.values(), *sides, *places, *glue})


def corpus_lines(vocabulary: Sequence[Mapping[str, Any]], seed: int = 0) -> list[str]:
    """Text like that of training, for the tokenizer: `vocabulary` entries have noun, plural, article and aliases."""
    rng = random.Random(seed)
    lines = []
    words = [forms(entry) for entry in vocabulary]
    for entry, word in zip(vocabulary, words, strict=True):
        other = rng.choice(words)
        side = rng.choice(rng.choice(SIDES))
        values = {**word, "other": other["the"], "side": side, "colour": f" {rng.choice(COLOURS)}"}
        questions = rng.sample([*all_questions(), LARGEST], 12)
        lines += [t.format(**values) for t in [*DETECT, *DETECT_COLOURED, *questions]]
        lines += [word["bare"], f"{rng.choice(COLOURS)}", f"{rng.randrange(MAX_COUNT)}", rng.choice(["Yes", "No"])]
        lines += [f" {alias}" for alias in entry["aliases"]]
        lines += [_caption(rng, [word, *rng.sample(words, rng.randrange(4))]) for _ in range(4)]
    return lines


def _caption(rng: random.Random, words: list[dict[str, str]]) -> str:
    opener = rng.choice([text for group in CAPTION_OPENERS.values() for text in group])
    items = []
    for index, word in enumerate(words):
        count = rng.choice([1, 1, 2, 3, rng.randrange(2, MAX_COUNT)])
        opens = index == 0 and not opener
        number = number_word(count)
        several = (number.capitalize() if opens else f" {number}") + word["many"]
        items.append(
            (several if count > 1 else word["Opening" if opens else "a"])
            + rng.choice(["", rng.choice(rng.choice(PLACES))])
        )
    joined = items[0] if len(items) == 1 else ",".join(items[:-1]) + " and" + items[-1]
    return opener + joined + "." + rng.choice(["", LARGEST.format(**words[0])])
