"""The text behind an image prefix: question-and-answer slots, each position with what it feeds and what it learns.

n pictures, S positions. Invariant: a slot's positions count on from the image's end, and it sees the image and itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import torch
from torch import Tensor


class Group(IntEnum):
    """Why a position's next token is learnt."""

    NONE = 0
    DECISION = 1  # another object, or the end
    FORCED = 2  # the ids within an object, which a grammar forces anyway
    ANSWER = 3
    CAPTION = 4


@dataclass
class Slots:
    """Tensors [n, S] unless said otherwise.

    ids              what is fed, where no value is
    value_kind       0 token, 1 coordinate, 2 size
    value            [n, S, 2] the value fed: (v, v) of a coordinate, (width, height) of a size
    target, group    the next token and its Group
    coord, has_coord the coordinate to be read from this position
    size, has_size   [n, S, 2] and [n, S]
    """

    ids: Tensor
    value_kind: Tensor
    value: Tensor
    target: Tensor
    group: Tensor
    coord: Tensor
    has_coord: Tensor
    size: Tensor
    has_size: Tensor


def join_slots(parts: list[Slots]) -> Slots:
    """Slots side by side."""
    return Slots(*(torch.cat([getattr(p, f.name) for p in parts], 1) for f in fields(Slots)))


def text_slot(ids: Tensor, lengths: Tensor, prompt_lengths: Tensor, group: Group, is_valid: Tensor) -> Slots:
    """A prompt and its answer [n, L], whose last token is the end; the answer is learnt where `is_valid`.

    A text longer than the slot is cut and learnt as far as it goes.
    """
    n, length = ids.shape
    position = torch.arange(length, device=ids.device)
    target = torch.cat([ids[:, 1:], torch.zeros_like(ids[:, :1])], 1)
    learnt = (position >= prompt_lengths[:, None] - 1) & (position < lengths[:, None] - 1) & (position < length - 1)
    learnt = learnt & is_valid[:, None]
    zeros = torch.zeros(n, length, device=ids.device)
    pairs = torch.zeros(n, length, 2, device=ids.device)
    off = torch.zeros_like(learnt)
    return Slots(
        ids=ids,
        value_kind=torch.zeros_like(ids),
        value=pairs,
        target=target,
        group=learnt * int(group),
        coord=zeros,
        has_coord=off,
        size=pairs + 0.5,
        has_size=off,
    )


def put_place(slots: Slots, at: int, point: Tensor) -> None:
    """Give the two coordinate tokens from `at` on the values of `point` [n, 2]; rows with NaN keep their tokens."""
    given = ~point[:, 0].isnan()
    for i in range(2):
        slots.value_kind[:, at + i] = torch.where(given, 1, slots.value_kind[:, at + i])
        value = torch.where(given, point[:, i], 0)
        slots.value[:, at + i] = value[:, None].expand(-1, 2)


def ground_slot(  # noqa: PLR0913
    prompt: Tensor,
    prompt_lengths: Tensor,
    centres: Tensor,
    sizes: Tensor,
    counts: Tensor,
    *,
    is_detect: Tensor,
    is_valid: Tensor,
    coord_id: int,
    size_id: int,
    end_id: int,
    noise: float,
) -> Slots:
    """A prompt [n, L] of the given lengths, then `counts` [n] objects: centres, sizes [n, M, 2]. Points have no sizes.

    `noise` is the spread of the error put on the coordinates fed, as the model's own are not exact.
    """
    n, length = prompt.shape
    most = centres.shape[1]
    position = torch.arange(length, device=prompt.device)[None]
    step = torch.where(is_detect, 3, 2)[:, None]
    since = position - prompt_lengths[:, None]  # 0 at the first x
    item, part = since.div(step, rounding_mode="floor"), since % step
    inside = (since >= 0) & (item < counts[:, None])
    item = item.clamp(0, most - 1)

    def of_item(values: Tensor, which: Tensor) -> Tensor:
        return values.gather(1, which[..., None].expand(-1, -1, 2))

    centre, size = of_item(centres, item), of_item(sizes, item)
    fed = (centre + noise * torch.randn_like(centre)).clamp(0, 1)
    is_size = inside & (part == 2)
    own = torch.where(part == 0, fed[..., 0], fed[..., 1])
    value = torch.where(
        is_size[..., None], size * torch.exp(2 * noise * torch.randn_like(size)), own[..., None].expand(-1, -1, 2)
    )

    # What a position emits is what the next one holds.
    ahead = since + 1
    next_item, next_part = ahead.div(step, rounding_mode="floor"), ahead % step
    starts = (ahead >= 0) & (next_part == 0) & (next_item <= counts[:, None])
    within = (ahead >= 0) & (next_item < counts[:, None])
    fits = is_valid & (prompt_lengths + step[:, 0] * counts <= length)
    decision = starts & fits[:, None]
    forced = within & ~starts & fits[:, None]
    target = torch.where(within, torch.where(next_part == 2, size_id, coord_id), end_id)
    coming = of_item(centres, next_item.clamp(0, most - 1))
    return Slots(
        ids=prompt,
        value_kind=torch.where(is_size, 2, inside.long()),
        value=value,
        target=target,
        group=torch.where(decision, int(Group.DECISION), forced * int(Group.FORCED)),
        coord=torch.where(next_part == 0, coming[..., 0], coming[..., 1]),
        has_coord=within & (next_part < 2) & fits[:, None],
        size=of_item(sizes, next_item.clamp(0, most - 1)),
        has_size=within & (next_part == 2) & fits[:, None],
    )
