"""Captions of a batch of scenes: what is there, grouped by noun; the long ones also say where, and what is largest."""

from __future__ import annotations

import phrases
import torch
from constants import constant
from facts import Facts, at
from phrasebook import Phrasebook
from phrases import MAX_COUNT
from slots import Group, Slots, text_slot
from torch import Tensor

MAX_GROUPS = 5
LENGTHS = ["short", "normal", "long"]
SHORT_GROUPS = 2


def caption_slot(facts: Facts, book: Phrasebook, length: int) -> Slots:
    """A caption prompt of a random length and its caption for every picture."""
    n, device = len(facts.noun), facts.noun.device
    kind = torch.randint(3, (n,), device=device)
    pieces = _pieces(facts, book, kind)
    ids, lengths = book.join(pieces, length)
    return text_slot(ids, lengths, book.lengths[pieces[:, 0]], Group.CAPTION, torch.ones_like(kind, dtype=torch.bool))


def _pieces(facts: Facts, book: Phrasebook, kind: Tensor) -> Tensor:
    n, device = len(kind), kind.device
    leader, counts, where, area = _groups(facts)
    is_short, is_long = kind == 0, kind == 2
    key = torch.where(is_short[:, None], -area, facts.centres[..., 0])
    order = torch.where(leader, key, 99.0).argsort(1)[:, :MAX_GROUPS]
    num = leader.sum(1).clamp(max=MAX_GROUPS)
    num = torch.where(is_short, num.clamp(max=SHORT_GROUPS), num)
    opener = _openers(book, kind, counts.gather(1, order[:, :1])[:, 0] > 1)
    columns = [
        torch.stack([book.captions[k] * torch.ones_like(kind) for k in LENGTHS], 1).gather(1, kind[:, None]),
        opener[:, None],
    ]
    for j in range(MAX_GROUPS):
        index = order[:, j : j + 1]
        noun, count, place = (x.gather(1, index)[:, 0] for x in (facts.noun, counts, where))
        opens = (opener == 0) & (j == 0)
        separator = torch.where(num - 1 == j, book.literal[" and"], book.literal[","]) * (j > 0)
        number = torch.where(
            opens, book.opening_numbers[count.clamp(max=MAX_COUNT)], book.number_words[count.clamp(max=MAX_COUNT)]
        )
        one = torch.where(opens, book.noun(noun, "Opening"), book.noun(noun, "a"))
        several = torch.stack([number, book.noun(noun, "many")], 1)
        single = torch.stack([torch.zeros_like(one), one], 1)
        words = torch.where(count[:, None] > 1, several, single)
        place_piece = book.places.flatten()[place] * is_long
        columns.append(torch.cat([separator[:, None], words, place_piece[:, None]], 1) * (j < num)[:, None])
    columns += _closing(facts, book, is_long & (num > 1))
    pieces = torch.cat(columns, 1)
    empty = torch.zeros_like(pieces)
    empty[:, 0], empty[:, 1] = pieces[:, 0], book.literal["An empty picture."]
    pieces = torch.where((num == 0)[:, None], empty, pieces)
    return torch.cat([pieces, torch.full((n, 1), book.end, device=device)], 1)


def _openers(book: Phrasebook, kind: Tensor, begins_with_several: Tensor) -> Tensor:
    out = torch.zeros_like(kind)
    for i, name in enumerate(LENGTHS):
        texts = phrases.CAPTION_OPENERS[name]
        forms = tuple((book.literal.get(t, 0), book.literal.get(phrases.PLURAL_OPENERS.get(t, t), 0)) for t in texts)
        chosen = constant(forms, kind.device)[torch.randint(len(texts), kind.shape, device=kind.device)]
        out = torch.where(kind == i, at(chosen, begins_with_several.long()), out)
    return out


def _closing(facts: Facts, book: Phrasebook, says_largest: Tensor) -> list[Tensor]:
    size = facts.boxes[..., 2:] - facts.boxes[..., :2]
    areas = size.prod(-1) * facts.clear
    largest = areas.argmax(1, keepdim=True)
    # Only where the largest is plainly so.
    second = areas.scatter(1, largest, 0).amax(1)
    plainly = (areas.amax(1) > 1.3 * second) & says_largest
    the = book.noun(facts.noun.gather(1, largest)[:, 0], "the")
    stop = torch.full_like(the, book.literal["."])
    says = torch.full_like(the, book.literal[" The largest is"])
    return [stop[:, None], torch.stack([says, the, stop], 1) * plainly[:, None]]


def _groups(facts: Facts) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of every object: whether it is its noun's leftmost clear one; of its noun: count, place (0-8), summed area."""
    same = (facts.noun[:, :, None] == facts.noun[:, None]) & facts.clear[:, :, None] & facts.clear[:, None]
    x = facts.centres[..., 0] + 1e-4 * facts.centres[..., 1]
    leader = facts.clear & ~(same & (x[:, None] < x[:, :, None])).any(2)
    weight = same.float()
    counts = same.sum(2)
    middle = (weight @ facts.centres) / counts.clamp(min=1)[..., None]
    third = (middle * 3).long().clamp(0, 2)
    area = (weight @ (facts.boxes[..., 2:] - facts.boxes[..., :2]).prod(-1)[..., None])[..., 0]
    return leader, counts, third[..., 1] * 3 + third[..., 0], area
