"""The page pool as plain numbers."""

from random import Random

import pytest

from photon.cache.pages import PagePool


def test_pages_are_numbered_from_1_and_each_is_handed_out_once() -> None:
    pool = PagePool(5, 16)
    assert sorted(pool.take(2) + pool.take(0) + pool.take(3)) == [1, 2, 3, 4, 5]
    assert pool.num_free == 0
    pool.check_integrity()


@pytest.mark.parametrize(("num_positions", "num_pages"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_pages_for_positions_around_a_pages_size(num_positions: int, num_pages: int) -> None:
    assert PagePool(9, 16).num_pages_for(num_positions) == num_pages


def test_more_than_there_is_cannot_be_taken() -> None:
    pool = PagePool(3, 4)
    pool.take(2)
    with pytest.raises(AssertionError, match="2 pages asked for, 1 free"):
        pool.take(2)
    assert pool.num_free == 1


@pytest.mark.parametrize("page", [0, 2])
def test_a_page_that_is_not_held_cannot_be_released(page: int) -> None:
    pool = PagePool(3, 4)
    assert pool.take(1) == [1]
    with pytest.raises(AssertionError, match=f"page {page} is released but not held"):
        pool.release([page])


def test_a_page_cannot_be_released_twice() -> None:
    pool = PagePool(3, 4)
    pages = pool.take(2)
    pool.release(pages)
    with pytest.raises(AssertionError, match="not held"):
        pool.release(pages[:1])


@pytest.mark.parametrize("damage", ["lost", "doubled", "inert"])
def test_integrity_check_finds_damage(damage: str) -> None:
    pool = PagePool(3, 4)
    pool.take(1)
    if damage == "lost":
        pool._free.pop()
    elif damage == "doubled":
        pool._free.append(pool._free[0])
    else:
        pool._free.append(0)
    with pytest.raises(AssertionError):
        pool.check_integrity()


def test_random_takes_and_releases_against_sets() -> None:
    rng = Random(0)
    pool, held = PagePool(20, 4), set()
    for _ in range(2000):
        if rng.random() < 0.5:
            taken = set(pool.take(rng.randint(0, pool.num_free)))
            assert taken.isdisjoint(held) and taken <= set(range(1, 21))
            held |= taken
        else:
            released = set(rng.sample(sorted(held), rng.randint(0, len(held))))
            pool.release(released)
            held -= released
        assert pool.num_free == 20 - len(held)
        pool.check_integrity()
