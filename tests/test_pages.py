"""The page pool as plain numbers."""

from random import Random

import pytest

from photon.cache.pages import PagePool


def take(pool: PagePool, num: int) -> list[int]:
    pool.reserve(num)
    return pool.take(num)


def test_pages_are_numbered_from_1_and_each_is_handed_out_once() -> None:
    pool = PagePool(5, 16)
    assert sorted(take(pool, 2) + take(pool, 0) + take(pool, 3)) == [1, 2, 3, 4, 5]
    assert pool.num_free == 0
    pool.check_integrity()


@pytest.mark.parametrize(("num_positions", "num_pages"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_pages_for_positions_around_a_pages_size(num_positions: int, num_pages: int) -> None:
    assert PagePool(9, 16).num_pages_for(num_positions) == num_pages


def test_more_than_there_is_cannot_be_reserved() -> None:
    pool = PagePool(3, 4)
    take(pool, 1)
    pool.reserve(1)
    with pytest.raises(AssertionError, match="2 pages asked for, 1 available"):
        pool.reserve(2)
    assert (pool.num_free, pool.num_reserved, pool.num_available) == (2, 1, 1)


def test_more_than_was_reserved_can_neither_be_taken_nor_given_up() -> None:
    pool = PagePool(3, 4)
    pool.reserve(2)
    pool.unreserve(1)
    with pytest.raises(AssertionError, match="2 pages taken, 1 reserved"):
        pool.take(2)
    with pytest.raises(AssertionError, match="2 pages given up, 1 reserved"):
        pool.unreserve(2)
    assert len(pool.take(1)) == 1 and pool.num_available == 2


def test_a_shared_page_is_free_when_its_last_holder_has_gone() -> None:
    pool = PagePool(3, 4)
    one, two = take(pool, 2)
    pool.share([one])
    pool.share([one])
    assert (pool.num_holders(one), pool.num_holders(two), pool.num_holders(3)) == (3, 1, 0)
    pool.release([one, two])
    pool.release([one])
    assert pool.num_free == 2
    pool.check_integrity()
    pool.release([one])
    assert pool.num_free == 3
    with pytest.raises(AssertionError, match=f"page {one} is shared but not held"):
        pool.share([one])


@pytest.mark.parametrize("page", [0, 2])
def test_a_page_that_is_not_held_cannot_be_released(page: int) -> None:
    pool = PagePool(3, 4)
    assert take(pool, 1) == [1]
    with pytest.raises(AssertionError, match=f"page {page} is released but not held"):
        pool.release([page])


def test_a_page_cannot_be_released_twice() -> None:
    pool = PagePool(3, 4)
    pages = take(pool, 2)
    pool.release(pages)
    with pytest.raises(AssertionError, match="not held"):
        pool.release(pages[:1])


@pytest.mark.parametrize("damage", ["lost", "doubled", "inert", "promised"])
def test_integrity_check_finds_damage(damage: str) -> None:
    pool = PagePool(3, 4)
    take(pool, 1)
    if damage == "lost":
        pool._free.pop()
    elif damage == "doubled":
        pool._free.append(pool._free[0])
    elif damage == "promised":
        pool.num_reserved = 3
    else:
        pool._free.append(0)
    with pytest.raises(AssertionError):
        pool.check_integrity()


def test_random_takes_shares_and_releases_against_a_list() -> None:
    rng = Random(0)
    pool = PagePool(20, 4)
    held: list[int] = []  # as often as held
    for _ in range(2000):
        match rng.choice(["take", "share", "release"]):
            case "take":
                taken = set(take(pool, rng.randint(0, pool.num_available)))
                assert taken.isdisjoint(held) and taken <= set(range(1, 21))
                held += taken
            case "share":
                shared = rng.sample(held, min(2, len(held)))
                pool.share(shared)
                held += shared
            case "release":
                rng.shuffle(held)
                num = rng.randint(0, len(held))
                pool.release(held[:num])
                del held[:num]
        assert pool.num_free == 20 - len(set(held))
        assert [pool.num_holders(page) for page in range(1, 21)] == [held.count(page) for page in range(1, 21)]
        pool.check_integrity()


def test_pages_released_together_are_handed_out_in_the_same_order_again() -> None:
    pool = PagePool(9, 4)
    first, second = take(pool, 3), take(pool, 2)
    pool.release(first)
    assert take(pool, 3) == first
    pool.release([*second, *first])
    assert take(pool, 5) == [*second, *first]
