"""Masks and sampling against plain Python and against the frequencies that probabilities promise."""

import math

import numpy as np
import pytest
import torch

from photon.kernels.bitmask import allow_below, apply_bitmask, num_words
from photon.runner.sampler import continue_probability, sample_ids, uniform


def draw(logits: list[float], *, temperature: float, top_p: float, u: float) -> int:
    ids = sample_ids(
        torch.tensor([logits]),
        temperature_B=torch.tensor([temperature]),
        top_p_B=torch.tensor([top_p]),
        uniform_B=torch.tensor([u], dtype=torch.float64),
        is_greedy=temperature == 0,
    )
    return int(ids[0])


@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 512, 51200])
def test_bitmask_allows_exactly_its_bits(vocab: int) -> None:
    rng = np.random.default_rng(vocab)
    allowed = rng.random(vocab) < 0.5
    words = [0] * num_words(vocab)
    for i in np.flatnonzero(allowed):
        words[i // 32] |= 1 << int(i % 32)
    mask = torch.from_numpy(np.array(words, dtype=np.uint32).view(np.int32))[None]
    masked = apply_bitmask(torch.zeros(1, vocab), mask)[0]
    assert torch.isfinite(masked).tolist() == allowed.tolist()


def test_ids_beyond_the_tokenizer_and_bans_are_never_allowed() -> None:
    masked = apply_bitmask(torch.zeros(1, 100), torch.from_numpy(allow_below(100, 70, (3, 69)))[None])[0]
    assert [i for i in range(100) if math.isfinite(masked[i])] == [i for i in range(70) if i not in (3, 69)]


def test_greedy_takes_the_best() -> None:
    assert draw([0.1, 2.0, 1.9], temperature=0, top_p=0.01, u=0.99) == 1


def test_each_id_is_drawn_over_its_share_of_the_unit_interval() -> None:
    # probabilities 0.5, 0.3, 0.2 in descending order: the interval splits at 0.5 and 0.8
    logits = [math.log(0.3), math.log(0.5), math.log(0.2)]
    for u, expected in [(0.0, 1), (0.499, 1), (0.501, 0), (0.799, 0), (0.801, 2), (0.9999, 2)]:
        assert draw(logits, temperature=1, top_p=1, u=u) == expected


def test_top_p_keeps_a_token_while_the_mass_before_it_is_at_most_top_p() -> None:
    logits = [math.log(0.3), math.log(0.5), math.log(0.2)]
    assert draw(logits, temperature=1, top_p=0.4, u=0.999) == 1  # 0.5 lies before the second: it is dropped
    assert draw(logits, temperature=1, top_p=0.6, u=0.999) == 0  # 0.8 lies before the third: it is dropped
    assert draw(logits, temperature=1, top_p=0.6, u=0.62) == 1  # renormalised: the first has 0.625


def test_temperature_sharpens() -> None:
    # at temperature 0.5 the odds 0.75 : 0.25 become 9 : 1
    logits = [math.log(0.75), math.log(0.25)]
    assert draw(logits, temperature=0.5, top_p=1, u=0.89) == 0
    assert draw(logits, temperature=0.5, top_p=1, u=0.91) == 1


def test_masked_ids_are_never_drawn() -> None:
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw([-math.inf, 0.0, -math.inf, 0.0], temperature=100, top_p=1, u=u) in (1, 3)


def test_mixed_batch_keeps_rows_apart() -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5], [math.log(0.3), math.log(0.5), math.log(0.2)]])
    ids = sample_ids(
        logits,
        temperature_B=torch.tensor([0.0, 1.0]),
        top_p_B=torch.ones(2),
        uniform_B=torch.tensor([0.99, 0.9], dtype=torch.float64),
        is_greedy=False,
    )
    assert ids.tolist() == [1, 2]


def test_uniform_depends_on_seed_and_index_and_is_flat() -> None:
    numbers = np.array([uniform(seed, index) for seed in range(100) for index in range(100)])
    assert len(set(numbers)) == 10_000 and 0 <= numbers.min() and numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 45  # chi-square, 19 degrees of freedom, p = 0.0007
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_continue_probability_is_what_is_not_the_end() -> None:
    logits = torch.tensor([[math.log(0.2), math.log(0.3), math.log(0.5)], [0.0, -math.inf, 0.0]])
    assert continue_probability(logits, torch.tensor([1, 0])).tolist() == pytest.approx([0.7, 0.5])


def test_a_row_without_numbers_gets_some_id_and_its_neighbour_its_own() -> None:
    logits = torch.tensor([[math.nan] * 3, [0.0, 1.0, 0.5], [math.inf, 0.0, 0.0]])
    ids = sample_ids(
        logits,
        temperature_B=torch.ones(3),
        top_p_B=torch.full((3,), 0.9),
        uniform_B=torch.tensor([0.5, 0.1, 0.5], dtype=torch.float64),
        is_greedy=False,
    )
    assert all(0 <= i < 3 for i in ids.tolist()) and ids[1] == 1
