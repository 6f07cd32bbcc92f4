"""Fourteen questions about every scene of a batch and their right answers, made on the device without a loop.

Three slots ground (detect, point), ten ask for a short answer, one for a caption. A fifth of the questions ask for what
is absent. A question whose answer is not clear (something half hidden, too many) is fed but not learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from captions import caption_slot
from constants import constant
from facts import Facts, at, pick
from library import Library
from phrasebook import Phrasebook
from phrases import COLOURS, MAX_COUNT
from slots import Group, Slots, ground_slot, join_slots, put_place, text_slot
from torch import Tensor

ABSENT = 0.2
DETECT_SHARE = 0.55
COLOURED = 0.12
PROMPT = 13  # positions of a grounding prompt at most
GROUND_OBJECTS = (10, 5, 5)
TEXT_LENGTH = 26
CAPTION_LENGTH = 64
SHORT_QUESTIONS = 10
SLOT_LENGTHS = (*(PROMPT + 3 * m for m in GROUND_OBJECTS), *[TEXT_LENGTH] * SHORT_QUESTIONS, CAPTION_LENGTH)
COUNT, IS_THERE, COLOUR, BESIDE, HERE = range(5)
FAR = 99.0  # sides
SHORT_SHARES = (0.16, 0.06, 0.05, 0.57, 0.16)  # what is harder to learn is asked more often
WHAT_SHARE = 0.8  # of the questions of what is beside what: those to be answered with a noun


def make_slots(facts: Facts, library: Library, book: Phrasebook) -> Slots:
    """The slots of every scene, side by side: SLOT_LENGTHS positions each."""
    grounded = [ground(facts, library, book, most) for most in GROUND_OBJECTS]
    short = [_short(facts, library, book) for _ in range(SHORT_QUESTIONS)]
    return join_slots([*grounded, *short, caption_slot(facts, book, CAPTION_LENGTH)])


def _pick_noun(facts: Facts, library: Library, absent_share: float) -> tuple[Tensor, Tensor]:
    """A noun for each picture, present or absent, and whether the question about it is fair."""
    n, device = len(facts.noun), facts.noun.device
    chosen, any_clear = pick(facts.clear)
    absent = (torch.rand(n, device=device) < absent_share) | ~any_clear
    noun = torch.where(absent, torch.randint(library.num_nouns, (n,), device=device), at(facts.noun, chosen))
    return noun, is_fair(facts, library, noun)


def is_fair(facts: Facts, library: Library, noun: Tensor) -> Tensor:
    """Whether every object of the noun is clear, and where there is none, no kin of it is in sight."""
    same = (facts.noun == noun[:, None]) & facts.visible
    kin = library.kin_VV[noun[:, None], facts.noun.clamp(max=library.num_nouns - 1)] & facts.visible
    return ~(same & ~facts.clear).any(1) & (same.any(1) | ~kin.any(1))


def ground(facts: Facts, library: Library, book: Phrasebook, most: int) -> Slots:
    n, device = len(facts.noun), facts.noun.device
    noun, fair = _pick_noun(facts, library, ABSENT)
    same = (facts.noun == noun[:, None]) & facts.clear
    chosen, _ = pick(same)
    other_colour = torch.rand(n, device=device) < 0.25
    colour = torch.where(other_colour, torch.randint(len(COLOURS), (n,), device=device), at(facts.colour, chosen))
    coloured = (
        (torch.rand(n, device=device) < COLOURED) & same.any(1) & (colour >= 0) & ~(same & (facts.colour < 0)).any(1)
    )
    wanted = same & (~coloured[:, None] | (facts.colour == colour[:, None]))
    counts = wanted.sum(1)
    order = torch.where(wanted, facts.centres[..., 0] + 1e-3 * facts.centres[..., 1], 9.0).argsort(1)[:, :most]
    index = order[..., None].expand(-1, -1, 2)
    sizes = (facts.boxes[..., 2:] - facts.boxes[..., :2]).clamp(min=1 / 512).gather(1, index)
    is_detect = torch.rand(n, device=device) < DETECT_SHARE
    prompt, lengths = ground_prompt(book, noun, colour, coloured, is_detect, PROMPT + 3 * most)
    return ground_slot(
        prompt,
        lengths,
        facts.centres.gather(1, index),
        sizes,
        counts.clamp(max=most),
        is_detect=is_detect,
        is_valid=fair & (counts <= most),
        coord_id=book.coord_id,
        size_id=book.size_id,
        end_id=book.end_id,
        noise=0.002,
    )


def ground_prompt(
    book: Phrasebook, noun: Tensor, colour: Tensor, coloured: Tensor, is_detect: Tensor, length: int
) -> tuple[Tensor, Tensor]:
    n, device = len(noun), noun.device
    values = {**book.noun_values(noun), "colour": book.colour_inside[colour.clamp(min=0)]}
    form = torch.multinomial(constant((0.5, 0.25, 0.15, 0.1), device), n, replacement=True)
    plain = book.detect_forms.fill(form, values)
    alias = torch.zeros_like(plain)
    alias[:, 0] = book.alias[noun, torch.randint(4, (n,), device=device)]
    plain = torch.where((torch.rand(n, 1, device=device) < 0.12), alias, plain)
    words = torch.where(coloured[:, None], book.detect_coloured.random(n, values), plain)
    prefix = torch.where(is_detect, book.detect, book.point)[:, None]
    return book.join(torch.cat([prefix, words, torch.full_like(prefix, book.ground)], 1), length)


@dataclass(frozen=True)
class Asked:
    """Question pieces [n, R], answer piece [n], whether it is fair, and the point it is about (NaN for none)."""

    question: Tensor
    answer: Tensor
    fair: Tensor
    point: Tensor | None = None


def _short(facts: Facts, library: Library, book: Phrasebook) -> Slots:
    """A question of a random kind; where that kind has no fair question, how many there are."""
    n, device = len(facts.noun), facts.noun.device
    kind = torch.multinomial(constant(SHORT_SHARES, device), n, replacement=True)
    asked = [
        ask_count(facts, library, book),
        ask_is_there(facts, library, book),
        ask_colour(facts, book),
        ask_beside(facts, book, WHAT_SHARE),
        ask_here(facts, book),
    ]
    fair = torch.stack([a.fair for a in asked], 1)
    kind = torch.where(at(fair, kind), kind, COUNT)
    question = torch.stack([a.question for a in asked], 1)[torch.arange(n, device=device), kind]
    answer = at(torch.stack([a.answer for a in asked], 1), kind)
    here = asked[HERE].point
    assert here is not None
    point = torch.where((kind == HERE)[:, None], here, float("nan"))
    return answer_slot(Asked(question, answer, at(fair, kind), point), book)


def answer_slot(asked: Asked, book: Phrasebook) -> Slots:
    """The prompt of a question (about a point where there is one) and its answer, TEXT_LENGTH positions."""
    has_place = torch.zeros_like(asked.fair) if asked.point is None else ~asked.point[:, 0].isnan()
    place = torch.where(has_place, book.place, 0)[:, None]
    fixed = [torch.full_like(place, piece) for piece in (book.query, book.answer, book.end)]
    pieces = torch.cat([fixed[0], place, asked.question, fixed[1], asked.answer[:, None], fixed[2]], 1)
    ids, lengths = book.join(pieces, TEXT_LENGTH)
    prompt_lengths = book.lengths[pieces[:, :-2]].sum(1)
    slots = text_slot(ids, lengths, prompt_lengths, Group.ANSWER, asked.fair & (lengths <= TEXT_LENGTH))
    if asked.point is not None:
        put_place(slots, book.query_length, asked.point)
    return slots


def _yes_no(book: Phrasebook, is_yes: Tensor) -> Tensor:
    return torch.where(is_yes, book.literal["Yes"], book.literal["No"])


def ask_count(facts: Facts, library: Library, book: Phrasebook) -> Asked:
    noun, fair = _pick_noun(facts, library, 0.12)
    counts = ((facts.noun == noun[:, None]) & facts.clear).sum(1).clamp(max=MAX_COUNT)
    return Asked(book.count.random(len(noun), book.noun_values(noun)), book.digits[counts], fair)


def ask_is_there(facts: Facts, library: Library, book: Phrasebook) -> Asked:
    noun, fair = _pick_noun(facts, library, 0.5)
    is_there = ((facts.noun == noun[:, None]) & facts.clear).any(1)
    return Asked(book.is_there.random(len(noun), book.noun_values(noun)), _yes_no(book, is_there), fair)


def _single(facts: Facts) -> Tensor:
    """Clear objects that are the only ones of their noun in sight: bool [n, K]."""
    same = (facts.noun[:, :, None] == facts.noun[:, None]) & facts.visible[:, None]
    return facts.clear & (same.sum(2) == 1)


def ask_colour(facts: Facts, book: Phrasebook) -> Asked:
    chosen, fair = pick(_single(facts) & (facts.colour >= 0))
    noun, colour = at(facts.noun, chosen), at(facts.colour, chosen).clamp(min=0)
    return Asked(book.colour.random(len(noun), book.noun_values(noun)), book.colour_alone[colour], fair)


def ask_beside(facts: Facts, book: Phrasebook, what_share: float = 0.5) -> Asked:
    """ "What is beside" for `what_share` of them, where that is clear; else "is this beside that"."""
    n, device = len(facts.noun), facts.noun.device
    side = torch.randint(4, (n,), device=device)
    side_piece = book.sides[side, torch.randint(book.sides.shape[1], (n,), device=device)]
    single = _single(facts)
    anchor, any_anchor = pick(single)
    anchor_noun = at(facts.noun, anchor)
    towards = constant(((-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0)), device)[side]
    offset = (facts.centres - at(facts.centres, anchor)[:, None]) * facts.extent[:, None]
    along = (offset * towards[:, None]).sum(-1)
    across = (offset * towards.flip(1)[:, None]).sum(-1).abs()

    distance = along + across
    beside = torch.where(facts.visible & (along > across) & (along > 0.08), distance, FAR)
    nearest, nearest_distance = beside.argmin(1), beside.amin(1)
    # Nothing else is about as near, in that direction or roughly in it.
    other_noun = facts.noun != at(facts.noun, nearest)[:, None]
    rivals = torch.where(facts.visible & other_noun & (along > 0.5 * across) & (along > 0.01), distance, FAR)
    clearly = (nearest_distance < FAR) & (rivals.amin(1) > 1.2 * nearest_distance) & at(facts.clear, nearest)
    what_fair = any_anchor & clearly & (at(facts.noun, nearest) != anchor_noun)
    what = book.what_is_beside.random(n, {**book.noun_values(anchor_noun), "side": side_piece})

    other, any_other = pick(single & (torch.arange(single.shape[1], device=device) != anchor[:, None]))
    gap = at(along, other)
    other_the = book.noun(anchor_noun, "the")
    is_it = book.is_beside.random(
        n, {**book.noun_values(at(facts.noun, other)), "side": side_piece, "other": other_the}
    )
    is_fair_here = any_anchor & any_other & (gap.abs() > 0.1)

    asks_what = (torch.rand(n, device=device) < what_share) & what_fair
    answer = torch.where(asks_what, book.noun(at(facts.noun, nearest), "bare"), _yes_no(book, gap > 0))
    return Asked(torch.where(asks_what[:, None], what, is_it), answer, asks_what | is_fair_here)


def ask_here(facts: Facts, book: Phrasebook) -> Asked:
    is_object, owner = facts.placed_on >= 0, facts.placed_on.clamp(min=0)
    fair = ~is_object | at(facts.clear, owner)
    answer = torch.where(is_object, book.noun(at(facts.noun, owner), "bare"), book.literal["nothing"])
    return Asked(book.here.random(len(facts.noun), {}), answer, fair, facts.place)
