"""An independent, simple, sequential decoder of the Moondream family: one request, contiguous keys and values.

No pages, no slots, no grammars. What an engine says must equal what this says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.kernels.attention import PLAIN, AttentionRule
from photon.models.moondream import region, text
from photon.models.moondream.model import MoondreamModel
from photon.request import PreparedImage, Token


@dataclass
class Cache:
    """Keys and values [T, heads, head_dim] of each layer, grown by concatenation."""

    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    block: int = 0  # the first `block` positions see each other both ways

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        if layer in self.keys:
            k, v = torch.cat([self.keys[layer], k]), torch.cat([self.values[layer], v])
        self.keys[layer], self.values[layer] = k, v
        t, n = len(q), len(k)
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        seen[: self.block, : self.block] = True
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~seen[n - t :], -torch.inf)
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


class Oracle:
    """Greedy answers of a model, token by token."""

    def __init__(self, model: MoondreamModel, *, end: int = 0, answer: int = 3, coord: int = 5) -> None:
        self.model, self.end, self.answer, self.coord = model, end, answer, coord

    @torch.no_grad()
    def prefill(self, prompt: list[Token], image: PreparedImage | None) -> None:
        """`prompt` is BOS and the template; the image's positions go between them."""
        self.cache, self.position = Cache(), 0
        rows = [self.embed(token) for token in prompt]
        if image is not None:
            features = self.model.encode_images([image])[0]
            rows[1:1] = list(features)
            self.cache.block = 1 + len(features)
        self.hidden = self.forward(torch.stack(rows))

    def embed(self, token: Token) -> Tensor:
        w = self.model.weights
        if len(token.value) == 1:
            return region.encode_coordinate(w.region, torch.tensor(token.value[0]))
        if len(token.value) == 2:
            return region.encode_size(w.region, torch.tensor(token.value))
        return w.text.wte[token.id]

    @torch.no_grad()
    def forward(self, embeds: Tensor) -> Tensor:
        positions = torch.arange(self.position, self.position + len(embeds))
        self.position += len(embeds)
        return text.text_forward(self.model.weights.text, self.model.config.text, embeds, positions, self.cache)[-1]

    @torch.no_grad()
    def logits(self) -> Tensor:
        logits = text.lm_logits(self.model.weights.text, self.hidden)
        return logits[: self.model.num_tokens]

    def feed(self, token: Token) -> None:
        self.hidden = self.forward(self.embed(token)[None])

    def answer_text(self, limit: int) -> list[Token]:
        said: list[Token] = []
        while len(said) < limit:
            logits = self.logits()
            if said:
                logits[self.answer] = -torch.inf
            best = int(logits.argmax())
            if best == self.end:
                break
            said.append(Token(best))
            self.feed(said[-1])
        return said

    @torch.no_grad()
    def locate(self, limit: int, *, sizes: bool) -> list[Token]:
        """Objects as x, y (and size) tokens, at most `limit` objects."""
        said: list[Token] = []
        w = self.model.weights.region
        for _ in range(limit):
            logits = self.logits()
            if logits[self.end] > logits[self.coord]:
                break
            score = float(F.softmax(logits[[self.coord, self.end]], dim=0)[0])
            for axis in range(2):
                bins = region.coordinate_logits(w, self.hidden)
                value = float(bins.argmax()) / len(bins)
                said.append(Token(self.coord, (value,), score if axis == 0 else None))
                self.feed(said[-1])
            if sizes:
                bins = region.size_logits(w, self.hidden)
                size = [2 ** (float(b.argmax()) / (len(b) - 1) * 10 - 10) for b in bins]
                said.append(Token(6, (size[0], size[1])))
                self.feed(said[-1])
        return said
