"""Draws held-out scenes and their questions into a folder, for `photon eval FOLDER`.

`draw_eval.py --seed 7 --count 400 --style trained --out DIR` writes DIR/0000.webp ... and DIR/scenes.json:

    {"seed": 7, "style": "trained", "pictures": [{
        "file": "0000.webp", "width": 400, "height": 304,
        "objects": [{"noun": "banana", "box": [x_min, y_min, x_max, y_max], "colour": "yellow" | null, "seen": 1.0}],
        "questions": [
            {"task": "detect", "text": "banana", "boxes": [[...], ...]},            absent: no boxes
            {"task": "point", "text": "banana", "boxes": [[...], ...]},             a point in each box, or none
            {"task": "query", "kind": "count", "text": "How many bananas are there?", "answer": "2"},
            {"task": "query", "kind": "is_there" | "colour" | "relation", "text": ..., "answer": ...},
            {"task": "query", "kind": "here", "text": "What is here?", "point": [x, y], "answer": "banana" | "nothing"},
            {"task": "caption", "length": "short" | "normal" | "long", "nouns": [["banana", "bananas"], ...]}]}]}

Boxes are exact, of what is visible, in units of the sides; objects less than half seen are listed but never asked for.
Styles: "trained" (all trained ones), "shipped" (those whose drawings may be in the repository), or one style's name:
"openmoji", never trained on; "sweethome3d", the renders; "photos", cut-outs that photos.py packs, never trained on.
Sprites are turned by 10 to 13 degrees, which training never does.
Few scenes bear a question about places or colours. `--relations N` and `--colours N` add pictures of the same kind that
are asked nothing else, until there are so many; the first `--count` pictures are the same with and without them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from PIL import Image

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent)]

import questions  # noqa: E402
from facts import Facts, at, pick  # noqa: E402
from library import Library, load_library  # noqa: E402
from phrasebook import Phrasebook  # noqa: E402
from questions import Asked, is_fair  # noqa: E402
from scenes import Layout, Scenes, draw_layout, sample_layout  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

SMALLEST_SIDE, LARGEST_SIDE = 160, 640
MOST = 10
PACKS = {"photos": "photos"}  # styles whose sprites are not in the atlas
FURTHER = 20  # layouts tried for each picture at most before it is given up that enough is asked


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--style", default="trained")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--relations", type=int, default=0, help="questions about places at least")
    parser.add_argument("--colours", type=int, default=0, help="questions about colours at least")
    parser.add_argument("--quality", type=int, default=92, help="of the WebP files")
    return parser.parse_args()


def random_size(rng: random.Random) -> tuple[int, int]:
    while True:
        width, height = rng.randint(SMALLEST_SIDE, LARGEST_SIDE), rng.randint(SMALLEST_SIDE, LARGEST_SIDE)
        if max(width, height) <= 2 * min(width, height):
            return width, height


def objects_of(scenes: Scenes, library: Library) -> list[dict]:
    found = []
    for noun, colour, seen, box in zip(
        scenes.noun[0].tolist(),
        scenes.colour[0].tolist(),
        scenes.seen[0].tolist(),
        scenes.boxes[0].tolist(),
        strict=True,
    ):
        if noun < library.num_nouns and seen > 0:
            word = None if colour < 0 else questions.COLOURS[colour]
            entry = library.vocabulary[noun]["noun"]
            found.append({"noun": entry, "box": [round(x, 5) for x in box], "colour": word, "seen": round(seen, 3)})
    return found


def questions_of(scenes: Scenes, library: Library, book: Phrasebook) -> list[dict]:
    """All fair questions of one scene: grounding of a present and an absent noun, each short kind, a caption."""
    facts = Facts.of(scenes, library)
    made = [*_grounding(facts, library), *_short(facts, library, book)]
    clear = sorted(set(facts.noun[0][facts.clear[0]].tolist()))
    names = [[library.vocabulary[i]["noun"], library.vocabulary[i]["plural"]] for i in clear]
    if names:
        length = ["normal", "long", "short"][int(torch.randint(2 if len(names) > 2 else 3, ()))]
        made.append({"task": "caption", "length": length, "nouns": names})
    return made


def _grounding(facts: Facts, library: Library) -> list[dict]:
    made = []
    chosen, _ = pick(facts.clear)
    absent = torch.randint(library.num_nouns, (1,))
    if not bool(((facts.noun == absent) & facts.visible).any()) and bool(is_fair(facts, library, absent)):
        made += [
            {"task": task, "text": library.vocabulary[int(absent)]["noun"], "boxes": []} for task in ("detect", "point")
        ]
    noun = at(facts.noun, chosen)
    wanted = ((facts.noun == noun) & facts.clear)[0]
    if bool(facts.clear.any()) and bool(is_fair(facts, library, noun)) and int(wanted.sum()) <= MOST:
        boxes = sorted(
            ([round(x, 5) for x in box] for box in facts.boxes[0][wanted].tolist()),
            key=lambda b: (b[0] + b[2], b[1] + b[3]),
        )
        made += [
            {"task": task, "text": library.vocabulary[int(noun)]["noun"], "boxes": boxes}
            for task in ("detect", "point")
        ]
    return made


def _short(facts: Facts, library: Library, book: Phrasebook) -> list[dict]:
    asked: dict[str, Asked] = {
        "count": questions.ask_count(facts, library, book),
        "is_there": questions.ask_is_there(facts, library, book),
        "colour": questions.ask_colour(facts, book),
        "relation": questions.ask_beside(facts, book),
        "here": questions.ask_here(facts, book),
    }
    return [_row(kind, one, book) for kind, one in asked.items() if bool(one.fair)]


def _row(kind: str, asked: Asked, book: Phrasebook) -> dict:
    row: dict[str, Any] = {
        "task": "query",
        "kind": kind,
        "text": book.text(asked.question),
        "answer": book.text(asked.answer),
    }
    if asked.point is not None:
        row["point"] = [round(x, 5) for x in asked.point[0].tolist()]
    return row


def may_bear(layout: Layout, library: Library, missing: Counter[str]) -> bool:
    """Whether a question that is missing can be asked of the layout once drawn: it needs an only one of its noun."""
    noun = library.noun_S[layout.sprite[0]]
    there = (layout.size[0] > 0) & (noun < library.num_nouns)
    single = there & ((noun[:, None] == noun) & there).sum(1).eq(1) & ~layout.part[0]
    coloured = single & (library.colour_S[layout.sprite[0]] >= 0)
    return bool(missing["colour"] and coloured.any()) or bool(missing["relation"] and single.any() and there.sum() > 1)


def rare_questions(facts: Facts, book: Phrasebook, missing: Counter[str]) -> list[dict]:
    """A question about places and one about colours, tried once as for every picture, where they are missing."""
    asks = {"relation": questions.ask_beside, "colour": questions.ask_colour}
    tried = {kind: ask(facts, book) for kind, ask in asks.items() if missing[kind]}
    return [_row(kind, asked, book) for kind, asked in tried.items() if bool(asked.fair)]


def draw_set(
    library: Library, book: Phrasebook, *, seed: int, count: int, style: str, least: dict[str, int]
) -> Iterator[tuple[Image.Image, dict]]:
    """Pictures and their rows of scenes.json without the file's name; `least` questions of the rare kinds."""
    torch.manual_seed(seed)
    rng, drawn, missing = random.Random(seed), 0, Counter(least)

    def layout() -> tuple[Layout, int, int]:
        sides = random_size(rng)
        return sample_layout(library, 1, *sides, held_out=True, style=None if style == "trained" else style), *sides

    def picture(scenes: Scenes, asked: list[dict]) -> tuple[Image.Image, dict]:
        image = Image.fromarray(scenes.drawn.canvas[0].permute(1, 2, 0).numpy())
        sides = {"width": image.width, "height": image.height}
        return image, {**sides, "objects": objects_of(scenes, library), "questions": asked}

    while drawn < count:
        scenes = draw_layout(library, *layout())
        asked = questions_of(scenes, library, book)
        if any(q["task"] == "detect" and q["boxes"] for q in asked):
            drawn += 1
            missing -= Counter(q["kind"] for q in asked if q["task"] == "query")  # never below zero
            yield picture(scenes, asked)
    for _ in range(FURTHER * count):
        if not missing:
            break
        further = layout()
        if not may_bear(further[0], library, missing):
            continue
        scenes = draw_layout(library, *further)
        if asked := rare_questions(Facts.of(scenes, library), book, missing):
            missing -= Counter(q["kind"] for q in asked)
            yield picture(scenes, asked)


def main() -> None:
    o = parse_arguments()
    o.out.mkdir(parents=True, exist_ok=True)
    pack = PACKS.get(o.style, "atlas")
    library = load_library(HERE, device="cpu", num_backdrops=200, seed=o.seed, pack=pack)
    config = json.loads((HERE.parent / "config.json").read_text())
    book = Phrasebook(Tokenizer.from_file(str(HERE.parent / "tokenizer.json")), library.vocabulary, config, "cpu")
    least = {"relation": o.relations, "colour": o.colours}
    pictures = []
    for image, row in draw_set(library, book, seed=o.seed, count=o.count, style=o.style, least=least):
        name = f"{len(pictures):04d}.webp"
        image.save(o.out / name, quality=o.quality, method=4)
        pictures.append({"file": name, **row})
    (o.out / "scenes.json").write_text(json.dumps({"seed": o.seed, "style": o.style, "pictures": pictures}) + "\n")


if __name__ == "__main__":
    main()
