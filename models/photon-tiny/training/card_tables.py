"""Every table of the model card in one command: `card_tables.py --device cuda --dtype bfloat16`, Markdown on stdout.

Sets of scenes that are not under `--sets` yet are drawn there by draw_eval.py first, which needs what sprites.py and
photos.py build; a machine to which they were carried needs no more than Photon.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT))

import photon  # noqa: E402
from photon.bench.evaluate import BATCH_SIZE, Figure, evaluate, read_questions  # noqa: E402


@dataclass(frozen=True)
class Set:
    """Scenes as draw_eval.py is told to draw them; the folder has the style's name."""

    style: str
    seed: int
    count: int
    relations: int
    colours: int
    title: str


SETS = (
    Set("trained", 7, 300, 250, 200, "Held-out scenes in the trained styles"),
    Set("openmoji", 8, 120, 100, 80, "Held-out scenes in a style that it never saw (OpenMoji)"),
    Set("sweethome3d", 9, 120, 100, 80, "Held-out scenes of rendered household objects alone"),
    Set("photos", 10, 120, 100, 80, "Photographs cut out, which it never saw and is not for"),
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=Path, default=ROOT / "build" / "eval", help="folder of the sets' folders")
    parser.add_argument("--only", choices=[s.style for s in SETS], nargs="+", help="not all of them")
    parser.add_argument("--model", default="photon-tiny", help="a name or a folder")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--limit", type=int, help="pictures of each set")
    return parser.parse_args()


def draw(one: Set, folder: Path) -> None:
    numbers = {"--seed": one.seed, "--count": one.count, "--relations": one.relations, "--colours": one.colours}
    options = [text for name, value in numbers.items() for text in (name, str(value))]
    command = [sys.executable, str(HERE / "draw_eval.py"), "--style", one.style, *options, "--out", str(folder)]
    subprocess.run(command, check=True)


def markdown(title: str, figures: Sequence[Figure]) -> str:
    lines = [f"### {title}", "", "| figure | value | 95% | chance | of |", "|---|---|---|---|---|"]
    for f in figures:
        lines.append(f"| {f.name} | {f.value:.3f} | {f.low:.3f} to {f.high:.3f} | {f.chance:.3f} | {f.count} |")
    return "\n".join(lines)


def main() -> None:
    o = parse_arguments()
    chosen = [one for one in SETS if not o.only or one.style in o.only]
    for one in chosen:
        if not (o.sets / one.style / "scenes.json").is_file():
            draw(one, o.sets / one.style)
    with photon.Engine(o.model, device=o.device, dtype=o.dtype, max_batch_size=BATCH_SIZE) as engine:
        print(f"By {engine.description}.")
        for one in chosen:
            questions, started = read_questions(o.sets / one.style, limit=o.limit), time.perf_counter()
            figures = evaluate(engine, questions)
            print(f"\n{markdown(one.title, figures)}", flush=True)
            print(f"{one.style}: {len(questions)} questions, {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
