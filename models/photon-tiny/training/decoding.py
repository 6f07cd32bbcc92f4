"""Greedy answers of the model in training to held-out scenes, in batches, and how right they are.

The whole slot is run again for every new position: simple, and fast enough for a few hundred pictures. The figures that
count come from the engine; these only steer training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import captions
import questions
import torch
from batches import held_out_scenes, join_views
from cutting import cut
from facts import Facts, at, pick
from library import Library
from losses import embed_slots, slot_frame, text_hidden
from phrasebook import Phrasebook
from questions import answer_slot, is_fair
from slots import Group, Slots
from torch import Tensor

from photon.bench import quality
from photon.bench.quality import Matches
from photon.models.moondream import region, text, vision
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.weights import MoondreamWeights

MOST = 10  # objects a question, in answers and truths
CANVASES = [(224, 208), (400, 304), (640, 480), (320, 512)]
TEXT_KINDS = ("count", "there", "colour", "beside", "here")


@dataclass
class Writer:
    """Slots [n, L] filled one position at a time; `last` [n] is the last filled one."""

    w: MoondreamWeights
    c: MoondreamConfig
    image: Tensor
    embeds: Tensor
    last: Tensor

    def hidden(self) -> Tensor:
        frame = slot_frame(self.image.shape[1] + 1, (self.embeds.shape[1],), self.embeds.device.type)
        return at(text_hidden(self.w, self.c, self.image, self.embeds, frame), self.last)

    def feed(self, embeds: Tensor) -> None:
        self.last = (self.last + 1).clamp(max=self.embeds.shape[1] - 1)
        self.embeds[torch.arange(len(self.last), device=self.last.device), self.last] = embeds.to(self.embeds.dtype)


def ground_greedily(writer: Writer, book: Phrasebook, *, with_sizes: bool) -> tuple[Tensor, Tensor, Tensor]:
    """counts [n], centres and sizes [n, MOST, 2] of what the prompts ask for."""
    w, n, device = writer.w, len(writer.last), writer.last.device
    counts, goes_on = torch.zeros(n, dtype=torch.long, device=device), torch.ones(n, dtype=torch.bool, device=device)
    centres, sizes = torch.zeros(n, MOST, 2, device=device), torch.full((n, MOST, 2), 0.1, device=device)
    for item in range(MOST):
        hidden = writer.hidden()
        logits = text.lm_logits(w.text, hidden)
        goes_on = goes_on & (logits[:, book.coord_id] > logits[:, book.end_id])
        counts += goes_on
        if not bool(goes_on.any()):
            break
        for axis in range(2):
            hidden = hidden if axis == 0 else writer.hidden()
            bins = region.coordinate_logits(w.region, hidden).argmax(-1)
            centres[:, item, axis] = region.bins_to_coordinate(bins, writer.c.region.coord_out_dim)
            writer.feed(region.encode_coordinate(w.region, centres[:, item, axis]))
        if with_sizes:
            bins = region.size_logits(w.region, writer.hidden()).argmax(-1)
            sizes[:, item] = region.bins_to_size(bins, writer.c.region.size_out_dim // 2)
            writer.feed(region.encode_size(w.region, sizes[:, item]))
    return counts, centres, sizes


def write_greedily(writer: Writer, length: int) -> Tensor:
    """The ids that follow [n, length], zeros from the end on."""
    said, alive = [], torch.ones_like(writer.last, dtype=torch.bool)
    for _ in range(length):
        ids = text.lm_logits(writer.w.text, writer.hidden()).argmax(-1) * alive
        said.append(ids)
        alive = alive & (ids != 0)
        if not bool(alive.any()):
            break
        writer.feed(writer.w.text.wte[ids])
    out = torch.stack(said, 1)
    return torch.nn.functional.pad(out, (0, length - out.shape[1]))


class Evaluation:
    """Questions about one batch of held-out scenes, answered by a model; figures accumulate over batches."""

    def __init__(self, library: Library, book: Phrasebook, config: MoondreamConfig) -> None:
        self.library, self.book, self.c = library, book, config
        self.boxes = {0.5: Matches(), 0.75: Matches()}
        self.points = Matches()
        self.counted: list[bool] = []
        self.absent: list[bool] = []
        self.recall: list[float] = []
        self.right: dict[str, list[bool]] = {kind: [] for kind in TEXT_KINDS}

    @torch.no_grad()
    def add(self, w: MoondreamWeights, n: int, size: tuple[int, int], seed: int, style: str | None = None) -> None:
        scenes = held_out_scenes(self.library, n, size, seed, style)
        one = cut(scenes, self.c.vision, self.library.num_nouns, augment=False)
        features = vision.encode_crops(w.vision, self.c.vision, one.pixels.flatten(0, 1).to(w.vision.pos_emb.dtype))
        image = vision.project(w.vision, *join_views(self.c.vision, features, [one]))
        facts = Facts.of(scenes, self.library)
        self._ground(w, image, facts)
        self._answers(w, image, facts)
        self._captions(w, image, facts)

    def _writer(self, w: MoondreamWeights, image: Tensor, slots: Slots, prompt_lengths: Tensor) -> Writer:
        return Writer(w, self.c, image, embed_slots(w, slots), prompt_lengths - 1)

    def _grounded(
        self, w: MoondreamWeights, image: Tensor, noun: Tensor, *, is_detect: bool
    ) -> list[list[list[float]]]:
        """Per picture the answers: boxes, or points."""
        n, book, no = len(noun), self.book, torch.zeros_like(noun, dtype=torch.bool)
        detect = no | is_detect
        ids, lengths = questions.ground_prompt(book, noun, noun * 0, no, detect, questions.PROMPT + 3 * MOST + 1)
        blank = questions.ground_slot(
            ids,
            lengths,
            image.new_zeros(n, 1, 2),
            image.new_ones(n, 1, 2),
            noun * 0,
            is_detect=detect,
            is_valid=no,
            coord_id=book.coord_id,
            size_id=book.size_id,
            end_id=book.end_id,
            noise=0.0,
        )
        counts, centres, sizes = ground_greedily(self._writer(w, image, blank, lengths), book, with_sizes=is_detect)
        answers = torch.cat([centres - sizes / 2, centres + sizes / 2], -1) if is_detect else centres
        return [row[:count] for row, count in zip(answers.tolist(), counts.tolist(), strict=True)]

    def _ground(self, w: MoondreamWeights, image: Tensor, facts: Facts) -> None:
        chosen, any_clear = pick(facts.clear)
        noun = at(facts.noun, chosen).clamp(max=self.library.num_nouns - 1)
        wanted = (facts.noun == noun[:, None]) & facts.clear
        fair = is_fair(facts, self.library, noun) & any_clear & (wanted.sum(1) <= MOST)
        found, pointed = (self._grounded(w, image, noun, is_detect=d) for d in (True, False))
        other = torch.randint(self.library.num_nouns, noun.shape, device=noun.device)
        gone = is_fair(facts, self.library, other) & ~((facts.noun == other[:, None]) & facts.visible).any(1)
        nothing = [self._grounded(w, image, other, is_detect=d) for d in (True, False)]
        boxes, keep = facts.boxes.tolist(), wanted.tolist()
        for i, (is_asked, is_gone) in enumerate(zip(fair.tolist(), gone.tolist(), strict=True)):
            truths = [tuple(box) for box, k in zip(boxes[i], keep[i], strict=True) if k]
            if is_asked:
                answers = [tuple(box) for box in found[i]]
                for level in self.boxes:
                    self.boxes[level] += quality.match_boxes(answers, truths, at_least=level)  # type: ignore[arg-type]
                self.points += quality.match_points([tuple(p) for p in pointed[i]], truths)  # type: ignore[arg-type]
                self.counted.append(len(answers) == len(truths))
            if is_gone:
                self.absent += [not said[i] for said in nothing]

    def _answers(self, w: MoondreamWeights, image: Tensor, facts: Facts) -> None:
        lib, book = self.library, self.book
        asked = [
            questions.ask_count(facts, lib, book),
            questions.ask_is_there(facts, lib, book),
            questions.ask_colour(facts, book),
            questions.ask_beside(facts, book),
            questions.ask_here(facts, book),
        ]
        for kind, one in zip(TEXT_KINDS, asked, strict=True):
            same, learnt = self._text(w, image, answer_slot(one, book), Group.ANSWER, 8)
            self.right[kind] += [ok for ok, counts in zip(same.tolist(), learnt.tolist(), strict=True) if counts]

    def _text(self, w: MoondreamWeights, image: Tensor, slots: Slots, group: Group, most: int) -> tuple[Tensor, Tensor]:
        """Whether the answer is the expected one, and whether the question is fair: bool [n] both."""
        learnt = slots.group == int(group)
        first = learnt.float().argmax(1)
        said = write_greedily(self._writer(w, image, slots, first + 1), most)
        index = (first[:, None] + torch.arange(most, device=first.device)).clamp(max=learnt.shape[1] - 1)
        expected = torch.where(learnt.gather(1, index), slots.target.gather(1, index), 0)
        return (said == expected).all(1), learnt.any(1)

    def _captions(self, w: MoondreamWeights, image: Tensor, facts: Facts) -> None:
        slots = captions.caption_slot(facts, self.book, questions.CAPTION_LENGTH)
        learnt = slots.group == int(Group.CAPTION)
        first = learnt.float().argmax(1)
        said = write_greedily(self._writer(w, image, slots, first + 1), questions.CAPTION_LENGTH - 5).tolist()
        expected = torch.where(learnt, slots.target, 0).tolist()
        forms = [(e["noun"], e["plural"]) for e in self.library.vocabulary]
        for i in range(len(said)):
            truth = self.book.tokenizer.decode([t for t in expected[i] if t])
            named = [f for f in forms if quality.noun_recall(truth, [f])]
            self.recall.append(quality.noun_recall(self.book.tokenizer.decode([t for t in said[i] if t]), named))

    def line(self) -> str:
        figures = {
            "F1": self.boxes[0.5].f1,
            "F1@.75": self.boxes[0.75].f1,
            "point": quality.point_hit_rate(self.points),
        }
        figures |= {"objects": quality.share(self.counted), "absent": quality.share(self.absent)}
        figures |= {kind: quality.share(right) for kind, right in self.right.items()}
        figures["caption"] = sum(self.recall) / max(1, len(self.recall))
        return " ".join(f"{name} {value:.3f}" for name, value in figures.items())

    @property
    def score(self) -> float:
        """One number to compare two sets of weights by."""
        return self.boxes[0.5].f1 + quality.point_hit_rate(self.points) + quality.share(self.absent)


def evaluate(
    make_weights: Callable[[], MoondreamWeights],
    library: Library,
    book: Phrasebook,
    c: MoondreamConfig,
    *,
    each: int,
    style: str | None = None,
) -> Evaluation:
    """`each` held-out scenes on every canvas of CANVASES; the same scenes every time."""
    evaluation = Evaluation(library, book, c)
    with torch.no_grad():
        w = make_weights()
        for i, size in enumerate(CANVASES):
            evaluation.add(w, each, size, seed=1_000_003 + i, style=style)
    return evaluation
