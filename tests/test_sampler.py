"""Masks and sampling against hand arithmetic, transformers, and the frequencies that probabilities promise."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from photon.kernels.bitmask import allow_below, allow_only, apply_bitmask, num_words, unpack
from photon.request import Sampling
from photon.runner.sampler import (
    continue_probability,
    log_probabilities,
    mark_said,
    penalise,
    sample_ids,
    uniform,
)
from photon.runner.staging import KEEP_ALL


def draw(logits: list[float], *, u: float, temperature: float = 1, **settings: Any) -> int:
    return sample(torch.tensor([logits]), [u], [Sampling(temperature=temperature, **settings)])[0]


def sample(logits_BV: torch.Tensor, numbers: list[float], rows: list[Sampling]) -> list[int]:
    """`sample_ids` for rows of these settings, whose random numbers are `numbers`."""
    ids = sample_ids(
        logits_BV,
        temperature_B=torch.tensor([row.temperature for row in rows]),
        top_k_B=torch.tensor([row.top_k or KEEP_ALL for row in rows]),
        top_p_B=torch.tensor([row.top_p for row in rows]),
        min_p_B=torch.tensor([row.min_p for row in rows]),
        uniform_B=torch.tensor(numbers, dtype=torch.float64),
    )
    return ids.tolist()


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


def test_top_k_keeps_as_many_and_0_keeps_all() -> None:
    logits = [math.log(0.3), math.log(0.5), math.log(0.2)]
    assert draw(logits, top_k=1, u=0.999) == 1
    assert draw(logits, top_k=2, u=0.624) == 1  # renormalised: the first has 0.625
    assert draw(logits, top_k=2, u=0.626) == 0
    assert draw(logits, top_k=0, u=0.999) == draw(logits, top_k=3, u=0.999) == draw(logits, top_k=9, u=0.999) == 2


def test_top_p_speaks_of_what_top_k_has_left() -> None:
    logits = [math.log(0.3), math.log(0.5), math.log(0.2)]  # the best two of three: 0.625 and 0.375
    assert draw(logits, top_k=2, top_p=0.62, u=0.999) == 1
    assert draw(logits, top_p=0.62, u=0.999) == 0  # of all, 0.5 lies before the second: it is kept


def test_min_p_keeps_what_has_this_part_of_the_best() -> None:
    logits = [math.log(0.3), math.log(0.5), math.log(0.2)]  # 0.6, 1 and 0.4 of the best
    assert draw(logits, min_p=0.39, u=0.999) == 2
    assert draw(logits, min_p=0.41, u=0.999) == 0
    assert draw(logits, min_p=0.61, u=0.999) == 1
    assert draw(logits, min_p=1.0, u=0.999) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_has_the_probabilities_of_transformers(seed: int) -> None:
    """Points spread evenly over the unit interval hit every id as often as its probability says."""
    rng = np.random.default_rng(seed)
    logits_V = torch.from_numpy(rng.normal(0, 2, 40)).float()
    temperature, top_k = float(rng.uniform(0.7, 2)), int(rng.integers(4, 30))
    top_p, min_p = float(rng.uniform(0.5, 1)), float(rng.uniform(0, 0.1))
    scores = logits_V[None]
    for warp in (
        TemperatureLogitsWarper(temperature),
        TopKLogitsWarper(top_k),
        TopPLogitsWarper(top_p),
        MinPLogitsWarper(min_p),
    ):
        scores = warp(torch.LongTensor([[0]]), torch.FloatTensor(scores))
    expected = scores[0].softmax(-1)
    assert 1 < int((expected > 0).sum()) <= top_k
    num = 4000
    row = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    ids = sample(logits_V.expand(num, -1), [(i + 0.5) / num for i in range(num)], [row] * num)
    shares = np.bincount(ids, minlength=40) / num
    assert shares == pytest.approx(expected.numpy(), abs=1.01 / num)


def test_penalty_is_that_of_transformers_and_leaves_other_rows_alone() -> None:
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(0, 3, (3, 100))).float()
    logits[:, 50:60] = -torch.inf
    said = [[3, 3, 31, 32, 55, 63, 99], [], [0, 64, 95]]
    words = torch.from_numpy(np.stack([allow_only(100, ids) for ids in said]))
    penalised = penalise(logits, words, torch.tensor([1.7, 1.7, 0.5]))
    for row, penalty in ((0, 1.7), (2, 0.5)):
        process = RepetitionPenaltyLogitsProcessor(penalty)
        expected = process(torch.LongTensor([said[row]]), torch.FloatTensor(logits[row : row + 1]))
        assert torch.allclose(penalised[row], expected[0], rtol=1e-6)
        assert not torch.equal(penalised[row], logits[row])
    assert torch.equal(penalised[1], logits[1])
    assert torch.equal(penalise(logits, words, torch.ones(3)), logits)


def test_what_is_said_is_remembered_in_its_own_row() -> None:
    said = torch.zeros(4, 3, dtype=torch.int32)
    for ids, is_word in [([31, 64, 5], [1, 1, 0]), ([32, 64, 6], [1, 1, 1]), ([31, 0, 95], [1, 1, 1])]:
        mark_said(said, torch.tensor([2, 0, 3]), torch.tensor(ids), torch.tensor(is_word).bool())
    found = [torch.nonzero(row)[:, 0].tolist() for row in unpack(said, 96)]
    assert found == [[0, 64], [], [31, 32], [6, 95]]


def test_log_probabilities_are_those_of_what_may_be_said() -> None:
    logits = torch.tensor([[math.log(0.2), -math.inf, math.log(0.5), math.log(0.1)], [3.0, 3.0, 3.0, -1e38]])
    chosen, ids, top = log_probabilities(logits, torch.tensor([0, 3]))
    assert chosen[0] == pytest.approx(math.log(0.25))  # 0.2 of 0.8
    assert math.isfinite(chosen[1])
    assert ids[0].tolist() == [2, 0, 3, 1]
    assert top[0].tolist() == pytest.approx([math.log(0.625), math.log(0.25), math.log(0.125), -math.inf])


def test_masked_ids_are_never_drawn() -> None:
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw([-math.inf, 0.0, -math.inf, 0.0], temperature=100, top_p=1, u=u) in (1, 3)


def test_mixed_batch_keeps_rows_apart() -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5], [math.log(0.3), math.log(0.5), math.log(0.2)]])
    assert sample(logits, [0.99, 0.9], [Sampling(), Sampling(temperature=1)]) == [1, 2]


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
    ids = sample(logits, [0.5, 0.1, 0.5], [Sampling(temperature=1, top_p=0.9)] * 3)
    assert all(0 <= i < 3 for i in ids) and ids[1] == 1
