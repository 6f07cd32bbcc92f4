"""The KV memory: one tensor of pages for all layers. Who holds which page is the page pool's business."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from photon.device import Device

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PageShape:
    """What one page holds: keys and values of `page_size` positions over all layers."""

    num_layers: int
    page_size: int
    num_kv_heads: int
    head_dim: int

    def num_bytes(self, itemsize: int) -> int:
        """Bytes of a page whose numbers take `itemsize` bytes."""
        return 2 * prod((self.num_layers, self.page_size, self.num_kv_heads, self.head_dim)) * itemsize


def allocate_kv(page: PageShape, num_pages: int, device: Device) -> Tensor:
    """[layers, 2, num_pages + 1, page_size, KV heads, head_dim]; page 0 is the inert page.

    Nobody writes it, so that its zeros may be read where a shorter row of a batch has no position.
    """
    shape = (page.num_layers, 2, num_pages + 1, page.page_size, page.num_kv_heads, page.head_dim)
    return device.empty(shape, device.dtype)
