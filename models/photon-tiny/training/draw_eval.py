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
Styles: "trained" (all trained ones), "shipped" (those whose drawings may be in the repository), or one style's name.
Sprites are turned by 10 to 13 degrees, which training never does.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

import torch
from PIL import Image

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent.parent)]

import questions  # noqa: E402
from facts import Facts, at, pick  # noqa: E402
from library import Library, load_library  # noqa: E402
from phrasebook import Phrasebook  # noqa: E402
from questions import Asked, is_fair  # noqa: E402
from scenes import Scenes, compose  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

SMALLEST_SIDE, LARGEST_SIDE = 160, 640
MOST = 10


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--style", default="trained")
    parser.add_argument("--out", type=Path, required=True)
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
    made = []
    for kind, one in asked.items():
        if bool(one.fair):
            row = {"task": "query", "kind": kind, "text": book.text(one.question), "answer": book.text(one.answer)}
            if one.point is not None:
                row["point"] = [round(x, 5) for x in one.point[0].tolist()]
            made.append(row)
    return made


def main() -> None:
    o = parse_arguments()
    o.out.mkdir(parents=True, exist_ok=True)
    library = load_library(HERE, device="cpu", num_backdrops=200, seed=o.seed)
    config = json.loads((HERE.parent / "config.json").read_text())
    book = Phrasebook(Tokenizer.from_file(str(HERE.parent / "tokenizer.json")), library.vocabulary, config, "cpu")
    torch.manual_seed(o.seed)
    rng, pictures = random.Random(o.seed), []
    while len(pictures) < o.count:
        width, height = random_size(rng)
        scenes = compose(library, 1, width, height, held_out=True, style=None if o.style == "trained" else o.style)
        name = f"{len(pictures):04d}.webp"
        asked = questions_of(scenes, library, book)
        if not any(q["task"] == "detect" and q["boxes"] for q in asked):
            continue
        Image.fromarray(scenes.drawn.canvas[0].permute(1, 2, 0).numpy()).save(o.out / name, quality=o.quality, method=4)
        pictures.append(
            {"file": name, "width": width, "height": height, "objects": objects_of(scenes, library), "questions": asked}
        )
    (o.out / "scenes.json").write_text(json.dumps({"seed": o.seed, "style": o.style, "pictures": pictures}) + "\n")


if __name__ == "__main__":
    main()
