"""Pieces of text as ids in one table on the device, and the joining of pieces into sequences there.

A piece's number is all that the question makers handle. Invariant: joining pieces gives the ids that the tokenizer
gives for the whole text (`check` proves it for a text).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import phrases
import torch
from phrases import COLOURS, FORMS, MAX_COUNT, PLACES, SIDES
from tokenizers import Tokenizer
from torch import Tensor

# What a template's name stands for is the number -1 - index in this list until values are put in.
NAMES = ["one", "many", "a", "the", "side", "other", "colour"]
LONGEST_TEMPLATE = 6


@dataclass(frozen=True)
class Templates:
    """Templates of one kind as rows of piece numbers, negative for a name: [templates, LONGEST_TEMPLATE]."""

    rows: Tensor

    def fill(self, chosen: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        """Pieces [n, LONGEST_TEMPLATE] of the chosen templates [n]; values are piece numbers [n] by name."""
        rows = self.rows[chosen]
        for i, name in enumerate(NAMES):
            if name in values:
                rows = torch.where(rows == -1 - i, values[name][:, None], rows)
        return rows

    def random(self, n: int, values: Mapping[str, Tensor]) -> Tensor:
        return self.fill(torch.randint(len(self.rows), (n,), device=self.rows.device), values)


class Phrasebook:
    """Numbers of pieces by what they say. Piece 0 is empty."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: list[dict], config: Mapping[str, Any], device: str) -> None:
        self.tokenizer = tokenizer
        self.device = device
        self._pieces: list[list[int]] = [[]]
        self._texts: list[str] = [""]  # of special ids: nothing
        self._number: dict[str, int] = {"": 0}
        special, templates = config["tokenizer"], config["tokenizer"]["templates"]
        self.coord_id, self.size_id, self.end_id = special["coord_id"], special["size_id"], special["eos_id"]
        self.start_of_form = {form: self._add_nouns(vocabulary, form) for form in FORMS}
        self.alias = torch.tensor(
            [[self._add(f" {a}") for a in (e["aliases"] * 4 or [e["noun"]] * 4)[:4]] for e in vocabulary], device=device
        )
        self.digits = self._line([str(i) for i in range(MAX_COUNT + 1)])
        self.number_words = self._line([f" {phrases.number_word(i)}" for i in range(MAX_COUNT + 1)])
        self.opening_numbers = self._line([phrases.number_word(i).capitalize() for i in range(MAX_COUNT + 1)])
        self.colour_inside = self._line([f" {c}" for c in COLOURS])
        self.colour_alone = self._line(COLOURS)
        self.sides = torch.tensor([[self._add(s) for s in side] for side in SIDES], device=device)
        self.places = torch.tensor([[self._add(p) for p in row] for row in PLACES], device=device)
        self.literal = {text: self._add(text) for text in phrases.literals()}
        self.captions = {k: self._add_ids(ids) for k, ids in templates["caption"].items()}
        self.query, self.answer = (
            self._add_ids(templates["query"]["prefix"]),
            self._add_ids(templates["query"]["suffix"] * 2),
        )
        self.query_length = len(templates["query"]["prefix"])
        self.detect, self.point = (
            self._add_ids(templates["detect"]["prefix"]),
            self._add_ids(templates["point"]["prefix"]),
        )
        self.ground = self._add_ids(templates["detect"]["suffix"])
        self.place = self._add_ids([self.coord_id, self.coord_id])
        self.end = self._add_ids([self.end_id])
        self.detect_forms = self._templates(phrases.DETECT)
        self.detect_coloured = self._templates(phrases.DETECT_COLOURED)
        self.count, self.is_there, self.colour = map(self._templates, (phrases.COUNT, phrases.IS_THERE, phrases.COLOUR))
        self.what_is_beside, self.is_beside, self.here = map(
            self._templates, (phrases.WHAT_IS_BESIDE, phrases.IS_BESIDE, phrases.HERE)
        )
        longest = max(map(len, self._pieces))
        self.table = torch.tensor([p + [0] * (longest - len(p)) for p in self._pieces], device=device)
        self.lengths = torch.tensor([len(p) for p in self._pieces], device=device)

    def noun(self, noun: Tensor, form: str) -> Tensor:
        return self.start_of_form[form] + noun.clamp(max=len(self.alias) - 1)

    def noun_values(self, noun: Tensor) -> dict[str, Tensor]:
        return {form: self.noun(noun, form) for form in ("one", "many", "a", "the")}

    def join(self, pieces: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Pieces [n, R] to ids [n, length] (0 beyond the end) and whole lengths [n], which may exceed `length`."""
        ends = self.lengths[pieces].cumsum(-1)
        position = torch.arange(length, device=pieces.device)
        piece = (position[:, None] >= ends[:, None]).sum(-1).clamp(max=pieces.shape[1] - 1)
        start = torch.cat([torch.zeros_like(ends[:, :1]), ends[:, :-1]], 1).gather(1, piece)
        within = (position - start).clamp(0, self.table.shape[1] - 1)
        ids = self.table[pieces.gather(1, piece), within]
        return torch.where(position < ends[:, -1:], ids, 0), ends[:, -1]

    def text(self, pieces: Tensor) -> str:
        """What a row of piece numbers says."""
        return "".join(self._texts[i] for i in pieces.flatten().tolist())

    def check(self, text: str) -> None:
        """Assert that the pieces of `text` that are in the table join to the ids of the whole."""
        whole = self.encode(text)
        rest, ids = text, []
        while rest:
            piece = max((p for p in self._number if p and rest.startswith(p)), key=len)
            ids += self._pieces[self._number[piece]]
            rest = rest[len(piece) :]
        assert ids == whole, (text, ids, whole)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _add(self, text: str) -> int:
        if text not in self._number:
            self._number[text] = self._add_ids(self.encode(text), text)
        return self._number[text]

    def _add_ids(self, ids: list[int], text: str = "") -> int:
        self._pieces.append(ids)
        self._texts.append(text)
        return len(self._pieces) - 1

    def _add_nouns(self, vocabulary: list[dict], form: str) -> int:
        """Consecutive numbers, so that a noun's piece is found by adding its index."""
        start = len(self._pieces)
        for entry in vocabulary:
            text = phrases.forms(entry)[form]
            self._number.setdefault(text, self._add_ids(self.encode(text), text))
        return start

    def _line(self, texts: list[str]) -> Tensor:
        return torch.tensor([self._add(t) for t in texts], device=self.device)

    def _templates(self, templates: list[str]) -> Templates:
        rows = []
        for template in templates:
            row = [-1 - NAMES.index(p[1:-1]) if p.startswith("{") else self._add(p) for p in phrases.parts(template)]
            rows.append(row + [0] * (LONGEST_TEMPLATE - len(row)))
        return Templates(torch.tensor(rows, device=self.device))
