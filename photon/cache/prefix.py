"""Which prompts begin alike up to the end of their first picture, and in which pages that beginning lies. No torch.

A prefix is shared by identity of the prepared picture, its place, and equal tokens before it. It lives as long as a
request that begins with it waits or runs (its members); nothing is kept of requests that have ended.
The index is one holder of a prefix's pages. The last one may be partly filled: its first member writes on behind the
prefix, so every other member begins with a copy of that page, while the full ones are read by all and written by none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from photon.cache.pages import PagePool
from photon.request import ImageSpan, Prompt, Token


@dataclass(frozen=True, slots=True)
class PrefixKey:
    """What makes two prefixes the same. Two spans are equal when they hold the same picture object at one place."""

    tokens: tuple[Token, ...]  # before the image
    image: ImageSpan


@dataclass(slots=True, eq=False)
class SharedPrefix:
    """A prefix of `length` positions. All but `key` and `length` is set by the index alone."""

    key: PrefixKey
    length: int
    num_waiting: int = 0  # members in line
    num_admitted: int = 0  # members from admission to release
    pages: tuple[int, ...] = ()  # set from the step that computes the prefix to its eviction; they cover `length`

    @property
    def is_pending(self) -> bool:
        """Whether the very next step computes it: until that one is launched, nobody can build on it."""
        return self.num_admitted > 0 and not self.pages

    @property
    def is_idle(self) -> bool:
        """Whether its pages are kept for members in line only."""
        return self.num_admitted == 0 and bool(self.pages)


class PrefixIndex:
    """All prefixes that have members, by what they are. Calls come in the order of a member's life:
    join; match, where the prefix is there; admit; insert, where it was not; leave."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._prefixes: dict[PrefixKey, SharedPrefix] = {}

    def join(self, prompt: Prompt) -> SharedPrefix | None:
        """A request comes into the line; None when it has nothing to share."""
        key = _shareable(prompt)
        if key is None:
            return None
        prefix = self._prefixes.setdefault(key, SharedPrefix(key, key.image.end))
        prefix.num_waiting += 1
        return prefix

    def admit(self, prefix: SharedPrefix) -> None:
        """A member leaves the line to run."""
        assert not prefix.is_pending, "a member may not build on what is not launched"
        prefix.num_waiting -= 1
        prefix.num_admitted += 1

    def insert(self, prefix: SharedPrefix, pages: Iterable[int]) -> None:
        """The step that is launched next computes the prefix into the first of `pages`, which its first member took."""
        assert not prefix.pages, "the prefix is there already"
        prefix.pages = tuple(pages)[: self._pool.num_pages_for(prefix.length)]
        self._pool.share(prefix.pages)

    def match(self, prefix: SharedPrefix) -> tuple[int, ...]:
        """Its full pages, held by the caller too from here on."""
        pages = prefix.pages[: prefix.length // self._pool.page_size]
        self._pool.share(pages)
        return pages

    def leave(self, prefix: SharedPrefix, *, was_admitted: bool) -> None:
        """A member has ended. The last one takes the prefix along."""
        if was_admitted:
            prefix.num_admitted -= 1
        else:
            prefix.num_waiting -= 1
        if prefix.num_waiting == prefix.num_admitted == 0:
            self._release_pages(prefix)
            del self._prefixes[prefix.key]

    def idle(self) -> list[SharedPrefix]:
        """What may be evicted, oldest first. A page that a step in flight copies is never in it: the copying member,
        admitted, keeps its prefix from being idle until that step is committed (P7)."""
        return [prefix for prefix in self._prefixes.values() if prefix.is_idle]

    def evict(self, prefix: SharedPrefix) -> None:
        """Give up an idle prefix's pages: the next member computes it again."""
        assert prefix.is_idle, "members that run may still copy from these pages"
        self._release_pages(prefix)

    def check_integrity(self, waiting: Iterable[SharedPrefix | None], admitted: Iterable[SharedPrefix | None]) -> None:
        """`waiting` and `admitted` are the prefixes of all requests: members are counted right, and none is pending
        between steps."""
        waiting, admitted = list(waiting), list(admitted)
        known = set(self._prefixes.values())
        assert known == {prefix for prefix in (*waiting, *admitted) if prefix}, "a prefix without members, or lost"
        for prefix in known:
            counts = (waiting.count(prefix), admitted.count(prefix))
            assert (prefix.num_waiting, prefix.num_admitted) == counts, f"{prefix} has {counts} members"
            assert not prefix.is_pending, "a step was launched, its prefix is not there"
            expected = self._pool.num_pages_for(prefix.length) if prefix.pages else 0
            assert len(prefix.pages) == expected, f"{prefix.pages} do not cover {prefix.length} positions"

    def held_pages(self) -> list[int]:
        return [page for prefix in self._prefixes.values() for page in prefix.pages]

    def _release_pages(self, prefix: SharedPrefix) -> None:
        self._pool.release(prefix.pages)
        prefix.pages = ()


def _shareable(prompt: Prompt) -> PrefixKey | None:
    """The prompt's first image and what is before it, if the rest of the prompt holds nothing that it sees."""
    if not prompt.images:
        return None
    first, *others = prompt.images
    # The last position is always computed: its hidden state says the first token.
    sees_more = first.block[1] > first.end
    if first.end == len(prompt) or sees_more or any(image.block_start < first.end for image in others):
        return None
    return PrefixKey(prompt.tokens[: first.start], first)
